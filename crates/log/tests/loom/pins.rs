//! Models a pin against the reuse of its segment: edges E2 and E3.
//!
//! A small model of each race is exhausted, and its twin without fences, or without order, fails at
//! the same size. Larger ones, in which readers follow the writer for longer, are bounded.

use burstline_log::protocol::{self, Entry, Word64};
use burstline_log::reuse::Reuse;
use loom::sync::Arc;
use loom::sync::atomic::Ordering;
use loom::thread;

use super::explore::{bounded, exhaust};
use super::{Log, Place, pages, pages_with_order};

/// The size of a model in which readers follow a writer.
#[derive(Clone, Copy)]
struct Following {
    segments: usize,
    readers: usize,
    /// The number of segments that the writer fills.
    laps: u64,
    /// How often each reader looks at the head.
    looks: u64,
}

/// The readers look at the head while the writer fills segments.
fn pin_against_reuse(size: Following, fenced: bool) {
    let log = Log::new(size.segments, fenced);
    let pages = pages(size.readers);
    let mut reuse = Reuse::new(size.segments as u32);
    assert!(log.write(&mut reuse, &pages));
    let read = |log: Arc<Log>, Place(page, _): Place| {
        move || {
            for _ in 0..size.looks {
                let head = log.head.load(Ordering::Acquire);
                log.read(&page, head);
            }
        }
    };
    let threads: Vec<_> =
        pages.iter().map(|page| thread::spawn(read(Arc::clone(&log), page.clone()))).collect();
    for _ in 0..size.laps {
        assert!(log.write(&mut reuse, &pages), "readers + 2 segments: one is always free");
    }
    for thread in threads {
        thread.join().unwrap();
    }
}

/// The writer walks through the whole pool, and takes what the reader looks at.
const ONCE: Following = Following { segments: 3, readers: 1, laps: 3, looks: 1 };
/// The writer takes what the reader has passed, and may look at again.
const TWICE: Following = Following { segments: 3, readers: 1, laps: 2, looks: 2 };
/// Both.
const TWICE_LONGER: Following = Following { segments: 3, readers: 1, laps: 3, looks: 2 };
const TWO_READERS: Following = Following { segments: 4, readers: 2, laps: 3, looks: 1 };

#[test]
fn e2_pin_against_reuse_one_reader() {
    exhaust(|| pin_against_reuse(ONCE, true));
}

#[test]
#[should_panic(expected = "Concurrent read and write accesses")]
fn e2_fails_without_fences() {
    exhaust(|| pin_against_reuse(ONCE, false));
}

#[test]
fn e2_pin_against_reuse_one_reader_twice() {
    exhaust(|| pin_against_reuse(TWICE, true));
}

#[test]
#[should_panic(expected = "Concurrent read and write accesses")]
fn e2_of_a_reader_that_looks_twice_fails_without_fences() {
    exhaust(|| pin_against_reuse(TWICE, false));
}

#[test]
fn e2_pin_against_reuse_one_reader_twice_bounded() {
    bounded(3, || pin_against_reuse(TWICE_LONGER, true));
}

#[test]
fn e2_pin_against_reuse_two_readers_bounded() {
    bounded(2, || pin_against_reuse(TWO_READERS, true));
}

/// The size of a model in which a reader enters the oldest segment of a full pool.
#[derive(Clone, Copy)]
struct Full {
    /// The length of the history, in segments; `u64::MAX` is longer than the pool.
    keep: u64,
    /// The reader has passed every segment, and comes back for the oldest.
    has_passed: bool,
    /// The number of segments that the writer then fills.
    laps: u64,
}

/// A reader enters the oldest segment while the writer takes it. The history is `keep` segments
/// long, as far as the pool suffices.
fn oldest_against_reuse(size: Full, fenced: bool) {
    let log = Log::new(3, fenced);
    let pages = pages(1);
    let mut reuse = Reuse::new(3).keeping(Some(size.keep));
    (0..3).for_each(|_| assert!(log.write(&mut reuse, &pages)));
    if size.has_passed {
        pages[0].0.cursor.store(9, Ordering::Relaxed);
    }
    let reader = {
        let (log, page) = (Arc::clone(&log), Arc::clone(&pages[0].0));
        thread::spawn(move || log.read_oldest(&page, 1))
    };
    for _ in 0..size.laps {
        assert!(log.write(&mut reuse, &pages), "one reader and three segments: one is free");
    }
    reader.join().unwrap();
    assert!(log.read_oldest(&pages[0].0, size.laps), "the newest is never retired");
}

/// The reader is lapped.
const LAPPED: Full = Full { keep: u64::MAX, has_passed: false, laps: 1 };
/// The oldest segment gets too old.
const AGED: Full = Full { keep: 2, has_passed: true, laps: 1 };

#[test]
fn e2_pin_of_the_oldest_against_reuse() {
    exhaust(|| oldest_against_reuse(LAPPED, true));
}

#[test]
#[should_panic(expected = "Concurrent read and write accesses")]
fn e2_of_the_oldest_fails_without_fences() {
    exhaust(|| oldest_against_reuse(LAPPED, false));
}

#[test]
fn e2_pin_of_the_oldest_against_age() {
    exhaust(|| oldest_against_reuse(AGED, true));
}

#[test]
#[should_panic(expected = "Concurrent read and write accesses")]
fn e2_of_the_aged_fails_without_fences() {
    exhaust(|| oldest_against_reuse(AGED, false));
}

#[test]
fn e2_pin_of_the_oldest_against_reuse_bounded() {
    bounded(3, || oldest_against_reuse(Full { laps: 2, ..LAPPED }, true));
}

#[test]
fn e2_pin_of_the_oldest_against_age_bounded() {
    bounded(3, || oldest_against_reuse(Full { laps: 2, has_passed: false, ..AGED }, true));
}

/// The reader moves its pin from the oldest segment to the next, while the writer finds the one
/// pinned and tries the other (I3).
fn pin_that_moves(fenced: bool) {
    let log = Log::new(3, fenced);
    let pages = pages(1);
    let mut reuse = Reuse::new(3);
    (0..3).for_each(|_| assert!(log.write(&mut reuse, &pages)));
    let reader = {
        let (log, page) = (Arc::clone(&log), Arc::clone(&pages[0].0));
        thread::spawn(move || (1..3).filter(|&number| log.read(&page, number)).count())
    };
    assert!(log.write(&mut reuse, &pages), "one reader and three segments: one is free");
    reader.join().unwrap();
}

#[test]
fn e2_pin_that_moves_against_reuse() {
    exhaust(|| pin_that_moves(true));
}

#[test]
#[should_panic(expected = "Concurrent read and write accesses")]
fn e2_of_a_pin_that_moves_fails_without_fences() {
    exhaust(|| pin_that_moves(false));
}

/// Two readers pin the oldest segment of a full pool while the writer looks for one. They do not
/// pass it, which [`released`] has.
fn two_pins_against_reuse(fenced: bool) {
    let log = Log::new(3, fenced);
    let pages = pages(2);
    let mut reuse = Reuse::new(3);
    (0..3).for_each(|_| assert!(log.write(&mut reuse, &pages)));
    let read = |Place(page, _): Place| {
        let log = Arc::clone(&log);
        thread::spawn(move || {
            if let Entry::Entered { segment, mark } = protocol::enter(&*log, &*page, 0, 1) {
                log.check_packet(1, segment, mark);
                protocol::release(&*page, 0);
            }
        })
    };
    let readers: Vec<_> = pages.iter().cloned().map(read).collect();
    assert!(log.write(&mut reuse, &pages), "both want the same segment, and two are free");
    for reader in readers {
        reader.join().unwrap();
    }
}

#[test]
fn e2_pins_of_two_readers_against_reuse() {
    exhaust(|| two_pins_against_reuse(true));
}

#[test]
#[should_panic(expected = "Concurrent read and write accesses")]
fn e2_of_two_readers_fails_without_fences() {
    exhaust(|| two_pins_against_reuse(false));
}

/// Two segments and one reader: each write after the first needs the segment that was released.
fn released(is_ordered: bool) {
    let log = Log::new(2, true);
    let pages = pages_with_order(1, is_ordered);
    let mut reuse = Reuse::new(2);
    assert!(log.write(&mut reuse, &pages));
    let reader = {
        let (log, page) = (Arc::clone(&log), Arc::clone(&pages[0].0));
        thread::spawn(move || log.read(&page, 1))
    };
    log.write(&mut reuse, &pages);
    log.write(&mut reuse, &pages);
    reader.join().unwrap();
    assert!(log.write(&mut reuse, &pages), "nothing is pinned any more");
}

#[test]
fn e3_release_lets_the_segment_be_reused() {
    exhaust(|| released(true));
}

#[test]
#[should_panic(expected = "Concurrent read and write accesses")]
fn e3_fails_without_its_order() {
    exhaust(|| released(false));
}
