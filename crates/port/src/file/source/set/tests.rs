use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::Instant;

use burstline_sys::privileges;
use burstline_sys::temporary::TemporaryFolder;

use super::listing::fits;
use super::*;

#[test]
fn patterns_as_a_shell_has_them() {
    for (pattern, name) in [
        ("*", ""),
        ("*.pcap", "a.pcap"),
        ("a*b*c", "aXbXXbc"),
        ("?[0-9][!x]", "a5y"),
        ("x[]a]", "x]"),
    ] {
        assert!(fits(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
    }
    for (pattern, name) in [("*.pcap", "a.pcapng"), ("?", ""), ("a[0-9]", "ab"), ("", "a")] {
        assert!(!fits(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
    }
}

/// Makes a classic capture of one packet, and returns its path.
fn capture(folder: &TemporaryFolder, name: &str, second: u32) -> PathBuf {
    let words =
        |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let head = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1, second, 0, 60, 60]);
    let path = PathBuf::from(folder.file(name));
    fs::write(&path, [head, vec![0x5a; 60]].concat()).unwrap();
    path
}

/// Reads a set to its end, and returns its packets.
fn packets(set: &mut SetSource) -> u64 {
    let (mut scratch, mut packets) = (Scratch::new(), 0);
    loop {
        let lent = set.lend(&mut scratch, 100).unwrap();
        packets += lent.burst.len() as u64;
        if lent.state == PortState::Ended {
            return packets;
        }
    }
}

/// A ring removes files between the listing and their turn.
#[test]
fn a_file_that_is_removed_meanwhile_is_passed_over() {
    let folder = TemporaryFolder::create("burstline-set-").unwrap();
    let names = ["a.pcap", "b.pcap", "c.pcap", "d.pcap"];
    let paths: Vec<_> =
        names.iter().zip(1..).map(|(name, second)| capture(&folder, name, second)).collect();
    let open = |naming| SetSource::open("set".into(), &paths, &OpenOptions::default(), naming);
    fs::remove_file(&paths[0]).unwrap();
    assert!(is_missing(&open(Naming::EachByItself).err().unwrap()));
    let mut set = open(Naming::ByListing).unwrap();
    // There were no more descriptors for this one.
    let later = set.waiting.iter_mut().find(|file| file.path == paths[2]).unwrap();
    later.file = None;
    fs::remove_file(&paths[2]).unwrap();
    assert_eq!(packets(&mut set), 2);
    let account = set.account();
    assert_eq!((account.offered, account.is_damaged), (2, false));
    assert_eq!(account.notes, [0, 2].map(|at| removed(&paths[at])));
    paths.iter().for_each(|path| _ = fs::remove_file(path));
    assert!(is_missing(&open(Naming::ByListing).err().unwrap()), "none is left");
}

/// Lends from a set until it has lent this many packets.
fn lend_until(set: &mut SetSource, packets: u64) {
    let (mut scratch, begun) = (Scratch::new(), Instant::now());
    while set.lent < packets {
        let lent = set.lend(&mut scratch, 100).unwrap();
        assert!(lent.state != PortState::Ended);
        assert!(begun.elapsed() < Duration::from_secs(60), "{} of {packets}", set.lent);
        thread::sleep(Duration::from_millis(1));
    }
}

/// Other programs lock nothing: the last file may grow.
#[test]
fn a_set_that_is_followed_goes_on_to_later_files_and_to_what_is_appended() {
    let folder = TemporaryFolder::create("burstline-follow-").unwrap();
    let address: Address = format!("set:{}?follow=yes", folder.path().display()).parse().unwrap();
    let mut set = SetSource::open_followed(&address, &OpenOptions::default()).unwrap();
    assert_eq!(set.lend(&mut Scratch::new(), 1).unwrap().state, PortState::Idle);
    // The newest packet of the newest file comes with the next one.
    capture(&folder, "a.pcap", 1);
    let last = capture(&folder, "b.pcap", 2);
    fs::write(folder.file("c.txt"), "no capture, and longer than its header").unwrap();
    lend_until(&mut set, 1);
    let packet = [3_u32, 0, 60, 60].map(u32::to_le_bytes).concat();
    let mut file = File::options().append(true).open(&last).unwrap();
    file.write_all(&[packet, vec![0xa5; 60]].concat()).unwrap();
    lend_until(&mut set, 2);
    set.finish().unwrap();
    assert_eq!(packets(&mut set), 1, "what is there at the end is read");
    let account = set.account();
    assert_eq!((account.offered, account.is_damaged), (3, false), "{account:?}");
    let name = format!("set:{}", folder.path().display());
    let waiting = format!("{address}: nothing is there yet; waiting");
    let skipped = format!("{name}: skipped files that are not captures: 1");
    assert_eq!(account.notes, [waiting, skipped]);
}

/// Opens a folder as a set that is followed.
fn open_followed(folder: &TemporaryFolder, options: &OpenOptions) -> SetSource {
    let address: Address = format!("set:{}?follow=yes", folder.path().display()).parse().unwrap();
    SetSource::open_followed(&address, options).unwrap()
}

/// Appends a packet of one second to a capture.
fn append(path: &Path, second: u32) {
    let packet = [second, 0, 60, 60].map(u32::to_le_bytes).concat();
    let mut file = File::options().append(true).open(path).unwrap();
    file.write_all(&[packet, vec![0xa5; 60]].concat()).unwrap();
}

/// Makes a file older than the time for which one that grows is waited for.
fn age_file(path: &Path) {
    let before = std::time::SystemTime::now() - Duration::from_secs(60);
    File::options().append(true).open(path).unwrap().set_modified(before).unwrap();
}

/// Two other programs write to one folder: a newer file does not finish an older one.
#[test]
fn files_of_two_other_programs_are_read_on_whichever_is_newer() {
    let folder = TemporaryFolder::create("burstline-two-").unwrap();
    let [a, b] = ["a.pcap", "b.pcap"].map(|name| capture(&folder, name, 1));
    let mut set = open_followed(&folder, &OpenOptions::default());
    lend_until(&mut set, 2);
    for second in 2..5 {
        for path in [&a, &b] {
            append(path, second);
            age_file(path);
        }
        lend_until(&mut set, u64::from(second) * 2);
    }
    append(&a, 5);
    set.finish().unwrap();
    assert_eq!(packets(&mut set), 1, "what was added last");
    let account = set.account();
    assert_eq!((account.offered, account.is_damaged, account.notes.len()), (9, false, 0));
}

/// There are more files that rest than may be open.
#[test]
fn a_file_that_was_closed_is_read_on_if_it_grows() {
    let folder = TemporaryFolder::create("burstline-closed-").unwrap();
    let paths: Vec<_> =
        (1..=70).map(|second| capture(&folder, &format!("{second:02}.pcap"), second)).collect();
    paths.iter().for_each(|path| age_file(path));
    let mut set = open_followed(&folder, &OpenOptions::default());
    lend_until(&mut set, 70);
    let _ = set.lend(&mut Scratch::new(), 1).unwrap();
    append(&paths[0], 100);
    lend_until(&mut set, 71);
    append(&paths[1], 100);
    append(&paths[69], 100);
    set.finish().unwrap();
    assert_eq!(packets(&mut set), 2);
    let account = set.account();
    assert_eq!((account.offered, account.is_damaged), (73, false), "{account:?}");
}

fn packed_with_gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

#[test]
fn a_file_that_is_read_and_cannot_be_read_on_is_named() {
    let folder = TemporaryFolder::create("burstline-grown-").unwrap();
    let packed = PathBuf::from(folder.file("a.pcap.gz"));
    let plain = fs::read(capture(&folder, "b.pcap", 1)).unwrap();
    let bytes = packed_with_gzip(&plain);
    fs::write(&packed, &bytes[..bytes.len() - 20]).unwrap();
    let mut set = open_followed(&folder, &OpenOptions::default());
    lend_until(&mut set, 1);
    assert_eq!(set.files.len(), 1, "one that is compressed may still be written");
    fs::write(&packed, &bytes).unwrap();
    age_file(&packed);
    lend_until(&mut set, 2);
    let _ = set.lend(&mut Scratch::new(), 1).unwrap();
    fs::write(&packed, [&bytes[..], &bytes].concat()).unwrap();
    set.finish().unwrap();
    assert_eq!(packets(&mut set), 0);
    let account = set.account();
    assert_eq!((account.offered, account.is_damaged), (2, true), "{account:?}");
    assert!(account.notes[0].contains("a.pcap.gz has grown since it was read"), "{account:?}");
}

#[test]
fn what_the_job_has_written_and_closed_is_none_of_the_files() {
    let folder = TemporaryFolder::create("burstline-own-").unwrap();
    let options = OpenOptions::default();
    let mut set = open_followed(&folder, &options);
    let own = capture(&folder, "own.pcap", 1);
    let metadata = fs::metadata(&own).unwrap();
    options.files.enter(&own, &metadata, crate::opened::Use::Write).unwrap();
    options.files.leave(burstline_sys::inode::FileId::of(&metadata));
    capture(&folder, "b.pcap", 1);
    set.finish().unwrap();
    assert_eq!(packets(&mut set), 1);
    assert_eq!(set.files, [folder.path().join("b.pcap")]);
}

#[test]
fn a_file_that_is_renamed_is_read_once() {
    let folder = TemporaryFolder::create("burstline-renamed-").unwrap();
    let path = capture(&folder, "a.tmp.pcap", 1);
    age_file(&path);
    let mut set = open_followed(&folder, &OpenOptions::default());
    lend_until(&mut set, 1);
    let new = folder.path().join("a.pcap");
    fs::rename(path, &new).unwrap();
    thread::sleep(Duration::from_millis(150));
    let _ = set.lend(&mut Scratch::new(), 1).unwrap();
    append(&new, 2);
    set.finish().unwrap();
    assert_eq!(packets(&mut set), 1, "what was added");
    assert_eq!((set.account().offered, set.account().notes.len()), (2, 0));
}

#[test]
fn a_file_that_cannot_be_read_is_named_once_and_passed_over() {
    let folder = TemporaryFolder::create("burstline-unreadable-").unwrap();
    let mut set = open_followed(&folder, &OpenOptions::default());
    let hidden = capture(&folder, "a.pcap", 1);
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o0)).unwrap();
    capture(&folder, "b.pcap", 1);
    let read = privileges::without_rights(|| {
        lend_until(&mut set, 1);
        set.finish().unwrap();
        assert_eq!(packets(&mut set), 0);
        set.account()
    });
    let account = read.unwrap();
    assert_eq!(account.offered, 1);
    let named = account.notes.iter().filter(|note| note.contains("a.pcap cannot be read"));
    assert_eq!(named.count(), 1, "{account:?}");
}

/// The folder cannot be listed any more: a file has taken a part of its path.
#[test]
fn what_is_open_is_read_to_its_end_before_a_set_fails() {
    let outer = TemporaryFolder::create("burstline-fails-").unwrap();
    let name = outer.path().join("in");
    fs::create_dir(&name).unwrap();
    let address: Address = format!("set:{}?follow=yes", name.display()).parse().unwrap();
    fs::rename(capture(&outer, "a.pcap", 1), name.join("a.pcap")).unwrap();
    let mut set = SetSource::open_followed(&address, &OpenOptions::default()).unwrap();
    // A link to itself can be neither a folder nor a pattern.
    fs::rename(&name, outer.path().join("moved")).unwrap();
    std::os::unix::fs::symlink("in", &name).unwrap();
    let (mut scratch, mut packets, begun) = (Scratch::new(), 0, Instant::now());
    let error = loop {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not fail");
        match set.lend(&mut scratch, 100) {
            Ok(lent) => packets += lent.burst.len(),
            Err(error) => break error,
        }
    };
    assert_eq!((packets, set.account().offered), (1, 1));
    assert!(error.to_string().contains("list"), "{error}");
    assert!(SetSource::open_followed(&address, &OpenOptions::default()).is_err());
}

#[test]
fn a_set_of_which_nothing_is_there_says_that_it_waits() {
    let folder = TemporaryFolder::create("burstline-nothing-").unwrap();
    let set = open_followed(&folder, &OpenOptions::default());
    let [note] = &set.account().notes[..] else { panic!("{:?}", set.account()) };
    assert!(note.ends_with("?follow=yes: nothing is there yet; waiting"), "{note}");
}

/// The verbs that ask about files take no keys.
#[test]
fn a_listing_says_that_only_jobs_follow() {
    let folder = TemporaryFolder::create("burstline-asked-").unwrap();
    capture(&folder, "a.pcap", 1);
    let target = format!("{}?follow=yes", folder.path().display());
    let error = captures_of(&target).err().unwrap().to_string();
    assert!(error.contains("only a job follows a set"), "{error}");
}

/// Compressed, and begun by another program: it may go on.
#[test]
fn what_is_compressed_is_read_when_nobody_has_changed_it_for_a_while() {
    let folder = TemporaryFolder::create("burstline-packed-").unwrap();
    let plain = fs::read(capture(&folder, "b.pcap", 1)).unwrap();
    let packed = PathBuf::from(folder.file("a.pcap.gz"));
    fs::write(&packed, packed_with_gzip(&plain)).unwrap();
    let mut set = open_followed(&folder, &OpenOptions::default());
    lend_until(&mut set, 1);
    assert_eq!(set.files.len(), 1, "it was written just now");
    lend_until(&mut set, 2);
}
