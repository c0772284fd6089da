//! A publisher that damages its own log, and a program that does not trust it.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use burstline_log::{Appended, LogConfig, Meta, Writer};
use burstline_share::LosslessReaders;
use burstline_skip::skip;

use crate::common::{Folder, interrupt, is_there, until};
use crate::scribbler::scribble;
use crate::traffic::{Packet, mix};

/// The name of the log, which no other test uses.
const NAME: &str = "mad";
/// Packets written before the log is scribbled over, and the number written again each time after.
const PACKETS: usize = 2000;
const MORE: usize = 32;
/// The number of times it is scribbled over while a program reads.
const HEAPS: usize = 3000;

fn append(writer: &mut Writer, packets: &[Packet]) {
    for Packet { time_ns, bytes } in packets {
        let meta = Meta::new(*time_ns, bytes.len() as u32, 0);
        // If scribbled memory says that a reader holds up the log, some packets have no room.
        let _: Appended = writer.append(bytes, &meta);
    }
    writer.publish();
}

/// Starts a tcpdump that prints into files of these names.
fn start(folder: &Folder, more: &[&str], printed: &str) -> Child {
    let mut live = folder.preloaded("tcpdump");
    live.args(["-n", "-tt", "-e", "-x", "-l", "-i", "burst:tap?start=oldest"]).args(more);
    live.stdout(File::create(folder.at(printed)).unwrap());
    live.stderr(File::create(folder.at("said")).unwrap()).spawn().unwrap()
}

/// Checks that it ends when asked to, if it has not before, and that no signal kills it.
fn assert_ends(folder: &Folder, mut live: Child) {
    if live.try_wait().unwrap().is_none() {
        interrupt(&live);
    }
    let mut status = None;
    until("tcpdump ends", || {
        status = live.try_wait().unwrap();
        status.is_some()
    });
    let said = fs::read_to_string(folder.at("said")).unwrap();
    assert_eq!(status.unwrap().signal(), None, "{said}");
}

/// One program reads intact packets before the scribbling; the other starts during it.
fn round(more: &[&str]) {
    let folder = Folder::new();
    let config = LogConfig { name: NAME.into(), ..LogConfig::default() };
    let (_publisher, log, mut writer) = folder.log("tap", 16, config, LosslessReaders::Refused);
    let packets = mix(PACKETS);
    append(&mut writer, &packets);
    let reader = start(&folder, more, "first");
    until("it prints packets", || fs::metadata(folder.at("first")).unwrap().len() > 0);
    let (is_over, mut heaps, mut other) = (AtomicBool::new(false), 0, None);
    scribble(&log, NAME, &is_over, || {
        append(&mut writer, &packets[..MORE]);
        heaps += 1;
        if heaps == HEAPS / 4 {
            other = Some(start(&folder, more, "second"));
        }
        is_over.store(heaps == HEAPS, Relaxed);
    });
    assert_ends(&folder, reader);
    assert_ends(&folder, other.expect("it was started"));
}

#[test]
fn a_publisher_that_scribbles_over_its_log_neither_crashes_nor_stops_tcpdump() {
    if !is_there("tcpdump") {
        return skip("tcpdump is not installed: scripts/setup test");
    }
    for more in [&["len > 0"][..], &["-s", "40"], &["udp or arp"]] {
        round(more);
    }
}
