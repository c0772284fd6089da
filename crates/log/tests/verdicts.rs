//! Tests verdicts between a log's publisher and readers of all kinds.
#![cfg(not(miri))]

#[path = "common/config.rs"]
mod config;
#[path = "common/seats.rs"]
mod seats;

use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use burstline_log::{
    Appended, AttachError, Log, LogConfig, Meta, REPLACEMENT_BYTES_MAX, ReaderConfig, RemoteSeat,
    Ruling, UntrustedReader, VERDICTS_WAITING_MAX, Verdict, VerdictError, VerdictGiver,
    VerdictTaker, Writer,
};
use burstline_sys::memory::Mapping;

use config::of_segments;
use seats::received;

const SEGMENT_BYTES: usize = 64 << 10;

/// Offsets of the parts of a column, in words, and the size of the room for replacements.
const PLACES_AT: usize = VERDICTS_WAITING_MAX as usize;
const ROOM_AT: usize = 2 * PLACES_AT;
const ROOM_BYTES: usize = 1 << 20;

fn log() -> (Log, Writer) {
    let config = of_segments("verdicts", 8, SEGMENT_BYTES);
    Log::create(LogConfig { takes_verdicts: true, ..config }).unwrap()
}

struct Giving {
    seat: RemoteSeat,
    reader: UntrustedReader,
    verdicts: VerdictGiver,
}

impl Giving {
    fn at(log: &Log) -> Self {
        let mut seat = log.attach_remote(ReaderConfig::default()).unwrap();
        seat.take_verdicts().unwrap();
        let mut files = received(seat.files());
        let column = files.verdicts.take().unwrap();
        let reader = UntrustedReader::attach(files).unwrap();
        let verdicts = reader.verdicts(column).unwrap();
        Self { seat, reader, verdicts }
    }

    /// Returns the column's words, as a mad reader has them.
    fn words(&self) -> Words {
        let file: OwnedFd = self.seat.files().verdicts.unwrap().try_clone_to_owned().unwrap();
        Words(Mapping::attach_writable(file, None).unwrap())
    }
}

struct Words(Mapping);

impl Words {
    fn put(&self, at: usize, word: u64) {
        assert!((at + 1) * 8 <= self.0.bytes());
        // SAFETY: inside the mapping, which is page-aligned; every access is atomic.
        let place = unsafe { self.0.as_ptr().cast::<AtomicU64>().add(at).as_ref() };
        place.store(word, Relaxed);
    }
}

fn append(writer: &mut Writer, number: u64) {
    let bytes = [number as u8; 60];
    assert_eq!(writer.append(&bytes, &Meta::new(number, 60, 0)), Appended::Whole);
    writer.publish();
}

#[test]
fn each_verdict_counts_for_its_packet_alone() {
    let (log, mut writer) = log();
    let mut taker = VerdictTaker::new(&log);
    assert!(!taker.has_changed() && !taker.has_giver());
    let mut giving = Giving::at(&log);
    assert!(taker.has_changed() && taker.has_giver() && !taker.has_changed());
    (0..6).for_each(|number| append(&mut writer, number));
    let mut seen = 0;
    while let Some(burst) = giving.reader.next_burst() {
        seen += burst.len() as u64;
        assert_eq!(taker.look(burst.first_packet()), None, "none was given");
    }
    assert_eq!(seen, 6);
    let bytes: Vec<u8> = (0..100).collect();
    let verdicts = [
        Verdict::Pass,
        Verdict::Drop,
        Verdict::Replace(&bytes),
        Verdict::Reject,
        Verdict::PassFlow,
    ];
    for (number, verdict) in (0..).zip(verdicts) {
        giving.verdicts.give(number, verdict).unwrap();
    }
    let ruled: Vec<_> = (0..5).map(|number| taker.look(number).unwrap()).collect();
    let [Ruling::Pass, Ruling::Drop, Ruling::Replace(place), Ruling::Reject, Ruling::PassFlow] =
        ruled[..]
    else {
        panic!("{ruled:?}")
    };
    let mut copy = vec![1];
    taker.replacement(place, &mut copy);
    assert_eq!((copy[0], &copy[1..]), (1, &bytes[..]));
    assert_eq!(taker.look(5), None);
    // Numbers that use the same places, later or earlier.
    for other in [VERDICTS_WAITING_MAX, 7 * VERDICTS_WAITING_MAX + 2] {
        assert_eq!(taker.look(other), None, "{other}");
    }
    giving.verdicts.give(5 + VERDICTS_WAITING_MAX, Verdict::Pass).unwrap();
    assert_eq!(taker.look(5), None, "one for a packet that has yet to come");
    // After two verdicts, the one that is stored counts.
    giving.verdicts.give(5, Verdict::Pass).unwrap();
    giving.verdicts.give(5, Verdict::Drop).unwrap();
    assert_eq!(taker.look(5), Some(Ruling::Drop));
    taker.settle(6);
    assert_eq!(giving.verdicts.settled(), 6);
}

#[test]
fn hostile_words_are_invalid_or_nobodys() {
    let (log, _writer) = log();
    let giving = Giving::at(&log);
    let mut taker = VerdictTaker::new(&log);
    assert!(taker.has_changed());
    let words = giving.words();
    for code in 6..=255 {
        words.put(3, 3 << 8 | code);
        assert_eq!(taker.look(3), Some(Ruling::Invalid), "{code}");
    }
    for word in [0, 3, 2 << 8 | 1, u64::MAX, 3 << 8, (3 + VERDICTS_WAITING_MAX) << 8 | 1] {
        words.put(3, word);
        assert_eq!(taker.look(3), None, "{word:#x}");
    }
    words.put(3, 3 << 8 | 3);
    let (end, longest) = (ROOM_BYTES as u64, REPLACEMENT_BYTES_MAX as u64);
    for (offset, length) in [
        (0, 0),
        (0, 13),
        (0, longest + 1),
        (0, u64::from(u32::MAX)),
        (8, 60),
        (end, 14),
        (end - 16, 17),
        (u64::from(u32::MAX) - 15, 60),
        (u64::from(u32::MAX), u64::from(u32::MAX)),
    ] {
        words.put(PLACES_AT + 3, offset << 32 | length);
        assert_eq!(taker.look(3), Some(Ruling::Invalid), "{offset} {length}");
    }
    for (offset, length) in [(0, 14), (end - 16, 16), (end - longest - 1, longest)] {
        words.put(PLACES_AT + 3, offset << 32 | length);
        words.put(ROOM_AT + (offset as usize + length as usize - 1) / 8, u64::MAX);
        let Some(Ruling::Replace(place)) = taker.look(3) else { panic!("{offset} {length}") };
        let mut copy = Vec::new();
        taker.replacement(place, &mut copy);
        assert_eq!((copy.len() as u64, copy.last()), (length, Some(&0xff)));
    }
}

#[test]
fn replacements_wait_for_room_until_older_packets_are_settled() {
    let (log, _writer) = log();
    let giving = Giving::at(&log);
    let mut taker = VerdictTaker::new(&log);
    assert!(taker.has_changed());
    let bytes = vec![7; REPLACEMENT_BYTES_MAX];
    let most = (ROOM_BYTES / bytes.len()) as u64;
    for number in 0..most {
        giving.verdicts.give(number, Verdict::Replace(&bytes)).unwrap();
    }
    let full = giving.verdicts.give(most, Verdict::Replace(&bytes));
    let waiting = most as usize;
    assert_eq!(full, Err(VerdictError::NoRoom { waiting, bytes: bytes.len() }));
    assert_eq!(taker.look(most), None, "nothing was given");
    taker.settle(2);
    giving.verdicts.give(most, Verdict::Replace(&bytes)).unwrap();
    for wrong in [0, 13, REPLACEMENT_BYTES_MAX + 1] {
        let error = giving.verdicts.give(0, Verdict::Replace(&vec![0; wrong])).unwrap_err();
        assert!(matches!(error, VerdictError::Length { bytes, .. } if bytes == wrong));
    }
}

#[test]
fn one_reader_gives_verdicts_and_the_next_when_it_has_gone() {
    let (log, _writer) = log();
    let mut taker = VerdictTaker::new(&log);
    let first = Giving::at(&log);
    let mut second = log.attach_remote(ReaderConfig::default()).unwrap();
    assert!(matches!(second.take_verdicts(), Err(AttachError::HasGiver)));
    assert!(second.files().verdicts.is_none());
    drop(second);
    assert!(taker.has_changed() && taker.has_giver(), "a reader without verdicts changes nothing");
    first.verdicts.give(0, Verdict::Pass).unwrap();
    let Giving { seat, verdicts, .. } = first;
    assert!(!taker.is_changing());
    drop(seat);
    assert!(taker.is_changing() && taker.look(0) == Some(Ruling::Pass), "what it said is known");
    assert!(taker.has_changed() && !taker.has_giver() && !taker.is_changing());
    assert_eq!(taker.look(0), None, "its column has gone with it");
    verdicts.give(1, Verdict::Pass).unwrap();
    let _next = Giving::at(&log);
    assert!(taker.has_changed() && taker.has_giver());
    assert_eq!((taker.look(0), taker.look(1)), (None, None));
    let (plain, _writer) = Log::create(LogConfig::default()).unwrap();
    let mut seat = plain.attach_remote(ReaderConfig::default()).unwrap();
    assert!(matches!(seat.take_verdicts(), Err(AttachError::NoVerdicts)));
}

#[test]
fn a_column_is_a_column_and_the_log_stays_read_only() {
    let (log, _writer) = log();
    let giving = Giving::at(&log);
    let files = received(giving.seat.files());
    for sealed in [files.packets, files.control] {
        assert!(giving.reader.verdicts(sealed).is_err(), "it is sealed against writing");
    }
    assert!(giving.reader.verdicts(files.page).is_err(), "it is too small");
}
