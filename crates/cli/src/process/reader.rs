//! Ends the job when the reader of standard output has gone, even if no packets arrive.

use std::io;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use burstline_sys::readiness::{Ready, wait};
use burstline_sys::{privileges, process};

use crate::failure::Failure;

/// Interval between two checks when the kernel does not wake us.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Starts a thread that watches for the end of the reader.
pub(crate) fn begin() -> Result<(), Failure> {
    let listener = thread::Builder::new().name("reader".to_owned()).spawn(|| {
        // If dropping privileges fails here, the job's own threads report the same error.
        let _ = privileges::give_up();
        while !is_gone(u64::MAX) {
            thread::sleep(LOOK_EVERY);
        }
        process::ask_self_to_end();
    });
    let failed = |error| Failure::new(format!("start the thread `reader`: {error}"));
    listener.map(drop).map_err(failed)
}

/// Returns whether the reader has gone, after waiting for that at most `timeout_ns`.
///
/// The write end of a pipe never becomes readable, but it reports an error once its read end is
/// closed. Source: poll(2), `POLLERR`.
pub(crate) fn is_gone(timeout_ns: u64) -> bool {
    matches!(wait(&[io::stdout().as_fd()], timeout_ns), Ok(Ready::Failed))
}
