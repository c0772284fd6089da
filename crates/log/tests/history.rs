//! Tests the history of a log: its length, its readers, and what happens if memory is short.

#[path = "common/config.rs"]
mod config;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use burstline_log::{
    Appended, Log, LogConfig, Meta, Policy, Reader, ReaderConfig, ReaderStatistics, Start, Writer,
};

use config::of_segments;

const SEGMENT_BYTES: usize = 4096;
/// Packets of 48 bytes: 64 with their descs. Room for facts is reserved, so one fewer fits.
const PACKETS_A_SEGMENT: u64 = 63;
const HOUR_NS: u64 = 3_600_000_000_000;

fn log(segments: usize, keep_ns: Option<u64>) -> (Log, Writer) {
    let config = of_segments("history", segments, SEGMENT_BYTES);
    Log::create(LogConfig { keep_ns, ..config }).unwrap()
}

fn from_oldest(policy: Policy) -> ReaderConfig {
    ReaderConfig { policy, start: Start::Oldest, ..ReaderConfig::default() }
}

fn packet(number: u64) -> [u8; 48] {
    [number as u8; 48]
}

fn append(writer: &mut Writer, number: u64) -> Appended {
    writer.append(&packet(number), &Meta::new(number, 48, 0))
}

/// Appends `segments` full segments from packet `first` on; returns the next packet's number.
fn append_segments(writer: &mut Writer, first: u64, segments: u64) -> u64 {
    let end = first + segments * PACKETS_A_SEGMENT;
    for number in first..end {
        assert_eq!(append(writer, number), Appended::Whole);
    }
    writer.publish();
    end
}

/// Reads and checks everything published. Returns the number of the first packet read, if any.
fn drain(reader: &mut Reader) -> Option<u64> {
    let mut first = None;
    while let Some(burst) = reader.next_burst() {
        first.get_or_insert(burst.first_packet());
        for (number, found) in (burst.first_packet()..).zip(burst.packets()) {
            assert_eq!((found.bytes(), found.time_ns()), (&packet(number)[..], number));
        }
    }
    first
}

#[test]
fn without_a_history_what_was_passed_is_gone_and_with_one_it_is_there() {
    // The reader's cursor is still on the fifth segment when the sixth and last is opened.
    for (keep_ns, oldest) in [(None, 4), (Some(0), 4), (Some(HOUR_NS), 0)] {
        let (log, mut writer) = log(8, keep_ns);
        let mut reader = log.attach(ReaderConfig::default()).unwrap();
        let mut next = 0;
        for _ in 0..6 {
            next = append_segments(&mut writer, next, 1);
            drain(&mut reader);
        }
        let mut late = log.attach(from_oldest(Policy::Lossy)).unwrap();
        assert_eq!(drain(&mut late), Some(oldest * PACKETS_A_SEGMENT), "{keep_ns:?}");
        drop(writer);
        for reader in [&mut reader, &mut late] {
            assert!(drain(reader).is_none() && reader.is_finished());
            assert_eq!(reader.statistics().missed, 0);
        }
        assert_eq!(late.statistics().delivered, next - oldest * PACKETS_A_SEGMENT);
    }
}

#[test]
fn the_oldest_goes_when_the_memory_is_used_up_and_that_is_said() {
    let (log, mut writer) = log(8, Some(HOUR_NS));
    assert_eq!(log.history().map(|history| history.kept_ns), Some(0));
    let next = append_segments(&mut writer, 0, 8);
    let history = log.history().unwrap();
    assert_eq!((history.asked_ns, history.shortest_ns), (HOUR_NS, None));
    assert_eq!((history.first_packet, writer.statistics().segments_high_water), (0, 8));
    let next = append_segments(&mut writer, next, 12);
    let history = log.history().unwrap();
    assert!(history.shortest_ns.is_some_and(|age_ns| age_ns < HOUR_NS), "{history:?}");
    assert_eq!(history.first_packet, next - 8 * PACKETS_A_SEGMENT);
    assert_eq!(history.next_packet, next);
    let mut late = log.attach(from_oldest(Policy::Lossy)).unwrap();
    assert!(late.kept_ns() > 0);
    assert_eq!(drain(&mut late), Some(history.first_packet));
}

#[test]
fn what_is_older_than_asked_goes_and_the_working_set_stays_small() {
    let keep = Duration::from_millis(2);
    let (log, mut writer) = log(64, Some(keep.as_nanos() as u64));
    let mut next = 0;
    for _ in 0..if cfg!(miri) { 2 } else { 12 } {
        next = append_segments(&mut writer, next, 4);
        thread::sleep(keep);
    }
    // Of the four segments before the sleep, the last is younger: it just got its last packet.
    next = append_segments(&mut writer, next, 2);
    let mut late = log.attach(from_oldest(Policy::Lossy)).unwrap();
    assert!(drain(&mut late) >= Some(next - 3 * PACKETS_A_SEGMENT));
    assert!(writer.statistics().segments_high_water < 64, "old segments were used anew");
    assert_eq!(log.history().unwrap().shortest_ns, None, "the memory was large enough");
}

#[test]
fn a_lossless_reader_from_the_oldest_on_misses_nothing() {
    let (log, mut writer) = log(8, Some(HOUR_NS));
    let next = append_segments(&mut writer, 0, 7);
    let mut late = log.attach(from_oldest(Policy::Lossless)).unwrap();
    let mut sent = next;
    while append(&mut writer, sent) != Appended::Full {
        sent += 1;
    }
    drop(writer);
    assert_eq!(drain(&mut late), Some(0));
    let wanted = ReaderStatistics { delivered: sent, ..ReaderStatistics::default() };
    assert_eq!((late.statistics(), late.is_finished()), (wanted, true));
}

#[test]
fn a_pin_outlasts_the_history() {
    let (log, mut writer) = log(6, Some(HOUR_NS));
    let next = append_segments(&mut writer, 0, 2);
    let mut reader = log.attach(from_oldest(Policy::Lossy)).unwrap();
    let held = reader.hold_burst().unwrap();
    let next = append_segments(&mut writer, next, 20);
    assert_eq!(held.burst().first_packet(), 0);
    assert!(held.burst().packets().enumerate().all(|(n, found)| found.bytes() == packet(n as u64)));
    drop(held);
    drop(writer);
    drain(&mut reader);
    let statistics = reader.statistics();
    assert_eq!((statistics.delivered + statistics.missed, statistics.laps), (next, 1));
}

/// Readers attach at the oldest segment while the writer takes exactly that one.
#[test]
fn whoever_loses_the_race_for_the_oldest_gets_the_next() {
    let (log, mut writer) = log(4, Some(HOUR_NS));
    append_segments(&mut writer, 0, 1);
    let (is_over, entered) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let readers = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let mut reader = log.attach(from_oldest(Policy::Lossy)).unwrap();
                let Some(first) = drain_once(&mut reader) else { continue };
                let ReaderStatistics { delivered, missed, laps, .. } = reader.statistics();
                assert_eq!((missed, laps), (0, 0), "nothing was its own before its first packet");
                assert!(delivered > 0 && first.is_multiple_of(PACKETS_A_SEGMENT));
                entered.fetch_add(1, Ordering::Relaxed);
            }
        });
        let (mut next, mut segments) = (PACKETS_A_SEGMENT, 0);
        let enough = if cfg!(miri) { 8 } else { 30_000 };
        // A reader may have to wait longer than that for a core.
        let is_enough =
            |segments| segments >= enough && (cfg!(miri) || entered.load(Ordering::Relaxed) > 0);
        while !is_enough(segments) && !readers.is_finished() {
            next = append_segments(&mut writer, next, 1);
            segments += 1;
        }
        is_over.store(true, Ordering::Relaxed);
        readers.join().unwrap();
    });
}

fn drain_once(reader: &mut Reader) -> Option<u64> {
    let burst = reader.next_burst()?;
    for (number, found) in (burst.first_packet()..).zip(burst.packets()) {
        assert_eq!(found.bytes(), packet(number));
    }
    Some(burst.first_packet())
}
