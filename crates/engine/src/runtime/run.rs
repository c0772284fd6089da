//! One run of a job: what ends it, and where its progress shows.

use std::sync::atomic::AtomicBool;

use super::progress::Progress;

/// Limits that end a job, besides its sources and its flag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Total packets of all sources; exact.
    pub packets: Option<u64>,
    /// Time from the start of the threads, in ns.
    pub duration_ns: Option<u64>,
}

/// What every job needs to run, besides its ports and options.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Setting it ends the job.
    pub stop: &'a AtomicBool,
    /// Shows the job's counts while it runs.
    pub progress: &'a Progress,
    /// The limits of the run.
    pub limits: Limits,
}

impl<'a> Run<'a> {
    /// Creates a run without limits.
    pub fn new(stop: &'a AtomicBool, progress: &'a Progress) -> Self {
        Self { stop, progress, limits: Limits::default() }
    }

    /// Returns the same run with these limits.
    #[must_use]
    pub fn within(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }
}
