//! A flag that a thread can sleep on together with its descriptors.
//!
//! Source: eventfd(2).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// How often a write is tried that a signal or a fault of the kernel has ended.
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
        // A thread may wait for this for ever, so a write that fails is tried again.
        for _ in 0..TRIES {
            match rustix::io::write(&self.counter, &1u64.to_ne_bytes()) {
                // The counter is full: it is raised.
                Ok(_) | Err(Errno::AGAIN) => return,
                Err(_) => {}
            }
        }
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
