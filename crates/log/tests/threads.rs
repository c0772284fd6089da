//! Threads that share one log in every possible way. `scripts/tsan` runs it with ThreadSanitizer,
//! as long as time permits, to detect data races.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::sync_channel;
use std::thread;

use burstline_log::{
    Appended, Burst, Handoff, HeldBurst, Log, LogConfig, Meta, Policy, Reader, ReaderConfig,
    ReaderStatistics, Start, UntrustedReader, Writer,
};
use burstline_sys::memory::PageChoice;

const SEGMENT_BYTES: usize = 4096;
/// Two segments for each of three readers with windows of two, one for a fourth, and two more.
const SEGMENTS: usize = 12;
/// Packets of each round, unless `BURSTLINE_PACKETS` is set.
const PACKETS: u64 = if cfg!(miri) { 60 } else { 30_000 };

fn config(handoff: Handoff, keep_ns: Option<u64>) -> LogConfig {
    LogConfig {
        name: "threads".into(),
        bytes: SEGMENT_BYTES * SEGMENTS,
        segment_bytes: SEGMENT_BYTES,
        pages: PageChoice::Size4K,
        handoff,
        keep_ns,
        cycle_bytes: Some(0), // as few segments as possible, so each is soon reused
        ..LogConfig::default()
    }
}

/// Returns packet `number`; the number determines its bytes and length.
fn packet(number: u64) -> Vec<u8> {
    vec![number as u8; (number % 97) as usize * 8]
}

fn append_all(mut writer: Writer, packets: u64) {
    for number in 0..packets {
        let bytes = packet(number);
        while writer.append(&bytes, &Meta::new(number, bytes.len() as u32, 0)) == Appended::Full {
            thread::yield_now();
        }
        if number % 7 == 0 {
            writer.publish();
        }
    }
}

fn check(burst: &Burst<'_>) {
    for (number, found) in (burst.first_packet()..).zip(burst.packets()) {
        assert_eq!((found.bytes(), found.time_ns()), (&packet(number)[..], number));
    }
}

/// Checks every burst until the log ends. Both kinds of readers have these calls, but no trait.
macro_rules! read_to_the_end {
    ($reader:ident) => {{
        while !$reader.is_finished() {
            match $reader.next_burst() {
                Some(burst) => check(&burst),
                None => $reader.wait(1_000_000),
            }
        }
        $reader.statistics()
    }};
}

fn read_all(mut reader: Reader) -> ReaderStatistics {
    read_to_the_end!(reader)
}

fn copy_all(mut reader: UntrustedReader) -> ReaderStatistics {
    read_to_the_end!(reader)
}

/// Holds bursts, which another thread checks and drops.
fn pass_on_all(mut reader: Reader) -> ReaderStatistics {
    thread::scope(|scope| {
        let (sender, receiver) = sync_channel(1);
        scope.spawn(move || {
            while let Ok(held) = receiver.recv() {
                check(&HeldBurst::burst(&held));
            }
        });
        while !reader.is_finished() {
            match reader.hold_burst() {
                Some(held) => sender.send(held).unwrap(),
                None => reader.wait(1_000_000),
            }
        }
        drop(sender);
        reader.statistics()
    })
}

/// Attaches at the oldest segment and leaves again, until the test is over.
fn come_and_go(log: &Log, is_over: &AtomicBool) {
    let config = ReaderConfig { start: Start::Oldest, ..ReaderConfig::default() };
    while !is_over.load(Relaxed) {
        let mut reader = log.attach(config).unwrap();
        reader.next_burst().iter().for_each(check);
        thread::yield_now();
    }
}

fn share(handoff: Handoff, keep_ns: Option<u64>) {
    let packets = std::env::var("BURSTLINE_PACKETS").map_or(PACKETS, |n| n.parse().unwrap());
    let (log, writer) = Log::create(config(handoff, keep_ns)).unwrap();
    let seat = |policy, window| {
        log.attach(ReaderConfig { policy, window, start: Start::Segment }).unwrap()
    };
    let all = seat(Policy::Lossless, 1);
    let [some, held] = [1, 2].map(|window| seat(Policy::Lossy, window));
    let copied = UntrustedReader::from(seat(Policy::Lossy, 1));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| come_and_go(&log, &is_over));
        let all = scope.spawn(|| read_all(all));
        let lossy = [
            scope.spawn(|| read_all(some)),
            scope.spawn(|| pass_on_all(held)),
            scope.spawn(|| copy_all(copied)),
        ];
        append_all(writer, packets);
        let all = all.join().unwrap();
        assert_eq!((all.delivered, all.missed), (packets, 0));
        for reader in lossy {
            let seen = reader.join().unwrap();
            assert_eq!((seen.delivered + seen.missed, seen.torn), (packets, 0), "{seen:?}");
        }
        is_over.store(true, Relaxed);
    });
}

#[test]
fn readers_of_every_kind_beside_a_writer() {
    share(Handoff::Near, None);
}

#[test]
fn readers_of_every_kind_beside_a_writer_that_streams() {
    share(Handoff::Far, None);
}

#[test]
fn readers_of_every_kind_beside_a_writer_that_keeps_the_past() {
    share(Handoff::Near, Some(1_000_000));
}
