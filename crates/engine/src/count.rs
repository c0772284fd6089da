//! Counts packets, run to completion: packets are read in place, on the core that polls
//! ([`work`](crate::work)).

use std::sync::{Mutex, PoisonError};

use burstline_log::Burst;

use crate::runtime::Job;
use crate::work::{Unhurried, Work, report, run_works};
use crate::{EngineError, Inlet, Report, Run, Threads, Verifier};

/// Name of the threads that count.
const STAGE: &str = "poll";

/// Counts the packets of all sources, each on its own thread, until they end, a limit is
/// reached or `stop` is set. Many files share a few threads for each core.
///
/// # Errors
/// If the threads cannot be started, pinned or given their scheduling class. Later failures of a
/// source are in the report's `errors`; the other sources are counted to their end.
pub fn count(sources: Vec<Inlet>, threads: &Threads, run: &Run<'_>) -> Result<Report, EngineError> {
    complete(sources, |_| Unhurried(|_: &Burst<'_>| {}), threads, run)
}

/// Like [`count`], but also passes every packet to `verifier`. The workers take turns with it, one
/// burst at a time. Packets of one flow from several sources are in the order of those turns.
///
/// # Errors
/// As [`count`].
pub fn count_verified(
    sources: Vec<Inlet>,
    verifier: &Mutex<Verifier>,
    threads: &Threads,
    run: &Run<'_>,
) -> Result<Report, EngineError> {
    let see = |burst: &Burst<'_>| {
        verifier.lock().unwrap_or_else(PoisonError::into_inner).see(burst);
    };
    complete(sources, |_| Unhurried(see), threads, run)
}

/// Receives, processes and releases packets, on threads as [`count`]. `work_for` takes a source
/// number and returns the closure that sees each of its bursts, in the port's memory. The closure
/// copies what it keeps, and sends through a sink that it owns.
///
/// # Errors
/// As [`count`].
pub fn run_to_completion<W: FnMut(&Burst<'_>) + Send>(
    sources: Vec<Inlet>,
    work_for: impl FnMut(usize) -> W,
    threads: &Threads,
    run: &Run<'_>,
) -> Result<Report, EngineError> {
    complete(sources, work_for, threads, run)
}

/// As [`run_to_completion`], for any work: the trait [`Work`] is private to this crate.
fn complete<W: Work<Outcome = ()>>(
    mut sources: Vec<Inlet>,
    mut work_for: impl FnMut(usize) -> W,
    threads: &Threads,
    run: &Run<'_>,
) -> Result<Report, EngineError> {
    threads.check(sources.len())?;
    let job = Job::start(threads, run);
    run.progress.start(0);
    let works = (0..sources.len()).map(&mut work_for).collect();
    let crew = run_works(&job, &mut sources, works, STAGE)?;
    Ok(report(&job, &sources, crew, STAGE).report)
}
