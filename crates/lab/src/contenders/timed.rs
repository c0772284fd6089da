//! Work in memory, on the contender's core, for as long as a job says.

use burstline_sys::{affinity, clock};

use super::Job;
use crate::contest::go_on;

/// Takes this thread to the contender's first core. Memory that it touches from then on is near.
///
/// # Errors
/// There is no such core, or the kernel does not give it.
pub(super) fn pin(job: &Job<'_>) -> Result<(), String> {
    let core = *job.places.contender.first().ok_or("no core")?;
    affinity::pin_to(core).map_err(|error| error.to_string())
}

/// What was done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    /// So many packets, copies or touches.
    pub(super) pieces: usize,
    spent_ns: u64,
}

impl Done {
    /// Of each.
    pub(super) fn ns_each(self) -> f64 {
        self.spent_ns as f64 / self.pieces as f64
    }
}

/// Has `work` done, of `pieces` pieces each time, for the job's time or until its packets are done.
///
/// # Errors
/// The user wants an end.
pub(super) fn run(job: &Job<'_>, pieces: usize, mut work: impl FnMut()) -> Result<Done, String> {
    let mut done = Done { pieces: 0, spent_ns: 0 };
    while job.goes_on(done.pieces, done.spent_ns) {
        go_on(job.stop)?;
        let start_ns = clock::monotonic_ns();
        work();
        done.spent_ns += clock::monotonic_ns() - start_ns;
        done.pieces += pieces;
    }
    Ok(done)
}
