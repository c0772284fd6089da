//! One queue of one interface with its socket: the common part of all users of XDP sockets.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use crate::XdpError;
use crate::interface::{self, Questions, XdpInterface};
use crate::system::RawSocket;
use burstline_sys::interface::LinkState;

/// The kernel's counters for a socket since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketStatistics {
    /// Packets redirected to the socket and dropped there: no frame, or too long for one.
    pub dropped: u64,
    /// Packets lost because the rx ring was full.
    pub ring_full: u64,
    /// Times that the fill ring was empty: of `dropped`, each packet that would have fitted into
    /// one frame. Packets that need several frames are not counted here. In zero-copy mode this is
    /// not a number of packets, and the device's drops are in its own counters.
    pub fill_empty: u64,
    /// Addresses in our rings that the kernel refused: a bug in this module.
    pub invalid: u64,
}

impl From<libc::xdp_statistics> for SocketStatistics {
    fn from(kernel: libc::xdp_statistics) -> Self {
        Self {
            dropped: kernel.rx_dropped,
            ring_full: kernel.rx_ring_full,
            fill_empty: kernel.rx_fill_ring_empty_descs,
            invalid: kernel.rx_invalid_descs + kernel.tx_invalid_descs,
        }
    }
}

/// A queue that packets are received on, sent on, or both.
pub struct QueueEnd {
    socket: Arc<RawSocket>,
    questions: Questions,
    interface: XdpInterface,
    queue: u32,
    is_zero_copy: bool,
}

impl QueueEnd {
    /// Makes a socket for a queue of an interface of the calling thread's network namespace. The
    /// socket is not bound to the queue yet.
    pub(super) fn new(interface: &str, queue: u32) -> Result<Self, XdpError> {
        let fail = |call| XdpError::system(interface, call);
        let socket = Arc::new(RawSocket::new().map_err(fail("socket(AF_XDP)"))?);
        let questions = Questions::new().map_err(fail("socket(AF_UNIX)"))?;
        let found = XdpInterface::find(&questions, interface)?;
        if queue >= found.queues {
            let (interface, queues) = (interface.to_owned(), found.queues);
            return Err(XdpError::NoSuchQueue { interface, queue, queues });
        }
        Ok(Self { socket, questions, interface: found, queue, is_zero_copy: false })
    }

    /// Call it once the socket is bound.
    pub(super) fn begin(&mut self) {
        self.is_zero_copy = self.socket.is_zero_copy().unwrap_or(false);
    }

    pub(super) fn socket(&self) -> &Arc<RawSocket> {
        &self.socket
    }

    /// The interface as it was at opening.
    pub fn interface(&self) -> &XdpInterface {
        &self.interface
    }

    /// The queue.
    pub fn queue(&self) -> u32 {
        self.queue
    }

    /// Whether the device accesses the frames directly.
    pub fn is_zero_copy(&self) -> bool {
        self.is_zero_copy
    }

    /// Queries the state of the interface. Cost: up to six system calls.
    ///
    /// # Errors
    /// Errors from the kernel, unless the interface is gone.
    pub fn link_state(&self) -> io::Result<LinkState> {
        interface::link_state(&self.socket, &self.questions, self.interface.link.index)
    }

    /// Reads the kernel's counters. Cost: one system call.
    ///
    /// # Errors
    /// Errors from the kernel.
    pub fn statistics(&self) -> io::Result<SocketStatistics> {
        self.socket.statistics().map(SocketStatistics::from)
    }

    /// Makes the error for an invalid descriptor in a ring of the kernel.
    #[cold]
    #[inline(never)]
    pub(super) fn bad_descriptor(&self, address: u64, length: u32) -> XdpError {
        let (interface, queue) = (self.interface.link.name.clone(), self.queue);
        XdpError::BadDescriptor { interface, queue, address, length }
    }
}

impl AsFd for QueueEnd {
    /// Readable when the rx ring has packets.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
