//! Sends signals to programs started by tests and the lab. By a system call, because a minimal
//! Debian does not have kill(1).

use std::time::{Duration, Instant};
use std::{fs, io, thread};

use rustix::process::{Pid, Signal, kill_process};

/// How long a program may take to stop: each thread stops when it next leaves the kernel.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends a signal to a process; `name` is as in kill(1): `-INT`, `-KILL`, `-STOP`, ... After
/// `-STOP`, none of its threads runs any more.
///
/// # Errors
/// There is no such process, or it belongs to another user; it does not stop.
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
    kill_process(process.expect("process numbers are above 0"), signal)?;
    let until = Instant::now() + PATIENCE;
    while signal == Signal::STOP && runs(process_id) {
        if Instant::now() > until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Whether a thread of the process is neither stopped nor dead.
fn runs(process_id: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{process_id}/task")) else { return false };
    threads.flatten().any(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The state follows the name, which is in parentheses.
        let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
        state.is_some_and(|state| !"TtZX".contains(state))
    })
}
