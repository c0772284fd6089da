//! Loom models of the hand-over, one for each edge of `protocol`, over the production code of
//! `protocol` and `reuse`.
//!
//! Run with `make loom`. Each edge has a model that loom exhausts: it tries every order of the
//! threads' steps, and every value that a load may return. Each such model has a twin without its
//! fences or its order, or with a broken rule. The twin must fail at the same size, which shows
//! that the race is still in the model.
//!
//! | edge | exhausted | executions |
//! |---|---|---|
//! | E1 | a packet and its count | 14 |
//! | E1 | a streamed packet and its count | 441 |
//! | E2 | a reader of the head; the writer walks through the pool | 12,627 |
//! | E2 | a reader looks twice; the writer takes what it has passed | 30,513 |
//! | E2 | a reader enters the oldest segment, which the writer takes | 3,613 |
//! | E2 | the same, for a segment that gets too old | 3,613 |
//! | E2 | a reader moves its pin, and the writer tries both segments | 6,255 |
//! | E2 | two readers enter the segment that the writer takes | 269,948 |
//! | E2 | the writer takes a segment without the lock of the seats | 345 |
//! | E3 | a segment is released and reused | 821 |
//! | E4 | a sleeper that waits, one that pays; each | 411 |
//! | E5, E6 | two verdicts with replacements in one place | 476 |
//! | E7 | a promise | 6 |
//! | E7 | what a leader names is there for followers | 305 |
//! | deaths | of a writer that fills three segments | 6,944 |
//! | deaths | of a writer, beside a reader that follows it | 211,200 |
//! | deaths | of a writer and a reader at the segment that both want | 13,385 |
//! | deaths | of a writer beside a sleeper | 159 |
//! | deaths | of a lossy reader, of a lossless one; each | 507 |
//!
//! To see these numbers, run the program that `make loom` builds with `--nocapture`. Deaths are
//! those before each step, added up.
//!
//! Larger models are bounded: orders with more than two or three preemptions are left out. Their
//! names end in `_bounded`. In them the writer fills more segments beside the readers.
//!
//! Loom remembers the last seven values of a word. No word of an exhausted model gets more while
//! threads run beside each other, so no old value is left out.
#![cfg(loom)]

#[path = "loom/deaths.rs"]
mod deaths;
#[path = "loom/explore.rs"]
mod explore;
#[path = "loom/follow.rs"]
mod follow;
#[path = "loom/pins.rs"]
mod pins;
#[path = "loom/unlocked.rs"]
mod unlocked;
#[path = "loom/verdicts.rs"]
mod verdicts;
#[path = "loom/word.rs"]
mod word;

use burstline_log::protocol::{self, Control, Entry, Payer, ReaderPage, Word64};
use burstline_log::reuse::{Reuse, Seat, Standing};
use burstline_log::watermark::Watermark;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use loom::thread;

use explore::exhaust;
use word::{Narrow, Word};

struct Page {
    pin: Narrow,
    cursor: Word,
    waiting: Narrow,
}

impl ReaderPage for Page {
    type Word = Narrow;
    type Wide = Word;
    fn pin(&self, _slot: usize) -> &Narrow {
        &self.pin
    }
    fn cursor(&self) -> &Word {
        &self.cursor
    }
    fn waiting(&self) -> &Narrow {
        &self.waiting
    }
}

#[derive(Clone)]
struct Place(Arc<Page>, std::sync::Arc<Standing>);

impl Seat for Place {
    type Page = Page;
    fn page(&self) -> &Page {
        &self.0
    }
    fn window(&self) -> usize {
        1
    }
    fn is_lossless(&self) -> bool {
        false
    }
    fn standing(&self) -> &Standing {
        &self.1
    }
}

/// Models what membarrier(2) does to the writer's thread: an interrupt between two of its
/// instructions, which executes a fence. The passing of time has the same effect on its store
/// buffer. A thread that ended executed a fence when it was switched out.
struct Interrupt {
    asked: AtomicU32,
    done: AtomicU32,
}

impl Interrupt {
    /// Takes an interrupt between two of the writer's instructions.
    fn take(&self) {
        if self.asked.load(Ordering::Acquire) != 0 {
            self.switch_away();
        }
    }

    fn switch_away(&self) {
        fence(Ordering::SeqCst);
        self.done.store(1, Ordering::Release);
    }

    /// Interrupts the writer and waits, like a caller of membarrier(2).
    fn ask_and_wait(&self) {
        fence(Ordering::SeqCst);
        self.asked.store(1, Ordering::Release);
        while self.done.load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
        fence(Ordering::SeqCst);
    }
}

/// A write-combining buffer, which another thread drains at a time of its choice. This is how other
/// cores see a streaming store.
struct Stream {
    packet: AtomicU64,
    is_out: AtomicU32,
}

impl Stream {
    /// Drains the buffer.
    fn leave(&self, packet: u64) {
        self.packet.store(packet, Ordering::Relaxed);
        self.is_out.store(1, Ordering::Release);
    }

    /// Waits until the buffer is drained, like `sfence`.
    fn drain(&self) {
        while self.is_out.load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
    }
}

/// A log whose segments hold one packet each: their sequence number.
struct Log {
    fenced: bool,
    interrupt: Interrupt,
    stream: Stream,
    head: Word,
    directory: Vec<Word>,
    watermarks: Vec<Word>,
    packets: Vec<UnsafeCell<u64>>,
}

// SAFETY: loom checks every access to the cells, which is the purpose of the models.
unsafe impl Sync for Log {}
// SAFETY: loom checks every access to the cells, from any thread.
unsafe impl Send for Log {}

impl Log {
    fn new(segments: usize, fenced: bool) -> Arc<Self> {
        Self::with_order(segments, fenced, true)
    }

    /// `is_ordered`: the words of the log keep their memory ordering.
    fn with_order(segments: usize, fenced: bool, is_ordered: bool) -> Arc<Self> {
        let words = |n| (0..n).map(|_| Word::new(is_ordered)).collect();
        Arc::new(Self {
            fenced,
            interrupt: Interrupt { asked: AtomicU32::new(0), done: AtomicU32::new(0) },
            stream: Stream { packet: AtomicU64::new(0), is_out: AtomicU32::new(0) },
            head: Word::new(is_ordered),
            directory: words(segments.next_power_of_two()),
            watermarks: words(segments),
            packets: (0..segments).map(|_| UnsafeCell::new(0)).collect(),
        })
    }

    /// Fills one segment, like `Writer`. Returns false if every segment is pinned.
    fn write<S: Seat>(&self, reuse: &mut Reuse, seats: &[S]) -> bool {
        let Some(segment) = reuse.take(self, seats, self.head.load(Ordering::Relaxed), |_| false)
        else {
            return false;
        };
        let sequence = reuse.newest();
        protocol::open(self, sequence, segment);
        self.put(segment, sequence);
        true
    }

    /// Writes and publishes the packet of a segment that is open.
    fn put(&self, segment: u32, sequence: u64) {
        // SAFETY: loom fails the model if another thread accesses the packet.
        self.packets[segment as usize].with_mut(|packet| unsafe { *packet = sequence });
        let mark = Watermark::open(sequence).with_count(1).sealed();
        protocol::publish(self, segment, mark);
    }

    /// Reads the segment of `sequence`, if it can be entered, and checks its packet.
    fn read(&self, page: &Page, sequence: u64) -> bool {
        let Entry::Entered { segment, mark } = protocol::enter(self, page, 0, sequence) else {
            return false;
        };
        self.read_entered(page, sequence, segment, mark)
    }

    /// Reads the oldest segment from `sequence` on that can be entered, and checks its packet.
    fn read_oldest(&self, page: &Page, sequence: u64) -> bool {
        match protocol::enter_oldest(self, page, 0, sequence) {
            (sequence, Entry::Entered { segment, mark }) => {
                self.read_entered(page, sequence, segment, mark)
            }
            _ => false,
        }
    }

    fn read_entered(&self, page: &Page, sequence: u64, segment: u32, mark: Watermark) -> bool {
        let has_packet = self.check_packet(sequence, segment, mark);
        protocol::pass(page, sequence + 1);
        protocol::release(page, 0);
        has_packet
    }

    fn check_packet(&self, sequence: u64, segment: u32, mark: Watermark) -> bool {
        let has_packet = mark.count() > 0;
        if has_packet {
            // SAFETY: loom fails the model if another thread writes the packet at the same time.
            let packet = self.packets[segment as usize].with(|packet| unsafe { *packet });
            assert_eq!(packet, sequence, "a pinned segment was rewritten");
        }
        has_packet
    }
}

impl Control for Log {
    type Word = Word;
    fn fence(&self) {
        if self.fenced {
            fence(Ordering::SeqCst);
        }
    }
    fn light_fence(&self) {
        self.interrupt.take();
    }
    fn let_time_pass(&self) {
        if self.fenced {
            self.interrupt.ask_and_wait(); // the writer's store buffer drains in the meantime
        }
    }
    fn settle(&self) {
        if self.fenced {
            self.stream.drain();
        }
    }
    fn fence_everywhere(&self) -> bool {
        if self.fenced {
            self.interrupt.ask_and_wait();
        }
        true
    }
    fn segment_count(&self) -> u32 {
        self.watermarks.len() as u32
    }
    fn head(&self) -> &Word {
        &self.head
    }
    fn directory(&self, sequence: u64) -> &Word {
        &self.directory[sequence as usize & (self.directory.len() - 1)]
    }
    fn watermark(&self, segment: u32) -> &Word {
        &self.watermarks[segment as usize]
    }
}

fn pages(count: usize) -> Vec<Place> {
    pages_with_order(count, true)
}

/// Returns pages of readers that want everything. `is_ordered`: their words keep their ordering.
fn pages_with_order(count: usize, is_ordered: bool) -> Vec<Place> {
    let page = || {
        let page = Page {
            pin: Narrow::new(is_ordered),
            cursor: Word::new(is_ordered),
            waiting: Narrow::new(is_ordered),
        };
        page.cursor.store(1, Ordering::Relaxed);
        Place(Arc::new(page), std::sync::Arc::default())
    };
    (0..count).map(|_| page()).collect()
}

fn sleep(payer: Payer, fenced: bool) {
    let log = Log::new(2, fenced);
    let pages = pages(1);
    let mut reuse = Reuse::new(2);
    let segment = reuse.take(&*log, &pages, 0, |_| false).unwrap();
    protocol::open(&*log, 1, segment);
    let reader = {
        let (log, page) = (Arc::clone(&log), Arc::clone(&pages[0].0));
        thread::spawn(move || {
            assert!(protocol::announce_sleep(&*log, &*page, payer));
            protocol::watch(&*log, segment).count() > 0
        })
    };
    log.interrupt.take();
    protocol::publish(&*log, segment, Watermark::open(1).with_count(1));
    let pages = pages.iter().map(|Place(page, _)| &**page);
    let writer_saw_sleeper = protocol::has_sleeper(&*log, pages);
    log.interrupt.switch_away();
    let reader_saw_news = reader.join().unwrap();
    assert!(writer_saw_sleeper || reader_saw_news, "asleep for ever");
}

/// A packet is streamed and published; a reader that sees the count sees the packet.
fn streamed(fenced: bool) {
    let log = Log::new(2, fenced);
    let segment = Reuse::new(2).take(&*log, &pages(1), 0, |_| false).unwrap();
    protocol::open(&*log, 1, segment);
    let buffer = {
        let log = Arc::clone(&log);
        thread::spawn(move || log.stream.leave(7))
    };
    let reader = {
        let log = Arc::clone(&log);
        thread::spawn(move || {
            if protocol::watch(&*log, segment).count() > 0 {
                let packet = log.stream.packet.load(Ordering::Relaxed);
                assert_eq!(packet, 7, "a count was there before its packet");
            }
        })
    };
    protocol::publish_streamed(&*log, segment, Watermark::open(1).with_count(1));
    buffer.join().unwrap();
    reader.join().unwrap();
}

fn published(is_ordered: bool) {
    let log = Log::with_order(2, true, is_ordered);
    let pages = pages(1);
    let writer = {
        let (log, pages) = (Arc::clone(&log), pages.clone());
        thread::spawn(move || log.write(&mut Reuse::new(2), &pages))
    };
    log.read(&pages[0].0, 1);
    assert!(writer.join().unwrap());
    assert!(log.read(&pages[0].0, 1), "published and joined, so it is seen");
}

#[test]
fn e1_publish() {
    exhaust(|| published(true));
}

#[test]
#[should_panic(expected = "Concurrent read and write accesses")]
fn e1_fails_without_its_order() {
    exhaust(|| published(false));
}

#[test]
fn e1_streamed_packets_are_there_before_their_count() {
    exhaust(|| streamed(true));
}

#[test]
#[should_panic(expected = "before its packet")]
fn e1_fails_where_nothing_is_settled() {
    exhaust(|| streamed(false));
}

#[test]
fn e4_sleep_where_time_passes() {
    exhaust(|| sleep(Payer::Time, true));
}

#[test]
#[should_panic(expected = "asleep for ever")]
fn e4_fails_without_fences() {
    exhaust(|| sleep(Payer::Time, false));
}

#[test]
fn e4_sleep_where_the_sleeper_pays() {
    exhaust(|| sleep(Payer::Sleeper, true));
}

#[test]
#[should_panic(expected = "asleep for ever")]
fn e4_fails_where_nobody_pays() {
    exhaust(|| sleep(Payer::Sleeper, false));
}
