//! Programs that write what they capture by `pcap_dump`: their files have what they dumped, whole
//! and in order, whenever they look.

use std::fs;

use crate::common::{DEVICE, Folder, compiled, run};
use crate::traffic::mix;

const PACKETS: usize = 20_000;

/// A run of the program.
struct Run {
    folder: Folder,
    /// What it said.
    said: String,
}

/// Runs the program; `None`: the test is skipped.
fn dumps(case: &str, path: &str) -> Option<Run> {
    let folder = Folder::new();
    let program = compiled(&folder, "dumps")?;
    let publishing = folder.publish(mix(PACKETS), 1);
    let mut command = folder.preloaded(program.to_str().unwrap());
    let said = run(command.args([case, DEVICE, path]), 0);
    publishing.end();
    Some(Run { folder, said })
}

/// Has the program write `dump.pcap`, which must have the bytes that it counted.
fn whole(case: &str) -> Option<Folder> {
    let Run { folder, said } = dumps(case, "dump.pcap")?;
    let bytes = fs::metadata(folder.at("dump.pcap")).unwrap().len();
    assert_eq!(bytes, said.trim().parse::<u64>().unwrap());
    Some(folder)
}

#[test]
fn two_files_get_the_same_however_one_is_looked_at() {
    let Some(folder) = whole("look") else { return };
    let [one, other] =
        ["dump.pcap", "dump.pcap.other"].map(|name| fs::read(folder.at(name)).unwrap());
    assert!(one == other, "{} bytes and {}", one.len(), other.len());
}

#[test]
fn a_file_is_whole_when_a_callback_closes_it() {
    whole("rotate");
}

#[test]
fn a_file_is_whole_when_a_callback_exits() {
    whole("exit");
}

/// Each signal may find the program while it gathers.
#[test]
fn a_signals_handler_may_flush_at_any_moment() {
    whole("handler");
}

#[test]
fn another_thread_may_flush_at_any_moment() {
    whole("thread");
}

#[test]
fn a_full_disk_is_an_error_of_the_file() {
    dumps("full", "/dev/full");
}
