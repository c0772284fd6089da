//! SIGINT, SIGTERM, and SIGHUP where nohup(1) does not have it ignored: the first ends the job in
//! good order, the second at once. SIGXFSZ, a file above `ulimit -f`, is an error of the write that
//! went too far, not the end of the process. SIGUSR1 is a trigger of the flight recorder.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXFSZ};
use signal_hook::flag;

use crate::failure::Failure;

/// A flag that the first of these signals sets.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
        // Handlers run in this order: the flag is still down when the first signal looks at it.
        // 128 + the signal's number is what a shell shows for a program that a signal ended.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| Failure::new(format!("catch signal {signal}: {error}")))?;
    }
    // A handler that does nothing is enough: the write then fails with EFBIG, and is counted.
    flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))
        .map_err(|error| Failure::new(format!("catch signal {SIGXFSZ}: {error}")))?;
    Ok(stop)
}

/// A flag that each SIGUSR1 sets.
pub(crate) fn trigger_flag() -> Result<Arc<AtomicBool>, Failure> {
    let trigger = Arc::new(AtomicBool::new(false));
    flag::register(SIGUSR1, Arc::clone(&trigger))
        .map_err(|error| Failure::new(format!("catch signal {SIGUSR1}: {error}")))?;
    Ok(trigger)
}

/// Whether whoever started this process has it ignore a signal. Source: proc_pid_status(5).
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
