//! `burstline`: the command.
//!
//! ```text
//! args    the command line: one definition for each flag
//! verbs   one file for each verb; runs a job of the engine on another thread
//! view    the output: live lines, the ledger, JSON
//! ```
//!
//! Invariants:
//! - I1: with `--json` standard output carries only JSON objects; with `-w -` it carries only the
//!   capture.
//! - I2: an error is one line on standard error: `burstline: what failed, with its numbers`.
//! - I3: no state of the environment makes it panic, including a closed standard output. A panic of
//!   any thread is a defect, and ends the process.
#![forbid(unsafe_code)]

mod args;
mod asking;
mod failure;
mod foreign;
mod job;
mod live;
mod metrics;
mod outcome;
mod paths;
mod process;
mod serving;
mod verbs;
mod view;
mod words;

use process::{confinement, panics, reader, signals, supervised, wall_clock};

use std::process::ExitCode;

use burstline_sys::helper;

use args::{Cli, Typed, Verb};
use failure::Failure;

fn main() -> ExitCode {
    panics::end_the_process();
    // Almost free now; once there are threads, the first log would wait 15 ms for it.
    burstline_sys::barrier::register();
    let typed = match Cli::read() {
        Ok(typed) => typed,
        Err(error) => return failure::usage(&error),
    };
    let code = run(typed).unwrap_or_else(|failure: Failure| failure.print());
    // Those of a job that ended before it could publish.
    burstline_share::give_names_back();
    helper::end();
    #[cfg(feature = "dpdk")]
    let code = mbufs_are_back(code);
    code
}

fn run(typed: Typed) -> Result<ExitCode, Failure> {
    let Typed::Verb(mut verb) = typed else { return verbs::interfaces() };
    verb.settle()?;
    confinement::name(&verb)?;
    if verb.is_supervised() {
        supervised::begin()?;
    }
    match *verb {
        Verb::Count(args) => verbs::count(&args),
        Verb::Flows(args) => verbs::flows(&args),
        Verb::Capture(args) => verbs::capture(&args),
        Verb::Merge(args) => verbs::merge(&args),
        Verb::Extract(args) => verbs::extract(&args),
        Verb::Fetch(args) => verbs::fetch(&args),
        Verb::Query(args) => verbs::query(&args),
        Verb::Info(args) => verbs::info(&args),
        Verb::Check(args) => verbs::check(&args),
        Verb::Recover(args) => verbs::recover(&args),
        Verb::Index(args) => verbs::index(&args),
        Verb::Generate(args) => verbs::generate(&args),
        Verb::Replay(args) => verbs::replay(&args),
        Verb::Lab(args) => verbs::lab(&args),
        Verb::Bounce(args) => verbs::bounce(&args),
        Verb::Switch(args) => verbs::switch(&args),
        Verb::Balance(args) => verbs::balance(&args),
        Verb::Run(args) => verbs::run(&args),
        Verb::Demo(args) => verbs::demo(&args),
        Verb::Doctor(args) => verbs::doctor(&args),
        Verb::Ports(args) => verbs::ports(&args),
        Verb::Top(args) => verbs::top(&args),
        Verb::Explain(args) => verbs::explain(&args),
        Verb::Extcap(args) => verbs::extcap(&args),
        Verb::Version(args) => verbs::version(&args),
        Verb::Completions { shell, .. } => verbs::completions(shell),
        Verb::Man { verb, into } => verbs::man(&verb, into.as_deref()),
    }
}

/// Checks, after every port is closed, that each DPDK pool has all its mbufs back.
#[cfg(feature = "dpdk")]
fn mbufs_are_back(code: ExitCode) -> ExitCode {
    match burstline_port::leaked_mbufs() {
        0 => code,
        leaked => {
            failure::complain(&format!("{leaked} mbufs were not returned; please report this"));
            ExitCode::from(failure::FAILED)
        }
    }
}
