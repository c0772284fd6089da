//! DAQ modules on the log of a publisher that corrupts it, with hosts that do not vouch for it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use burstline_log::{Appended, Log, LogConfig, Meta, Writer};
use burstline_share::{PublishConfig, Publisher};
use burstline_sys::memory::PageChoice;

use crate::daq::{Built, Host, frame};
use crate::scribbler::scribble;
use crate::support::live::wait_until;
use crate::support::sharing::Names;

/// The name of the log, used by no other test.
const NAME: &str = "daq-mad";
/// Packets written before the log is corrupted, and again after each time.
const PACKETS: u64 = 2000;
const MORE: u64 = 32;
/// How often it is corrupted while a host reads.
const HEAPS: usize = 2000;

fn append(writer: &mut Writer, packets: u64) {
    for number in 0..packets {
        let bytes = frame(number);
        let meta = Meta::new(1_700_000_000_000_000_000 + number, bytes.len() as u32, 0);
        // Corrupted data may say that a reader blocks the log, so there may be no room.
        let _: Appended = writer.append(&bytes, &meta);
    }
    writer.publish();
}

/// One host reads valid packets before the corruption begins; the other attaches in the midst of
/// it. Returns how the two ended.
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
    // Wait until it catches the signal, which would kill it before.
    let _ = second.hears("reading");
    [first, second].map(end)
}

/// Asks a host to end if it has not yet. It must not die of a signal, and must report its end.
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
