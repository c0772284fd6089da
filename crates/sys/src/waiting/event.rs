//! A flag that a thread can sleep on together with its descriptors.
//!
//! Source: eventfd(2).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// How often a failing write is tried.
const TRIES: u32 = 100;

/// An event, lowered at first. Once raised it stays raised until it is lowered. Its descriptor is
/// readable while it is raised.
#[derive(Debug)]
pub struct Event {
    counter: OwnedFd,
}

impl Event {
    /// Creates an event. Takes a descriptor.
    pub fn new() -> io::Result<Self> {
        let counter = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { counter })
    }

    /// Raises the event. Cost: a system call.
    pub fn raise(&self) {
        raise_by(|| rustix::io::write(&self.counter, &1u64.to_ne_bytes()));
    }

    /// Lowers the event. Cost: a system call.
    pub fn lower(&self) {
        // The read fails only if the event is not raised.
        let _ = rustix::io::read(&self.counter, &mut [0; 8]);
    }
}

/// Retries a write until it succeeds, [`TRIES`] times at most. A thread may wait for this event
/// forever, so a failed write is tried again. That includes EAGAIN: a seccomp filter may return it
/// though the counter is not full. A full counter is readable, and needs no write.
fn raise_by(mut write: impl FnMut() -> Result<usize, Errno>) {
    for _ in 0..TRIES {
        if write().is_ok() {
            return;
        }
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.counter.as_fd()
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::readiness::{Ready, wait};

    #[test]
    fn a_write_that_fails_is_tried_again() {
        for error in [Errno::AGAIN, Errno::INTR, Errno::IO, Errno::NOMEM] {
            let event = Event::new().unwrap();
            let mut fault = Some(error);
            raise_by(|| match fault.take() {
                Some(error) => Err(error),
                None => rustix::io::write(&event.counter, &1u64.to_ne_bytes()),
            });
            assert_eq!(wait(&[event.as_fd()], 0).unwrap(), Ready::Readable, "{error}");
        }
    }

    #[test]
    fn a_full_event_is_raised() {
        let event = Event::new().unwrap();
        rustix::io::write(&event.counter, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        event.raise();
        assert_eq!(wait(&[event.as_fd()], 0).unwrap(), Ready::Readable);
    }

    #[test]
    fn a_raised_event_stays_so() {
        let event = Event::new().unwrap();
        assert_eq!(wait(&[event.as_fd()], 0).unwrap(), Ready::TimedOut);
        for _ in 0..2 {
            event.raise();
            assert_eq!(wait(&[event.as_fd()], 60_000_000_000).unwrap(), Ready::Readable);
        }
        for _ in 0..2 {
            event.lower();
            assert_eq!(wait(&[event.as_fd()], 0).unwrap(), Ready::TimedOut);
        }
    }
}
