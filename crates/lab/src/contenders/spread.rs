//! Packets over workers by flow, in memory: the bench's table, three sides of it at once.

use std::sync::Arc;

use super::live::LINE_BYTES;
use super::{Adapter, Job, Sample};
use crate::compared::{self, Compared};
use crate::figures::{Context, balance};
use crate::scenario::Work;
use crate::threads::Cores;

/// A side of a figure: its name, and what it is.
pub(super) struct Side(&'static str, &'static str);

impl Adapter for Side {
    fn name(&self) -> &'static str {
        self.0
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Spread]
    }

    fn version(&self) -> String {
        super::own_version()
    }

    fn command(&self, _: &Job<'_>) -> String {
        self.1.to_owned()
    }

    fn measure(&self, _: &Job<'_>) -> Result<Sample, String> {
        Err("it is measured together with the other sides".to_owned())
    }
}

/// Each packet is copied into its worker's log.
pub(super) const COPY: Side =
    Side("burstline-spread-copy", "each packet into the log of its worker");
/// All packets lie in one log, of which each worker reads its part.
pub(super) const SHARE: Side = Side("burstline-spread-share", "one log that all workers read");
/// The scattered design, as well as we can write it.
pub(super) const SCATTERED: Side =
    Side("scattered-spread", "objects of a pool, pointers in a ring for each worker");

/// The longest frame, FCS included.
const LONGEST: u32 = 1518;

/// The three sides in turns; the case is how many workers there are.
///
/// # Errors
/// The figure's.
pub(super) fn compare(job: &Job<'_>, case: &str, repeats: usize) -> Result<Compared, String> {
    let workers: usize = case.parse().map_err(|_| format!("{case:?} is no number of workers"))?;
    if job.size_bytes > LONGEST {
        return Err(format!("frames have at most {LONGEST} bytes"));
    }
    let line = balance::copy_and_share(&context(job, repeats)?, job.frame_bytes(), workers)?;
    let samples = |values: &[f64]| -> Vec<Sample> {
        values.iter().map(|&mpps| sample(mpps, job.size_bytes)).collect()
    };
    let peer = [line.copy.peer, line.share.peer].concat();
    let sides = [(COPY.0, line.copy.ours), (SHARE.0, line.share.ours), (SCATTERED.0, peer)];
    let side = |(contender, values): (_, Vec<f64>)| compared::Side {
        contender,
        samples: samples(&values),
        pages: None,
    };
    let sides = sides.into_iter().map(side).collect();
    Ok(Compared { sides, metric: "mpps", ..Compared::default() })
}

/// What the bench's figure has to know.
fn context(job: &Job<'_>, repeats: usize) -> Result<Context, String> {
    let consumer = *job.places.contender.first().ok_or("no core")?;
    Ok(Context {
        smoke: false,
        full: false,
        runs: repeats,
        cores: Cores { producer: job.places.generator, consumer },
        stop: Arc::clone(job.stop),
    })
}

/// Of millions of frames of so many bytes a second, on two cores that spin.
pub(super) fn sample(mpps: f64, size_bytes: u32) -> Sample {
    let mut sample = Sample::default();
    sample.set("mpps", "Mpps", mpps);
    let line = mpps * f64::from(size_bytes + LINE_BYTES) * 8.0 / 1e3;
    sample.set_on("line_gbps", "Gbit/s", "line", line);
    sample.set("cpu_ns", "ns per packet", 2e3 / mpps);
    sample.set_on("rho", "% per Gbit/s", "line", 200.0 / line);
    sample
}
