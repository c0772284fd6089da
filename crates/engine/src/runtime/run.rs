//! One run of a job: what ends it, and what shows its progress.

use std::sync::atomic::AtomicBool;

use super::progress::Progress;

/// What ends a job besides its sources and its flag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Packets over all sources, exactly.
    pub packets: Option<u64>,
    /// Time from the start of the threads, in ns.
    pub duration_ns: Option<u64>,
}

/// What every job is run with, besides its ports and options.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Ends the job when it is set.
    pub stop: &'a AtomicBool,
    /// Where the job's counts show while it runs.
    pub progress: &'a Progress,
    /// What bounds it.
    pub limits: Limits,
}

impl<'a> Run<'a> {
    /// A run without limits.
    pub fn new(stop: &'a AtomicBool, progress: &'a Progress) -> Self {
        Self { stop, progress, limits: Limits::default() }
    }

    /// The same run with these limits.
    #[must_use]
    pub fn within(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }
}
