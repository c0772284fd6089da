//! A job under supervision: what is to run, and what runs.
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

use super::child::Child;
use super::figures::JobNow;
use super::policy::Failures;
use super::site::Job;

/// A job and its state.
pub(super) struct Slot {
    pub(super) job: Job,
    pub(super) state: State,
    pub(super) failures: Failures,
    /// How often it was started, as it is defined now.
    pub(super) starts: u64,
    /// What comes when the process has ended that is being ended.
    pub(super) successor: Successor,
}

/// Where a job is.
pub(super) enum State {
    /// It starts as soon as what it waits for is there. If that is named, it was printed.
    Waiting { told: Option<String> },
    /// Its process is there.
    Running(Child),
    /// Its process was asked to end.
    Ending { child: Child, due: Instant, was_urged: bool },
    /// It starts again at this time.
    Resting { until: Instant },
    /// It does not start again.
    Over { has_failed: bool },
}

/// A state's word.
type Named = (&'static str, fn(&State) -> bool);

/// All states' words; each state has one.
pub(super) const STATES: [Named; 6] = [
    ("running", |state| matches!(state, State::Running(_))),
    ("waiting", |state| matches!(state, State::Waiting { .. })),
    ("restarting", |state| matches!(state, State::Resting { .. })),
    ("ending", |state| matches!(state, State::Ending { .. })),
    ("ended", |state| matches!(state, State::Over { has_failed: false })),
    ("failed", |state| matches!(state, State::Over { has_failed: true })),
];

/// What comes after a process that is being ended.
pub(super) enum Successor {
    /// Nothing: the service ends.
    Nobody,
    /// The job has another definition now.
    Job(Box<Job>),
    /// The file has no such job any more.
    Removed,
}

impl Slot {
    /// One that is about to start.
    pub(super) fn new(job: Job) -> Self {
        let state = State::Waiting { told: None };
        let (failures, successor) = (Failures::default(), Successor::Nobody);
        Self { job, state, failures, starts: 0, successor }
    }

    /// The same job with what the file says now. Where that is the same process, its starts count
    /// on: a recorder then leaves what it has recorded.
    pub(super) fn followed_by(&self, job: Job) -> Self {
        let starts = if self.job.runs_as(&job) { self.starts } else { 0 };
        Self { starts, ..Self::new(job) }
    }

    /// The process, if there is one.
    pub(super) fn child(&mut self) -> Option<&mut Child> {
        match &mut self.state {
            State::Running(child) | State::Ending { child, .. } => Some(child),
            _ => None,
        }
    }

    /// What the service shows of it.
    pub(super) fn now(&self) -> JobNow {
        let metrics = match &self.state {
            State::Running(child) | State::Ending { child, .. } => child.metrics(),
            _ => None,
        };
        let state = STATES.iter().position(|(_, is_so)| is_so(&self.state));
        let state = state.expect("each state has a word");
        JobNow { name: self.job.name.clone(), state, starts: self.starts, metrics }
    }

    /// Whether it is neither starting nor ending.
    pub(super) fn is_settled(&self) -> bool {
        match &self.state {
            State::Running(child) => child.is_started,
            State::Waiting { told } => told.is_some(),
            State::Ending { .. } => false,
            State::Resting { .. } | State::Over { .. } => true,
        }
    }

    /// Whether it does nothing any more.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Over { .. })
    }

    /// What it is to be: the definition that the file had last; `None`: gone.
    pub(super) fn target(&self) -> Option<&Job> {
        match (&self.state, &self.successor) {
            (State::Ending { .. }, Successor::Job(job)) => Some(job),
            (State::Ending { .. }, Successor::Removed) => None,
            _ => Some(&self.job),
        }
    }
}
