//! A flag that a thread can sleep on together with its descriptors.
//!
//! Source: eventfd(2).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

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
        // It fails only where the counter is full, and then it is raised.
        let _ = rustix::io::write(&self.counter, &1u64.to_ne_bytes());
    }

    /// Lowers it. Cost: a system call.
    pub fn lower(&self) {
        // It fails only where it is not raised.
        let _ = rustix::io::read(&self.counter, &mut [0; 8]);
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
