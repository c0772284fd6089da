//! Merges packets of four ports into one queue by time, with a reader: in memory and live.
//!
//! ```text
//! ours   ports' memory --lend--> order --copy--> log | read
//! share  ports' memory --copy--> a log a port --> order | read, out of all logs
//! peer   objects -> ring a port | bursts in order of their stamps --copy--> shared memory -> read
//! ```
//!
//! In memory, each side's packets are in its receive memory at the start, as if a card had written
//! them. Ours are back to back, the rival's in the objects of its pool. On each side a reader
//! counts packets by port, from the worklist. The bar marks the start of the second core. In the
//! case `one-core` the parts take turns. The CPU time of all threads counts.
//!
//! A separate, shorter run after each turn checks the order of each side. Tries before the first
//! turn at a point select the rival's best pool and cache, and our threads' best way to wait.

#[cfg(feature = "dpdk")]
mod dpdk;
mod live;
mod memory;
mod ours;

use burstline_sys::memory::PageKind;

use crate::arena::Arena;
use crate::contenders::dpdk::{is_built, version};
use crate::contenders::shapes::{Pool, best, key};
use crate::contenders::{Adapter, Job, ROUND_PACKETS, Sample, pipeline, timed};
use crate::contest::go_on;
use crate::lines::{Interleaving, LINES, Line, Shape};
use crate::rivals::BURST;
use crate::rivals::staged::{self, Staged};
use crate::scenario::Work;
use crate::threads::Cores;

/// Size of our log.
const LOG_BYTES: usize = 8 << 20;

/// Memory of a line's packets in a turn, with padding.
const TURN_BYTES: u64 = 512 << 20;
/// Maximum packets per line.
const MOST: u64 = 2 << 20;
/// A try of a shape and a check of the order use this fraction of a turn.
const FEWER: u64 = 16;
/// Packets per line in a round whose instructions are counted.
const ROUND: u64 = ROUND_PACKETS / LINES as u64;

/// A merge contender.
pub(crate) struct Merger {
    name: &'static str,
    works: &'static [Work],
    about: &'static str,
    kind: Kind,
}

/// The kind of merge.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Ours; live runs use timestamps of this kind: see `xdp:`.
    Ours(&'static str),
    /// Ours, which copies nothing out of the logs of receive threads.
    Shared,
    /// The DPDK design in stages, as well as we can write it.
    Staged,
    /// The same on DPDK's mbufs and rings.
    Dpdk(Variant),
}

/// Variants of the article's design, which merges by burst.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Variant {
    ByBurst,
    /// Merges by packet, as ours does.
    Ordered,
    /// Copies whole segments.
    Segments,
    /// Prefetches nothing.
    NoHint,
}

/// In memory only, and also live.
const MEMORY: &[Work] = &[Work::Merge];
const BOTH: &[Work] = &[Work::Merge, Work::MergeLive];

impl Merger {
    pub(crate) const OURS: Self = Self {
        name: "burstline-merge",
        works: BOTH,
        about: "engine::merge, ports that lend packets; live, four xdp: ports with a time of each",
        kind: Kind::Ours("program"),
    };
    pub(crate) const BY_POLL: Self = Self {
        name: "burstline-merge-by-poll",
        works: &[Work::MergeLive],
        about: "engine::merge, four xdp: ports with times of polls, as the rival's are",
        kind: Kind::Ours("poll"),
    };
    pub(crate) const SHARED: Self = Self {
        name: "burstline-merge-share",
        works: MEMORY,
        about: "engine::merge_shared: a log a port, and one order that its reader follows",
        kind: Kind::Shared,
    };
    pub(crate) const STAGED: Self = Self {
        name: "staged-merge",
        works: MEMORY,
        about: "receive, merge by burst, copy: objects of a pool, pointer rings",
        kind: Kind::Staged,
    };
    pub(crate) const DPDK: Self = Self {
        name: "dpdk-merge",
        works: BOTH,
        about: "receive, merge by burst, rte_memcpy: mbufs, rings of pointers, 4 ahead",
        kind: Kind::Dpdk(Variant::ByBurst),
    };
    pub(crate) const ORDERED: Self = Self {
        name: "dpdk-merge-ordered",
        works: BOTH,
        about: "the same, ordered packet by packet",
        kind: Kind::Dpdk(Variant::Ordered),
    };
    pub(crate) const SEGMENTS: Self = Self {
        name: "dpdk-merge-segments",
        works: MEMORY,
        about: "by burst, copies whole segments whatever a packet's length",
        kind: Kind::Dpdk(Variant::Segments),
    };
    pub(crate) const NO_HINT: Self = Self {
        name: "dpdk-merge-no-hint",
        works: MEMORY,
        about: "by burst, without prefetching",
        kind: Kind::Dpdk(Variant::NoHint),
    };
}

impl Adapter for Merger {
    fn name(&self) -> &'static str {
        self.name
    }

    fn works(&self) -> &'static [Work] {
        self.works
    }

    fn version(&self) -> String {
        if matches!(self.kind, Kind::Dpdk(_)) {
            version()
        } else {
            crate::contenders::own_version()
        }
    }

    fn can_run(&self) -> Result<(), String> {
        if matches!(self.kind, Kind::Dpdk(_)) { is_built() } else { Ok(()) }
    }

    fn command(&self, _: &Job<'_>) -> String {
        self.about.to_owned()
    }

    fn measure(&self, job: &Job<'_>) -> Result<Sample, String> {
        go_on(job.stop)?;
        if job.work == Work::MergeLive {
            return live::measure(self, job);
        }
        let traffic = Traffic::of(job)?;
        let (fewer, key) = (traffic.fewer(), key(self.name, job));
        let (run, order, pool) = match self.kind {
            Kind::Ours(_) | Kind::Shared => {
                let is_shared = self.kind == Kind::Shared;
                let run = |traffic: &Traffic, poll, is_checking| {
                    ours::run(traffic, ours::How { poll, is_checking, is_shared })
                };
                let poll = best(&key, &ours::POLLS, |poll| Ok(run(&fewer, poll, false)?.mpps()))?;
                (run(&traffic, poll, false)?, run(&fewer, poll, true)?, None)
            }
            Kind::Staged => {
                let pool = best(&key, &Pool::all(false), |pool| {
                    go_on(job.stop)?;
                    Ok(staged_run(&fewer, pool, false)?.mpps())
                })?;
                let order = staged_run(&fewer, pool, true)?;
                (staged_run(&traffic, pool, false)?, order, Some(pool))
            }
            #[cfg(feature = "dpdk")]
            Kind::Dpdk(variant) => dpdk::measure(&key, [&traffic, &fewer], variant, job)?,
            #[cfg(not(feature = "dpdk"))]
            Kind::Dpdk(_) => return is_built().map(|()| Sample::default()),
        };
        let mut sample = run.sample(job.size_bytes);
        let percent = 100.0 * order.violations as f64 / order.packets as f64;
        sample.set("out_of_order", "% of packets", percent);
        if let Some(pool) = pool {
            pool.describe(&mut sample);
        }
        Ok(sample)
    }
}

/// The lines to merge and the cores.
struct Traffic {
    lines: [Option<Line>; LINES],
    /// Packets of each line that is not idle: a multiple of [`BURST`].
    most: u64,
    cores: Cores,
    /// Whether our log's reader, and the rival's later stages, have a separate core.
    are_two: bool,
}

impl Traffic {
    fn of(job: &Job<'_>) -> Result<Self, String> {
        let interleaving = match job.case {
            Some("bursts") => Interleaving::Bursts,
            Some("idle") => Interleaving::Idle,
            _ => Interleaving::Uniform,
        };
        let shape = Shape::of(job.frame_bytes());
        let most = (TURN_BYTES / u64::from(shape.stride)).min(MOST);
        let most = job.packets.map_or(most, |packets| packets / LINES as u64);
        Ok(Self {
            lines: Line::all(interleaving, shape),
            most: whole_bursts(most),
            cores: pipeline::cores(job)?,
            are_two: job.case != Some("one-core"),
        })
    }

    /// Returns the same traffic with fewer packets.
    fn fewer(&self) -> Self {
        Self { lines: self.lines.clone(), most: whole_bursts(self.most / FEWER), ..*self }
    }

    fn all(&self) -> u64 {
        self.lines.iter().flatten().count() as u64 * self.most
    }

    fn shape(&self) -> Shape {
        self.lines[0].as_ref().expect("only the last may be idle").shape()
    }
}

fn whole_bursts(packets: u64) -> u64 {
    (packets / BURST as u64).max(1) * BURST as u64
}

/// The outcome of a run.
#[derive(Clone, Copy, Debug)]
struct Run {
    packets: u64,
    /// Processor time of all threads.
    cpu_s: f64,
    /// Wall time.
    elapsed_s: f64,
    /// Packets older than their predecessor, if the order was checked.
    violations: u64,
    /// Page kind of the log or pool.
    page: PageKind,
}

impl Run {
    /// Returns millions of packets a second of wall time.
    fn mpps(&self) -> f64 {
        self.packets as f64 / self.elapsed_s / 1e6
    }

    fn sample(&self, size_bytes: u32) -> Sample {
        let mut sample = timed::rates(self.mpps(), self.cpu_s / self.elapsed_s, size_bytes);
        sample.lies_in(self.page);
        sample
    }
}

fn staged_run(traffic: &Traffic, pool: Pool, is_checking: bool) -> Result<Run, String> {
    let bytes = staged::arena_bytes(pool.objects as usize, traffic.shape());
    let arena = Arena::in_best_pages(bytes)?;
    let page = arena.page();
    let how = staged::How { cores: traffic.cores, are_two: traffic.are_two, is_checking };
    let sizes = staged::Sizes { objects: pool.objects as usize, cache: pool.cache as usize };
    let Staged { packets, cpu_s, elapsed_s, violations } =
        staged::run(&arena, &traffic.lines, sizes, traffic.most, how);
    whole(packets, traffic)?;
    Ok(Run { packets, cpu_s, elapsed_s, violations, page })
}

/// Checks that all packets were merged and read.
fn whole(packets: u64, traffic: &Traffic) -> Result<(), String> {
    match packets == traffic.all() {
        true => Ok(()),
        false => Err(format!("{packets} of {} packets were merged", traffic.all())),
    }
}

/// Runs one side of a merge of 64-byte frames on one core to count its instructions,
/// [`ROUND_PACKETS`] per round. `None` if the piece is unknown.
pub(crate) fn do_rounds(piece: &str, rounds: u64) -> Option<Result<(), String>> {
    let traffic = Traffic {
        lines: Line::all(Interleaving::Uniform, Shape::of(60)),
        most: rounds * ROUND,
        cores: Cores::allowed(),
        are_two: false,
    };
    match piece {
        "merge-log" => Some(ours::in_turns(&traffic).map(drop)),
        #[cfg(feature = "dpdk")]
        "merge-mbuf" => Some(dpdk::rounds(&traffic, Variant::ByBurst)),
        #[cfg(feature = "dpdk")]
        "merge-mbuf-ordered" => Some(dpdk::rounds(&traffic, Variant::Ordered)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
