//! Tests reading of overwritten memory in one process, so that miri follows each access.
//! `tests/untrusted.rs` tests it with two processes.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;

use super::*;
use crate::writer::Meta;
use crate::{Appended, Log, LogConfig, ReaderConfig, Writer};

const SEGMENT_BYTES: usize = 4096;
const SEGMENTS: usize = 4;

fn log() -> (Log, Writer) {
    Log::create(LogConfig::small(SEGMENTS)).unwrap()
}

fn append(writer: &mut Writer, number: u64) {
    let meta = Meta {
        drops_before: u64::from(number.is_multiple_of(7)),
        ..Meta::new(number, (number % 90) as u32, 1)
    };
    assert_eq!(writer.append(&vec![number as u8; number as usize % 90], &meta), Appended::Whole);
}

fn attach(log: &Log) -> UntrustedReader {
    UntrustedReader::from(log.attach(ReaderConfig::default()).unwrap())
}

fn packet_word(reader: &UntrustedReader, index: usize) -> &AtomicU64 {
    assert!(index < SEGMENTS * SEGMENT_BYTES / WORD_BYTES);
    // SAFETY: inside the region, aligned; these tests and the reader access it atomically while
    // nothing else does.
    unsafe { reader.reader.memory.packets.cast::<AtomicU64>().add(index).as_ref() }
}

/// Uses everything in a burst that code might use.
fn use_all_of(burst: &Burst<'_>) -> u64 {
    let mut sum = burst.first_packet() + burst.len() as u64;
    let mut mix = 0;
    for packet in burst.packets() {
        assert_eq!(packet.bytes().len(), packet.length());
        assert!(packet.original_length() >= packet.length());
        sum += packet.drops_before() + u64::from(packet.port());
        mix ^= packet.time_ns();
        mix ^= packet.bytes().iter().map(|&byte| u64::from(byte)).sum::<u64>();
    }
    sum ^ mix
}

#[test]
fn what_a_sound_writer_wrote_is_read_as_it_is() {
    let (log, mut writer) = log();
    let mut reader = attach(&log);
    let mut read = 0;
    for number in 0..if cfg!(miri) { 300 } else { 20_000 } {
        append(&mut writer, number);
        if number % 5 != 4 {
            continue;
        }
        writer.publish();
        while let Some(burst) = reader.next_burst() {
            for (number, packet) in (burst.first_packet()..).zip(burst.packets()) {
                assert_eq!(packet.bytes(), vec![number as u8; number as usize % 90]);
                assert_eq!((packet.time_ns(), packet.port()), (number, 1));
                assert_eq!(packet.drops_before(), u64::from(number.is_multiple_of(7)));
            }
            read += burst.len() as u64;
        }
    }
    drop(writer);
    while let Some(burst) = reader.next_burst() {
        read += burst.len() as u64;
    }
    let wanted = ReaderStatistics { delivered: read, ..ReaderStatistics::default() };
    assert!(reader.is_finished());
    assert_eq!(reader.statistics(), wanted);
}

/// One desc points outside, in every possible way: the burst is discarded and counted.
#[test]
fn a_burst_with_one_wrong_desc_is_torn() {
    let desc = |offset, length, flags| Desc::new(offset, length, 0, flags);
    let limit = (SEGMENT_BYTES - 10 * DESC_BYTES) as u32;
    for wrong in [
        desc(u32::MAX, 60, Flags::NONE),
        desc(0, limit + 1, Flags::NONE),
        desc(limit, 1, Flags::NONE),
        desc(limit - 16, 16, Flags::FACTS),
    ] {
        for index in [0, 4, 9] {
            let (log, mut writer) = log();
            let mut reader = attach(&log);
            (0..10).for_each(|number| append(&mut writer, 60 + number % 2));
            writer.publish();
            let word = packet_word(&reader, (SEGMENT_BYTES - (index + 1) * DESC_BYTES) / 8);
            // SAFETY: both are 16 bytes, and any value is valid.
            let [place, _] = unsafe { std::mem::transmute::<Desc, [u64; 2]>(wrong) };
            word.store(place, Relaxed);
            assert!(reader.next_burst().is_none(), "{wrong:?} as desc {index}");
            let ReaderStatistics { delivered, missed, torn, .. } = reader.statistics();
            assert_eq!((delivered, missed, torn), (0, 10, 10));
        }
    }
}

#[test]
fn facts_that_cannot_be_are_moderated() {
    let facts = Facts::new(1, u64::MAX, 3);
    assert_eq!(facts.moderated(60), Facts::new(1, u32::MAX.into(), 60));
    let words = facts.words();
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    assert_eq!(Facts::read(&bytes), Some(facts));
}

#[test]
fn a_segment_that_was_reused_under_the_copy_is_torn() {
    let (log, mut writer) = log();
    let mut reader = attach(&log);
    (0..3).for_each(|number| append(&mut writer, number));
    writer.publish();
    let found = reader.reader.advance().unwrap();
    let control = &reader.reader.memory.control;
    assert!(reader.copy.take(&reader.reader.memory, &found).is_some());
    let next = crate::watermark::Watermark::open(found.current.sequence + 1).with_count(9);
    protocol::publish(control, found.current.segment, next);
    assert!(reader.copy.take(&reader.reader.memory, &found).is_none());
    let fewer = crate::watermark::Watermark::open(found.current.sequence).with_count(2);
    protocol::publish(control, found.current.segment, fewer);
    assert!(reader.copy.take(&reader.reader.memory, &found).is_none());
}

/// A random number generator that is good enough here. Source: Marsaglia, Xorshift RNGs, 2003.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Packet memory and every 64-bit word of control memory change while the reader reads.
#[test]
fn a_scribbler_beside_the_reader() {
    let rounds = if cfg!(miri) { 20 } else { 20_000 };
    let (log, mut writer) = log();
    let mut reader = attach(&log);
    (0..100).for_each(|number| append(&mut writer, number));
    writer.publish();
    let is_over = AtomicBool::new(false);
    let memory = std::sync::Arc::clone(&reader.reader.memory);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut noise = Noise(88_172_645_463_325_252);
            let words = SEGMENTS * SEGMENT_BYTES / WORD_BYTES;
            while !is_over.load(Relaxed) {
                let (value, at) = (noise.next(), noise.next() as usize);
                // SAFETY: aligned words inside the packet memory, which the test accesses only as
                // atomics.
                let word = unsafe { memory.packets.cast::<AtomicU64>().add(at % words).as_ref() };
                word.store(value, Relaxed);
                scribble_control(&memory.control, at as u32 % SEGMENTS as u32, value);
                // Miri switches threads only when they yield.
                thread::yield_now();
            }
        });
        let mut sum = 0_u64;
        for _ in 0..rounds {
            if let Some(burst) = reader.next_burst() {
                assert!(burst.len() <= SEGMENT_BYTES / DESC_BYTES);
                sum ^= use_all_of(&burst);
            }
            thread::yield_now();
        }
        is_over.store(true, Relaxed);
        std::hint::black_box(sum);
    });
}

fn scribble_control(control: &crate::control::ControlView, segment: u32, value: u64) {
    use crate::protocol::Control;
    let line = control.line(segment);
    // Plausible words as well as random ones: otherwise no segment would be entered again.
    let sequence = value % 6;
    let mark = crate::watermark::Watermark::open(sequence).with_count(value as u32 >> 20 & 0x3ff);
    match value >> 61 {
        0 => control.head().store(value, Relaxed),
        1 => control.head().store(sequence, Relaxed),
        2 => line.first_packet.store(value, Relaxed),
        3 => line.base_time_ns.store(value, Relaxed),
        4 => control.watermark(segment).store(value, Relaxed),
        5 => control.watermark(segment).store(mark.sealed().bits(), Relaxed),
        6 => control.watermark(segment).store(mark.bits(), Relaxed),
        _ => {
            let entry = crate::watermark::DirectoryEntry::new(sequence, segment);
            control.directory(sequence).store(entry.bits(), Relaxed);
        }
    }
}
