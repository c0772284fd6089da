//! A supervised job: its definition and its process.
//!
//! ```text
//!              ports there            threads run
//!   Waiting ─────────────► Running ◄─────────────  is_started
//!      ▲                   │  │  end asked
//!      │ delay over   ended│  └──────► Ending ──► next job, or gone
//!      └──── Resting ◄─────┘
//!                          └──────► Over
//! ```

use std::time::Instant;

use super::board::{JobNow, Posted};
use super::child::Child;
use super::policy::Failures;
use super::site::Job;

/// A job and its state.
pub(super) struct Slot {
    pub(super) job: Job,
    pub(super) state: State,
    pub(super) failures: Failures,
    /// Number of starts with its current definition.
    pub(super) starts: u64,
    /// What follows when the current process, which was asked to end, has ended.
    pub(super) successor: Successor,
}

/// The state of a job.
pub(super) enum State {
    /// Starts as soon as its ports exist. `told` is what the log said it waits for.
    Waiting { told: Option<String> },
    /// Its process runs.
    Running(Child),
    /// Its process was asked to end.
    Ending { child: Child, due: Instant, was_urged: bool },
    /// It is restarted at this time.
    Resting { until: Instant },
    /// It is not restarted.
    Over { has_failed: bool },
}

/// A state's name and predicate.
type Named = (&'static str, fn(&State) -> bool);

/// The names of all states; each state has exactly one.
pub(super) const STATES: [Named; 6] = [
    ("running", |state| matches!(state, State::Running(_))),
    ("waiting", |state| matches!(state, State::Waiting { .. })),
    ("restarting", |state| matches!(state, State::Resting { .. })),
    ("ending", |state| matches!(state, State::Ending { .. })),
    ("ended", |state| matches!(state, State::Over { has_failed: false })),
    ("failed", |state| matches!(state, State::Over { has_failed: true })),
];

/// What follows a process that was asked to end.
pub(super) enum Successor {
    /// Nothing: the service ends.
    Nobody,
    /// The job's new definition.
    Job(Box<Job>),
    /// The job was removed from the file.
    Removed,
}

impl Slot {
    /// Creates a slot for a job that is about to start.
    pub(super) fn new(job: Job) -> Self {
        let state = State::Waiting { told: None };
        let (failures, successor) = (Failures::default(), Successor::Nobody);
        Self { job, state, failures, starts: 0, successor }
    }

    /// Returns a slot for the new definition of the same job. If the process is unchanged, its
    /// starts are counted on, so that a recorder keeps its recording.
    pub(super) fn followed_by(&self, job: Job) -> Self {
        let starts = if self.job.runs_as(&job) { self.starts } else { 0 };
        Self { starts, ..Self::new(job) }
    }

    /// Returns the process, if there is one.
    pub(super) fn child(&mut self) -> Option<&mut Child> {
        match &mut self.state {
            State::Running(child) | State::Ending { child, .. } => Some(child),
            _ => None,
        }
    }

    /// Returns the published state.
    pub(super) fn now(&self) -> Posted {
        let metrics = match &self.state {
            State::Running(child) | State::Ending { child, .. } => child.metrics(),
            _ => None,
        };
        let state = STATES.iter().position(|(_, is_so)| is_so(&self.state));
        let state = state.expect("each state has a word");
        let job = JobNow { name: self.job.name.clone(), state, starts: self.starts };
        Posted { job, metrics }
    }

    /// Returns whether the job is neither starting nor ending.
    pub(super) fn is_settled(&self) -> bool {
        match &self.state {
            State::Running(child) => child.is_started,
            State::Waiting { told } => told.is_some(),
            State::Ending { .. } => false,
            State::Resting { .. } | State::Over { .. } => true,
        }
    }

    /// Returns whether the job has ended for good.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Over { .. })
    }

    /// Returns the definition that the file had last, or `None` if the job was removed.
    pub(super) fn target(&self) -> Option<&Job> {
        match (&self.state, &self.successor) {
            (State::Ending { .. }, Successor::Job(job)) => Some(job),
            (State::Ending { .. }, Successor::Removed) => None,
            _ => Some(&self.job),
        }
    }
}
