//! Runs work in memory on the contender's core for the time of a job.

use burstline_sys::{affinity, clock};
use burstline_wire::ethernet::GAP_BYTES;

use crate::contenders::{Job, Sample};
use crate::contest::go_on;
use crate::live::Turn;

/// Pins this thread to the contender's first core. Memory that it touches afterwards is local.
///
/// # Errors
/// If there is no such core, or the kernel refuses it.
pub(crate) fn pin(job: &Job<'_>) -> Result<(), String> {
    let core = *job.places.contender.first().ok_or("no core is available")?;
    affinity::pin_to(core).map_err(|error| error.to_string())
}

/// The amount of work and its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed {
    /// Number of packets, copies or accesses.
    pub(crate) pieces: usize,
    spent_ns: u64,
}

impl Timed {
    /// Returns the ns per piece.
    pub(crate) fn ns_each(self) -> f64 {
        self.spent_ns as f64 / self.pieces as f64
    }
}

/// Repeats `work`, `pieces` pieces each, until the job's time is over or its packets are done.
///
/// # Errors
/// If the user stops the run.
pub(crate) fn run(job: &Job<'_>, pieces: usize, mut work: impl FnMut()) -> Result<Timed, String> {
    let mut done = Timed { pieces: 0, spent_ns: 0 };
    while job.goes_on(done.pieces, done.spent_ns) {
        go_on(job.stop)?;
        let start_ns = clock::monotonic_ns();
        work();
        done.spent_ns += clock::monotonic_ns() - start_ns;
        done.pieces += pieces;
    }
    Ok(done)
}

/// Returns the metrics of frames of a size, with FCS, at this many Mpps on this many cores.
pub(crate) fn spinning(mpps: f64, cores: f64, size_bytes: u32) -> Sample {
    let line_gbps = mpps * f64::from(size_bytes + GAP_BYTES) * 8.0 / 1e3;
    let mut sample = Sample::default();
    sample.set("mpps", "Mpps", mpps);
    sample.set_on("line_gbps", "Gbit/s", "line", line_gbps);
    sample.set("cpu_ns", "ns per packet", 1e3 * cores / mpps);
    sample.set_on("rho", "% per Gbit/s", "line", 100.0 * cores / line_gbps);
    sample
}

/// Like [`spinning`], but also with the number of cores and the rate per second of core time.
pub(crate) fn rates(mpps: f64, cores: f64, size_bytes: u32) -> Sample {
    let mut sample = spinning(mpps, cores, size_bytes);
    sample.set("mpps_per_cpu_s", "Mpps per CPU", mpps / cores);
    sample.set("cores", "cores", cores);
    sample
}

/// Returns the metrics of a side that never sleeps and receives frames on its core.
pub(crate) fn taken(turn: &Turn, size_bytes: u32) -> Sample {
    let mut sample = rates(turn.mpps(), turn.share, size_bytes);
    sample.set("lost_percent", "% of frames", turn.lost_percent());
    sample.losses.insert("not taken".to_owned(), turn.offered - turn.taken);
    sample.offered_pps = Some(turn.offered as f64 / turn.seconds);
    if let Some(page) = turn.page {
        sample.lies_in(page);
    }
    sample.interfaces.clone_from(&turn.interfaces);
    sample
}
