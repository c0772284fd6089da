//! Tests how long users hold up a writer, on a clock that these tests move.
//!
//! At each tick the source offers a packet as long as a segment; one that finds no segment is lost.

use std::cell::Cell;
use std::sync::Arc;

use crate::seat::SeatHandle;
use crate::{Appended, Log, LogConfig, Meta, Policy, Reader, ReaderConfig, Writer};

const TICK_NS: u64 = 1_000;
/// In ticks.
const DEADLINE: u64 = 1_000;
const TICKS: u64 = 40_000;
/// A reader that knows the deadline lets go here.
const ALMOST: u64 = DEADLINE / 10 * 9;
/// Of [`TICKS`], the most that one user may hold up the writer.
const MOST: u64 = DEADLINE + TICKS / 11;

thread_local! {
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
}

struct Bench {
    log: Log,
    writer: Writer,
    delivered: u64,
    lost: u64,
    /// Packets lost in sequence.
    held: u64,
}

impl Bench {
    fn new(deadline: Option<u64>) -> Self {
        let lossless_deadline_ns = deadline.map(|ticks| ticks * TICK_NS);
        let config = LogConfig { lossless_deadline_ns, ..LogConfig::small(8) };
        let (log, mut writer) = Log::create(config).unwrap();
        writer.patience.clock = || NOW_NS.get();
        Self { log, writer, delivered: 0, lost: 0, held: 0 }
    }

    fn attach(&self, user: u32) -> Reader {
        let config = ReaderConfig { policy: Policy::Lossless, ..ReaderConfig::default() };
        let shared = &self.log.shared;
        let entry = shared.take_seat(&config, true, shared.budgets.of(user)).unwrap();
        let handle = SeatHandle::own(entry, Arc::clone(shared));
        Reader::new(Arc::clone(&shared.memory), handle, config.start, None)
    }

    /// Offers a packet. Returns for how many ticks the writer has been held up.
    fn tick(&mut self) -> u64 {
        NOW_NS.set(NOW_NS.get() + TICK_NS);
        match self.writer.append(&[7; 4_000], &Meta::new(1, 4_000, 0)) {
            Appended::Full => {
                self.lost += 1;
                self.held += 1;
            }
            _ => {
                self.writer.publish();
                self.delivered += 1;
                self.held = 0;
            }
        }
        self.held
    }

    fn demoted(&self) -> u64 {
        self.writer.statistics().demoted
    }
}

fn drain(reader: &mut Reader) {
    while reader.next_burst().is_some() {}
}

#[test]
#[cfg_attr(miri, ignore = "tens of thousands of segments")]
fn a_reader_that_frees_a_segment_just_before_the_deadline_is_demoted() {
    let mut bench = Bench::new(Some(DEADLINE));
    let mut slow = bench.attach(7);
    for _ in 0..TICKS {
        if bench.tick() >= ALMOST {
            slow.next_burst();
        }
    }
    let lost = bench.lost;
    assert!(lost <= DEADLINE + 1, "{lost} of {TICKS} packets lost, at most {DEADLINE} + 1");
    assert!(slow.is_demoted() && bench.demoted() == 1);
}

#[test]
#[cfg_attr(miri, ignore = "tens of thousands of segments")]
fn attaching_anew_gives_no_new_budget() {
    let mut bench = Bench::new(Some(DEADLINE));
    let mut slow = bench.attach(7);
    for _ in 0..TICKS {
        if bench.tick() == ALMOST || slow.is_demoted() {
            slow = bench.attach(7);
        }
    }
    let lost = bench.lost;
    assert!(lost <= MOST, "{lost} of {TICKS} packets lost, at most {MOST}");
    assert!(bench.demoted() > 1 && lost > DEADLINE, "the budget comes back");
}

#[test]
#[cfg_attr(miri, ignore = "tens of thousands of segments")]
fn seats_of_one_user_have_one_budget() {
    const SEATS: usize = 3;
    let mut bench = Bench::new(Some(DEADLINE));
    let mut seats = [(); SEATS].map(|()| bench.attach(7));
    let mut turn = 0;
    for _ in 0..TICKS {
        if bench.tick() == ALMOST {
            turn = (turn + 1) % SEATS;
        }
        for (_, seat) in seats.iter_mut().enumerate().filter(|(at, _)| *at != turn) {
            drain(seat);
        }
    }
    let lost = bench.lost;
    assert!(lost <= DEADLINE + 1, "{lost} of {TICKS} packets lost, at most {DEADLINE} + 1");
    assert!(bench.demoted() >= 1);
}

#[test]
#[cfg_attr(miri, ignore = "tens of thousands of segments")]
fn another_users_reader_beside_them_loses_nothing() {
    let mut bench = Bench::new(Some(DEADLINE));
    let (mut slow, mut other) = (bench.attach(7), bench.attach(8));
    for _ in 0..TICKS {
        if bench.tick() >= ALMOST {
            slow.next_burst();
        }
        drain(&mut other);
    }
    assert!(bench.lost <= DEADLINE + 1, "{} packets lost", bench.lost);
    assert_eq!((slow.is_demoted(), other.is_demoted()), (true, false));
    let seen = other.statistics();
    assert_eq!((seen.delivered, seen.missed), (bench.delivered, 0));
}

#[test]
#[cfg_attr(miri, ignore = "tens of thousands of segments")]
fn a_reader_that_stalls_rarely_stays_lossless() {
    let mut bench = Bench::new(Some(DEADLINE));
    let mut reader = bench.attach(7);
    let mut stalls = 0;
    // Each stall holds the writer up for a twentieth of the time, less than an eleventh.
    for tick in 0..TICKS {
        let is_stalled = tick % DEADLINE > DEADLINE - DEADLINE / 20;
        stalls += u64::from(bench.tick() == 1);
        if !is_stalled {
            drain(&mut reader);
        }
    }
    assert!(!reader.is_demoted() && reader.statistics().missed == 0);
    assert_eq!(stalls, TICKS / DEADLINE);
    assert!(bench.lost > DEADLINE, "more than one budget in all: {} ticks", bench.lost);
}

#[test]
#[cfg_attr(miri, ignore = "tens of thousands of segments")]
fn a_source_that_is_silent_costs_a_reader_little() {
    let mut bench = Bench::new(Some(DEADLINE));
    let mut reader = bench.attach(7);
    for _ in 0..10 {
        for _ in 0..20 {
            bench.tick();
        }
        drain(&mut reader);
        NOW_NS.set(NOW_NS.get() + 2 * DEADLINE * TICK_NS);
    }
    assert!(!reader.is_demoted() && reader.statistics().missed == 0);
}

#[test]
#[cfg_attr(miri, ignore = "tens of thousands of segments")]
fn if_the_source_can_wait_each_time_has_a_deadline_of_its_own() {
    let mut bench = Bench::new(Some(DEADLINE));
    bench.writer.set_source_waits(true);
    let mut slow = bench.attach(7);
    for _ in 0..TICKS {
        if bench.tick() >= ALMOST {
            slow.next_burst();
        }
    }
    assert!(!slow.is_demoted() && slow.statistics().missed == 0);
    drain(&mut slow);
    let before = bench.lost;
    for _ in 0..2 * DEADLINE {
        bench.tick();
    }
    assert!(slow.is_demoted() && bench.lost - before <= DEADLINE);
}

#[test]
#[cfg_attr(miri, ignore = "tens of thousands of segments")]
fn without_a_deadline_the_writer_waits_forever() {
    let mut bench = Bench::new(None);
    let mut slow = bench.attach(7);
    for _ in 0..TICKS {
        if bench.tick() >= ALMOST {
            slow.next_burst();
        }
    }
    for _ in 0..3 * DEADLINE {
        bench.tick();
    }
    assert!(!slow.is_demoted() && slow.statistics().missed == 0);
}
