//! A flag that a thread can sleep on together with its descriptors.
//!
//! Source: eventfd(2).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// How often a write is tried that fails.
const TRIES: u32 = 100;

/// Not raised at first. Once raised it stays so until it is lowered, and its descriptor is
/// readable.
#[derive(Debug)]
pub struct Event {
    counter: OwnedFd,
}

impl Event {
    /// A new one. Takes a descriptor.
    pub fn new() -> io::Result<Self> {
        let counter = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { counter })
    }

    /// Raises it. Cost: a system call.
    pub fn raise(&self) {
        raise_by(|| rustix::io::write(&self.counter, &1u64.to_ne_bytes()));
    }

    /// Lowers it. Cost: a system call.
    pub fn lower(&self) {
        // It fails only where it is not raised.
        let _ = rustix::io::read(&self.counter, &mut [0; 8]);
    }
}

/// Writes until a write succeeds, [`TRIES`] times at most. A thread may wait for this for ever, so
/// a write that fails is tried again. That includes EAGAIN: a filter of calls may answer with it
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
