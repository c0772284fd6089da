//! Work in memory, on the contender's core, for as long as a job says.

use burstline_sys::{affinity, clock};
use burstline_wire::ethernet::GAP_BYTES;

use crate::contenders::{Job, Sample};
use crate::contest::go_on;
use crate::live::Turn;

/// Takes this thread to the contender's first core. Memory that it touches from then on is near.
///
/// # Errors
/// There is no such core, or the kernel does not give it.
pub(crate) fn pin(job: &Job<'_>) -> Result<(), String> {
    let core = *job.places.contender.first().ok_or("no core")?;
    affinity::pin_to(core).map_err(|error| error.to_string())
}

/// What was done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed {
    /// This many packets, copies or touches.
    pub(crate) pieces: usize,
    spent_ns: u64,
}

impl Timed {
    /// Of each.
    pub(crate) fn ns_each(self) -> f64 {
        self.spent_ns as f64 / self.pieces as f64
    }
}

/// Has `work` done, of `pieces` pieces each time, for the job's time or until its packets are done.
///
/// # Errors
/// The user wants an end.
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

/// The figures of frames of a size, FCS included, at this many millions a second on this many
/// cores.
pub(crate) fn spinning(mpps: f64, cores: f64, size_bytes: u32) -> Sample {
    let line_gbps = mpps * f64::from(size_bytes + GAP_BYTES) * 8.0 / 1e3;
    let mut sample = Sample::default();
    sample.set("mpps", "Mpps", mpps);
    sample.set_on("line_gbps", "Gbit/s", "line", line_gbps);
    sample.set("cpu_ns", "ns per packet", 1e3 * cores / mpps);
    sample.set_on("rho", "% per Gbit/s", "line", 100.0 * cores / line_gbps);
    sample
}

/// The same where it is not all of some cores: with how many there were, and for each second of
/// their time.
pub(crate) fn rates(mpps: f64, cores: f64, size_bytes: u32) -> Sample {
    let mut sample = spinning(mpps, cores, size_bytes);
    sample.set("mpps_per_cpu_s", "Mpps per CPU", mpps / cores);
    sample.set("cores", "cores", cores);
    sample
}

/// Those of a side that never sleeps and takes frames on its core.
pub(crate) fn taken(turn: &Turn, size_bytes: u32) -> Sample {
    let mut sample = rates(turn.mpps(), turn.share, size_bytes);
    sample.set("lost_percent", "% of frames", turn.lost_percent());
    sample.losses.insert("not taken".to_owned(), turn.offered - turn.taken);
    sample.offered_pps = Some(turn.offered as f64 / turn.seconds);
    sample.page = turn.page;
    sample.interfaces.clone_from(&turn.interfaces);
    sample
}
