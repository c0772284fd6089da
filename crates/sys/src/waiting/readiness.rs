//! Sleeps until a descriptor has something to read.
//!
//! ```text
//!   poll the port: nothing --> wait(its descriptor) --> poll the port
//!     level-triggered: data that came in between ends the wait immediately
//! ```
//!
//! The caller polls its ports again in every case. A descriptor in error stays so until its owner
//! clears the error. The kernel may also report a descriptor readable although its port finds
//! nothing. A caller that only waits here would spin, so it must also be able to sleep without it.
//!
//! Source: poll(2), ppoll(2).

use std::io;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};

const SECOND_NS: u64 = 1_000_000_000;

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// At least one descriptor can be read, and none is in error.
    Readable,
    /// At least one descriptor is in error, hung up or closed.
    Failed,
    /// The timeout passed.
    TimedOut,
    /// A signal came first (`EINTR`).
    Interrupted,
}

/// Sleeps until one of `descriptors` is readable or in error, for at most `timeout_ns` nanoseconds.
/// Without descriptors it only sleeps.
///
/// Cost: one system call and a small allocation; a sleep and a wake take tens of microseconds.
///
/// # Errors
/// Errors from the kernel: too many descriptors for the process's limit, or a refusal by a seccomp
/// filter. The caller must then sleep by other means, or it spins.
pub fn wait(descriptors: &[BorrowedFd<'_>], timeout_ns: u64) -> io::Result<Ready> {
    let mut wanted: Vec<PollFd<'_>> = descriptors
        .iter()
        .map(|descriptor| PollFd::from_borrowed_fd(*descriptor, PollFlags::IN))
        .collect();
    match poll(&mut wanted, Some(&timespec(timeout_ns))) {
        Ok(0) => Ok(Ready::TimedOut),
        Ok(_) => {
            let errors = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
            let failed = wanted.iter().any(|one| one.revents().intersects(errors));
            Ok(if failed { Ready::Failed } else { Ready::Readable })
        }
        Err(Errno::INTR) => Ok(Ready::Interrupted),
        Err(error) => Err(error.into()),
    }
}

/// The readiness to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// There is something to read.
    Read,
    /// There is room to write.
    Write,
}

/// Sleeps like [`wait`], and returns for each descriptor whether it is readable or in error.
///
/// # Errors
/// As for [`wait`].
pub fn wait_each(descriptors: &[BorrowedFd<'_>], timeout_ns: u64) -> io::Result<Vec<bool>> {
    let wanted: Vec<_> = descriptors.iter().map(|descriptor| (*descriptor, Wish::Read)).collect();
    wait_each_for(&wanted, timeout_ns)
}

/// Like [`wait_each`], with a wish for each descriptor.
///
/// # Errors
/// As for [`wait`].
pub fn wait_each_for(
    descriptors: &[(BorrowedFd<'_>, Wish)],
    timeout_ns: u64,
) -> io::Result<Vec<bool>> {
    let flag = |wish| match wish {
        Wish::Read => PollFlags::IN,
        Wish::Write => PollFlags::OUT,
    };
    let mut wanted: Vec<PollFd<'_>> = descriptors
        .iter()
        .map(|&(descriptor, wish)| PollFd::from_borrowed_fd(descriptor, flag(wish)))
        .collect();
    match poll(&mut wanted, Some(&timespec(timeout_ns))) {
        Ok(_) => Ok(wanted.iter().map(|one| !one.revents().is_empty()).collect()),
        Err(Errno::INTR) => Ok(vec![false; wanted.len()]),
        Err(error) => Err(error.into()),
    }
}

/// Sleeps until the other end of a terminal, a pipe or a socket is gone.
///
/// # Errors
/// Errors from the kernel.
pub fn wait_for_end(descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let mut ends = [PollFd::from_borrowed_fd(descriptor, PollFlags::empty())];
    retry_on_intr(|| poll(&mut ends, None))?;
    Ok(())
}

fn timespec(timeout_ns: u64) -> Timespec {
    // Both fit: u64::MAX nanoseconds are 1.8e10 seconds.
    Timespec { tv_sec: (timeout_ns / SECOND_NS) as _, tv_nsec: (timeout_ns % SECOND_NS) as _ }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    const LONG_NS: u64 = 60 * SECOND_NS;

    #[test]
    fn what_is_there_ends_the_wait_and_what_is_not_does_not() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        assert_eq!(wait(&[far.as_fd()], 1000).unwrap(), Ready::TimedOut);
        near.write_all(b"x").unwrap();
        assert_eq!(wait(&[far.as_fd()], LONG_NS).unwrap(), Ready::Readable);
        far.read_exact(&mut [0]).unwrap();
        assert_eq!(wait(&[far.as_fd()], 0).unwrap(), Ready::TimedOut);
        assert_eq!(wait(&[], 1000).unwrap(), Ready::TimedOut);
        near.write_all(b"x").unwrap();
        let each = wait_each(&[near.as_fd(), far.as_fd()], LONG_NS).unwrap();
        assert_eq!(each, [false, true]);
        let wishes = [(near.as_fd(), Wish::Write), (near.as_fd(), Wish::Read)];
        assert_eq!(wait_each_for(&wishes, LONG_NS).unwrap(), [true, false]);
    }

    #[test]
    fn a_sleeper_is_woken_by_any_of_its_descriptors() {
        let (_silent_near, silent) = UnixStream::pair().unwrap();
        let (mut near, far) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| wait(&[silent.as_fd(), far.as_fd()], LONG_NS).unwrap());
            near.write_all(b"x").unwrap();
            assert_eq!(sleeper.join().unwrap(), Ready::Readable);
        });
    }

    #[test]
    fn a_descriptor_that_hung_up_is_told_at_once() {
        let (near, far) = UnixStream::pair().unwrap();
        drop(near);
        assert_eq!(wait(&[far.as_fd()], LONG_NS).unwrap(), Ready::Failed);
    }
}
