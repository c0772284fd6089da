//! A chain of two threads, in memory: one makes packets in place, the other one reads them.
//!
//! Ours is the log: packets back to back in segments. Both threads spin, so that all of two cores
//! is in the time of a packet, whoever waits for whom.

use burstline_sys::memory::PageChoice;

use super::live::LINE_BYTES;
use super::{Adapter, Job, Sample};
use crate::contest::go_on;
use crate::ours::Ours;
use crate::rivals::{BURST, Run};
use crate::scenario::Work;
use crate::threads::Cores;
use crate::traffic::{MAX_BYTES, Traffic};

/// Bytes of our log.
const LOG_BYTES: usize = 2 << 20;

/// Packets between two looks at the clock.
const PACKETS: u64 = 1 << 18;

/// Our chain.
pub(super) struct Chain;

impl Adapter for Chain {
    fn name(&self) -> &'static str {
        "burstline-pipeline"
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Pipeline]
    }

    fn version(&self) -> String {
        super::own_version()
    }

    fn command(&self, _: &Job<'_>) -> String {
        format!("a log of {} KiB, filled in place, and a lossless reader", LOG_BYTES >> 10)
    }

    fn measure(&self, job: &Job<'_>) -> Result<Sample, String> {
        let (cores, traffic) = (cores(job)?, traffic(job)?);
        let mut log = Ours::create(LOG_BYTES, PageChoice::Transparent)?.in_bursts(burst(job)?);
        measure(job, &traffic, |packets| log.hand_off(cores, &traffic, packets))
    }
}

/// Both threads' cores: the contender's first two, or the generator's and the contender's.
pub(super) fn cores(job: &Job<'_>) -> Result<Cores, String> {
    match *job.places.contender.as_slice() {
        [producer, consumer, ..] => Ok(Cores { producer, consumer }),
        [consumer] => Ok(Cores { producer: job.places.generator, consumer }),
        [] => Err("no core".to_owned()),
    }
}

/// Packets that are handed over at a time: the case, or as many as usual.
pub(super) fn burst(job: &Job<'_>) -> Result<usize, String> {
    let Some(case) = job.case else { return Ok(BURST) };
    case.parse().map_err(|_| format!("'{case}' is no number of packets"))
}

/// Packets of the job's length.
pub(super) fn traffic(job: &Job<'_>) -> Result<Traffic, String> {
    let bytes = job.frame_bytes();
    if bytes > MAX_BYTES {
        return Err(format!("frames have at most {} bytes, FCS included", MAX_BYTES + 4));
    }
    Ok(Traffic::new(bytes))
}

/// Has packets handed over for the job's time, once to warm up.
pub(super) fn measure(
    job: &Job<'_>,
    traffic: &Traffic,
    mut hand_off: impl FnMut(u64) -> Run,
) -> Result<Sample, String> {
    let expected = traffic.expected(PACKETS);
    hand_off(PACKETS);
    let (mut packets, mut seconds) = (0, 0.0);
    while seconds < job.time.as_secs_f64() {
        go_on(job.stop)?;
        let run = hand_off(PACKETS);
        if run.sum != expected {
            return Err(format!("packets summed up to {:#x}, not {expected:#x}", run.sum));
        }
        packets += PACKETS;
        seconds += run.seconds;
    }
    let threads = if cores(job)?.are_two() { 2.0 } else { 1.0 };
    let mpps = packets as f64 / seconds / 1e6;
    let line = mpps * f64::from(job.size_bytes + LINE_BYTES) * 8.0 / 1e3;
    let mut sample = Sample::default();
    sample.set("mpps", "Mpps", mpps);
    sample.set_on("line_gbps", "Gbit/s", "line", line);
    sample.set("cpu_ns", "ns per packet", 1e3 * threads / mpps);
    sample.set_on("rho", "% per Gbit/s", "line", 100.0 * threads / line);
    Ok(sample)
}
