//! Programs that write what they capture by `pcap_dump`: their files have what they dumped, whole
//! and in order, whenever they look.

use std::fs;

use burstline_skip::{skip, test_name};

use crate::common::{DEVICE, Folder, compiled, is_there, run};
use crate::traffic::mix;

const PACKETS: usize = 20_000;

/// Runs the program, and returns what it said. The file is `dump.pcap` of the folder.
fn dumps(folder: &Folder, case: &str, path: &str) -> String {
    let program = compiled(folder, "dumps");
    let publishing = folder.publish(mix(PACKETS), 1);
    let mut command = folder.preloaded(program.to_str().unwrap());
    let said = run(command.args([case, DEVICE, path]), 0);
    publishing.end();
    said
}

fn folder() -> Option<Folder> {
    let folder = is_there("cc").then(Folder::new);
    if folder.is_none() {
        skip(test_name(), "cc is not installed: scripts/setup rust");
    }
    folder
}

/// Whether the file has the bytes that the program counted.
fn is_whole(folder: &Folder, said: &str) -> bool {
    fs::metadata(folder.at("dump.pcap")).unwrap().len() == said.trim().parse::<u64>().unwrap()
}

#[test]
fn two_files_get_the_same_however_one_is_looked_at() {
    let Some(folder) = folder() else { return };
    let said = dumps(&folder, "look", "dump.pcap");
    assert!(is_whole(&folder, &said), "{said}");
    let [one, other] =
        ["dump.pcap", "dump.pcap.other"].map(|name| fs::read(folder.at(name)).unwrap());
    assert!(one == other, "{} bytes and {}", one.len(), other.len());
}

#[test]
fn a_file_is_whole_when_a_callback_closes_it() {
    let Some(folder) = folder() else { return };
    let said = dumps(&folder, "rotate", "dump.pcap");
    assert!(is_whole(&folder, &said), "{said}");
}

#[test]
fn a_file_is_whole_when_a_callback_exits() {
    let Some(folder) = folder() else { return };
    let said = dumps(&folder, "exit", "dump.pcap");
    assert!(is_whole(&folder, &said), "{said}");
}

#[test]
fn a_full_disk_is_an_error_of_the_file() {
    let Some(folder) = folder() else { return };
    dumps(&folder, "full", "/dev/full");
}
