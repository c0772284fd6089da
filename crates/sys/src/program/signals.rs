//! Signals are for the threads that expect them.

use std::mem::zeroed;

use libc::{SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP, c_int, sigset_t};

/// Signals of what a thread has done itself: a blocked one would end the process all the same.
const OWN: [c_int; 6] = [SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP];

/// Calls `start` with every signal blocked that another process may send. A thread that it starts
/// has them blocked for good, so they go to the program's other threads.
///
/// A library owes that to its host. A host that blocks a signal and waits for it by signalfd(2), or
/// sleeps in ppoll(2) until one comes, does not know of our threads.
///
/// Cost: two system calls.
pub fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: all zeros are a valid set, and both calls only fill sets of ours. They fail for an
    // unknown request only.
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
    // SAFETY: the set is the one that the first call filled.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    started
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::thread;

    use super::without_signals;

    /// The calling thread's blocked signals, a bit each. Source: proc(5), `SigBlk`.
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
