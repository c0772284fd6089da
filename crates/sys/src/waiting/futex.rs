//! Sleeping until a word in shared memory changes.
//!
//! ```text
//!   reader (any process)                        writer
//!   seen = load(word)
//!   nothing new? wait(word, seen, timeout) <--- store(word), wake(word)
//!     the kernel compares again, under its lock: no change in between is missed
//! ```
//!
//! These are shared futexes: the kernel identifies the word by its page. So the two sides may map
//! it at different addresses, and the waiting side may map it read-only.
//!
//! The caller always checks the word again: wakes can be spurious, and the other side may be
//! hostile. For the same reason a wait without a timeout is not offered.
//!
//! Source: futex(2).

use std::io;
use std::ptr;
use std::sync::atomic::AtomicU32;

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// Something woke this thread, perhaps spuriously.
    Woken,
    /// The word no longer had the expected value, so the thread did not sleep (`EAGAIN`).
    Changed,
    /// The timeout passed.
    TimedOut,
    /// A signal came first (`EINTR`).
    Interrupted,
    /// The kernel does not let this process wait, for instance because of a seccomp filter. The
    /// caller must sleep by other means, or it spins.
    Refused {
        /// The error number.
        errno: i32,
    },
}

/// Sleeps while `word` is `expected`, for at most `timeout_ns` nanoseconds of the monotonic clock.
///
/// `word` may be in memory mapped read-only. Ordering: none is promised; the caller's own acquiring
/// load of the word makes the waker's earlier writes visible.
///
/// Cost: one system call; a sleep and a wake take a few microseconds.
pub fn wait(word: &AtomicU32, expected: u32, timeout_ns: u64) -> WaitOutcome {
    const SECOND_NS: u64 = 1_000_000_000;
    // Both fit: u64::MAX nanoseconds are 1.8e10 seconds.
    let timeout = libc::timespec {
        tv_sec: (timeout_ns / SECOND_NS) as _,
        tv_nsec: (timeout_ns % SECOND_NS) as libc::c_long,
    };
    let address = word.as_ptr();
    let timeout = &raw const timeout;
    // SAFETY: `address` is a live, aligned word and `timeout` a live timespec for the whole call;
    // the kernel only reads them.
    let result =
        unsafe { libc::syscall(libc::SYS_futex, address, libc::FUTEX_WAIT, expected, timeout) };
    if result == 0 {
        return WaitOutcome::Woken;
    }
    match io::Error::last_os_error().raw_os_error().unwrap_or(0) {
        libc::EAGAIN => WaitOutcome::Changed,
        libc::ETIMEDOUT => WaitOutcome::TimedOut,
        libc::EINTR => WaitOutcome::Interrupted,
        errno => WaitOutcome::Refused { errno },
    }
}

/// Wakes up to `count` threads that wait on `word`, in any process. Returns how many it woke.
///
/// Cost: one system call, 0.2 us when no thread waits.
pub fn wake(word: &AtomicU32, count: u32) -> u32 {
    let count = count.min(i32::MAX as u32);
    let nothing = ptr::null::<libc::timespec>();
    let address = word.as_ptr();
    // SAFETY: `address` is a live, aligned word; a wake does not even read it.
    let woken =
        unsafe { libc::syscall(libc::SYS_futex, address, libc::FUTEX_WAKE, count, nothing) };
    // The only possible error is a refused call. Then no thread was woken, and timeouts still work.
    u32::try_from(woken).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG_NS: u64 = 60_000_000_000;

    #[test]
    fn a_changed_word_is_not_slept_on() {
        assert_eq!(wait(&AtomicU32::new(1), 0, LONG_NS), WaitOutcome::Changed);
    }

    #[test]
    fn a_wait_ends_when_its_time_is_up() {
        assert_eq!(wait(&AtomicU32::new(1), 1, 1_000_000), WaitOutcome::TimedOut);
        assert_eq!(wait(&AtomicU32::new(1), 1, 0), WaitOutcome::TimedOut);
    }

    #[test]
    fn nobody_is_there_to_be_woken() {
        assert_eq!(wake(&AtomicU32::new(0), u32::MAX), 0);
    }

    #[test]
    fn a_waiting_thread_is_woken() {
        let word = AtomicU32::new(0);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| wait(&word, 0, LONG_NS));
            // The word keeps its value, so only this wake ends the wait.
            while wake(&word, 1) == 0 {
                std::thread::yield_now();
            }
            assert_eq!(waiter.join().unwrap(), WaitOutcome::Woken);
        });
    }

    #[cfg(not(miri))]
    #[test]
    fn a_wait_on_a_read_only_mapping_is_woken_through_the_writers() {
        use std::sync::atomic::Ordering;

        use crate::memory::{Mapping, PageChoice, Region, RegionRequest};

        let pages = PageChoice::Size4K;
        let request = RegionRequest { name: "futex".to_owned(), bytes: 4096, pages, node: None };
        let region = Region::create(&request).unwrap();
        let file = region.file().try_clone_to_owned().unwrap();
        let mapping = Mapping::attach_read_only(file, None).unwrap();
        assert_ne!(mapping.as_ptr(), region.as_ptr());
        // SAFETY: both mappings are page-aligned, hold zeroed bytes and live to the end of the
        // test; all access is atomic.
        let (writer, reader) = unsafe {
            (region.as_ptr().cast::<AtomicU32>().as_ref(), mapping.as_ptr().cast().as_ref())
        };
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| wait(reader, 0, LONG_NS));
            while wake(writer, 1) == 0 {
                std::thread::yield_now();
            }
            assert_eq!(waiter.join().unwrap(), WaitOutcome::Woken);
        });
        writer.store(1, Ordering::Relaxed);
        assert_eq!(wait(reader, 0, LONG_NS), WaitOutcome::Changed);
    }
}
