//! `burstline run`: a service that supervises jobs.
//!
//! ```text
//!   site.toml ──► site: faults, or jobs ──► supervisor ──spawns──► child: burstline VERB ...
//!                  keys: of clap's flags        │  ▲                 │ started,  │ what it
//!                  policy: when to restart      │  └─────events──────┘ ended     ▼ prints
//!                                               ├──► journal ──► the log, text or JSON lines:
//!                                               │                from a process without rights
//!                                               ├──► notify: systemd, or a similar manager
//!                                               └──► board ──► figures: the metrics of all jobs,
//!                                                              in a process without rights
//! ```
//!
//! The service itself receives no packets. A job is a child process running this program, with its
//! own privileges, memory and ledger. A reload affects only what changed.
//!
//! Invariants:
//! - U1: nothing starts from a file with a fault, and a reload with one changes nothing.
//! - U2: only the supervisor's thread changes the state of a job; others send it events.
//! - U3: no process of it outlives the service: see [`supervised`](crate::supervised).
//! - U4: the supervisor keeps its rights. It parses its file only. Of jobs it compares words of 8
//!   bytes, and from its own processes it takes one byte, or a number of 8 bytes. What jobs print,
//!   what they answer and what scrapers ask is read by processes without rights.

mod board;
mod child;
mod figures;
mod journal;
mod keys;
mod notify;
mod policy;
mod room;
mod site;
mod slot;
mod supervisor;

use std::process::ExitCode;

use crate::args::RunArgs;
use crate::failure::{Failure, complain};
use crate::view;
#[cfg(test)]
pub(crate) use keys::OWN as KEYS_OF_JOBS;
use site::Site;
use supervisor::Supervisor;

/// Runs the jobs of a file, or only checks the file.
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    if args.answers {
        return figures::serve();
    }
    if args.journal {
        return journal::serve(args.log_format);
    }
    let site = Site::read(&args.file).map_err(|faults| {
        let (path, count) = (args.file.display(), faults.len());
        faults.iter().for_each(|fault| complain(&format!("{path}:{fault}")));
        let errors = if count == 1 { "1 error".to_owned() } else { format!("{count} errors") };
        Failure::usage(format!("{path}: {errors}; nothing was started"))
    })?;
    let own = args.metrics.map(|address| format!("an address {address}"));
    let has_own = |job: &&site::Job| own.as_ref().is_some_and(|own| job.claims.contains(own));
    if let (Some(address), Some(job)) = (args.metrics, site.jobs.iter().find(has_own)) {
        let what = format!("--metrics {address}: job {} of the file has it already", job.name);
        return Err(Failure::usage(what));
    }
    if args.check {
        let mut text = String::new();
        for job in &site.jobs {
            text += &format!("{}: {}\n", job.name, job.command_text(true));
        }
        view::print(&format!("{text}{}: no errors\n", args.file.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    Supervisor::new(args, site)?.run()
}
