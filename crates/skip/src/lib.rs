//! Reports of tests other than pass and fail: that a test cannot run on this machine and why, and
//! its packet counts.
//!
//! ```text
//!  test: a requirement is missing --skip---> standard error     skipped: TEST: REASON
//!                                     '----> $BURSTLINE_SKIPS   skipped PROGRAM::TEST REASON
//!  scripts/test reads that file, takes those tests from the passed ones, lists them by reason
//! ```
//!
//! Rust's own test harness has no skip at run time: the test returns, and the harness counts it as
//! passed. So `scripts/test` corrects the count separately. Decision 0022 says why the harness
//! stays.
//!
//! Invariants:
//! - S1: a test that returns before its checks has called [`skip`].
//! - S2: a record is one line, written in one call: tests of several threads and programs share the
//!   file.
//! - S3: a record bears the name by which the harness knows the test: that of its thread. No caller
//!   gives a name. `scripts/test` fails if a record names no test.
#![forbid(unsafe_code)]

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// The environment variable that names the file of records.
pub const RECORDS: &str = "BURSTLINE_SKIPS";

/// Reports that the test on this thread does not run. `reason` says what is missing, and which
/// command fixes that. The caller returns.
///
/// # Panics
/// If the skip could not be counted: see [`test_name`], and if the file named by [`RECORDS`] cannot
/// be written.
pub fn skip(reason: impl Display) {
    record("skipped", &reason.to_string());
}

/// Reports that the test on this thread omits a check or a case because of `reason`.
///
/// # Panics
/// See [`skip`].
pub fn without(reason: impl Display) {
    record("partly", &reason.to_string());
}

/// Prints a test's packet counts: a line `ledger {...}` on standard output, which `make campaign`
/// adds up. Packets in neither sum are `unaccounted` there.
///
/// # Panics
/// If more or less was delivered and lost than offered: the test must fail.
pub fn ledger(offered: u64, delivered: u64, lost: &[(&str, u64)]) {
    let sum = delivered + lost.iter().map(|(_, packets)| packets).sum::<u64>();
    let causes: Vec<_> =
        lost.iter().map(|(cause, packets)| format!("\"{cause}\":{packets}")).collect();
    let unaccounted = offered as i64 - sum as i64;
    println!(
        "ledger {{\"offered\":{offered},\"delivered\":{delivered},\"lost\":{{{}}},\
         \"unaccounted\":{unaccounted}}}",
        causes.join(",")
    );
    assert_eq!(unaccounted, 0, "{offered} offered, {delivered} delivered, lost {lost:?}");
}

/// Returns the name of the test on this thread, `module::function`, from the thread's name: `main`
/// if tests share one thread.
///
/// # Panics
/// If the thread has no name: a test has started it. Ask on the test's own thread.
pub fn test_name() -> String {
    let thread = std::thread::current();
    let name = thread.name().expect("a thread without a name is not the thread of a test");
    name.to_owned()
}

fn record(kind: &str, reason: &str) {
    let (test, reason) = (test_name(), reason.lines().collect::<Vec<_>>().join(" "));
    // In one call, like the record below. A failure here cannot be reported; only the record
    // matters.
    let _ = io::stderr().write_all(format!("{kind}: {test}: {reason}\n").as_bytes());
    let Some(file) = std::env::var_os(RECORDS) else { return };
    let program = std::env::args_os().next().unwrap_or_default();
    let program = Path::new(&program).file_name().unwrap_or_default().to_string_lossy();
    // Cargo appends `-` and a hash to the name of a test program.
    let program = program.rsplit_once('-').map_or(&*program, |(name, _)| name);
    let line = format!("{kind}\t{program}::{test}\t{reason}\n");
    let written = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&file)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    if let Err(error) = written {
        panic!("{}: {error}: this skip cannot be counted: {line}", file.display());
    }
}
