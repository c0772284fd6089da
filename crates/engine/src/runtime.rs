//! The runtime: the work that every thread of every job does besides its own step.
//!
//! ```text
//!  verb ──► Job (clock, budget, progress) ──► crew: a thread a stage
//!                                               │ settle: core, class, stack; drop rights
//!                                               ▼
//!  stage:  over? ──► step.poll ──► look at the clock ──► meter, progress, losses
//!            ▲                                              │ nothing found
//!            └───────────────────── wait, as `--poll` says ◄┘
//!          over: drain ──► close ──► last look at losses ──► Done { cost, losses, outcome }
//! ```
//!
//! A verb supplies [`Step`]s: what one poll does, what to wait for, and the outcome at the end. The
//! loop around a step exists once ([`stage`]), as do the steps that fill and read logs ([`logs`]).
//! A verb combines these and builds a report from its threads' outcomes.
//!
//! Ownership: a [`Job`] is shared and outlives its threads. A step belongs to its thread until
//! `end` turns it into its outcome. The loop owns the meter, the waiter and the loss watch. Steps
//! borrow their ports from the verb, which uses the ports again for its report.
//!
//! Invariants:
//! - T1: a thread that cannot take its place breaks off the job but still runs its stage. Sources
//!   end, logs are closed, and everything is counted. The job returns the error.
//! - T2: a stage of sources ends at most one poll after the job's clock says so. A stage that reads
//!   logs ends after these logs have ended, so no packet is left between the two.
//! - T3: losses are read every 100 ms and once more at the end. Only this loop knows the losses of
//!   the first second.
//! - T4: no thread outlives [`run`], and none keeps privileges that it does not need. The starting
//!   thread drops its own last, because new threads inherit its privileges.

pub(crate) mod budget;
pub(crate) mod clock;
mod crew;
mod job;
pub(crate) mod logs;
mod losses;
mod meter;
mod progress;
mod round;
mod run;
mod source;
mod stage;
mod tally;
mod threads;
mod waiting;

pub(crate) use crew::{Crew, Done, Post, run, run_alone};
pub(crate) use job::Job;
pub(crate) use meter::{StageCost, Usage};
pub use progress::{
    AGE_BOUNDS, AgesNow, Counts, LogNow, Place, Progress, Snapshot, StageNow, Standing,
};
pub(crate) use round::Round;
pub use run::{Limits, Run};
pub use source::Inlet;
pub(crate) use source::{Owners, can_wait, clock_kind, policy_for};
pub(crate) use stage::{Next, Pause, Polled, Step};
pub(crate) use tally::{Span, Tally, tally, tally_of_log};
pub use threads::Threads;
pub(crate) use threads::spawn;
pub use waiting::PollMode;
