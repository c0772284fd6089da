//! DAQ modules on the log of a publisher that breaks it: hosts that have not vouched for it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use burstline_log::{Appended, Log, LogConfig, Meta, Writer};
use burstline_share::{PublishConfig, Publisher};
use burstline_sys::memory::PageChoice;

use crate::daq::{Built, Host, frame};
use crate::scribbler::scribble;
use crate::support::live::wait_until;
use crate::support::sharing::Names;

/// Of the log: no other one of these tests has it.
const NAME: &str = "daq-mad";
/// Packets that are written before the log is scribbled over, and of these again each time after.
const PACKETS: u64 = 2000;
const MORE: u64 = 32;
/// How often it is scribbled over while a host reads.
const HEAPS: usize = 2000;

fn append(writer: &mut Writer, packets: u64) {
    for number in 0..packets {
        let bytes = frame(number);
        let meta = Meta::new(1_700_000_000_000_000_000 + number, bytes.len() as u32, 0);
        // Where nonsense says that a reader holds up the log, there is no room for some.
        let _: Appended = writer.append(&bytes, &meta);
    }
    writer.publish();
}

/// One host reads sound packets before the nonsense begins; the other comes in the midst of it.
/// Returns how the two ended.
fn round(built: &Built, version: u32, words: &str) -> [String; 2] {
    let names = Names::new("daq-mad");
    let segment_bytes = 64 << 10;
    let (log, mut writer) = Log::create(LogConfig {
        name: NAME.into(),
        bytes: 64 * segment_bytes,
        segment_bytes,
        pages: PageChoice::Size4K,
        takes_verdicts: words.contains("inline"),
        ..LogConfig::default()
    })
    .unwrap();
    log.name_port(0, 1, "eth0");
    let config = PublishConfig::new(names.0.file("tap"));
    let publisher = Publisher::start(&config, vec![log.clone()]).unwrap();
    append(&mut writer, PACKETS);
    let first = built.host(version, &names, words);
    wait_until("it has read packets", || {
        publisher.readers().iter().any(|reader| reader.delivered > 0)
    });
    let (is_over, mut heaps, mut other) = (AtomicBool::new(false), 0, None);
    scribble(&log, NAME, &is_over, || {
        append(&mut writer, MORE);
        heaps += 1;
        if heaps == HEAPS / 4 {
            other = Some(built.start(version, &names, words));
        }
        is_over.store(heaps == HEAPS, Relaxed);
    });
    let mut second = other.expect("it was started");
    // A signal before it catches that would kill it.
    let _ = second.hears("reading");
    [first, second].map(end)
}

/// It ends when it is asked to, if it has not before. No signal kills it, and it says how it ended.
fn end(mut host: Host) -> String {
    if !host.has_ended() {
        burstline_testbed::signal(host.pid(), "-TERM").unwrap();
    }
    wait_until("the host ends", || host.has_ended());
    let (_, said) = host.end();
    assert!(!said.end().is_empty(), "an error has a name");
    said.end().to_owned()
}

#[test]
fn a_publisher_that_scribbles_over_its_log_neither_crashes_nor_stops_a_host() {
    let Some(built) = Built::or_skip() else { return };
    for version in built.versions() {
        for words in [
            "tap passive pass oldest",
            "tap passive pass oldest host:filter=udp,dst,port,5002",
            "tap inline block:5002 oldest",
        ] {
            let ends = round(built, version, words);
            println!("LibDAQ {version}, {words}: {ends:?}");
        }
    }
}
