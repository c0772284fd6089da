//! Keeps signals away from threads that do not expect them.

use std::mem::zeroed;

use libc::{SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP, c_int, sigset_t};

/// Signals that a thread causes itself: a blocked one would end the process anyway.
const OWN: [c_int; 6] = [SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP];

/// Calls `start` with every signal blocked that another process may send. A thread that it starts
/// keeps them blocked, so they go to the program's other threads.
///
/// A library owes that to its host. The host may block a signal and wait for it by signalfd(2), or
/// sleep in ppoll(2) until one comes. It does not know of our threads.
///
/// Cost: two system calls.
pub fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: all zeros are a valid set, and both calls only fill our own sets. They fail only for
    // an unknown request.
    let before = unsafe {
        let mut blocked: sigset_t = zeroed();
        libc::sigfillset(&raw mut blocked);
        for signal in OWN {
            libc::sigdelset(&raw mut blocked, signal);
        }
        let mut before: sigset_t = zeroed();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const blocked, &raw mut before);
        before
    };
    let started = start();
    // SAFETY: the first call has filled this set.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    started
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::fs;
    use std::thread;

    use super::without_signals;

    /// Returns the calling thread's blocked signals, a bit each. Source: proc(5), `SigBlk`.
    fn blocked() -> u64 {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap()
    }

    #[test]
    fn a_thread_of_a_library_gets_no_signals_and_its_host_gets_them_as_before() {
        let before = blocked();
        let theirs = without_signals(|| thread::spawn(blocked)).join().unwrap();
        let bit = |signal: i32| 1 << (signal - 1);
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGUSR1, libc::SIGALRM] {
            assert_ne!(theirs & bit(signal), 0, "signal {signal}");
        }
        assert_eq!(theirs & bit(libc::SIGBUS), 0, "its own faults are its own");
        assert_eq!(blocked(), before);
    }
}
