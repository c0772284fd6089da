//! DPDK's own mbufs, pools and rings, in this process: what `rivals-dpdk/` has of the documents'
//! programs. Without the feature `dpdk` they say how to build it.
//!
//! Pool, cache and rings are the best that were found before the first turn at a point.

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
    use super::super::pipeline;
    use super::super::shapes::{Pool, best, key};
    use super::super::spread::sample;
    use crate::contenders::{Job, Sample};
    use crate::contest::go_on;
    use crate::rivals::BURST;
    use crate::rivals::dpdk::balance::Balance;
    use crate::rivals::dpdk::{Hint, Pipeline};

    /// Packets of a try.
    const TRIED: u64 = 1 << 16;

    /// Bytes of a run that is spread, so that each takes about as long.
    const RUN_BYTES: usize = 64 << 20;

    pub(super) fn pipeline(job: &Job<'_>) -> Result<Sample, String> {
        let (cores, traffic) = (pipeline::cores(job)?, pipeline::traffic(job)?);
        let burst = pipeline::burst(job)? as u32;
        let pool = best(&key("dpdk", job), &Pool::all(true), |pool| {
            go_on(job.stop)?;
            let rival = Pipeline::new(pool.shape())?.in_bursts(burst);
            let run = rival.hand_off(cores, &traffic, TRIED, Hint::T0);
            rival.end().map(|()| TRIED as f64 / run.seconds)
        })?;
        let rival = Pipeline::new(pool.shape())?.in_bursts(burst);
        let measured = pipeline::measure(job, &traffic, |packets| {
            rival.hand_off(cores, &traffic, packets, Hint::T0)
        });
        rival.end()?;
        measured
    }

    pub(super) fn spread(job: &Job<'_>) -> Result<Sample, String> {
        let (cores, traffic) = (pipeline::cores(job)?, pipeline::traffic(job)?);
        let workers = job.case.and_then(|case| case.parse().ok()).ok_or("no number of workers")?;
        let rate = |pool: Pool, packets: u64| {
            go_on(job.stop)?;
            let rival = Balance::new(pool.shape(), workers)?;
            let run = rival.balance(cores, &traffic, packets, 0);
            rival.end().map(|()| packets as f64 / run.seconds / 1e6)
        };
        let pool = best(&key("dpdk", job), &Pool::all(true), |pool| rate(pool, TRIED))?;
        let packets = (RUN_BYTES / traffic.length() / BURST * BURST) as u64;
        Ok(sample(rate(pool, packets)?, job.size_bytes))
    }
}
