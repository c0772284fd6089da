//! The send side of a queue: its tx ring, its completion ring, and the call that wakes the kernel.
//!
//! Used by both senders: a [`Sender`](super::Sender) with its own frames, and a
//! [`Passage`](super::Passage) with those of received packets.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use burstline_sys::raw_socket::kick_send;
use libc::{c_int, xdp_desc};

use super::ring::Ring;
use super::system::RawSocket;

/// Packets that the kernel sends in one call, instead of 32. Source: XDP_MAX_TX_SKB_BUDGET,
/// include/uapi/linux/if_xdp.h; Linux 6.17.
const MAX_TX_BUDGET: c_int = 9;

/// Counts of sent packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounts {
    /// Packets put into frames.
    pub pushed: u64,
    /// Completed frames, including those of refused packets.
    pub completed: u64,
    /// Packets that the driver dropped, as the kernel reports. Always 0 in zero-copy mode.
    pub refused: u64,
}

/// Both rings and their counts. The owner tracks the frames.
pub(super) struct Outgoing {
    // Field order matters: the rings are dropped before the socket.
    tx: Ring<xdp_desc>,
    completion: Ring<u64>,
    socket: Arc<RawSocket>,
    entries: u32,
    is_zero_copy: bool,
    is_always_told: bool,
    counts: SenderCounts,
    pushed_bytes: u64,
    refused_bytes: u64,
}

impl Outgoing {
    /// Requests rings of `entries` entries, before the socket is bound.
    pub(super) fn ask(socket: &RawSocket, entries: u32) -> io::Result<()> {
        socket.set(libc::XDP_UMEM_COMPLETION_RING, &entries)?;
        socket.set(libc::XDP_TX_RING, &entries)
    }

    /// Maps the requested rings.
    pub(super) fn map(
        socket: &Arc<RawSocket>,
        entries: u32,
        needs_wakeup: bool,
    ) -> io::Result<Self> {
        let (at, fd) = (socket.offsets()?, socket.as_fd());
        let tx = Ring::map(fd, libc::XDP_PGOFF_TX_RING as u64, at.tx, entries)?;
        let completion = Ring::map(fd, libc::XDP_UMEM_PGOFF_COMPLETION_RING, at.cr, entries)?;
        Ok(Self {
            tx,
            completion,
            socket: Arc::clone(socket),
            entries,
            is_zero_copy: false,
            is_always_told: !needs_wakeup,
            counts: SenderCounts::default(),
            pushed_bytes: 0,
            refused_bytes: 0,
        })
    }

    /// Call it once the socket is bound.
    pub(super) fn begin(&mut self) {
        self.is_zero_copy = self.socket.is_zero_copy().unwrap_or(false);
        // A kernel without this option takes 32 packets per call.
        let _ = self.socket.set(MAX_TX_BUDGET, &self.entries);
    }

    pub(super) fn is_zero_copy(&self) -> bool {
        self.is_zero_copy
    }

    /// Returns how many packets may be pushed now, up to `wanted`. The kernel reports read entries
    /// with a delay.
    #[inline]
    pub(super) fn room(&mut self, wanted: u32) -> u32 {
        self.tx.room(wanted)
    }

    /// Pushes a packet into the ring, which must have room.
    #[inline]
    pub(super) fn push(&mut self, addr: u64, len: u32) {
        self.tx.push(xdp_desc { addr, len, options: 0 });
        self.counts.pushed += 1;
        self.pushed_bytes += u64::from(len);
    }

    /// Publishes the pushed packets. If the kernel needs a wakeup, wakes it until it has taken all
    /// or takes no more now. Returns true if it has taken all.
    ///
    /// # Errors
    /// Errors from the kernel, `ENXIO` when the interface is gone. An interface that is down is not
    /// an error: the kernel takes nothing.
    pub(super) fn send(&mut self) -> io::Result<bool> {
        self.tx.publish();
        loop {
            let before = self.tx.unread();
            if before == 0 || !(self.is_always_told || self.tx.needs_wakeup()) {
                return Ok(before == 0);
            }
            let code = match kick_send(&*self.socket) {
                Ok(()) => return Ok(self.tx.unread() == 0),
                Err(error) => error.raw_os_error(),
            };
            match code {
                // The driver dropped one packet, and the kernel stopped there.
                Some(libc::EBUSY) if !self.is_zero_copy => {
                    self.counts.refused += 1;
                    self.refused_bytes += self.tx.last_read().map_or(0, |desc| desc.len.into());
                }
                // The kernel has handled its maximum per call, or cannot continue now.
                Some(libc::EAGAIN | libc::EBUSY | libc::EINTR) if self.tx.unread() < before => {}
                Some(libc::EAGAIN | libc::EBUSY | libc::EINTR) => return Ok(false),
                Some(libc::ENOBUFS | libc::ENOMEM | libc::ENETDOWN) => return Ok(false),
                code => return Err(io::Error::from_raw_os_error(code.unwrap_or(libc::EIO))),
            }
        }
    }

    /// Reclaims the addresses of sent or refused packets, and passes each to `each` until that
    /// returns false. The next call takes the rest. Returns the number, or the refused address.
    #[inline]
    pub(super) fn reclaim(&mut self, mut each: impl FnMut(u64) -> bool) -> Result<u32, u64> {
        let count = self.completion.filled(u32::MAX);
        let (mut done, mut unwanted) = (0, None);
        while done < count && unwanted.is_none() {
            let address = self.completion.pop();
            match each(address) {
                true => done += 1,
                false => unwanted = Some(address),
            }
        }
        self.completion.give_back();
        self.counts.completed += u64::from(done);
        unwanted.map_or(Ok(done), Err)
    }

    pub(super) fn counts(&self) -> SenderCounts {
        self.counts
    }

    /// Packets that the kernel has not yet taken from the ring.
    pub(super) fn waiting(&self) -> u32 {
        self.tx.unread()
    }

    /// Completed frames that are not reclaimed yet.
    pub(super) fn returned(&self) -> u32 {
        self.completion.peek().count() as u32
    }

    /// Returns bytes of pushed packets, of refused ones, and of the newest `packets`: at most as
    /// many as the ring has entries.
    pub(super) fn bytes(&self, packets: u32) -> SentBytes {
        let newest = self.tx.newest(packets).map(|desc| u64::from(desc.len)).sum();
        SentBytes { pushed: self.pushed_bytes, refused: self.refused_bytes, newest }
    }
}

/// The result of [`Outgoing::bytes`].
pub(super) struct SentBytes {
    pub(super) pushed: u64,
    pub(super) refused: u64,
    pub(super) newest: u64,
}
