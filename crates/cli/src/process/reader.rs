//! Who reads our standard output: when it has gone, the job ends, also while no packet comes.

use std::io;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use burstline_sys::readiness::{Ready, wait};
use burstline_sys::{privileges, process};

use crate::failure::Failure;

/// Between two looks, where the kernel does not wake us.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Listens for the reader's end from now on.
pub(crate) fn begin() -> Result<(), Failure> {
    let listener = thread::Builder::new().name("reader".to_owned()).spawn(|| {
        // Where giving up is refused, the job's own threads fail for the same reason and say so.
        let _ = privileges::give_up();
        while !is_gone(u64::MAX) {
            thread::sleep(LOOK_EVERY);
        }
        process::ask_self_to_end();
    });
    let failed = |error| Failure::new(format!("start the thread `reader`: {error}"));
    listener.map(drop).map_err(failed)
}

/// Whether it has gone; waits for that at most `timeout_ns`.
///
/// The end of a pipe that is written is never readable, but in error once nobody has the other end.
/// Source: poll(2), `POLLERR`.
pub(crate) fn is_gone(timeout_ns: u64) -> bool {
    matches!(wait(&[io::stdout().as_fd()], timeout_ns), Ok(Ready::Failed))
}
