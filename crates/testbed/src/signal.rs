//! Sends signals to programs started by tests and the lab. By a system call, because a minimal
//! Debian does not have kill(1).

use std::io;

use rustix::process::{Pid, Signal, kill_process};

/// Sends a signal to a process; `name` is as in kill(1): `-INT`, `-KILL`, `-STOP`, ...
///
/// # Errors
/// There is no such process, or it belongs to another user.
///
/// # Panics
/// On an invalid name or number: a bug of the caller.
pub fn signal(process_id: u32, name: &str) -> io::Result<()> {
    let signal = match name {
        "-HUP" => Signal::HUP,
        "-INT" => Signal::INT,
        "-KILL" => Signal::KILL,
        "-TERM" => Signal::TERM,
        "-USR1" => Signal::USR1,
        "-USR2" => Signal::USR2,
        "-STOP" => Signal::STOP,
        "-CONT" => Signal::CONT,
        other => panic!("no signal is called `{other}`"),
    };
    let process = i32::try_from(process_id).ok().and_then(Pid::from_raw);
    kill_process(process.expect("process numbers are above 0"), signal).map_err(io::Error::from)
}
