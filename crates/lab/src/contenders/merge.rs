//! Four ports' packets into one queue: the bench's figure, both sides of it at once.

use std::sync::Arc;

use super::live::LINE_BYTES;
use super::{Adapter, Job, Sample};
use crate::compared::{Compared, Outcome};
use crate::figures::{self, Context};
use crate::scenario::Work;
use crate::threads::Cores;

/// A side of a figure: its name, what it is, and what it does.
pub(super) struct Side(
    pub(super) &'static str,
    pub(super) &'static str,
    pub(super) &'static [Work],
);

/// Our merge.
pub(super) const OURS: Side =
    Side("burstline-merge", "engine::merge, ports that lend packets", &[Work::Merge]);
/// The DPDK design by stages, as well as we can write it.
pub(super) const STAGED: Side = Side(
    "staged-merge",
    "receive, merge by burst, copy: objects of a pool, pointer rings",
    &[Work::Merge],
);

impl Adapter for Side {
    fn name(&self) -> &'static str {
        self.0
    }

    fn works(&self) -> &'static [Work] {
        self.2
    }

    fn version(&self) -> String {
        super::own_version()
    }

    fn command(&self, _: &Job<'_>) -> String {
        self.1.to_owned()
    }

    fn measure(&self, _: &Job<'_>) -> Result<Sample, String> {
        Err("it is measured together with the other side".to_owned())
    }
}

/// Both sides in turns.
///
/// # Errors
/// The figure's.
pub(super) fn compare(job: &Job<'_>, case: &str, repeats: usize) -> Result<Compared, String> {
    let name = match case {
        "uniform" => "merge-4x64".to_owned(),
        other => format!("merge-4x64-{other}"),
    };
    let entry = figures::all().into_iter().find(|entry| entry.name == name);
    let entry = entry.ok_or_else(|| format!("there is no figure {name}"))?;
    let context = context(job, repeats)?;
    match (entry.measure)(&context, &name)? {
        Outcome::Measured(compared) => Ok(compared.named([OURS.0, STAGED.0])),
        Outcome::Smoke => Err("it was a smoke run".to_owned()),
        Outcome::NotHere(why) => Err(why),
    }
}

/// What a figure of the bench's has to know.
pub(super) fn context(job: &Job<'_>, repeats: usize) -> Result<Context, String> {
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
