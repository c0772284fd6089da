//! Regions against the running kernel. Tests that need 2 MiB pages reserve them as root. They add
//! and remove only their own pages, and report if they are skipped.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use burstline_skip::{skip, without};
use rustix::fs::memfd_create;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate};
use rustix::io::{Errno, pwrite};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_res_uid};

use super::view::View;
use super::*;
use crate::direct::AlignedBuffer;

const MIB: usize = 1 << 20;
const NOBODY: u32 = 65_534;
const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";

fn request(bytes: usize, pages: PageChoice) -> RegionRequest {
    RegionRequest { name: "burstline-test".to_owned(), bytes, pages, node: None }
}

fn error(request: &RegionRequest) -> MemoryError {
    Region::create(request).err().expect("the request cannot be met")
}

fn duplicate(region: &Region) -> OwnedFd {
    region.file().try_clone_to_owned().unwrap()
}

fn write(region: &Region, offset: usize, value: u8) {
    assert!(offset < region.bytes());
    // SAFETY: the offset is inside the region, and the test makes no reference into it.
    unsafe { region.as_ptr().add(offset).write_volatile(value) }
}

fn read(mapping: &Mapping, offset: usize) -> u8 {
    assert!(offset < mapping.bytes());
    // SAFETY: the offset is inside the mapping, and nothing writes while the test reads.
    unsafe { mapping.as_ptr().add(offset).read_volatile() }
}

/// Reads a number of the kernel's pool of 2 MiB pages: 0 if it has none.
fn pool_number(file: &str) -> u64 {
    let text = fs::read_to_string(format!("{POOL}/{file}")).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// Reserves 2 MiB pages, or returns `None` after counting the test as skipped. One test at a time.
fn reserved_or_skip(pages: u64) -> Option<Reservation> {
    match Reservation::take_alone(pages) {
        Some(reservation) if reservation.pages() >= pages => return Some(reservation),
        Some(fewer) => skip(format!("got {} of {pages} huge pages", fewer.pages())),
        None => skip("no 2 MiB pages can be reserved: it takes root"),
    }
    None
}

/// Attacks a region as often as `BURSTLINE_ATTACKS` says: from this process, and as another user
/// from another one. Every time its content is as it was.
fn assert_sealed(region: &Region) {
    let (bytes, page) = (region.bytes(), region.placement().page_bytes);
    let reader = Mapping::attach_read_only(duplicate(region), Some(bytes)).unwrap();
    write(region, 1, 7);
    for round in 0..attacks() {
        attack(region.file(), bytes, page);
        assert_eq!(read(&reader, 1), 7, "nothing was zeroed");
        write(region, bytes - 1, round as u8);
        assert_eq!(read(&reader, bytes - 1), round as u8, "the writer still writes");
    }
    if !rustix::process::geteuid().is_root() {
        return without("another user attacks nothing: it takes root to act as one");
    }
    let attacked = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "memory::tests::role_attack_as_nobody", "--ignored", "--nocapture"])
        .env("BURSTLINE_ATTACKED", format!("{bytes} {page} {}", std::process::id()))
        .stdin(Stdio::from(duplicate(region)))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&attacked.stdout);
    let is_told = said.contains(&format!("attacked {} times as 65534", attacks()));
    assert!(attacked.status.success() && is_told, "{said}");
    assert_eq!(read(&reader, 1), 7, "nothing was zeroed");
}

fn attacks() -> u64 {
    std::env::var("BURSTLINE_ATTACKS").map_or(10, |attacks| attacks.parse().unwrap())
}

/// Not a test: a process of another user, which has the file of a region as its standard input.
#[test]
#[ignore = "the tests of sealed regions run it"]
fn role_attack_as_nobody() {
    let Ok(text) = std::env::var("BURSTLINE_ATTACKED") else { return };
    let numbers: Vec<usize> = text.split(' ').map(|number| number.parse().unwrap()).collect();
    let [bytes, page, owner] = numbers[..] else { panic!("{text}") };
    let nobody = || {
        set_thread_groups(&[]).unwrap();
        set_thread_gid(Gid::from_raw(NOBODY)).unwrap();
        let user = Uid::from_raw(NOBODY);
        set_thread_res_uid(user, user, user).unwrap();
        let input = std::io::stdin();
        for _ in 0..attacks() {
            attack(input.as_fd(), bytes, page);
        }
        // Nor does it get at the memory by its owner's process.
        let mut open = fs::OpenOptions::new();
        let owners = open.write(true).open(format!("/proc/{owner}/mem"));
        assert_eq!(owners.unwrap_err().raw_os_error(), Some(libc::EACCES));
    };
    thread::scope(|scope| scope.spawn(nobody).join().unwrap());
    println!("\nattacked {} times as {NOBODY}", attacks());
}

/// Tries to change the content or the size of a region by its file, in each way that there is.
fn attack(file: BorrowedFd<'_>, bytes: usize, page: usize) {
    assert_eq!(ftruncate(file, 0), Err(Errno::PERM), "shrink");
    assert_eq!(ftruncate(file, 2 * bytes as u64), Err(Errno::PERM), "grow");
    assert_eq!(View::map(file, bytes, page, true).err(), Some(Errno::PERM), "map for writing");
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    assert_eq!(fallocate(file, punch, 0, bytes as u64), Err(Errno::PERM), "punch a hole");
    assert_eq!(fcntl_add_seals(file, SealFlags::WRITE), Err(Errno::PERM), "more seals");
    // Files of hugetlbfs do not support write(2).
    let written = pwrite(file, b"!", 1);
    assert!(matches!(written, Err(Errno::PERM | Errno::INVAL)), "write: {written:?}");
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let again = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let reopened = View::map(again.as_fd(), bytes, page, true);
    assert_eq!(reopened.err(), Some(Errno::PERM), "open anew and map for writing");
    assert_eq!(ftruncate(&again, 0), Err(Errno::PERM), "open anew and shrink");
    assert_eq!(fallocate(&again, punch, 0, bytes as u64), Err(Errno::PERM), "open anew and punch");
    let emptied = fs::OpenOptions::new().write(true).truncate(true).open(&path);
    assert_eq!(emptied.err().and_then(|error| error.raw_os_error()), Some(libc::EPERM), "O_TRUNC");
    assert_mapping_stays_read_only(file, bytes, page);
}

/// Tries what a reader could attempt with the mapping it gets.
fn assert_mapping_stays_read_only(file: BorrowedFd<'_>, bytes: usize, page: usize) {
    let view = View::map(file, bytes, page, false).unwrap();
    let at = view.start().as_ptr().cast();
    let (read_write, remove) = (libc::PROT_READ | libc::PROT_WRITE, libc::MADV_REMOVE);
    let error = || std::io::Error::last_os_error().raw_os_error();
    // SAFETY: all calls concern this mapping alone, hold no reference into it, and are refused.
    unsafe {
        assert_eq!(libc::mprotect(at, bytes, read_write), -1, "mprotect");
        assert_eq!(error(), Some(libc::EACCES), "mprotect");
        assert_eq!(libc::madvise(at, bytes, remove), -1, "MADV_REMOVE");
        assert_eq!(error(), Some(libc::EACCES), "MADV_REMOVE");
    }
    // SAFETY: a second mapping of the same pages, at an address of the kernel's choice, unless they
    // are huge pages; it is unmapped below.
    unsafe {
        let moved = libc::mremap(at, 0, bytes, libc::MREMAP_MAYMOVE);
        if moved != libc::MAP_FAILED {
            assert_eq!(libc::mprotect(moved, bytes, read_write), -1, "mremap, then mprotect");
            assert_eq!(error(), Some(libc::EACCES), "mremap, then mprotect");
            libc::munmap(moved, bytes);
        }
    }
}

#[test]
fn a_sealed_region_of_small_pages_cannot_be_changed_by_others() {
    let region = Region::create(&request(3 * MIB, PageChoice::Size4K)).unwrap();
    assert_eq!((region.bytes(), region.placement().page), (3 * MIB, PageKind::Size4K));
    assert_sealed(&region);
}

#[test]
fn a_sealed_region_of_transparent_pages_cannot_be_changed_by_others() {
    let region = Region::create(&request(3 * MIB, PageChoice::Transparent)).unwrap();
    assert_eq!(region.bytes(), 4 * MIB, "rounded up");
    assert_sealed(&region);
    let placement = region.placement();
    match placement.page {
        PageKind::Transparent => {
            // The kernel's sum over this process must include these bytes.
            let rollup = fs::read_to_string("/proc/self/smaps_rollup").unwrap();
            let line = rollup.lines().find(|line| line.starts_with("ShmemPmdMapped")).unwrap();
            let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
            assert!(kib * 1024 >= region.bytes(), "{line}");
        }
        _ => assert!(placement.notes[0].contains("; echo "), "{:?}", placement.notes),
    }
}

#[test]
fn a_sealed_region_of_reserved_pages_cannot_be_changed_by_others() {
    let Some(_pool) = reserved_or_skip(2) else { return };
    let region = Region::create(&request(3 * MIB, PageChoice::Size2M)).unwrap();
    assert_eq!((region.bytes(), region.placement().page), (4 * MIB, PageKind::Size2M));
    assert_eq!(region.as_ptr().as_ptr() as usize % (2 * MIB), 0);
    assert_sealed(&region);
}

#[test]
fn missing_huge_pages_are_an_error_with_the_numbers() {
    let Some(_pool) = reserved_or_skip(1) else { return };
    let (total, free) = (pool_number("nr_hugepages"), pool_number("free_hugepages"));
    let needed = free + 31;
    let mut wish = request(needed as usize * 2 * MIB, PageChoice::Size2M);
    assert_eq!(
        error(&wish).to_string(),
        format!(
            "2 MiB pages: {needed} needed, {free} of {total} free; echo {} > {POOL}/nr_hugepages",
            total + 31
        )
    );
    wish.node = Some(NodeId(0));
    let text = error(&wish).to_string();
    assert!(text.contains("free on node 0; echo"), "{text}");
    assert!(text.ends_with("node0/hugepages/hugepages-2048kB/nr_hugepages"), "{text}");
    assert_eq!(pool_number("free_hugepages"), free, "nothing stays taken");
}

#[test]
fn auto_falls_back_and_remembers_why() {
    let free = pool_number("free_hugepages") as usize;
    let region = Region::create(&request((free + 8) * 2 * MIB, PageChoice::Auto)).unwrap();
    let placement = region.placement();
    assert_eq!(placement.requested, PageChoice::Auto);
    assert!(matches!(placement.page, PageKind::Transparent | PageKind::Size4K));
    // With a large pool the region is large enough for 1 GiB pages, which adds a note.
    let is_told = |note: &String| note.starts_with("2 MiB pages: ");
    assert!(placement.notes.iter().any(is_told), "{:?}", placement.notes);
}

#[test]
fn auto_takes_no_page_above_the_region() {
    let Some(_pool) = reserved_or_skip(4) else { return };
    let small = Region::create(&request(MIB, PageChoice::Auto)).unwrap();
    assert_eq!((small.bytes(), small.placement().page), (MIB, PageKind::Size4K));
    assert!(small.placement().notes.is_empty());
    let large = Region::create(&request(8 * MIB, PageChoice::Auto)).unwrap();
    assert_eq!((large.bytes(), large.placement().page), (8 * MIB, PageKind::Size2M));
}

#[test]
fn pages_are_on_the_node_asked_for() {
    for pages in [PageChoice::Size4K, PageChoice::Transparent] {
        let wish = RegionRequest { node: Some(NodeId(0)), ..request(8 * MIB, pages) };
        let region = Region::create(&wish).unwrap();
        let placement = region.placement();
        let looked_at = (region.bytes() / placement.page_bytes).min(1024);
        let nodes: Vec<_> = placement.nodes.iter().collect();
        assert_eq!(nodes, [(&NodeId(0), &looked_at)], "{:?}", placement.notes);
    }
}

#[test]
fn requests_that_make_no_sense_here_are_refused() {
    let absent = RegionRequest { node: Some(NodeId(999)), ..request(1, PageChoice::Auto) };
    let text = error(&absent).to_string();
    assert!(text.starts_with("node 999 does not exist; this machine has node 0"), "{text}");
    assert!(matches!(error(&request(0, PageChoice::Auto)), MemoryError::BadSize { bytes: 0 }));
    for bytes in [1 << 50, (1 << 62) - 1] {
        let error = error(&request(bytes, PageChoice::Size4K));
        assert!(matches!(error, MemoryError::NotEnough { .. }), "{error}");
    }
    let huge = error(&request((1 << 62) - 1, PageChoice::Size2M));
    let is_offered = std::path::Path::new(POOL).exists();
    let is_expected = match huge {
        MemoryError::HugePages { .. } => is_offered,
        MemoryError::NoSuchPages { .. } => !is_offered,
        _ => false,
    };
    assert!(is_expected, "{huge}");
    let unnamed = RegionRequest { name: "\0".to_owned(), ..request(1, PageChoice::Size4K) };
    assert!(error(&unnamed).to_string().starts_with("memfd_create: "));
}

#[test]
fn attaching_asks_for_the_seals_and_the_size() {
    let page = Region::create_shared("page", 100).unwrap();
    assert_eq!(page.bytes(), 4096);
    let refused = Mapping::attach_read_only(duplicate(&page), None).err().unwrap();
    let MemoryError::MissingSeals { missing } = refused else { panic!("{refused}") };
    assert_eq!(missing, "F_SEAL_FUTURE_WRITE");

    let bare = memfd_create("bare", MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&bare, 4096).unwrap();
    let refused = Mapping::attach_writable(bare.try_clone().unwrap(), None).err().unwrap();
    assert!(refused.to_string().contains("F_SEAL_SHRINK|F_SEAL_GROW:"), "{refused}");

    let region = Region::create(&request(8192, PageChoice::Size4K)).unwrap();
    let refused = Mapping::attach_read_only(duplicate(&region), Some(4096)).err().unwrap();
    assert!(matches!(refused, MemoryError::WrongSize { expected: 4096, found: 8192 }));
    let refused = Mapping::attach_writable(duplicate(&region), None).err().unwrap();
    assert!(matches!(refused, MemoryError::System { .. }), "{refused}");

    let no_memfd = OwnedFd::from(fs::File::open("/proc/self/exe").unwrap());
    let refused = Mapping::attach_read_only(no_memfd, None).err().unwrap();
    assert!(refused.to_string().starts_with("F_GET_SEALS: "), "{refused}");
}

#[test]
fn pages_that_the_owner_never_had_are_found_wanting_on_attach() {
    let huge = MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
    let free = pool_number("free_hugepages");
    // The second one would take more memory than any machine has, if it were accepted.
    for (kind, bytes) in [(huge, (free + 16) * 2 * MIB as u64), (MemfdFlags::empty(), 1 << 50)] {
        let hollow = match memfd_create("hollow", MemfdFlags::ALLOW_SEALING | kind) {
            Err(Errno::NOSYS) if kind == huge => {
                without("this kernel has no 2 MiB pages");
                continue;
            }
            created => created.unwrap(),
        };
        ftruncate(&hollow, bytes).unwrap();
        // Blocks beyond the end do not belong to the file's content.
        if kind != huge {
            fallocate(&hollow, FallocateFlags::KEEP_SIZE, bytes, 1 << 20).unwrap();
        }
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL;
        fcntl_add_seals(&hollow, seals).unwrap();
        let refused = Mapping::attach_read_only(hollow, None).err().expect("it is hollow");
        let MemoryError::Hollow { bytes: whole, present: 0 } = refused else {
            panic!("{refused}");
        };
        assert_eq!(whole, bytes);
    }
}

#[test]
fn blocks_beyond_the_end_are_refused() {
    let bytes = 1 << 20;
    for (beyond, is_refused) in [(0, false), (64 << 20, true)] {
        let file = memfd_create("beyond", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, bytes).unwrap();
        fallocate(&file, FallocateFlags::KEEP_SIZE, 0, bytes + beyond).unwrap();
        rustix::io::pwrite(&file, &vec![1; bytes as usize], 0).unwrap();
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL;
        fcntl_add_seals(&file, seals).unwrap();
        match Mapping::attach_read_only(file, None) {
            Ok(_) => assert!(!is_refused, "{beyond} bytes beyond the end"),
            Err(MemoryError::WrongSize { found, .. }) => {
                assert_eq!((is_refused, found), (true, bytes + beyond));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn regions_and_mappings_go_from_thread_to_thread() {
    fn check<T: Send + Sync>() {}
    check::<Region>();
    check::<Mapping>();
}

#[test]
fn both_sides_write_a_shared_page() {
    let page = Region::create_shared("page", 4096).unwrap();
    let other = Mapping::attach_writable(duplicate(&page), Some(4096)).unwrap();
    assert!(other.is_writable());
    write(&page, 0, 1);
    assert_eq!(read(&other, 0), 1);
    // SAFETY: offset 1 is inside the writable mapping, and no reference to it exists.
    unsafe { other.as_ptr().add(1).write_volatile(2) };
    // SAFETY: offset 1 is inside the region, and no reference to it exists.
    assert_eq!(unsafe { page.as_ptr().add(1).read_volatile() }, 2);
}

#[test]
fn a_mapping_outlives_its_region() {
    let region = Arc::new(Region::create(&request(4096, PageChoice::Size4K)).unwrap());
    write(&region, 5, 5);
    let attached = Mapping::attach_read_only(duplicate(&region), None).unwrap();
    let within = Mapping::within(Arc::clone(&region), false);
    assert_eq!(within.as_ptr(), region.as_ptr());
    drop(region);
    assert_eq!((read(&attached, 5), read(&within, 5)), (5, 5));
}

/// Not a test: the process that the next test kills.
#[test]
#[ignore = "the next test runs it"]
fn hold_huge_pages_until_killed() {
    if std::env::var_os("BURSTLINE_HOLD_HUGE_PAGES").is_none() {
        return;
    }
    let _region = Region::create(&request(8 * MIB, PageChoice::Size2M)).unwrap();
    println!("\nholding");
    loop {
        std::thread::park();
    }
}

#[test]
fn a_killed_process_leaves_no_huge_page_behind() {
    let Some(_pool) = reserved_or_skip(4) else { return };
    let before = pool_number("free_hugepages");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "memory::tests::hold_huge_pages_until_killed"])
        .args(["--ignored", "--nocapture"])
        .env("BURSTLINE_HOLD_HUGE_PAGES", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    assert!(output.lines().any(|line| line.unwrap() == "holding"));
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    assert!(status.contains("HugetlbPages:\t    8192 kB"), "{status}");
    child.kill().unwrap();
    child.wait().unwrap();
    // Another program that looks at it in /proc may keep its memory for a moment. Other tests use
    // free pages, too, and give them back.
    let began = Instant::now();
    while pool_number("free_hugepages") < before {
        assert!(began.elapsed() < Duration::from_secs(60), "{before} were free before");
        thread::yield_now();
    }
}

/// A thread that is refused huge pages must not unmap other threads' mappings.
#[test]
fn pages_that_are_refused_take_no_memory_of_others() {
    const TRIES: usize = 2_000;
    // Alone: where another test has reserved pages, a try may take one of them.
    let _alone = Reservation::take_alone(0);
    let pages = pool_number("nr_hugepages") + 1;
    let too_much = request(pages as usize * 2 * MIB, PageChoice::Size2M);
    let is_over = AtomicBool::new(false);
    let refused = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let mut buffer = AlignedBuffer::new(MIB).unwrap();
                thread::yield_now();
                buffer.fill(7);
            }
        });
        let refused = (0..TRIES).filter(|_| Region::create(&too_much).is_err()).count();
        is_over.store(true, Ordering::Relaxed);
        refused
    });
    assert!(refused > 0, "{TRIES} regions of {pages} huge pages, one after another");
}
