//! Spreads packets over workers by flow, in memory: logs against scattered balancers.
//!
//! ```text
//!   producer -- a log for each worker, or one that all read       --> workers, in turn    ours
//!            -- objects of a pool, a ring of pointers for each    -->                     rivals
//! ```
//!
//! One core spreads, and the other plays all workers in turn; both spin. Packets are published to a
//! worker when 32 wait. The case sets the number of workers and, if not uniform, the interleaving
//! of the flows: see [`INTERLEAVINGS`].

pub(crate) mod sides;

use burstline_engine::Mode;
use burstline_sys::memory::PageChoice;

use crate::arena::Arena;
use crate::contenders::dpdk::{is_built, version};
use crate::contenders::pipeline::{cores, traffic};
use crate::contenders::shapes::{Key, Pool, best, key};
use crate::contenders::{Adapter, Job, ROUND_PACKETS, Sample, timed};
use crate::contest::go_on;
use crate::pages;
use crate::rivals::balancer::SpreadWork;
use crate::rivals::{BURST, pool};
use crate::scenario::Work;
use crate::threads::Cores;
use crate::traffic::Traffic;
use sides::{INTERLEAVINGS, LOG_BYTES, Ours, Scattered, expected, rate};

/// Bytes per turn, so that each takes about the same time; and the maximum number of packets.
const TURN_BYTES: usize = 128 << 20;
/// A try of a pool uses this fraction of the packets.
const TRIED: u64 = 8;

/// Objects per pool, and cache size of a core.
const POOLS: [u32; 5] = [1023, 2047, 4095, 8191, 16_383];
const CACHES: [u32; 2] = [256, 512];

/// Length of the longest frame, with FCS.
const LONGEST: u32 = 1518;

/// Packets per turn when instructions are counted: enough that most of a worker's pointers move 32
/// at a time, as on two cores.
const TURN_PACKETS: usize = 512;

/// A balancer contender.
pub(crate) struct Spreader {
    name: &'static str,
    about: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ours(Mode),
    Scattered,
    Dpdk,
}

impl Spreader {
    /// Copies each packet into its worker's log.
    pub(crate) const COPY: Self = Self {
        name: "burstline-spread-copy",
        about: "each packet into the log of its worker, together 8 MiB in segments of 64 KiB",
        kind: Kind::Ours(Mode::Copy),
    };
    /// All packets are in one log, and each worker reads its part.
    pub(crate) const SHARE: Self = Self {
        name: "burstline-spread-share",
        about: "one log of 8 MiB in segments of 64 KiB that all workers read",
        kind: Kind::Ours(Mode::Share),
    };
    /// The scattered design, as well as we can write it.
    pub(crate) const SCATTERED: Self = Self {
        name: "scattered-spread",
        about: "objects of a pool 2,240 bytes apart, an SP/SC ring of 1,024 pointers for each \
                worker, bursts of 32",
        kind: Kind::Scattered,
    };
    /// The NUMA document's design, on DPDK.
    pub(crate) const DPDK: Self = Self {
        name: "dpdk-spread",
        about: "the NUMA document's balancer: mbufs, a ring of 1,024 pointers for each worker, \
                bulk calls, prefetch0 4 ahead",
        kind: Kind::Dpdk,
    };
}

impl Adapter for Spreader {
    fn name(&self) -> &'static str {
        self.name
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Spread]
    }

    fn version(&self) -> String {
        if self.kind == Kind::Dpdk { version() } else { crate::contenders::own_version() }
    }

    fn can_run(&self) -> Result<(), String> {
        if self.kind == Kind::Dpdk { is_built() } else { Ok(()) }
    }

    fn command(&self, _: &Job<'_>) -> String {
        self.about.to_owned()
    }

    fn measure(&self, job: &Job<'_>) -> Result<Sample, String> {
        let (turn, key) = (Turn::of(job)?, key(self.name, job));
        match self.kind {
            Kind::Ours(mode) => ours(&turn, mode),
            Kind::Scattered => scattered(&turn, &key),
            #[cfg(feature = "dpdk")]
            Kind::Dpdk => dpdk::measure(&turn, &key),
            #[cfg(not(feature = "dpdk"))]
            Kind::Dpdk => is_built().map(|()| Sample::default()),
        }
    }
}

/// The settings of a turn.
struct Turn<'a> {
    job: &'a Job<'a>,
    cores: Cores,
    traffic: Traffic,
    workers: usize,
    /// An index into [`INTERLEAVINGS`].
    interleaving: usize,
    packets: u64,
}

impl<'a> Turn<'a> {
    fn of(job: &'a Job<'a>) -> Result<Self, String> {
        let case = job.case.unwrap_or_default();
        let (workers, flows) = case.split_once('-').unwrap_or((case, INTERLEAVINGS[0].0));
        let workers =
            workers.parse().map_err(|_| format!("{case:?} is not a number of workers"))?;
        let interleaving = INTERLEAVINGS.iter().position(|(name, _)| *name == flows);
        let interleaving = interleaving.ok_or_else(|| format!("{flows:?} are no flows"))?;
        if job.size_bytes > LONGEST {
            return Err(format!("frames have at most {LONGEST} bytes"));
        }
        let (cores, traffic) = (cores(job)?, traffic(job)?);
        let most = (TURN_BYTES / traffic.length()) as u64;
        let packets = whole(job.packets.map_or(most, |packets| packets.min(most)));
        Ok(Self { job, cores, traffic, workers, interleaving, packets })
    }

    fn flows(&self) -> impl Fn(u32) -> (u32, usize) + Sync + use<> {
        let (flows, workers) = (INTERLEAVINGS[self.interleaving].1, self.workers);
        move |counter| flows(counter, workers)
    }

    /// Returns the Mpps for this many packets, if the sum is right.
    fn run(
        &self,
        packets: u64,
        balance: impl FnOnce(u64) -> crate::rivals::Run,
    ) -> Result<f64, String> {
        go_on(self.job.stop)?;
        let sum = expected(&self.traffic, &self.flows(), packets, self.workers).0;
        rate("a balancer", balance(packets), packets, sum)
    }

    fn fewer(&self) -> u64 {
        whole(self.packets / TRIED)
    }

    fn sample(&self, mpps: f64) -> Sample {
        timed::spinning(mpps, 2.0, self.job.size_bytes)
    }
}

fn whole(packets: u64) -> u64 {
    packets.max(1).next_multiple_of(BURST as u64)
}

fn ours(turn: &Turn<'_>, mode: Mode) -> Result<Sample, String> {
    let create = |pages| Ours::create(mode, turn.workers, pages);
    let mut ours = pages::with_best(LOG_BYTES, create)?;
    let flows = turn.flows();
    let work = SpreadWork { traffic: &turn.traffic, flows: &flows };
    let mut run =
        |packets| turn.run(packets, |packets| ours.balance(turn.cores, work, packets, packets));
    run(turn.fewer())?;
    let mut sample = turn.sample(run(turn.packets)?);
    sample.set("log_segments", "segments used", f64::from(ours.segments()));
    sample.lies_in(ours.page);
    Ok(sample)
}

fn scattered(turn: &Turn<'_>, key: &Key<'_>) -> Result<Sample, String> {
    let bytes = POOLS[POOLS.len() - 1] as usize * pool::STRIDE_BYTES + sides::RINGS_BYTES;
    let mut arena = Arena::in_best_pages(bytes)?;
    let flows = turn.flows();
    let mut run = |pool: Pool, packets| {
        arena.clear();
        let mut rival = Scattered::new(&arena, pool, turn.workers);
        let work = SpreadWork { traffic: &turn.traffic, flows: &flows };
        turn.run(packets, |packets| rival.balance(turn.cores, work, packets))
    };
    // Packets that wait for workers also hold objects.
    let fits = |pool: &Pool| pool.cache * 3 <= pool.objects;
    let pools = Pool::of_each(&POOLS, &CACHES, false).into_iter().filter(fits).collect::<Vec<_>>();
    let pool = best(key, &pools, |pool| run(pool, turn.fewer()))?;
    run(pool, turn.fewer())?;
    let mut sample = turn.sample(run(pool, turn.packets)?);
    pool.describe(&mut sample);
    sample.lies_in(arena.page());
    Ok(sample)
}

#[cfg(feature = "dpdk")]
mod dpdk {
    use super::{CACHES, Key, Pool, Sample, Turn, best};
    use crate::rivals::dpdk;
    use crate::rivals::dpdk::balance::Balance;

    /// Mbufs per pool.
    const POOLS: [u32; 4] = [2047, 4095, 8191, 16_383];

    pub(crate) fn measure(turn: &Turn<'_>, key: &Key<'_>) -> Result<Sample, String> {
        dpdk::start()?;
        let (workers, interleaving) = (turn.workers as u32, turn.interleaving as u32);
        let run = |rival: &Balance, packets| {
            turn.run(packets, |packets| {
                rival.balance(turn.cores, &turn.traffic, packets, interleaving)
            })
        };
        let pools = [Pool::of_each(&POOLS, &[0], true), Pool::of_each(&POOLS, &CACHES, true)];
        let pool = best(key, &pools.concat(), |pool| {
            let rival = Balance::new(pool.shape(), workers)?;
            let rate = run(&rival, turn.fewer())?;
            rival.end().map(|()| rate)
        })?;
        let rival = Balance::new(pool.shape(), workers)?;
        run(&rival, turn.fewer())?;
        let mut sample = turn.sample(run(&rival, turn.packets)?);
        pool.describe(&mut sample);
        let is_huge = rival.is_huge();
        rival.end()?;
        sample.lies_in(dpdk::page(is_huge));
        Ok(sample)
    }

    /// Runs the rival in turns on this thread.
    pub(crate) fn rounds(traffic: &super::Traffic, packets: u64) -> Result<(), String> {
        dpdk::start_to_count()?;
        let mut rival = Balance::new(dpdk::Shape::COUNTED, super::COUNTED_WORKERS as u32)?;
        rival.take_turns(traffic, packets, super::TURN_PACKETS);
        rival.end()
    }
}

/// Workers and packet bytes of pieces whose instructions are counted.
const COUNTED_WORKERS: usize = 4;
const COUNTED_BYTES: usize = 60;

/// Runs one side on one core with uniform flows, [`ROUND_PACKETS`] a round; `None`: unknown piece.
pub(crate) fn do_rounds(piece: &str, rounds: u64) -> Option<Result<(), String>> {
    let (traffic, packets) = (Traffic::new(COUNTED_BYTES), rounds * ROUND_PACKETS);
    let mode = match piece {
        "spread-copy" => Mode::Copy,
        "spread-share" => Mode::Share,
        #[cfg(feature = "dpdk")]
        "spread-mbuf" => return Some(dpdk::rounds(&traffic, packets)),
        _ => return None,
    };
    let flows = |counter| INTERLEAVINGS[0].1(counter, COUNTED_WORKERS);
    let ours = Ours::create(mode, COUNTED_WORKERS, PageChoice::Size4K);
    Some(ours.map(|mut ours| {
        ours.take_turns(SpreadWork { traffic: &traffic, flows: &flows }, packets, TURN_PACKETS)
    }))
}
