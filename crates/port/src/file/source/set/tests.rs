use std::fs;
use std::io::Write;
use std::thread;
use std::time::Instant;

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
    assert_eq!(account.notes, [format!("{name}: skipped files that are not captures: 1")]);
}
