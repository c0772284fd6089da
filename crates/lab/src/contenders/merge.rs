//! Four ports' packets into one queue: the bench's figure, both sides of it at once.

use std::sync::Arc;

use super::{Adapter, Job, Sample};
use crate::figures::{self, Context};
use crate::report::Outcome;
use crate::scenario::Work;
use crate::threads::Cores;

/// A side of the figure.
pub(super) struct Side(&'static str, &'static str);

/// Our merge.
pub(super) const OURS: Side = Side("burstline-merge", "engine::merge, ports that lend packets");
/// The DPDK design by stages, as well as we can write it.
pub(super) const STAGED: Side =
    Side("staged-merge", "receive, merge by burst, copy: objects of a pool, pointer rings");

impl Adapter for Side {
    fn name(&self) -> &'static str {
        self.0
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Merge]
    }

    fn version(&self) -> String {
        format!("burstline {}", env!("CARGO_PKG_VERSION"))
    }

    fn can_run(&self) -> Result<(), String> {
        Ok(())
    }

    fn command(&self, _: &Job<'_>) -> String {
        self.1.to_owned()
    }

    fn measure(&self, _: &Job<'_>) -> Result<Sample, String> {
        Err("it is measured together with the other side".to_owned())
    }
}

/// What came of both sides.
pub(crate) struct Compared {
    /// Of ours.
    pub(crate) ours: Vec<Sample>,
    /// Of the rival's.
    pub(crate) peer: Vec<Sample>,
    /// What is to be said of them, one a line.
    pub(crate) details: Vec<String>,
}

/// Both sides in turns.
///
/// # Errors
/// The figure's.
pub(crate) fn compare(job: &Job<'_>, case: &str, repeats: usize) -> Result<Compared, String> {
    let name = match case {
        "uniform" => "merge-4x64".to_owned(),
        other => format!("merge-4x64-{other}"),
    };
    let entry = figures::all().into_iter().find(|entry| entry.name == name);
    let entry = entry.ok_or_else(|| format!("there is no figure {name}"))?;
    let consumer = *job.places.contender.first().ok_or("no core")?;
    let context = Context {
        smoke: false,
        full: false,
        runs: repeats,
        cores: Cores { producer: job.places.generator, consumer },
        stop: Arc::clone(job.stop),
    };
    let figure = match (entry.measure)(&context, &name)? {
        Outcome::Measured(figure) => figure,
        Outcome::Smoke => return Err("it was a smoke run".to_owned()),
        Outcome::NotHere(why) => return Err(why),
    };
    let samples = |values: &[f64]| values.iter().map(|&mpps| sample(mpps)).collect();
    Ok(Compared {
        ours: samples(&figure.rounds.ours),
        peer: samples(&figure.rounds.peer),
        details: figure.details,
    })
}

/// Of frames of 64 bytes.
fn sample(mpps: f64) -> Sample {
    let mut sample = Sample::default();
    sample.set("mpps", "Mpps per CPU", mpps);
    let line = mpps * 84.0 * 8.0 / 1e3;
    sample.set_on("line_gbps", "Gbit/s per CPU", "line", line);
    sample.set("cpu_ns", "ns per packet", 1e3 / mpps);
    sample.set_on("rho", "% per Gbit/s", "line", 100.0 / line);
    sample
}
