//! The connection between a job and the service that started it: the job's standard input, a
//! socket.
//!
//! ```text
//!   job ◄──1 byte, [socket]──── service      before it starts: the listener for queries
//!   job ──────"serving\n"──────► service     once, if it got a listener: it answers there
//!   job ──────"started\n"──────► service     once, when its threads run
//!   job ◄─────────end────────── service      when the service exits, even by SIGKILL: the job ends
//! ```
//!
//! The service creates the listening socket and keeps it while the job lives. So it knows the
//! address without asking the job, and no other process gets it.
//!
//! A parent-death signal would not work: the kernel clears it when a process drops its privileges
//! (prctl(2), `PR_SET_PDEATHSIG`), which every job does.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use burstline_sys::{privileges, process, rights};

use crate::failure::{Failure, complain};

/// A job that does not end within this time is terminated without a report.
const PATIENCE: Duration = Duration::from_secs(10);

static LINE: OnceLock<File> = OnceLock::new();

/// The socket that the service passed, until it is taken.
static GIVEN: Mutex<Option<OwnedFd>> = Mutex::new(None);

/// Takes the socket from the service, and starts to watch for the service's end.
pub(crate) fn begin() -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::new(format!("the connection to the service: {error}"));
    let line = File::from(io::stdin().as_fd().try_clone_to_owned().map_err(failed)?);
    let given = rights::receive_one(&line).map_err(failed)?;
    *GIVEN.lock().unwrap_or_else(PoisonError::into_inner) = given;
    let _ = LINE.set(line.try_clone().map_err(failed)?);
    let listener = thread::Builder::new().name("supervised".to_owned()).spawn(move || {
        // If dropping privileges fails here, the job's own threads report the same error.
        let _ = privileges::give_up();
        wait_for_end(line);
        complain("the service has exited: this job ends");
        process::ask_self_to_end();
        thread::sleep(PATIENCE);
        process::ask_self_to_end();
    });
    listener.map(drop).map_err(failed)
}

/// Receives the socket that the service passed to a process that ends with that socket: it does not
/// watch standard input.
pub(crate) fn receive_given() -> Result<Option<OwnedFd>, Failure> {
    let failed = |error: io::Error| Failure::new(format!("the connection to the service: {error}"));
    rights::receive_one(io::stdin()).map_err(failed)
}

fn wait_for_end(mut line: File) {
    let mut room = [0; 64];
    loop {
        match line.read(&mut room) {
            // The service sends nothing here; ignore bytes from anyone else.
            Ok(1..) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
        }
    }
}

/// The line that tells the service that the job answers on its listener.
pub(crate) const SERVING: &str = "serving";

/// The line that tells the service that the job's threads run.
pub(crate) const STARTED: &str = "started";

/// Takes the listener that the service passed, if there is one.
pub(crate) fn take_listener() -> Option<TcpListener> {
    take_given().map(TcpListener::from)
}

/// Takes the socket that the service passed, if there is one. What it is depends on the verb: a
/// job gets a listener, the process for the service's metrics the line for its questions.
pub(crate) fn take_given() -> Option<OwnedFd> {
    GIVEN.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Tells the service, if there is one, that the job's threads run.
pub(crate) fn tell_started() {
    tell(STARTED);
}

/// Tells the service that the job answers on its listener.
pub(crate) fn tell_serving() {
    tell(SERVING);
}

fn tell(words: &str) {
    if let Some(mut line) = LINE.get() {
        // The service may have exited.
        let _ = line.write_all(format!("{words}\n").as_bytes());
    }
}
