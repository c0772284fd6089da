//! DPDK's own mbufs, pools and rings, in this process: what `rivals-dpdk/` has of the documents'
//! programs. Without the feature `dpdk` they say how to build it.
//!
//! Shapes of pool and cache are tried before each turn, and the best one is measured.

use super::{Adapter, Job, Sample};
use crate::scenario::Work;

/// Why there is nothing of DPDK's in this program, and the mend.
const BUILT_WITHOUT: &str = "this program was built without DPDK: make dpdk";

/// Whether this program was built with DPDK.
pub(super) fn is_built() -> Result<(), String> {
    match cfg!(feature = "dpdk") {
        true => Ok(()),
        false => Err(BUILT_WITHOUT.to_owned()),
    }
}

/// DPDK's, of the library that this program is linked with.
pub(super) fn version() -> String {
    crate::programs::first_line("pkg-config", &["--modversion", "libdpdk"])
}

/// A program.
pub(super) struct Dpdk {
    name: &'static str,
    work: &'static [Work],
    about: &'static str,
}

impl Dpdk {
    /// Producer, ring, consumer.
    pub(super) const PIPELINE: Self = Self {
        name: "dpdk-pipeline",
        work: &[Work::Pipeline],
        about: "mbufs filled in place, an SP/SC ring of pointers, bursts of 32, prefetch0 4 ahead",
    };
    /// Four ports into one memory.
    pub(super) const MERGE: Self = Self {
        name: "dpdk-merge",
        work: &[Work::Merge],
        about: "receive, merge by burst, rte_memcpy: mbufs, SP/SC rings of pointers",
    };
    /// A ring for each worker.
    pub(super) const SPREAD: Self = Self {
        name: "dpdk-spread",
        work: &[Work::Spread],
        about: "the NUMA document's balancer: mbufs, an SP/SC ring of pointers for each worker",
    };
}

impl Adapter for Dpdk {
    fn name(&self) -> &'static str {
        self.name
    }

    fn works(&self) -> &'static [Work] {
        self.work
    }

    fn version(&self) -> String {
        version()
    }

    fn can_run(&self) -> Result<(), String> {
        is_built()
    }

    fn command(&self, _: &Job<'_>) -> String {
        self.about.to_owned()
    }

    #[cfg(feature = "dpdk")]
    fn measure(&self, job: &Job<'_>) -> Result<Sample, String> {
        crate::rivals::dpdk::start()?;
        match job.work {
            Work::Merge => within::merge(job),
            Work::Spread => within::spread(job),
            _ => within::pipeline(job),
        }
    }

    #[cfg(not(feature = "dpdk"))]
    fn measure(&self, _: &Job<'_>) -> Result<Sample, String> {
        self.can_run().map(|()| Sample::default())
    }
}

#[cfg(feature = "dpdk")]
mod within {
    use burstline_sys::clock;
    use burstline_sys::memory::PageChoice;

    use super::super::merge::sample;
    use super::super::{pipeline, timed};
    use crate::arena::Arena;
    use crate::contenders::{Job, Sample};
    use crate::contest::go_on;
    use crate::figures::Run;
    use crate::lines::{Interleaving, LINES, Line};
    use crate::rivals::BURST;
    use crate::rivals::dpdk::balance::Balance;
    use crate::rivals::dpdk::{self, Hint, Manner, OUTPUT_BYTES, Pipeline, SLOTS, Shape};

    /// Mbufs of a pool, and of each core's cache.
    const SHAPES: [(u32, u32); 4] = [(2047, 256), (4095, 512), (8191, 512), (16_383, 512)];

    /// Packets of a try.
    const TRIED: u64 = 1 << 16;

    /// Bytes of a run that is spread, so that each takes about as long.
    const RUN_BYTES: usize = 64 << 20;

    /// Packets of each of a merge's lines.
    const MERGED: u64 = 1 << 20;

    /// The shape with the best rate, each tried twice.
    fn best(mut rate: impl FnMut(Shape) -> Result<f64, String>) -> Result<Shape, String> {
        let mut found: Option<(Shape, f64)> = None;
        for (objects, cache) in SHAPES {
            let shape = Shape { objects, cache, slots: SLOTS, is_single: 1 };
            let rate = rate(shape)?.max(rate(shape)?);
            if found.is_none_or(|(_, most)| rate > most) {
                found = Some((shape, rate));
            }
        }
        found.map(|(shape, _)| shape).ok_or_else(|| "no shape".to_owned())
    }

    pub(super) fn pipeline(job: &Job<'_>) -> Result<Sample, String> {
        let (cores, traffic) = (pipeline::cores(job)?, pipeline::traffic(job)?);
        let burst = pipeline::burst(job)? as u32;
        let shape = best(|shape| {
            go_on(job.stop)?;
            let rival = Pipeline::new(shape)?.in_bursts(burst);
            let run = rival.hand_off(cores, &traffic, TRIED, Hint::T0);
            rival.end().map(|()| TRIED as f64 / run.seconds)
        })?;
        let rival = Pipeline::new(shape)?.in_bursts(burst);
        let measured = pipeline::measure(job, &traffic, |packets| {
            rival.hand_off(cores, &traffic, packets, Hint::T0)
        });
        rival.end()?;
        measured
    }

    pub(super) fn spread(job: &Job<'_>) -> Result<Sample, String> {
        let (cores, traffic) = (pipeline::cores(job)?, pipeline::traffic(job)?);
        let workers = job.case.and_then(|case| case.parse().ok()).ok_or("no number of workers")?;
        let rate = |shape: Shape, packets: u64| {
            go_on(job.stop)?;
            let rival = Balance::new(shape, workers)?;
            let run = rival.balance(cores, &traffic, packets, 0);
            rival.end().map(|()| packets as f64 / run.seconds / 1e6)
        };
        let shape = best(|shape| rate(shape, TRIED))?;
        let packets = (RUN_BYTES / traffic.length() / BURST * BURST) as u64;
        Ok(sample(rate(shape, packets)?, job.size_bytes))
    }

    pub(super) fn merge(job: &Job<'_>) -> Result<Sample, String> {
        timed::pin(job)?;
        let cores = pipeline::cores(job)?;
        let pages = PageChoice::Transparent;
        let mut arena =
            Arena::create(OUTPUT_BYTES + (1 << 20), pages).map_err(|error| error.to_string())?;
        let lines = Line::all(match job.case {
            Some("bursts") => Interleaving::Bursts,
            Some("idle") => Interleaving::Idle,
            _ => Interleaving::Uniform,
        });
        let mut run = |shape: Shape, most: u64| {
            go_on(job.stop)?;
            let how = (shape, Manner::PLAIN);
            let all = lines.iter().flatten().count() as u64 * most;
            let run = if job.case == Some("one-core") {
                let start_ns = clock::monotonic_ns();
                let packets = dpdk::merge_in_turns(&mut arena, &lines, how, most)?;
                let elapsed_s = (clock::monotonic_ns() - start_ns) as f64 / 1e9;
                // It spins.
                Run { packets, cpu_s: elapsed_s, elapsed_s, violations: 0 }
            } else {
                let merged = dpdk::merge(&mut arena, &lines, how, most, cores)?;
                let dpdk::Merged { packets, cpu_s, elapsed_s, .. } = merged;
                Run { packets, cpu_s, elapsed_s, violations: 0 }
            };
            match run.packets == all {
                true => Ok(run),
                false => Err(format!("{} of {all} packets were merged", run.packets)),
            }
        };
        debug_assert!(lines.len() == LINES && TRIED.is_multiple_of(BURST as u64));
        let shape = best(|shape| Ok(run(shape, TRIED)?.mpps()))?;
        Ok(run(shape, MERGED)?.sample())
    }
}
