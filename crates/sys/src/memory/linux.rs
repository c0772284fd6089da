//! Memory from the kernel: memfd, size, map, bind, touch, seal.
//!
//! Each step has one function; [`create`] calls them in order. `auto` tries a page size by making
//! the region, because no counter is reliable.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags, SeekFrom, Stat, fcntl_add_seals, fcntl_get_seals};
use rustix::fs::{fstat, ftruncate, memfd_create, seek};
use rustix::io::Errno;
use rustix::mm::Advice;

use super::mapping::WantedBytes;
use super::{MemoryError, NodeId, PageChoice, PageKind, Placement, RegionRequest, placement};
use crate::limits;
use crate::topology::{self, HugePages};

pub(super) use super::view::View;

/// The seals that make a region safe to read for processes that do not trust its writer.
const REGION_SEALS: SealFlags =
    SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL);

/// The seals that keep a page mapped although both sides may write it.
const SHARED_SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Makes the memory of a region and queries where it is.
pub(super) fn create(request: &RegionRequest) -> Result<(View, Placement), MemoryError> {
    if let Some(node) = request.node {
        check_node(node)?;
    }
    let mut notes = Vec::new();
    let (view, page) = match request.pages {
        PageChoice::Size1G => (reserved(request, PageKind::Size1G)?, PageKind::Size1G),
        PageChoice::Size2M => (reserved(request, PageKind::Size2M)?, PageKind::Size2M),
        PageChoice::Transparent => transparent(request, &mut notes)?,
        PageChoice::Size4K => (small(request)?, PageKind::Size4K),
        PageChoice::Auto => largest(request, &mut notes)?,
    };
    seal(view.file(), REGION_SEALS)?;
    let placement = placement::verify(&view, request, page, notes)?;
    Ok((view, placement))
}

/// Makes a small region that both sides may write.
pub(super) fn create_shared(name: &str, bytes: usize) -> Result<(View, Placement), MemoryError> {
    let pages = PageChoice::Size4K;
    let request = RegionRequest { name: name.to_owned(), bytes, pages, node: None };
    let view = small(&request)?;
    seal(view.file(), SHARED_SEALS)?;
    let placement = placement::verify(&view, &request, PageKind::Size4K, Vec::new())?;
    Ok((view, placement))
}

/// Maps memory of another process, if its seals guarantee that it stays.
pub(super) fn attach(
    file: OwnedFd,
    wanted: WantedBytes,
    writable: bool,
) -> Result<View, MemoryError> {
    let present = fcntl_get_seals(&file).map_err(MemoryError::system("F_GET_SEALS"))?;
    let needed = match writable {
        true => SealFlags::SHRINK | SealFlags::GROW,
        false => REGION_SEALS,
    };
    if !present.contains(needed) {
        let missing = names(needed - present);
        return Err(MemoryError::MissingSeals { missing });
    }
    // We read the size after the seals, so it can no longer change.
    let status = fstat(&file).map_err(MemoryError::system("fstat"))?;
    let found = u64::try_from(status.st_size).unwrap_or(0);
    // A hugetlbfs file must be mapped at a multiple of its page size, which is its block size.
    let page_bytes = usize::try_from(status.st_blksize).unwrap_or(0);
    let wanted = wanted.range(found, page_bytes);
    if !wanted.contains(&found) || found == 0 || found >= 1 << 62 {
        return Err(MemoryError::WrongSize { expected: *wanted.start(), found });
    }
    // A hole would be filled at this process's expense, or fault if nothing can fill it. The seals
    // prevent new holes. (A shared page may be hollow: see I2 of the module.)
    let allocated = allocated_bytes(&status);
    // Allocated but never written blocks are holes, too, and so is the end. Source: lseek(2).
    let hole = seek(&file, SeekFrom::Hole(0)).map_err(MemoryError::system("lseek"))?;
    let present = hole.min(allocated);
    // Blocks beyond the end stay allocated as long as this process maps the file. A page may be
    // huge, which the kernel then says is the block size.
    let whole = found.next_multiple_of(page_bytes.max(4096) as u64);
    if !writable && allocated > whole {
        return Err(MemoryError::WrongSize { expected: whole, found: allocated });
    }
    if !writable && present < found {
        return Err(MemoryError::Hollow { bytes: found, present });
    }
    let view = View::map(file.as_fd(), found as usize, page_bytes, writable)
        .map_err(MemoryError::system("mmap of shared memory"))?;
    // Map the pages that this process never touched, so that no access faults.
    view.populate(writable).map_err(MemoryError::system("MADV_POPULATE of shared memory"))?;
    // hugetlbfs does not report its holes, and counts blocks beyond the end. If there were holes,
    // the file has more blocks now.
    let now = allocated_bytes(&fstat(&file).map_err(MemoryError::system("fstat"))?);
    if !writable && now > allocated {
        let present = found.saturating_sub(now - allocated);
        return Err(MemoryError::Hollow { bytes: found, present });
    }
    Ok(view)
}

/// Source: stat(2), `st_blocks` counts units of 512 bytes.
fn allocated_bytes(status: &Stat) -> u64 {
    u64::try_from(status.st_blocks).unwrap_or(0).saturating_mul(512)
}

/// Uses the largest pages not above the region's size, with a note for each size that failed.
fn largest(
    request: &RegionRequest,
    notes: &mut Vec<String>,
) -> Result<(View, PageKind), MemoryError> {
    for page in [PageKind::Size1G, PageKind::Size2M] {
        if page.bytes() > request.bytes {
            continue;
        }
        match reserved(request, page) {
            Ok(view) => return Ok((view, page)),
            Err(error) => notes.push(error.to_string()),
        }
    }
    if PageKind::Transparent.bytes() <= request.bytes {
        return transparent(request, notes);
    }
    Ok((small(request)?, PageKind::Size4K))
}

/// Makes a view of reserved huge pages.
fn reserved(request: &RegionRequest, page: PageKind) -> Result<View, MemoryError> {
    let size_flag = match page {
        PageKind::Size1G => MemfdFlags::HUGE_1GB,
        _ => MemfdFlags::HUGE_2MB,
    };
    if !topology::huge_page_pool(None, page.bytes() as u64).exists() {
        return Err(MemoryError::NoSuchPages { page });
    }
    let file = new_file(request, page, MemfdFlags::HUGETLB | size_flag)?;
    let bytes = request.bytes.next_multiple_of(page.bytes());
    let outcome = mapped(file, bytes, page, request.node).and_then(|view| {
        populate(&view)?;
        Ok(view)
    });
    outcome.map_err(|error| explain_huge_pages(error, request, page))
}

/// Makes a view of ordinary memory, collapsed into 2 MiB pages if the kernel can.
///
/// We touch one small page in each 2 MiB before the collapse. That fixes the node, and leaves the
/// kernel almost nothing to copy. (Touching all of them first took 40 times as long.)
fn transparent(
    request: &RegionRequest,
    notes: &mut Vec<String>,
) -> Result<(View, PageKind), MemoryError> {
    let view = ordinary(request, PageKind::Transparent)?;
    view.populate_one_page_every(PageKind::Transparent.bytes())
        .map_err(MemoryError::system("MADV_POPULATE_WRITE of a region"))?;
    // Now and then a page is busy, and the first try fails.
    let outcome = view.collapse().or_else(|_| view.collapse());
    populate(&view)?;
    let mapped = placement::bytes_in_huge_pages(&view);
    if mapped == view.bytes() {
        return Ok((view, PageKind::Transparent));
    }
    let why = outcome.err().map(|error| format!(" ({error})")).unwrap_or_default();
    let mend = placement::transparent_mend();
    let bytes = view.bytes();
    notes.push(format!("2 MiB transparent pages: {mapped} of {bytes} bytes{why}; {mend}"));
    Ok((view, PageKind::Size4K))
}

/// Makes a view of ordinary memory, populated with small pages.
fn small(request: &RegionRequest) -> Result<View, MemoryError> {
    let view = ordinary(request, PageKind::Size4K)?;
    populate(&view)?;
    Ok(view)
}

/// Makes a view of ordinary memory, not yet populated.
fn ordinary(request: &RegionRequest, page: PageKind) -> Result<View, MemoryError> {
    let bytes = request.bytes.next_multiple_of(page.bytes());
    // Without this check a request above the machine's memory would wake the OOM killer.
    let available =
        topology::available_bytes(request.node).map_err(MemoryError::system("reading meminfo"))?;
    if available < bytes as u64 {
        let needed = bytes as u64;
        return Err(MemoryError::NotEnough { needed, available, node: request.node });
    }
    let file = new_file(request, page, MemfdFlags::empty())?;
    mapped(file, bytes, page, request.node)
}

/// Creates an empty memfd of the requested size.
fn new_file(
    request: &RegionRequest,
    page: PageKind,
    kind: MemfdFlags,
) -> Result<OwnedFd, MemoryError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | kind;
    let file =
        memfd_create(request.name.as_str(), flags).map_err(MemoryError::system("memfd_create"))?;
    let needed = request.bytes.next_multiple_of(page.bytes()) as u64;
    match (ftruncate(&file, needed), limits::file_bytes()) {
        (Err(Errno::FBIG), Some(limit)) => Err(MemoryError::FileLimit { needed, limit }),
        (truncated, _) => {
            truncated.map_err(MemoryError::system("ftruncate of a memfd"))?;
            Ok(file)
        }
    }
}

/// Maps `file` with the requested page size, and binds it to `node`.
fn mapped(
    file: OwnedFd,
    bytes: usize,
    page: PageKind,
    node: Option<NodeId>,
) -> Result<View, MemoryError> {
    let mut view = View::map(file.as_fd(), bytes, page.bytes(), true)
        .map_err(MemoryError::system("mmap of a region"))?;
    view.keep(file);
    let wish = match page {
        PageKind::Transparent => Some(Advice::LinuxHugepage),
        PageKind::Size4K => Some(Advice::LinuxNoHugepage),
        PageKind::Size1G | PageKind::Size2M => None,
    };
    if let Some(wish) = wish {
        // A kernel without transparent pages refuses either advice, and we get 4 KiB pages.
        let _ = view.advise(wish);
    }
    if let Some(node) = node {
        placement::bind(&view, node).map_err(MemoryError::system("mbind"))?;
    }
    Ok(view)
}

/// Makes every page present, or returns the error that there are too few.
fn populate(view: &View) -> Result<(), MemoryError> {
    view.populate(true).map_err(MemoryError::system("MADV_POPULATE_WRITE of a region"))
}

fn seal(file: BorrowedFd<'_>, seals: SealFlags) -> Result<(), MemoryError> {
    fcntl_add_seals(file, seals).map_err(MemoryError::system("F_ADD_SEALS"))
}

fn check_node(node: NodeId) -> Result<(), MemoryError> {
    let present = topology::nodes_online().map_err(MemoryError::system("reading nodes"))?;
    if present.contains(&node) {
        return Ok(());
    }
    let present: Vec<String> = present.iter().map(NodeId::to_string).collect();
    Err(MemoryError::NoSuchNode { node, present: present.join(",") })
}

/// Replaces a failure to get huge pages by the numbers behind it, if they explain it.
fn explain_huge_pages(error: MemoryError, request: &RegionRequest, page: PageKind) -> MemoryError {
    let pool = topology::huge_page_pool(request.node, page.bytes() as u64);
    let needed = request.bytes.div_ceil(page.bytes()) as u64;
    match HugePages::read(&pool) {
        Ok(pages) if pages.unpromised() < needed => MemoryError::HugePages {
            page,
            needed,
            free: pages.unpromised(),
            total: pages.total,
            node: request.node,
            pool: pool.join("nr_hugepages").display().to_string(),
        },
        _ => error,
    }
}

/// Returns the names of seals, joined with `|`.
fn names(seals: SealFlags) -> String {
    let known = [
        (SealFlags::SHRINK, "F_SEAL_SHRINK"),
        (SealFlags::GROW, "F_SEAL_GROW"),
        (SealFlags::FUTURE_WRITE, "F_SEAL_FUTURE_WRITE"),
        (SealFlags::SEAL, "F_SEAL_SEAL"),
    ];
    let missing = known.iter().filter(|(seal, _)| seals.contains(*seal));
    missing.map(|(_, name)| *name).collect::<Vec<_>>().join("|")
}
