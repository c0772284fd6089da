//! A pipeline of two threads in memory: one builds packets in place, the other one reads them.
//!
//! ```text
//!   producer -- log: packets back to back        --> consumer     ours
//!            -- pool of buffers, ring of pointers -->             scattered, or DPDK's own
//! ```
//!
//! Both threads spin, so the time per packet is that of two whole cores, whichever thread waits. In
//! the cases with a driver, the hand-off carries packets of DPDK's net_null; ours copies them into
//! the log.
//!
//! Sizes of our log, a pool and its caches, and the number of buffers, are the best found before
//! the first turn at a point.

#[cfg(feature = "dpdk")]
mod dpdk;
mod live;
mod movement;
mod scattered;

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::contenders::dpdk::{is_built, version};
use crate::contenders::shapes::{Key, best, key};
use crate::contenders::{Adapter, Job, Sample, timed};
use crate::contest::go_on;
use crate::ours::Ours;
use crate::pages;
use crate::rivals::{BURST, Run};
use crate::scenario::Work;
use crate::threads::Cores;
use crate::traffic::{MAX_BYTES, Traffic};

/// Log sizes in bytes: those to try, and the one for live runs and counted instructions. The writer
/// cycles through all of it, up to what suits the caches (`crates/log/src/handover/cycle.rs`).
const LOGS: [usize; 5] = [1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20];
const LOG_BYTES: usize = 8 << 20;

/// Packets between two readings of the clock, for short and for longer packets.
const PACKETS: u64 = 1 << 20;
const LONG_PACKETS: u64 = 1 << 18;
const LONG_BYTES: usize = 256;

/// A try of a setting uses this fraction of the packets.
const TRIED: u64 = 2;

/// Two threads and the hand-off between them.
pub(crate) struct Chain {
    name: &'static str,
    works: &'static [Work],
    about: &'static str,
    kind: Kind,
}

/// The kind of hand-off.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Our log.
    Log,
    /// Objects of a pool, pointers in a ring.
    Pool,
    /// Buffers that circulate between the two, without a pool.
    Lean,
    /// Our layout, without the log's bookkeeping.
    Bare,
    /// The same memory traffic, without work on the packets.
    Movement,
    /// DPDK's own mbufs, pool and ring.
    Mbufs,
    /// Our log and DPDK's mbufs, fed by a driver.
    LogByDriver,
    MbufsByDriver,
}

impl Chain {
    pub(crate) const OURS: Self = Self {
        name: "burstline-pipeline",
        works: &[Work::Pipeline, Work::PipelineLive],
        about: "a log, filled in place, and a lossless reader; live, what an xdp: port receives",
        kind: Kind::Log,
    };
    pub(crate) const POOL: Self = Self {
        name: "scattered-pool",
        works: &[Work::Pipeline],
        about: "objects of a pool 2,240 bytes apart, a cache for each core, a ring of 1,024 \
                pointers, bursts of 32",
        kind: Kind::Pool,
    };
    pub(crate) const LEAN: Self = Self {
        name: "scattered-lean",
        works: &[Work::Pipeline],
        about: "buffers 2,112 bytes apart, a ring in each direction, bursts of 32",
        kind: Kind::Lean,
    };
    pub(crate) const BARE: Self = Self {
        name: "bare-layout",
        works: &[Work::Pipeline],
        about: "our layout in a bare loop: 8 segments of 256 KiB in turn, no reader or writer",
        kind: Kind::Bare,
    };
    pub(crate) const MOVEMENT: Self = Self {
        name: "bare-movement",
        works: &[Work::Pipeline],
        about: "lines and descs moved in a bare loop, a word of each line read: the better of \
                ordinary and streaming stores, of 4 to 24 segments of 256 KiB in turn",
        kind: Kind::Movement,
    };
    pub(crate) const DPDK: Self = Self {
        name: "dpdk-pipeline",
        works: &[Work::Pipeline, Work::PipelineLive],
        about: "mbufs of 2,048 bytes of room filled in place, a ring of 1,024 pointers, bulk \
                calls, rte_memcpy, prefetch 4 ahead; live, what net_af_xdp receives",
        kind: Kind::Mbufs,
    };
    pub(crate) const OURS_BY_DRIVER: Self = Self {
        name: "burstline-pipeline-by-driver",
        works: &[Work::Pipeline],
        about: "`dpdk:net_null` received into the log: each packet is copied",
        kind: Kind::LogByDriver,
    };
    pub(crate) const DPDK_BY_DRIVER: Self = Self {
        name: "dpdk-pipeline-by-driver",
        works: &[Work::Pipeline],
        about: "net_null's mbufs, the same ring",
        kind: Kind::MbufsByDriver,
    };
}

impl Adapter for Chain {
    fn name(&self) -> &'static str {
        self.name
    }

    fn works(&self) -> &'static [Work] {
        self.works
    }

    fn version(&self) -> String {
        let is_dpdks = matches!(self.kind, Kind::Mbufs | Kind::MbufsByDriver);
        if is_dpdks { version() } else { crate::contenders::own_version() }
    }

    fn can_run(&self) -> Result<(), String> {
        match self.kind {
            Kind::Mbufs | Kind::MbufsByDriver | Kind::LogByDriver => is_built(),
            _ => Ok(()),
        }
    }

    fn command(&self, _: &Job<'_>) -> String {
        self.about.to_owned()
    }

    fn measure(&self, job: &Job<'_>) -> Result<Sample, String> {
        if job.work == Work::PipelineLive {
            return live::measure(self.kind, job);
        }
        let is_by_driver = matches!(self.kind, Kind::LogByDriver | Kind::MbufsByDriver);
        // Packets of a driver have no known sum, nor do bytes that are only moved.
        let has_sum = !is_by_driver && self.kind != Kind::Movement;
        let (turn, key) = (Turn::of(job, has_sum)?, key(self.name, job));
        match self.kind {
            Kind::Log => log(&turn, &key),
            Kind::Pool => scattered::pool(&turn, &key),
            Kind::Lean => scattered::lean(&turn, &key),
            Kind::Bare => scattered::bare(&turn),
            Kind::Movement => movement::measure(&turn, &key),
            #[cfg(feature = "dpdk")]
            kind => dpdk::measure(kind, &turn, &key),
            #[cfg(not(feature = "dpdk"))]
            _ => is_built().map(|()| Sample::default()),
        }
    }
}

/// Runs our pipeline.
fn log(turn: &Turn<'_>, key: &Key<'_>) -> Result<Sample, String> {
    let make = |bytes| pages::with_best(bytes, |pages| Ours::create(bytes, pages));
    let run = |log: &mut Ours, packets| (log.hand_off(turn.cores, &turn.traffic, packets), packets);
    let bytes = best(key, &LOGS, |bytes| {
        let mut log = make(bytes)?.in_bursts(turn.burst);
        turn.tried(|packets| Ok(run(&mut log, packets)))
    })?;
    let mut log = make(bytes)?.in_bursts(turn.burst);
    let mut sample = turn.measure(|packets| Ok(run(&mut log, packets)))?;
    described(&log, bytes, &mut sample);
    Ok(sample)
}

/// Adds the properties of our log to the sample.
fn described(log: &Ours, bytes: usize, sample: &mut Sample) {
    let written = log.statistics();
    sample.set("log_bytes", "bytes", bytes as f64);
    sample.set("log_segments", "segments used", f64::from(written.segments_high_water));
    sample.set("log_full", "times", written.full as f64);
    sample.lies_in(log.page());
}

/// Returns both threads' cores: the contender's first two, or the generator's and the contender's.
pub(crate) fn cores(job: &Job<'_>) -> Result<Cores, String> {
    match *job.places.contender.as_slice() {
        [producer, consumer, ..] => Ok(Cores { producer, consumer }),
        [consumer] => Ok(Cores { producer: job.places.generator, consumer }),
        [] => Err("no core".to_owned()),
    }
}

/// Creates packets of the job's length.
pub(crate) fn traffic(job: &Job<'_>) -> Result<Traffic, String> {
    let bytes = job.frame_bytes();
    if bytes > MAX_BYTES {
        return Err(format!("frames have at most {} bytes, FCS included", MAX_BYTES + 4));
    }
    Ok(Traffic::new(bytes))
}

/// A turn and its settings.
struct Turn<'a> {
    job: &'a Job<'a>,
    cores: Cores,
    traffic: Traffic,
    /// Packets per hand-off: the case, or the usual number.
    burst: usize,
    /// Packets between two readings of the clock: a multiple of any burst.
    packets: u64,
    /// The expected sum by number of packets.
    sums: RefCell<BTreeMap<u64, u64>>,
    /// Whether the packets' bytes are known; a driver's packets have no sum.
    has_sum: bool,
}

impl<'a> Turn<'a> {
    fn of(job: &'a Job<'a>, has_sum: bool) -> Result<Self, String> {
        let burst = job.case.map_or(Ok(BURST), str::parse);
        let burst = burst.map_err(|_| format!("{:?} is not a number of packets", job.case))?;
        let (cores, traffic) = (cores(job)?, traffic(job)?);
        let most = if traffic.length() > LONG_BYTES { LONG_PACKETS } else { PACKETS };
        let packets = whole(job.packets.map_or(most, |packets| packets.min(most)));
        Ok(Self { job, cores, traffic, burst, packets, sums: RefCell::default(), has_sum })
    }

    /// Returns the Mpps of a run of this many packets, if the sum is right.
    fn rate(&self, run: Run, packets: u64) -> Result<f64, String> {
        go_on(self.job.stop)?;
        if self.has_sum {
            let mut sums = self.sums.borrow_mut();
            let expected = *sums.entry(packets).or_insert_with(|| self.traffic.expected(packets));
            if run.sum != expected {
                return Err(format!("packets summed up to {:#x}, not {expected:#x}", run.sum));
            }
        }
        Ok(packets as f64 / run.seconds / 1e6)
    }

    /// Returns the Mpps of a shorter run. The function hands over this many packets or a few more,
    /// and returns how many.
    fn tried(
        &self,
        hand_off: impl FnOnce(u64) -> Result<(Run, u64), String>,
    ) -> Result<f64, String> {
        let (run, packets) = hand_off(whole(self.packets / TRIED))?;
        self.rate(run, packets)
    }

    /// Hands packets over for the job's time, after one warm-up.
    fn measure(
        &self,
        mut hand_off: impl FnMut(u64) -> Result<(Run, u64), String>,
    ) -> Result<Sample, String> {
        let mut run = || -> Result<_, String> {
            let (run, packets) = hand_off(self.packets)?;
            self.rate(run, packets)?;
            Ok((packets, run.seconds))
        };
        run()?;
        let (mut packets, mut seconds) = (0, 0.0);
        while self.job.goes_on(packets as usize, (seconds * 1e9) as u64) {
            let (more, spent) = run()?;
            packets += more;
            seconds += spent;
        }
        let threads = if self.cores.are_two() { 2.0 } else { 1.0 };
        Ok(timed::spinning(packets as f64 / seconds / 1e6, threads, self.job.size_bytes))
    }
}

/// Rounds up to whole bursts of any size.
fn whole(packets: u64) -> u64 {
    const BURST_MOST: u64 = 256;
    packets.max(1).next_multiple_of(BURST_MOST)
}

/// Runs one side of `dpdk-pipeline-N` or `dpdk-pipeline-N-pmd` in turns on one core, 8,192 packets
/// a round. `None` if the piece is unknown.
pub(crate) fn do_rounds(piece: &str, rounds: u64) -> Option<Result<(), String>> {
    #[cfg(feature = "dpdk")]
    return dpdk::do_rounds(piece, rounds * crate::contenders::ROUND_PACKETS);
    #[cfg(not(feature = "dpdk"))]
    {
        let _ = (piece, rounds);
        None
    }
}
