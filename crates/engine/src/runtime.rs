//! The runtime: what every thread of every job does besides its own work.
//!
//! ```text
//!  verb ──► Job (clock, budget, progress) ──► crew: a thread a stage
//!                                               │ settle: core, class, stack; then rights go
//!                                               ▼
//!  stage:  over? ──► step.poll ──► look at the clock ──► meter, progress, losses
//!            ▲                                              │ nothing came
//!            └───────────────────── wait, as `--poll` says ◄┘
//!          over: drain ──► close ──► last look at losses ──► Done { cost, losses, outcome }
//! ```
//!
//! A verb brings [`Step`]s: what one poll does, what to wait for, what it has to tell at the end.
//! The loop around a step exists once ([`stage`]), as do the steps that fill logs and read them
//! ([`logs`]). A verb puts these together and makes a report of its threads' outcomes.
//!
//! Who owns what when: a [`Job`] is shared and lives as long as its threads. A step belongs to its
//! thread until `end` turns it into its outcome. The loop owns meter, patience and the watch over
//! losses. Ports belong to steps, which borrow them of the verb, so the verb has them back for its
//! report.
//!
//! Invariants:
//! - T1: a thread that cannot take its place breaks the job off, and still runs its stage: sources
//!   end, logs are closed, everything is counted. Its job returns the error.
//! - T2: a stage of sources ends at most one poll after the job's clock says so. A stage that reads
//!   logs ends when these have ended, so nothing stays between the two.
//! - T3: losses are read every 100 ms and once more at the end. Only this loop knows what was lost
//!   in the first second.
//! - T4: no thread outlives [`run`], and none keeps rights that it does not need. The thread that
//!   starts the others gives its own up last, because they begin with its rights.

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
pub(crate) use source::{Owners, clock_kind, policy_for};
pub(crate) use stage::{Next, Pause, Polled, Step};
pub(crate) use tally::{Span, Tally, tally, tally_of_log};
pub use threads::Threads;
pub(crate) use threads::spawn;
pub use waiting::PollMode;
