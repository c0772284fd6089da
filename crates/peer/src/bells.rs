//! Event descriptors of the peer: the peer rings ours to wake us up, and we ring the peer's.
//!
//! ```text
//!   peer rings --> event descriptor --> epoll, by edges --> readable: poll(2) wakes our thread
//!   we ring    --> io_submit(2) of a read of our own file, that ends by ringing the peer's bell
//! ```
//!
//! Both sides own the open file behind such a descriptor. A peer may make it block, fill its
//! counter, or empty it at any moment. So this module never reads a counter: an edge of epoll is
//! enough. Nor does it write one if the kernel can ring instead, because a write to a full counter
//! blocks. The completion of an asynchronous read rings it and never blocks.
//!
//! Source: eventfd(2), epoll(7), io_submit(2) with `IOCB_FLAG_RESFD`; `eventfd_signal_mask()` in
//! the kernel's fs/eventfd.c, which adds only what fits in the counter.

mod aio;

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use burstline_sys::event::Event;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use aio::Ringer;

/// The name of the file behind an event descriptor. Source: proc(5).
const EVENT: &str = "anon_inode:[eventfd]";

/// A descriptor of the peer that was checked to be an event.
#[derive(Debug)]
pub struct Bell {
    event: OwnedFd,
}

impl Bell {
    /// Takes a descriptor sent by the peer.
    ///
    /// # Errors
    /// `InvalidInput` if it is not an event; a pipe or a file could block us.
    pub fn adopt(event: OwnedFd) -> io::Result<Self> {
        let link = fs::read_link(format!("/proc/self/fd/{}", event.as_raw_fd()))?;
        if link.as_os_str() != EVENT {
            let what = format!("descriptor is {}, not an eventfd", link.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let flags = fcntl_getfl(&event)?;
        fcntl_setfl(&event, flags | OFlags::NONBLOCK)?;
        Ok(Self { event })
    }

    /// Creates an event of ours, for the peer.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { event })
    }

    /// Rings the bell. Never blocks, whatever the peer does. Cost: a system call.
    #[inline]
    pub fn ring(&self) {
        if !Ringer::ring(self.event.as_fd()) {
            // These calls are not available. The write fails if the counter is full: it is rung
            // then.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// Bells that one thread waits for, and a bell for this process itself.
#[derive(Debug)]
pub struct Bells {
    poll: OwnedFd,
    own: Event,
}

impl Bells {
    /// Creates a set with only the process's own bell.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new() -> io::Result<Self> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bells = Self { poll, own: Event::new()? };
        bells.watch(bells.own.as_fd())?;
        Ok(bells)
    }

    /// Adds a bell, which is waited for as long as it is open.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn add(&self, bell: &Bell) -> io::Result<()> {
        self.watch(bell.as_fd())
    }

    fn watch(&self, event: BorrowedFd<'_>) -> io::Result<()> {
        let data = epoll::EventData::new_u64(0);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        Ok(epoll::add(&self.poll, event, data, flags)?)
    }

    /// Removes a bell: its file may stay open at the peer, and would keep waking us up.
    pub fn remove(&self, bell: &Bell) {
        // Fails if the bell was not added.
        let _ = epoll::delete(&self.poll, bell.as_fd());
    }

    /// Wakes up the waiting thread.
    pub fn raise(&self) {
        self.own.raise();
    }

    /// Clears the bells rung so far. Cost: a system call.
    pub fn lower(&self) {
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }; 32];
        let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        // If more than these were rung, the next wait returns immediately, which is right.
        let _ = epoll::wait(&self.poll, &mut events, Some(&at_once));
    }
}

impl AsFd for Bells {
    /// Readable if a bell was rung since the last [`lower`](Self::lower).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn has_rung(bells: &Bells) -> bool {
        let mut wanted = [PollFd::new(bells, PollFlags::IN)];
        poll(&mut wanted, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    fn shared() -> (OwnedFd, Bell) {
        let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let other = event.try_clone().unwrap();
        (event, Bell::adopt(other).unwrap())
    }

    #[test]
    fn every_ring_is_an_edge_and_nothing_is_read() {
        let (peer, bell) = shared();
        let bells = Bells::new().unwrap();
        bells.add(&bell).unwrap();
        for _ in 0..3 {
            assert!(!has_rung(&bells));
            rustix::io::write(&peer, &1u64.to_ne_bytes()).unwrap();
            assert!(has_rung(&bells) && has_rung(&bells));
            bells.lower();
        }
        bells.raise();
        assert!(has_rung(&bells));
        bells.lower();
        bells.remove(&bell);
        rustix::io::write(&peer, &1u64.to_ne_bytes()).unwrap();
        assert!(!has_rung(&bells), "removed");
        let mut counter = [0; 8];
        rustix::io::read(&peer, &mut counter).unwrap();
        assert_eq!(u64::from_ne_bytes(counter), 4);
    }

    #[test]
    fn a_full_counter_that_blocks_does_not_block_us() {
        let (peer, bell) = shared();
        for _ in 0..1000 {
            bell.ring();
        }
        let mut counter = [0; 8];
        rustix::io::read(&peer, &mut counter).unwrap();
        assert_eq!(u64::from_ne_bytes(counter), 1000);
        rustix::io::write(&peer, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        // The peer may do this at any moment.
        fcntl_setfl(&peer, OFlags::RDWR).unwrap();
        if !Ringer::ring(bell.as_fd()) {
            return burstline_skip::without("no asynchronous reads here");
        }
        for _ in 0..1000 {
            bell.ring();
        }
    }

    #[test]
    fn what_is_no_event_is_refused() {
        let (reader, _writer) = io::pipe().unwrap();
        let error = Bell::adopt(reader.into()).unwrap_err().to_string();
        assert!(error.starts_with("descriptor is pipe:[") && error.ends_with("an eventfd"));
    }
}
