//! Tests programs that write files with `pcap_dump`: whenever they check a file, it has the packets
//! they dumped, complete and in order.

use std::fs;

use crate::common::{DEVICE, Folder, compiled, run};
use crate::traffic::mix;

const PACKETS: usize = 20_000;

struct Run {
    folder: Folder,
    /// The program's output.
    said: String,
}

/// Runs the program; `None` if the test is skipped.
fn dumps(case: &str, path: &str) -> Option<Run> {
    let folder = Folder::new();
    let program = compiled(&folder, "dumps")?;
    let publishing = folder.publish(mix(PACKETS), 1);
    let mut command = folder.preloaded(program.to_str().unwrap());
    let said = run(command.args([case, DEVICE, path]), 0);
    publishing.end();
    Some(Run { folder, said })
}

/// Runs the program, which writes `dump.pcap`; the file must have the bytes that it counted.
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

/// A signal may arrive at any time while the program gathers packets.
#[test]
fn a_signals_handler_may_flush_at_any_moment() {
    whole("handler");
}

#[test]
fn another_thread_may_flush_at_any_moment() {
    whole("thread");
}

/// The thread is in the library, in a write to a full pipe, and does not exist in the child.
#[test]
fn a_child_may_dump_although_another_thread_of_its_parent_was_dumping() {
    let Some(Run { folder, .. }) = dumps("fork", "dump.pcap") else { return };
    let [all, childs] =
        ["dump.pcap.copy", "dump.pcap.child"].map(|name| fs::read(folder.at(name)).unwrap());
    let (header, packets) = childs.split_at(24);
    assert_eq!(&all[..24], header);
    let is_there = all.windows(packets.len()).any(|part| part == packets);
    assert!(is_there && packets.len() >= 100 * (16 + 60), "{} bytes", packets.len());
}

#[test]
fn a_full_disk_is_an_error_of_the_file() {
    dumps("full", "/dev/full");
}
