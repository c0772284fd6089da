//! Models a writer or a reader that dies between any two steps, as by SIGKILL, and the survivors.
//!
//! A step is one access to shared memory, or a fence. Each model runs for every number of steps
//! that a side can live: it dies before the step of that number, and loom tries all interleavings.
//! The last run is the one in which the side lives to the end.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use burstline_log::protocol::{self, Control, Entry, Payer, ReaderPage, Word64};
use burstline_log::reuse::{Reuse, Seat, Standing};
use burstline_log::watermark::Watermark;
use loom::sync::Arc;
use loom::sync::atomic::Ordering;
use loom::thread;

use super::explore::{bounded, exhaust};
use super::word::{Narrow, Word};
use super::{Log, Page, Place, pages};

/// The value of a packet that is being written.
const HALF: u64 = u64::MAX;

/// The panic payload that unwinds a dying thread.
struct Death;

/// A side of the log, and the number of steps it has left to live.
struct Mortal<S> {
    side: Arc<S>,
    left: Cell<u32>,
}

impl<S> Mortal<S> {
    fn step(&self) -> &S {
        let left = self.left.get().checked_sub(1);
        self.left.set(left.unwrap_or_else(|| resume_unwind(Box::new(Death))));
        &self.side
    }
}

impl Control for Mortal<Log> {
    type Word = Word;
    fn fence(&self) {
        self.step().fence();
    }
    fn light_fence(&self) {
        self.step().light_fence();
    }
    fn settle(&self) {
        self.step().settle();
    }
    fn let_time_pass(&self) {
        self.step().let_time_pass();
    }
    fn fence_everywhere(&self) -> bool {
        self.step().fence_everywhere()
    }
    fn segment_count(&self) -> u32 {
        self.side.segment_count()
    }
    fn head(&self) -> &Word {
        self.step().head()
    }
    fn directory(&self, sequence: u64) -> &Word {
        self.step().directory(sequence)
    }
    fn watermark(&self, segment: u32) -> &Word {
        self.step().watermark(segment)
    }
}

impl ReaderPage for Mortal<Page> {
    type Word = Narrow;
    type Wide = Word;
    fn pin(&self, slot: usize) -> &Narrow {
        self.step().pin(slot)
    }
    fn cursor(&self) -> &Word {
        self.step().cursor()
    }
    fn waiting(&self) -> &Narrow {
        self.step().waiting()
    }
}

impl Mortal<Log> {
    /// Like `Log::write`, for a packet that takes two steps. `is_early`: it is published before it
    /// is complete, which violates the protocol.
    fn write(&self, reuse: &mut Reuse, seats: &[Place], is_early: bool) {
        let segment = reuse.take(self, seats, 0, |_| false).expect("one is always free");
        let sequence = reuse.newest();
        protocol::open(self, sequence, segment);
        self.put(segment, HALF);
        let mark = Watermark::open(sequence).with_count(1).sealed();
        if is_early {
            protocol::publish(self, segment, mark);
        }
        self.put(segment, sequence);
        if !is_early {
            protocol::publish(self, segment, mark);
        }
    }

    fn put(&self, segment: u32, value: u64) {
        // SAFETY: loom fails the model if another thread accesses the packet.
        self.step().packets[segment as usize].with_mut(|packet| unsafe { *packet = value });
    }
}

/// Returns all packets that a new reader finds, from the oldest on; checks that they are complete.
fn walk(log: &Log) -> Vec<u64> {
    let (page, mut from, mut seen) = (&pages(1)[0].0, 1, Vec::new());
    loop {
        from = match protocol::enter_oldest(log, &**page, 0, from) {
            (sequence, Entry::Entered { segment, mark }) => {
                if log.read_entered(page, sequence, segment, mark) {
                    seen.push(sequence);
                }
                sequence + 1
            }
            (sequence, Entry::Lapped) => sequence,
            (_, Entry::NotYet) => return seen,
        };
    }
}

/// The number of steps that a side lives, and whether it died in any of a model's runs.
#[derive(Clone)]
struct Life {
    steps: u32,
    has_died: std::sync::Arc<AtomicBool>,
}

impl Life {
    /// Does some work, or a part of it if life is too short.
    fn spend<S>(&self, side: &Arc<S>, work: impl FnOnce(&Mortal<S>)) -> bool {
        let mortal = Mortal { side: Arc::clone(side), left: Cell::new(self.steps) };
        match catch_unwind(AssertUnwindSafe(|| work(&mortal))) {
            Ok(()) => true,
            Err(cause) if cause.is::<Death>() => {
                self.has_died.store(true, Relaxed);
                false
            }
            Err(cause) => resume_unwind(cause),
        }
    }
}

/// Runs a model for lives of 0, 1, ... steps, until one is long enough. At least `least` of them
/// must be too short. Returns how many executions all took, and prints it.
fn at_each_step(least: u32, model: impl Fn(Life) -> u64) -> u64 {
    let mut executions = 0;
    let dies = |&steps: &u32| {
        let has_died = std::sync::Arc::<AtomicBool>::default();
        executions += model(Life { steps, has_died: std::sync::Arc::clone(&has_died) });
        has_died.load(Relaxed)
    };
    let steps = (0..).take_while(dies).count();
    assert!(steps >= least as usize, "{steps} steps, at least {least} looked for");
    println!("died before each of {steps} steps, explored in {executions} executions");
    executions
}

/// Checks what a writer left that published `[1, published]`: the newest is never taken away, and
/// there are no gaps before it.
fn check_rest(log: &Log, published: u64) {
    let seen = walk(log);
    assert_eq!(seen.last().copied().unwrap_or(0), published);
    assert!(seen.is_sorted_by(|one, next| one + 1 == *next), "{seen:?}");
}

/// The size of a model in which a reader follows a writer that may die, and the writer's flaws.
#[derive(Clone, Copy)]
struct Following {
    /// Segments that are filled beforehand.
    filled: u64,
    /// Segments that the writer fills, if it lives that long.
    laps: u64,
    /// How often the reader looks at the head.
    looks: u64,
    fenced: bool,
    /// The writer publishes half a packet.
    is_early: bool,
}

/// The writer fills three segments, and reuses the first if it has been read.
const FROM_THE_START: Following =
    Following { filled: 0, laps: 3, looks: 1, fenced: true, is_early: false };
/// The writer reuses the first segment after the reader passed it, and may look at it again.
const TWICE: Following = Following { filled: 1, laps: 2, looks: 2, fenced: true, is_early: false };

fn writer_dies(life: &Life, size: Following) -> impl Fn() + Sync + Send + 'static {
    let life = life.clone();
    move || {
        let log = Log::new(3, size.fenced);
        let seats = pages(1);
        let mut reuse = Reuse::new(3);
        (0..size.filled).for_each(|_| assert!(log.write(&mut reuse, &seats)));
        let writer = {
            let (log, life, seats) = (Arc::clone(&log), life.clone(), seats.clone());
            thread::spawn(move || {
                let mut published = size.filled;
                life.spend(&log, |mortal| {
                    for _ in 0..size.laps {
                        mortal.write(&mut reuse, &seats, size.is_early);
                        published = reuse.newest();
                    }
                });
                published
            })
        };
        for _ in 0..size.looks {
            log.read(&seats[0].0, log.head.load(Ordering::Acquire));
        }
        check_rest(&log, writer.join().unwrap());
    }
}

#[test]
fn a_writer_dies_and_what_it_published_stays_whole() {
    at_each_step(20, |life| exhaust(writer_dies(&life, FROM_THE_START)));
}

#[test]
fn a_writer_dies_beside_a_reader_that_follows_it() {
    at_each_step(14, |life| exhaust(writer_dies(&life, TWICE)));
}

#[test]
#[should_panic(expected = "Concurrent read and write accesses")]
fn without_fences_a_writer_that_dies_has_written_what_a_follower_reads() {
    at_each_step(0, |life| exhaust(writer_dies(&life, Following { fenced: false, ..TWICE })));
}

#[test]
fn a_writer_dies_beside_a_reader_that_follows_it_bounded() {
    let size = Following { looks: 2, ..FROM_THE_START };
    at_each_step(20, |life| bounded(2, writer_dies(&life, size)));
}

#[test]
#[should_panic(expected = "rewritten")]
fn a_writer_that_dies_with_half_a_packet_published_is_caught() {
    let size = Following { is_early: true, ..FROM_THE_START };
    at_each_step(0, |life| exhaust(writer_dies(&life, size)));
}

/// A writer takes the oldest segment of a full pool while a reader enters it. Either may die.
fn both_die(writer: &Life, reader: &Life, fenced: bool) -> impl Fn() + Sync + Send + 'static {
    let (writer, reader) = (writer.clone(), reader.clone());
    move || {
        let log = Log::new(3, fenced);
        let seats = pages(1);
        let mut reuse = Reuse::new(3);
        (0..3).for_each(|_| assert!(log.write(&mut reuse, &seats)));
        let thread = spawn_mortal_reader(&log, &seats[0], &reader, &[1]);
        let mut published = 3;
        writer.spend(&log, |mortal| {
            mortal.write(&mut reuse, &seats, false);
            published = 4;
        });
        thread.join().unwrap();
        check_rest(&log, published);
    }
}

#[test]
fn a_writer_and_a_reader_die_at_the_segment_that_both_want() {
    at_each_step(3, |reader| at_each_step(9, |writer| exhaust(both_die(&writer, &reader, true))));
}

#[test]
#[should_panic(expected = "Concurrent read and write accesses")]
fn without_fences_a_writer_that_dies_has_written_what_is_pinned() {
    at_each_step(3, |reader| at_each_step(9, |writer| exhaust(both_die(&writer, &reader, false))));
}

/// A writer dies while a reader goes to sleep. The reader wakes up, and after its timeout it finds
/// everything published.
fn writer_dies_beside_a_sleeper(life: Life, fenced: bool) -> u64 {
    exhaust(move || {
        let log = Log::new(2, fenced);
        let seats = pages(1);
        let reader = {
            let (log, page) = (Arc::clone(&log), Arc::clone(&seats[0].0));
            thread::spawn(move || {
                assert!(protocol::announce_sleep(&*log, &*page, Payer::Time));
                protocol::watch(&*log, 0).count() > 0
            })
        };
        let (mut is_published, mut is_waking) = (false, false);
        let is_alive = life.spend(&log, |mortal| {
            mortal.write(&mut Reuse::new(2), &seats, false);
            is_published = true;
            is_waking = protocol::has_sleeper(mortal, seats.iter().map(Place::page));
        });
        log.interrupt.switch_away(); // the kernel does this for a dead thread
        let has_news = reader.join().unwrap();
        assert!(!is_alive || has_news || is_waking, "asleep for ever");
        assert_eq!(walk(&log).len(), usize::from(is_published));
    })
}

#[test]
fn a_writer_dies_beside_a_sleeper() {
    at_each_step(7, |life| writer_dies_beside_a_sleeper(life, true));
}

#[test]
#[should_panic(expected = "asleep for ever")]
fn without_fences_a_sleeper_beside_a_writer_is_lost() {
    at_each_step(0, |life| writer_dies_beside_a_sleeper(life, false));
}

/// A seat whose reader the writer waits for.
#[derive(Clone)]
struct Lossless(Place);

impl Seat for Lossless {
    type Page = Page;
    fn page(&self) -> &Page {
        self.0.page()
    }
    fn window(&self) -> usize {
        1
    }
    fn is_lossless(&self) -> bool {
        true
    }
    fn standing(&self) -> &Standing {
        self.0.standing()
    }
}

/// The head, whatever its number is.
const HEAD: u64 = 0;

/// The reader looks at some segments, if it lives that long.
fn spawn_mortal_reader(
    log: &Arc<Log>,
    seat: &Place,
    life: &Life,
    looks: &'static [u64],
) -> thread::JoinHandle<()> {
    let (log, page, life) = (Arc::clone(log), Arc::clone(&seat.0), life.clone());
    thread::spawn(move || {
        life.spend(&page, |page| {
            for &look in looks {
                let sequence = if look == HEAD { log.head.load(Ordering::Acquire) } else { look };
                if let Entry::Entered { segment, mark } = protocol::enter(&*log, page, 0, sequence)
                {
                    log.check_packet(sequence, segment, mark);
                    protocol::pass(page, sequence + 1);
                    protocol::release(page, 0);
                }
            }
        });
    })
}

/// A reader of the head may die while the writer continues. A lossy one blocks nobody, although its
/// seat is still taken. `segments`: 3 are enough for one reader.
fn reader_dies(life: Life, segments: usize) -> u64 {
    exhaust(move || {
        let log = Log::new(segments, true);
        let seats = pages(1);
        let mut reuse = Reuse::new(segments as u32);
        assert!(log.write(&mut reuse, &seats));
        let reader = spawn_mortal_reader(&log, &seats[0], &life, &[HEAD, HEAD]);
        assert!(log.write(&mut reuse, &seats), "held up by a reader");
        reader.join().unwrap();
        for _ in 0..3 {
            assert!(log.write(&mut reuse, &seats), "held up by a reader");
        }
        assert_eq!(walk(&log).last(), Some(&reuse.newest()));
    })
}

#[test]
fn a_reader_dies_and_nobody_else_notices() {
    at_each_step(6, |life| reader_dies(life, 3));
}

#[test]
#[should_panic(expected = "held up by a reader")]
fn a_dead_reader_in_a_log_without_a_segment_for_it_is_caught() {
    at_each_step(0, |life| reader_dies(life, 2));
}

/// The writer waits for a lossless reader, dead or alive. Once the seat is given back, the writer
/// continues, and the next reader misses no packet that is still in the log.
fn lossless_reader_dies(life: Life, is_given_back: bool) -> u64 {
    exhaust(move || {
        let log = Log::new(3, true);
        let mut seats: Vec<_> = pages(1).into_iter().map(Lossless).collect();
        let mut reuse = Reuse::new(3);
        assert!(log.write(&mut reuse, &seats));
        let reader = spawn_mortal_reader(&log, &seats[0].0, &life, &[HEAD, HEAD]);
        log.write(&mut reuse, &seats);
        reader.join().unwrap();
        while reuse.newest() < 4 && log.write(&mut reuse, &seats) {}
        if is_given_back {
            seats.clear();
        }
        for _ in 0..3 {
            assert!(log.write(&mut reuse, &seats), "held up by the dead");
        }
        assert_eq!(walk(&log).last(), Some(&reuse.newest()));
    })
}

#[test]
fn a_lossless_reader_dies_and_its_seat_is_given_back() {
    at_each_step(6, |life| lossless_reader_dies(life, true));
}

#[test]
#[should_panic(expected = "held up by the dead")]
fn a_dead_lossless_reader_whose_seat_is_kept_is_caught() {
    at_each_step(0, |life| lossless_reader_dies(life, false));
}
