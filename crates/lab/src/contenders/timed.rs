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

/// Has `work` done, of `pieces` pieces each time, for the job's time. Returns ns of each piece.
///
/// # Errors
/// The user wants an end.
pub(super) fn ns_each(job: &Job<'_>, pieces: usize, mut work: impl FnMut()) -> Result<f64, String> {
    let (mut done, mut spent_ns) = (0, 0);
    while spent_ns < job.time.as_nanos() as u64 {
        go_on(job.stop)?;
        let start_ns = clock::monotonic_ns();
        work();
        spent_ns += clock::monotonic_ns() - start_ns;
        done += pieces;
    }
    Ok(spent_ns as f64 / done as f64)
}
