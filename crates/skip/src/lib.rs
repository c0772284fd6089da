//! What a test says besides passed or failed: that it cannot run on this machine and why, and what
//! became of its packets.
//!
//! ```text
//!  test: what it needs is not here --skip--> standard error     skipped: TEST: REASON
//!                                     '----> $BURSTLINE_SKIPS   skipped PROGRAM::TEST REASON
//!  scripts/test reads that file, takes those tests from the passed ones, lists them by reason
//! ```
//!
//! Rust's own test harness knows no skip at run time: the test returns, and the harness counts it
//! as passed. So `scripts/test` makes the count beside the harness. Decision 0022 says why the
//! harness stays.
//!
//! Invariants:
//! - S1: a test that returns before it has checked what it is for has called [`skip`].
//! - S2: a record is one line, written at once: tests of several threads and programs share the
//!   file.
#![forbid(unsafe_code)]

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// The environment variable that names the file of records.
pub const RECORDS: &str = "BURSTLINE_SKIPS";

/// The calling test, `test`, does not run because of `reason`: what is missing, and the command
/// that mends it. The caller returns.
///
/// # Panics
/// The file that [`RECORDS`] names cannot be written: a skip would go uncounted.
pub fn skip(test: impl AsRef<str>, reason: impl Display) {
    record("skipped", test.as_ref(), &reason.to_string());
}

/// The calling test, `test`, goes on without one of its judges or cases, because of `reason`.
///
/// # Panics
/// As [`skip`].
pub fn without(test: impl AsRef<str>, reason: impl Display) {
    record("partly", test.as_ref(), &reason.to_string());
}

/// A test that counts packets prints what became of them: a line `ledger {...}` on standard output,
/// which `make campaign` adds up. What is in neither sum is `unaccounted` there.
///
/// # Panics
/// More was delivered and lost than offered, or less: the test is to fail.
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

/// The test that runs on this thread, as the harness names its thread: `main` where tests take
/// turns on one.
pub fn test_name() -> String {
    std::thread::current().name().unwrap_or("a thread of a test").to_owned()
}

fn record(kind: &str, test: &str, reason: &str) {
    let reason = reason.lines().collect::<Vec<_>>().join(" ");
    // If this fails, there is no one to tell; the record below is what counts.
    let _ = writeln!(io::stderr(), "{kind}: {test}: {reason}");
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
