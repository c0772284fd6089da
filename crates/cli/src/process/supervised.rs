//! The line between a job and the service that started it: the job's standard input, a socket.
//!
//! ```text
//!   job ◄──1 byte, [listener]── service      before it starts: where the job answers the service
//!   job ──────"serving\n"──────► service      once, if it was given one: it answers there
//!   job ──────"started\n"──────► service      once, when its threads run
//!   job ◄─────────end────────── service      when it has gone, by SIGKILL, too: the job ends
//! ```
//!
//! The service makes the listening socket, and keeps it while the job lives. So it knows where to
//! ask without the job's word, and nobody else gets that address.
//!
//! A parent-death signal would not do: the kernel forgets it where a process gives up its rights
//! (prctl(2), `PR_SET_PDEATHSIG`), and every job does.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use burstline_sys::{privileges, process, rights};

use crate::failure::{Failure, complain};

/// A job that does not end by itself within this time is ended without a report.
const PATIENCE: Duration = Duration::from_secs(10);

static LINE: OnceLock<File> = OnceLock::new();

/// The socket that the service has given, until it is served.
static GIVEN: Mutex<Option<TcpListener>> = Mutex::new(None);

/// Takes what the service gives, and listens for its end from now on.
pub(crate) fn begin() -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::new(format!("the connection to the service: {error}"));
    let line = File::from(io::stdin().as_fd().try_clone_to_owned().map_err(failed)?);
    let given = rights::receive_one(&line).map_err(failed)?.map(TcpListener::from);
    *GIVEN.lock().unwrap_or_else(PoisonError::into_inner) = given;
    let _ = LINE.set(line.try_clone().map_err(failed)?);
    let listener = thread::Builder::new().name("supervised".to_owned()).spawn(move || {
        // Where giving up is refused, the job's own threads fail for the same reason and say so.
        let _ = privileges::give_up();
        wait_for_end(line);
        complain("the service has gone: the job ends");
        process::ask_self_to_end();
        thread::sleep(PATIENCE);
        process::ask_self_to_end();
    });
    listener.map(drop).map_err(failed)
}

fn wait_for_end(mut line: File) {
    let mut room = [0; 64];
    loop {
        match line.read(&mut room) {
            // The service sends nothing; what somebody else sends is not understood.
            Ok(1..) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
        }
    }
}

/// The line that says that the job answers at the socket which it was given.
pub(crate) const SERVING: &str = "serving";

/// The line that says that the job's threads run.
pub(crate) const STARTED: &str = "started";

/// The socket that the service has given, if it has, and if nobody has taken it before.
pub(crate) fn take_listener() -> Option<TcpListener> {
    GIVEN.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Says that the job's threads run, if a service wants to know.
pub(crate) fn tell_started() {
    tell(STARTED);
}

/// Says that the job answers at the socket which it was given.
pub(crate) fn tell_serving() {
    tell(SERVING);
}

fn tell(words: &str) {
    if let Some(mut line) = LINE.get() {
        // A service that has gone does not want to know.
        let _ = line.write_all(format!("{words}\n").as_bytes());
    }
}
