//! Tests the log through its public interface: one writer, readers of every kind, one process.

use std::thread;

use burstline_log::{
    Appended, AttachError, CreateError, Flags, Log, LogConfig, MAX_WINDOW, Meta, Policy, Reader,
    ReaderConfig, Start, Writer,
};
use burstline_sys::memory::PageChoice;

const SEGMENT_BYTES: usize = 4096;
/// Enough packets to lap a log of 4 segments, of about 60 packets each, many times. Under miri,
/// which is a thousand times slower, enough to lap it once.
const MANY: u64 = if cfg!(miri) { 400 } else { 30_000 };

fn config(segments: usize) -> LogConfig {
    LogConfig {
        name: "test".into(),
        bytes: SEGMENT_BYTES * segments,
        segment_bytes: SEGMENT_BYTES,
        pages: PageChoice::Size4K,
        ..LogConfig::default()
    }
}

fn log(segments: usize) -> (Log, Writer) {
    Log::create(config(segments)).unwrap()
}

fn lossy() -> ReaderConfig {
    ReaderConfig::default()
}

fn lossless() -> ReaderConfig {
    ReaderConfig { policy: Policy::Lossless, ..ReaderConfig::default() }
}

/// Appends packet `number`, which determines its bytes and length.
fn append(writer: &mut Writer, number: u64) -> Appended {
    let bytes = packet(number);
    writer.append(&bytes, &Meta::new(1_000 + number, bytes.len() as u32, 3))
}

fn packet(number: u64) -> Vec<u8> {
    (0..number % 97).map(|at| (number * 13 + at) as u8).collect()
}

/// Reads until nothing is new; checks every byte. Returns the number of packets read.
fn drain(reader: &mut Reader) -> u64 {
    let mut read = 0;
    while let Some(burst) = reader.next_burst() {
        for (number, found) in (burst.first_packet()..).zip(burst.packets()) {
            assert_eq!(found.bytes(), packet(number));
            assert_eq!(found.time_ns(), 1_000 + number);
            read += 1;
        }
    }
    read
}

#[test]
fn nothing_is_seen_before_it_is_published() {
    let (log, mut writer) = log(4);
    let mut reader = log.attach(lossy()).unwrap();
    assert!(reader.next_burst().is_none());
    assert_eq!(append(&mut writer, 0), Appended::Whole);
    assert!(reader.next_burst().is_none());
    writer.publish();
    assert_eq!(reader.lag(), 1);
    assert_eq!(drain(&mut reader), 1);
    assert_eq!((reader.lag(), reader.is_finished()), (0, false));
    drop(writer);
    assert!(reader.next_burst().is_none());
    assert!(reader.is_finished());
}

#[test]
fn what_was_begun_since_is_a_part_of_the_log() {
    let (log, mut writer) = log(4);
    let [mut reader, behind] = [(); 2].map(|()| log.attach(lossy()).unwrap());
    let mut numbers = 0..MANY;
    let mut append_until = |percent| {
        while behind.filled_percent() < percent {
            let number = numbers.next().expect("enough for the whole log");
            assert_eq!(append(&mut writer, number), Appended::Whole);
            writer.publish();
        }
        behind.filled_percent()
    };
    assert_eq!([25, 50, 75, 100].map(&mut append_until), [25, 50, 75, 100]);
    drain(&mut reader);
    assert_eq!((reader.filled_percent(), behind.filled_percent()), (0, 100));
}

#[test]
fn a_log_without_packets_ends_too() {
    let (log, writer) = log(4);
    let mut reader = log.attach(lossless()).unwrap();
    drop(writer);
    assert!(reader.next_burst().is_none());
    assert!(reader.is_finished());
}

/// Returns how many segments, of 64, a writer used whose reader keeps up.
fn segments_in_turn(cycle_bytes: usize) -> u32 {
    let config = LogConfig { cycle_bytes: Some(cycle_bytes), ..config(64) };
    let (log, mut writer) = Log::create(config).unwrap();
    let mut reader = log.attach(lossy()).unwrap();
    for number in 0..MANY {
        assert_eq!(append(&mut writer, number), Appended::Whole);
        writer.publish();
        drain(&mut reader);
    }
    assert_eq!(reader.statistics().delivered, MANY);
    let statistics = writer.statistics();
    assert!(statistics.segments > 6, "{statistics:?}");
    statistics.segments_high_water
}

#[test]
fn as_many_segments_take_turns_as_were_asked_for() {
    assert!(segments_in_turn(0) <= 3);
    assert!(segments_in_turn(1) <= 3);
    assert_eq!(segments_in_turn(4 * SEGMENT_BYTES), 4);
    assert_eq!(segments_in_turn(6 * SEGMENT_BYTES - 1), 6);
}

#[test]
fn a_stopped_reader_costs_one_walk_and_its_misses_are_exact() {
    let (log, mut writer) = log(if cfg!(miri) { 4 } else { 16 });
    let mut stopped = log.attach(lossy()).unwrap();
    let mut reader = log.attach(lossy()).unwrap();
    append_and_follow(&mut writer, &mut reader, 0..10);
    assert_eq!(drain(&mut stopped), 10);
    append_and_follow(&mut writer, &mut reader, 10..MANY);
    assert_eq!(reader.statistics().missed, 0);
    drain(&mut stopped);
    let statistics = stopped.statistics();
    assert_eq!(statistics.delivered + statistics.missed, MANY);
    assert_eq!(statistics.laps, 1);
    assert!(statistics.missed > 0, "{statistics:?}");
}

fn append_and_follow(writer: &mut Writer, reader: &mut Reader, numbers: std::ops::Range<u64>) {
    for number in numbers {
        assert_eq!(append(writer, number), Appended::Whole);
        writer.publish();
        drain(reader);
    }
}

#[test]
fn a_lapped_reader_finishes_what_it_has_pinned() {
    let (log, mut writer) = log(4);
    let mut reader = log.attach(lossy()).unwrap();
    append_all(&mut writer, 0..5);
    let held = reader.hold_burst().unwrap();
    append_all(&mut writer, 5..MANY);
    for (number, found) in (0..).zip(held.burst().packets()) {
        assert_eq!(found.bytes(), packet(number));
    }
    // The rest of the pinned segment is still readable, although the writer has lapped it.
    assert_eq!(reader.next_burst().unwrap().first_packet(), 5);
    drop(held);
    drain(&mut reader);
    let statistics = reader.statistics();
    assert_eq!(statistics.delivered + statistics.missed, MANY);
    assert!(statistics.missed > 0);
}

fn append_all(writer: &mut Writer, numbers: std::ops::Range<u64>) {
    for number in numbers {
        assert_eq!(append(writer, number), Appended::Whole);
    }
    writer.publish();
}

#[test]
fn a_lossless_reader_holds_the_writer_up_and_misses_nothing() {
    let (log, mut writer) = log(4);
    let mut reader = log.attach(lossless()).unwrap();
    let mut sent = 0;
    while append(&mut writer, sent) != Appended::Full {
        sent += 1;
    }
    assert_eq!(writer.statistics().full, 1);
    assert_eq!(drain(&mut reader), sent);
    assert_eq!(append(&mut writer, sent), Appended::Whole);
    drop(writer);
    assert_eq!(drain(&mut reader), 1);
    assert_eq!(reader.statistics().missed, 0);
}

#[test]
fn past_the_deadline_a_lossless_reader_is_lossy() {
    let config = LogConfig { lossless_deadline_ns: Some(0), ..config(4) };
    let (log, mut writer) = Log::create(config).unwrap();
    let mut reader = log.attach(lossless()).unwrap();
    append_all(&mut writer, 0..MANY);
    assert_eq!(writer.statistics().demoted, 1);
    assert!(reader.is_demoted());
    drain(&mut reader);
    let statistics = reader.statistics();
    assert_eq!(statistics.delivered + statistics.missed, MANY);
    assert!(statistics.missed > 0);
}

#[test]
fn two_threads_hand_over_every_packet() {
    let packets = if cfg!(miri) { 400 } else { 300_000 };
    let (log, mut writer) = log(8);
    let mut all = log.attach(lossless()).unwrap();
    let mut some = log.attach(lossy()).unwrap();
    let all = thread::spawn(move || {
        read_to_end(&mut all);
        all.statistics()
    });
    let some = thread::spawn(move || {
        read_to_end(&mut some);
        some.statistics()
    });
    for number in 0..packets {
        while append(&mut writer, number) == Appended::Full {
            thread::yield_now();
        }
        if number % 7 == 0 {
            writer.publish();
        }
    }
    drop(writer);
    let (all, some) = (all.join().unwrap(), some.join().unwrap());
    assert_eq!((all.delivered, all.missed), (packets, 0));
    assert_eq!(some.delivered + some.missed, packets);
}

fn read_to_end(reader: &mut Reader) {
    while !reader.is_finished() {
        if drain(reader) == 0 {
            reader.wait(1_000_000_000);
        }
    }
}

#[test]
fn a_sleeper_is_woken() {
    let (log, mut writer) = log(4);
    let mut reader = log.attach(lossy()).unwrap();
    let reader = thread::spawn(move || {
        // An hour: if the wake-up were lost, the test would hang.
        while drain(&mut reader) == 0 {
            reader.wait(3_600_000_000_000);
        }
    });
    thread::sleep(std::time::Duration::from_millis(20));
    append_all(&mut writer, 0..1);
    reader.join().unwrap();
}

#[test]
fn a_window_of_pins_holds_so_many_segments() {
    let (log, mut writer) = log(16);
    let config = ReaderConfig { window: 3, ..lossless() };
    let mut reader = log.attach(config).unwrap();
    append_all(&mut writer, 0..500);
    let mut held: Vec<_> = (0..3).map(|_| reader.hold_burst().unwrap()).collect();
    assert!(reader.next_burst().is_none());
    assert!(reader.is_window_full() && !reader.is_finished());
    reader.wait(3_600_000_000_000); // returns soon: dropping a held burst wakes nobody
    let next = held[2].burst().first_packet() + held[2].burst().len() as u64;
    held.remove(0);
    let burst = reader.next_burst().unwrap();
    assert_eq!(burst.first_packet(), next);
    assert_eq!(burst.packet(0).bytes(), packet(next));
}

#[test]
fn rare_facts_come_back() {
    let (log, mut writer) = log(4);
    let mut reader = log.attach(lossy()).unwrap();
    let year_ns = 365 * 86_400 * 1_000_000_000_u64;
    let plain = Meta::new(50 * year_ns, 60, 1);
    let metas = [
        plain,
        Meta { time_ns: plain.time_ns - 1, ..plain }, // earlier than the first
        Meta { time_ns: plain.time_ns + 3 * year_ns, ..plain }, // years of silence
        Meta { time_ns: plain.time_ns + u64::from(u32::MAX), ..plain }, // the last that fits
        Meta { time_ns: plain.time_ns + u64::from(u32::MAX) + 1, ..plain },
        Meta { drops_before: 7, ..plain },
        Meta { original_length: 1514, flags: Flags::MERGED, ..plain },
    ];
    for meta in &metas {
        assert_eq!(writer.append(&[9; 60], meta), Appended::Whole);
    }
    writer.publish();
    let burst = reader.next_burst().unwrap();
    for (found, meta) in burst.packets().zip(&metas) {
        assert_eq!(found.bytes(), [9; 60]);
        assert_eq!(found.time_ns(), meta.time_ns);
        assert_eq!(found.drops_before(), meta.drops_before);
        assert_eq!(found.original_length(), meta.original_length as usize);
        assert_eq!(found.desc().flags().without(Flags::FACTS), meta.flags);
    }
    let with_facts = burst.packets().filter(|found| found.facts().is_some()).count();
    assert_eq!(with_facts, 5);
}

#[test]
fn the_longest_packets() {
    let (log, mut writer) = log(4);
    let mut reader = log.attach(lossy()).unwrap();
    let most = writer.max_packet_bytes();
    let long: Vec<u8> = (0..262_144_u32).map(|at| at as u8).collect();
    for length in [0, most, most + 1, long.len(), 0] {
        let meta = Meta::new(5, length as u32, 0);
        let appended = writer.append(&long[..length], &meta);
        let is_cut = length > most;
        assert_eq!(appended, if is_cut { Appended::Truncated } else { Appended::Whole });
        writer.publish();
        let burst = reader.next_burst().unwrap();
        let found = burst.packet(0);
        assert_eq!(found.bytes(), &long[..length.min(most)]);
        assert_eq!(found.original_length(), length);
    }
    assert_eq!(writer.statistics().truncated, 2);
    assert!(writer.reserve(most).is_some());
}

#[test]
fn filled_in_place() {
    let (log, mut writer) = log(4);
    let mut reader = log.attach(lossy()).unwrap();
    assert_eq!(writer.reserve(100).unwrap().length(), 100); // given back
    let mut slot = writer.reserve(10).unwrap();
    slot.write(0, b"hello");
    slot.write(5, b"world");
    slot.commit(&Meta::new(1, 10, 0));
    writer.publish();
    assert_eq!(reader.next_burst().unwrap().packet(0).bytes(), b"helloworld");
    assert_eq!(writer.statistics().packets, 1);
}

#[test]
fn where_a_reader_starts() {
    let (log, mut writer) = log(8);
    append_all(&mut writer, 0..3);
    let mut now = log.attach(ReaderConfig { start: Start::Now, ..lossy() }).unwrap();
    let mut segment = log.attach(lossy()).unwrap();
    append_all(&mut writer, 3..6);
    assert_eq!(now.next_burst().unwrap().first_packet(), 3);
    assert_eq!(segment.next_burst().unwrap().first_packet(), 0);
    drop(writer);
    assert_eq!((drain(&mut now), drain(&mut segment)), (0, 0));
    assert_eq!((now.statistics().missed, segment.statistics().missed), (0, 0));
}

#[test]
fn seats_are_counted_and_given_back() {
    let (log, _writer) = Log::create(LogConfig { max_readers: 2, ..config(6) }).unwrap();
    let one = log.attach(lossy()).unwrap();
    let _two = log.attach(lossy()).unwrap();
    assert!(matches!(log.attach(lossy()), Err(AttachError::Full { readers: 2 })));
    drop(one);
    let wide = ReaderConfig { window: 4, ..lossy() };
    let error = log.attach(wide).unwrap_err();
    assert!(matches!(error, AttachError::Pool { windows: 5, segments: 6 }), "{error}");
    let absurd = ReaderConfig { window: MAX_WINDOW + 1, ..lossy() };
    assert!(matches!(log.attach(absurd), Err(AttachError::Window { asked: 9, most: 8 })));
    assert!(log.attach(lossy()).is_ok());
}

#[test]
fn absurd_shapes_are_refused_with_their_numbers() {
    let refused = |config: LogConfig| Log::create(config).unwrap_err();
    let error = refused(LogConfig { segment_bytes: 5000, ..config(4) });
    assert!(matches!(error, CreateError::SegmentBytes { bytes: 5000, .. }), "{error}");
    let error = refused(config(2));
    assert!(matches!(error, CreateError::Segments { segments: 2, least: 3, .. }), "{error}");
    let error = refused(LogConfig { max_readers: 65, ..config(4) });
    assert!(matches!(error, CreateError::Readers { asked: 65, most: 64 }), "{error}");
    let (log, _writer) = Log::create(LogConfig { allow_lossless: false, ..config(4) }).unwrap();
    assert!(matches!(log.attach(lossless()), Err(AttachError::LosslessNotAllowed)));
}
