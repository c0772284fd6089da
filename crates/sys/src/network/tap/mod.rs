//! TAP devices: kernel interfaces whose other end is this process.
//!
//! ```text
//!   host's stack --> interface --> queue of `depth` packets --> receive: a system call a packet
//!                <-- interface <------------------------------- send: a system call a packet
//! ```
//!
//! A packet may have a header that says what a device still has to do: fill in a checksum, cut the
//! packet into segments ([`Offload`]). Only a device opened with [`TapOptions::passes_offloads`]
//! has such packets; otherwise the kernel does the work first.
//!
//! The device ends with the last descriptor, however the process ends, unless it is persistent. A
//! device that existed before belongs to someone else, and stays.
//!
//! # Invariants
//! - T1. Queries about the device use sockets and descriptors that were opened with it. So they
//!   concern the namespace where it was made, from any thread.
//! - T2. The descriptor shows when a device was deleted. A device moved to another namespace still
//!   works; only its counters cannot be read.
//!
//! Source: Documentation/networking/tuntap.rst, drivers/net/tun.c and
//! include/uapi/linux/if_tun.h of Linux 6.18.

mod error;
mod header;
mod requests;

use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;

use rustix::event::epoll;
use rustix::io::Errno;

use crate::counters::LinkCounters;
use crate::interface::{Interface, LinkState};

pub use error::TapError;
use header::HEADER_BYTES;
pub use header::{Checksum, Cut, Offload, Segments};
pub(crate) use requests::{Setting, queue_directly, set_directly};

/// Length of the longest packet that the kernel passes, in bytes: the maximum of a socket buffer,
/// plus a tagged Ethernet header. Source: `GSO_LEGACY_MAX_SIZE`, include/linux/netdevice.h.
pub const LONGEST: usize = 65_536 + 18;

/// The maximum number of queues. `MAX_TAP_QUEUES` of drivers/net/tun.c is 256, but here each queue
/// costs a system call per poll.
pub const QUEUES_MAX: u32 = 16;

/// Options for opening a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapOptions {
    /// Queues, in `[1, QUEUES_MAX]`: the kernel selects one by a packet's flow.
    pub queues: u32,
    /// Whether the kernel passes unfinished packets: merged, and without checksums.
    pub passes_offloads: bool,
    /// Whether the device stays when the process ends. A device that existed before stays anyway.
    pub is_persistent: bool,
    /// The interface's MTU, in `[68, 65521]`; `None` leaves it unchanged.
    pub mtu: Option<u32>,
    /// The depth of each queue, in packets.
    pub depth: u32,
}

impl Default for TapOptions {
    fn default() -> Self {
        Self { queues: 1, passes_offloads: false, is_persistent: false, mtu: None, depth: 4096 }
    }
}

/// The kernel's counters of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TapCounts {
    /// Packets received from it.
    pub taken: u64,
    /// Packets from the host that found the queues full.
    pub dropped: u64,
}

/// An open device that is up.
#[derive(Debug)]
pub struct Tap {
    queues: Vec<OwnedFd>,
    /// Readable when any of several queues is.
    any: Option<OwnedFd>,
    questions: UnixDatagram,
    counters: LinkCounters,
    interface: Interface,
    depth: u32,
    has_headers: bool,
}

impl Tap {
    /// Opens the device `name` in the calling thread's network namespace, creates it if necessary,
    /// and sets it up.
    ///
    /// # Errors
    /// See [`TapError`].
    pub fn open(name: &str, options: &TapOptions) -> Result<Self, TapError> {
        assert!((1..=QUEUES_MAX).contains(&options.queues), "{} queues", options.queues);
        let fail = |call| TapError::system(name, call);
        let questions = UnixDatagram::unbound().map_err(fail("socket(AF_UNIX)"))?;
        let was_there = Interface::by_name(&questions, name).is_ok();
        let queues = (0..options.queues).map(|_| requests::open_queue(name, options));
        let queues = queues.collect::<Result<Vec<_>, _>>()?;
        // A device that existed before may be in any state.
        requests::pass_offloads(&queues[0], options.passes_offloads)
            .map_err(fail("setting its offloads"))?;
        if options.is_persistent || !was_there {
            requests::set_persistent(&queues[0], options.is_persistent)
                .map_err(fail("making it persistent, or not"))?;
        }
        let depth = requests::set_depth(&questions, name, options.depth);
        let depth = depth.map_err(fail("setting its queue"))?;
        if let Some(mtu) = options.mtu {
            requests::set_mtu(&questions, name, mtu).map_err(fail("setting its MTU"))?;
        }
        requests::take_up(&questions, name).map_err(fail("taking it up"))?;
        let interface = Interface::by_name(&questions, name).map_err(fail("asking for it"))?;
        let counters = LinkCounters::of(interface.index).map_err(fail("socket(AF_NETLINK)"))?;
        Ok(Self {
            any: (queues.len() > 1).then(|| any_of(&queues)).transpose().map_err(fail("epoll"))?,
            queues,
            counters,
            interface,
            questions,
            depth,
            has_headers: options.passes_offloads,
        })
    }

    /// The interface as it was at opening.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// The depth of each queue in packets: as requested, if the kernel permits.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// The number of queues.
    pub fn queues(&self) -> usize {
        self.queues.len()
    }

    /// Receives the next packet of a queue into `room`, and returns its length and its offload
    /// work. `None` if the queue is empty. A packet longer than `room` is truncated.
    ///
    /// Cost: a system call, which copies.
    ///
    /// # Errors
    /// `EBADFD`: the device was deleted.
    #[inline]
    pub fn receive(&self, queue: usize, room: &mut [u8]) -> io::Result<Option<(usize, Offload)>> {
        let mut header = [0; HEADER_BYTES];
        let fd = &self.queues[queue];
        let read = match self.has_headers {
            true => {
                rustix::io::readv(fd, &mut [IoSliceMut::new(&mut header), IoSliceMut::new(room)])
            }
            false => rustix::io::read(fd, room),
        };
        match read {
            Ok(bytes) => {
                let header_bytes = if self.has_headers { HEADER_BYTES } else { 0 };
                Ok(Some((bytes.saturating_sub(header_bytes), Offload::of(&header))))
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends a packet, which the host receives. Returns false if there is no room now. `offload` is
    /// ignored if the device does not pass offloads.
    ///
    /// Cost: a system call, which copies.
    ///
    /// # Errors
    /// `EIO`: the interface is down. `EBADFD`: it was deleted. `EINVAL`: the packet is invalid.
    #[inline]
    pub fn send(&self, queue: usize, packet: &[u8], offload: &Offload) -> io::Result<bool> {
        let fd = &self.queues[queue % self.queues.len()];
        let sent = match self.has_headers {
            true => {
                let header = offload.header();
                rustix::io::writev(fd, &[IoSlice::new(&header), IoSlice::new(packet)])
            }
            false => rustix::io::write(fd, packet),
        };
        match sent {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Queries the state of the device. A device moved to another namespace is present, and counts
    /// as up. Cost: up to six system calls.
    ///
    /// # Errors
    /// Errors from the kernel, unless the device is gone.
    pub fn link_state(&self) -> io::Result<LinkState> {
        match requests::is_attached(&self.queues[0]) {
            Ok(true) => {}
            Ok(false) => return Ok(LinkState::Gone),
            Err(error) => return Err(error),
        }
        match Interface::by_index(&self.questions, self.interface.index) {
            Ok(interface) => Ok(LinkState::Present(interface)),
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {
                Ok(LinkState::Present(Interface {
                    is_up: true,
                    has_carrier: true,
                    ..self.interface.clone()
                }))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the kernel's counters since the device was made; `None` if the device is in another
    /// namespace (T2). Cost: two system calls.
    pub fn counts(&self) -> Option<TapCounts> {
        let counts = self.counters.read()?;
        Some(TapCounts { taken: counts.sent, dropped: counts.sent_dropped })
    }
}

impl AsFd for Tap {
    /// Readable when a queue has a packet.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.any.as_ref().unwrap_or(&self.queues[0]).as_fd()
    }
}

/// Checks whether this process may open devices here.
///
/// # Errors
/// [`TapError::NoDriver`].
pub fn find_driver() -> Result<(), TapError> {
    requests::open_driver().map(drop)
}

/// Returns the number of the calling thread's network namespace; 0 without `/proc`.
pub fn network() -> u64 {
    fs::metadata("/proc/thread-self/ns/net").map_or(0, |namespace| namespace.ino())
}

fn any_of(queues: &[OwnedFd]) -> io::Result<OwnedFd> {
    let any = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (number, queue) in queues.iter().enumerate() {
        let data = epoll::EventData::new_u64(number as u64);
        epoll::add(&any, queue, data, epoll::EventFlags::IN)?;
    }
    Ok(any)
}

#[cfg(all(test, not(miri)))]
pub(crate) mod tests;
