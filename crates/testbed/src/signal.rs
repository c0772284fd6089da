//! Signals to programs that tests and the lab have started. A system call, because the program
//! kill(1) is not part of a bare Debian.

use std::io;

use rustix::process::{Pid, Signal, kill_process};

/// Sends a signal to a process; `name` is as kill(1) has it: `-INT`, `-KILL`, `-STOP`, ...
///
/// # Errors
/// There is no such process, or it is another user's.
///
/// # Panics
/// On a name or number that is none: a mistake of the caller.
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
