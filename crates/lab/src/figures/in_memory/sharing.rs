//! Measures the cost of readers in other processes: the hand-off to one, a writer with several, and
//! a writer with a stopped one.

use std::cell::{Cell, RefCell, RefMut};

use burstline_log::Policy;
use burstline_sys::memory::PageKind;
use rustix::process::{Pid, Signal, kill_process};

use crate::compared::{Better, Outcome};
use crate::contest::Rounds;
use crate::figures::{Comparison, Context};
use crate::ours::{Ours, SEGMENT_BYTES};
use crate::pages;
use crate::sharing::{Shared, SharedRun};
use crate::traffic::{Frames, Traffic};

/// As in the hand-off figures.
const LOG_BYTES: usize = 8 << 20;
const PACKET_BYTES: usize = 60;
/// Minimum number of pairs for the figure with a stopped reader.
const STOPPED_PAIRS: usize = 21;

/// The common part of the three figures.
struct Bench<'c> {
    comparison: Comparison<'c>,
    traffic: Traffic,
    /// The packets that the writer copies. If `None`, it builds packets in place.
    received: Option<Frames>,
    packets: u64,
    expected: u64,
}

impl<'c> Bench<'c> {
    fn new(context: &'c Context) -> Self {
        let traffic = Traffic::new(PACKET_BYTES);
        let packets = if context.smoke { 8192 } else { 4 << 20 };
        let expected = traffic.expected(packets);
        let comparison = context.begin();
        Self { comparison, traffic, received: None, packets, expected }
    }

    /// Makes the writer copy its packets from where they were received.
    fn copying(self) -> Self {
        Self { received: Some(Frames::new(&self.traffic, self.packets)), ..self }
    }

    /// Runs `shared` with its first `listening` readers. Every account must be complete, and a
    /// reader that missed nothing must have the right sum.
    fn run(&self, shared: &mut Shared, listening: usize) -> Result<SharedRun, String> {
        let packets = self.packets;
        let (traffic, received) = (&self.traffic, self.received.as_ref());
        let run =
            shared.run(self.comparison.context.cores, traffic, received, packets, listening)?;
        for account in &run.accounts {
            if account.delivered + account.missed != packets {
                return Err(format!("{account:?} does not account for {packets} packets"));
            }
            if account.missed == 0 && account.sum != self.expected {
                return Err(format!("{account:?}: the sum is not {:#x}", self.expected));
            }
        }
        Ok(run)
    }

    /// Converts a time to Mpps.
    fn rate(&self, seconds: f64) -> f64 {
        self.packets as f64 / seconds / 1e6
    }

    fn outcome(self, rounds: Rounds, pages: [PageKind; 2], more: Vec<String>) -> Outcome {
        let mut details = vec![format!(
            "{} packets a run of {PACKET_BYTES} bytes; logs of {} KiB in segments of {} KiB",
            self.packets,
            LOG_BYTES >> 10,
            SEGMENT_BYTES >> 10
        )];
        details.extend(more);
        self.comparison.outcome("Mpps", Better::Higher, rounds, details).in_pages(pages)
    }
}

/// Creates two logs with the same kind of page.
fn two_logs() -> Result<(Shared, Shared), String> {
    pages::with_best(2 * LOG_BYTES, |pages| {
        Ok((Shared::create(LOG_BYTES, pages)?, Shared::create(LOG_BYTES, pages)?))
    })
}

/// `cross-process-60`: ours has a lossless reader in another process, the peer in this one.
pub(crate) fn cross_process(context: &Context) -> Result<Outcome, String> {
    let bench = Bench::new(context);
    let (mut other, mut own) = pages::with_best(2 * LOG_BYTES, |pages| {
        Ok::<_, String>((Shared::create(LOG_BYTES, pages)?, Ours::create(LOG_BYTES, pages)?))
    })?;
    other.add_reader(context.cores, Policy::Lossless)?;
    let (packets, expected) = (bench.packets, bench.expected);
    let rounds = context.alternate(
        context.runs,
        || {
            let run = bench.run(&mut other, 1)?;
            match run.accounts[0].missed {
                0 => Ok(bench.rate(run.seconds)),
                missed => Err(format!("a lossless reader missed {missed} packets")),
            }
        },
        || {
            let run = own.hand_off(context.cores, &bench.traffic, packets);
            match run.sum == expected {
                true => Ok(bench.rate(run.seconds)),
                false => Err(format!("summed up {:#x}, not {expected:#x}", run.sum)),
            }
        },
    )?;
    let details = vec![
        "ours: to a lossless reader in another process; peer: to one in this process".to_owned(),
        "until both ends are done; every packet summed up on either side".to_owned(),
    ];
    let pages = [other.page(), own.page()];
    Ok(bench.outcome(rounds, pages, details))
}

/// `share-readers-N`: a writer that builds packets in place; ours has N lossy readers, the peer
/// none. `share-readers-N-copy`: the writer copies each packet from uncached memory, as from a
/// kernel's ring.
pub(crate) fn readers<const READERS: usize>(
    context: &Context,
    name: &str,
) -> Result<Outcome, String> {
    let bench = Bench::new(context);
    let bench = if name.ends_with("-copy") { bench.copying() } else { bench };
    let make = || {
        let (mut read, mut alone) = two_logs()?;
        for _ in 0..READERS {
            read.add_reader(context.cores, Policy::Lossy)?;
        }
        bench.run(&mut read, READERS)?;
        bench.run(&mut alone, 0)?;
        Ok((read, alone))
    };
    let both = Renewed::new(&make)?;
    let (mut written, mut delivered, mut missed) = (0, [0; READERS], [0; READERS]);
    let rounds = context.alternate(
        context.runs,
        || {
            let run = bench.run(&mut both.turn()?.0, READERS)?;
            written += bench.packets;
            for (index, account) in run.accounts.iter().enumerate() {
                delivered[index] += account.delivered;
                missed[index] += account.missed;
            }
            Ok(bench.rate(run.writer_seconds))
        },
        || Ok(bench.rate(bench.run(&mut both.turn()?.1, 0)?.writer_seconds)),
    )?;
    let readers = match READERS {
        1 => "1 lossy reader in another process".to_owned(),
        _ => format!("{READERS} lossy readers in other processes, which share that core"),
    };
    let origin = match &bench.received {
        Some(frames) => format!("copied from frames in {} MiB", frames.bytes() >> 20),
        None => "made in place".to_owned(),
    };
    let details = vec![
        format!("packets {origin}; {RENEWED}"),
        format!(
            "the writer's top rate on core {}; ours: with {readers}, core {}; peer: alone",
            context.cores.producer, context.cores.consumer
        ),
        format!("of {written} packets the readers read {delivered:?} and missed {missed:?}"),
    ];
    let (read, alone) = both.last();
    let pages = [read.page(), alone.page()];
    Ok(bench.outcome(rounds, pages, details))
}

/// `stopped-reader`: a writer with a lossless reader. On our side another reader is stopped while
/// it holds a segment. All readers are other processes.
pub(crate) fn stopped(context: &Context) -> Result<Outcome, String> {
    let bench = Bench::new(context);
    let packets = bench.packets;
    let make = || {
        let (mut beside, mut without) = two_logs()?;
        for shared in [&mut beside, &mut without] {
            shared.add_reader(context.cores, Policy::Lossless)?;
        }
        beside.add_reader(context.cores, Policy::Lossy)?;
        // It reads part of the log, may be lapped, and holds its current segment.
        bench.run(&mut beside, 1)?;
        beside.read_alone(1, packets / 2, packets)?;
        let stopped = Stopped::stop(beside.process(1))?;
        for shared in [&mut beside, &mut without] {
            bench.run(shared, 1)?;
        }
        Ok((beside, without, stopped))
    };
    let both = Renewed::new(&make)?;
    let (mut written, mut lost) = (0, 0);
    let pairs = if context.smoke { context.runs } else { context.runs.max(STOPPED_PAIRS) };
    let rounds = context.alternate(
        pairs,
        || {
            let mut logs = both.turn()?;
            let run = bench.run(&mut logs.0, 1)?;
            written += packets;
            lost += run.accounts[0].missed;
            holds_one(&logs.0)?;
            Ok(bench.rate(run.writer_seconds))
        },
        || Ok(bench.rate(bench.run(&mut both.turn()?.1, 1)?.writer_seconds)),
    )?;
    if lost > 0 {
        return Err(format!("the good reader lost {lost} packets"));
    }
    let (mut beside, without, stopped) = both.last();
    drop(stopped);
    let last = beside.written();
    let late = beside.read_alone(1, last, packets)?;
    let details = vec![
        format!(
            "the writer's rate with a lossless reader, {pairs} pairs; ours: beside a lossy reader \
             that is stopped (SIGSTOP) and holds a segment; peer: without that one; {RENEWED}"
        ),
        format!("of {written} packets the good reader lost {lost}"),
        format!(
            "the one stopped last, once it continued, read {} and missed {} of {last}",
            late.delivered, late.missed
        ),
        format!("segments used: ours {}, peer {}", used(&beside), used(&without)),
    ];
    let pages = [beside.page(), without.page()];
    Ok(bench.outcome(rounds, pages, details))
}

/// Fails if the second reader of `shared` holds no segment.
fn holds_one(shared: &Shared) -> Result<(), String> {
    let victim = shared.process(1);
    let statuses = shared.statuses();
    let status = statuses.iter().find(|status| status.pid == victim);
    match status.map(|status| status.held_segments) {
        Some(1) => Ok(()),
        held => Err(format!("the stopped reader holds {held:?}")),
    }
}

/// Rounds after which the logs of both sides are recreated. The physical pages of a log, and so its
/// cache conflicts, are random and fixed for its lifetime.
const RENEWED_EACH: u32 = 3;
const RENEWED: &str = "new logs and readers every 3 rounds";

/// The logs of both sides, recreated from time to time.
struct Renewed<'m, T> {
    make: &'m dyn Fn() -> Result<T, String>,
    made: RefCell<T>,
    turns: Cell<u32>,
}

impl<'m, T> Renewed<'m, T> {
    fn new(make: &'m dyn Fn() -> Result<T, String>) -> Result<Self, String> {
        Ok(Self { make, made: RefCell::new(make()?), turns: Cell::new(0) })
    }

    /// Returns the logs for one side's turn in a round.
    fn turn(&self) -> Result<RefMut<'_, T>, String> {
        let turn = self.turns.replace(self.turns.get() + 1);
        if turn > 0 && turn.is_multiple_of(2 * RENEWED_EACH) {
            *self.made.borrow_mut() = (self.make)()?;
        }
        Ok(self.made.borrow_mut())
    }

    fn last(self) -> T {
        self.made.into_inner()
    }
}

fn used(shared: &Shared) -> u32 {
    shared.statistics().segments_high_water
}

/// A stopped process; resumed on drop.
struct Stopped(Pid);

impl Stopped {
    fn stop(process: u32) -> Result<Self, String> {
        let process = Pid::from_raw(process as i32).ok_or("process 0")?;
        let stopped = kill_process(process, Signal::STOP);
        stopped.map_err(|error| format!("stopping a reader: {error}"))?;
        Ok(Self(process))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT); // it is our child, so it exists
    }
}
