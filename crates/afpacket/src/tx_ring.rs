//! The tx ring: packets into slots, slots to the driver, in order.
//!
//! ```text
//!        reaped            taken               filled
//! . . . .|s s s s s s s s s|w w w w w w w w w w|. . . . . .      slots, in rotation
//!         handed to the     waiting for the      ours
//!         driver            next `send`
//! ```
//!
//! If the driver refuses a packet, it stays in its slot and the next `send` retries: a full device
//! loses nothing here.
//!
//! The slots are those of TPACKET_V2: a tx ring of TPACKET_V3 has the same ones behind a longer
//! header, since the kernel does not send blocks (`packet_set_ring`).
//!
//! Each packet has a virtio header in front. It makes the kernel copy the whole packet into its own
//! buffer. Without it the kernel would lend the slot page by page, and a software driver (veth)
//! would copy that later and more slowly.
//!
//! A packet that the kernel rejects stops the ring at its slot. We remove it and count it as
//! rejected, and later packets move up (`PACKET_LOSS` would skip it silently).
//!
//! # Invariants
//! - T1. reaped <= taken <= filled <= reaped + slots. All three only grow, except that a rejected
//!   packet is subtracted from `filled`.
//! - T2. The kernel reads slots only during our system calls. It owns the slots it has taken until
//!   their status says otherwise; we write only slots of `[filled, reaped + slots)`.
//!
//! Source: net/packet/af_packet.c of Linux 6.18, `tpacket_snd`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use burstline_sys::interface::{Interface, LinkState};
use burstline_sys::raw_socket::kick_send;
use libc::{c_int, c_uint};

use super::AfPacketError;
use super::socket::Socket;
use super::tx_memory::TxMemory;

/// Blocks have this size or that of one slot: the kernel allocates by the block.
const BLOCK_BYTES: usize = 64 << 10;

const SLOT_BYTES_MIN: usize = 2048;
const SLOTS: std::ops::RangeInclusive<usize> = 64..=65_536;

/// Ethernet, one VLAN tag.
const LINK_HEADER: usize = 14 + 4;

const _: () = assert!(size_of::<libc::tpacket_req>() == 16);

/// Options of a tx ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxRingOptions {
    /// Slots, a power of two from 64 to 65,536.
    pub slots: usize,
    /// Whether packets go directly to the driver. That is faster, but no queueing discipline shapes
    /// them, and captures on this interface do not see them.
    pub bypasses_queue: bool,
    /// As in [`RingOptions`](super::RingOptions).
    pub inherited: Option<i32>,
}

impl Default for TxRingOptions {
    fn default() -> Self {
        Self { slots: 1024, bypasses_queue: true, inherited: None }
    }
}

/// Counts of the packets so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxRingCounts {
    /// Packets put into slots.
    pub pushed: u64,
    /// Packets given to the driver, which is done with them.
    pub sent: u64,
    /// Packets that the kernel rejected, mostly for their length.
    pub rejected: u64,
}

/// A packet socket that sends from a ring.
pub struct TxRing {
    socket: Socket,
    memory: TxMemory,
    interface: Interface,
    reaped: u64,
    taken: u64,
    filled: u64,
    rejected: u64,
}

impl TxRing {
    /// Opens an interface of the calling thread's network namespace to send from.
    ///
    /// # Errors
    /// See [`AfPacketError`]. An interface that is down is not an error.
    pub fn open(interface: &str, options: &TxRingOptions) -> Result<Self, AfPacketError> {
        let slots = options.slots;
        if !slots.is_power_of_two() || !SLOTS.contains(&slots) {
            return Err(AfPacketError::BadTxRing { slots });
        }
        let fail = |call| AfPacketError::system(interface, call);
        let socket = Socket::for_ring(interface, options.inherited)?;
        let found = Interface::find(&socket, interface)?;
        let longest = LINK_HEADER + found.mtu as usize;
        let slot_bytes = TxMemory::slot_for(longest).max(SLOT_BYTES_MIN);
        configure(&socket, options).map_err(fail("setting up a packet socket"))?;
        let bytes = slot_bytes * slots;
        let block_bytes = slot_bytes.max(BLOCK_BYTES).min(bytes);
        let request = libc::tpacket_req {
            tp_block_size: block_bytes as c_uint,
            tp_block_nr: (bytes / block_bytes) as c_uint,
            tp_frame_size: slot_bytes as c_uint,
            tp_frame_nr: slots as c_uint,
        };
        socket.set(libc::PACKET_TX_RING, &request).map_err(AfPacketError::no_ring(
            interface,
            "PACKET_TX_RING",
            bytes,
        ))?;
        let memory = TxMemory::map(socket.as_fd(), slot_bytes, slots)
            .map_err(fail("mmap of a packet ring"))?;
        socket.bind(found.index, 0).map_err(fail("attaching a packet socket"))?;
        Ok(Self { socket, memory, interface: found, reaped: 0, taken: 0, filled: 0, rejected: 0 })
    }

    /// The interface as it was at opening.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Length of the longest packet that fits into a slot, in bytes.
    pub fn longest(&self) -> usize {
        self.memory.longest()
    }

    /// Copies a packet into the next slot, for the next [`send`](Self::send). Returns false if no
    /// slot is free; then nothing was done.
    ///
    /// Cost: the copy; no system call.
    ///
    /// # Panics
    /// If the packet is longer than [`longest`](Self::longest).
    #[inline]
    pub fn push(&mut self, packet: &[u8]) -> bool {
        if self.filled - self.reaped == self.memory.slots() as u64 {
            return false;
        }
        let slot = self.slot(self.filled);
        // SAFETY: T2: the kernel does not own it.
        unsafe { self.memory.write(slot, packet) };
        // Release: the packet comes before, whichever core runs the system call.
        self.memory.status(slot).store(libc::TP_STATUS_SEND_REQUEST, Release);
        self.filled += 1;
        true
    }

    /// Makes the kernel send the pushed packets, until it has taken all or takes no more now.
    /// Returns true if it has taken all.
    ///
    /// Cost: one system call.
    ///
    /// # Errors
    /// Errors from the kernel, `ENXIO` when the interface is gone. An interface that is down is not
    /// an error: the kernel takes nothing.
    pub fn send(&mut self) -> io::Result<bool> {
        loop {
            let before = self.waiting();
            if before == 0 {
                return Ok(true);
            }
            let sent = kick_send(&self.socket);
            self.reclaim();
            let is_rejected = self.waiting() > 0 && self.status(self.taken) == REJECTED;
            let error = match sent {
                _ if is_rejected => {
                    self.take_out();
                    continue;
                }
                // The kernel stops early if it has no memory for a buffer.
                Ok(()) if (1..before).contains(&self.waiting()) => continue,
                Ok(()) => return Ok(self.waiting() == 0),
                Err(error) => error,
            };
            return match error.raw_os_error() {
                Some(
                    libc::ENOBUFS | libc::EAGAIN | libc::EINTR | libc::ENOMEM | libc::ENETDOWN,
                ) => Ok(false),
                _ => Err(error),
            };
        }
    }

    /// Finds the packets that the kernel has taken, and those that the driver is done with. Cost: a
    /// load for each.
    #[inline]
    pub fn reclaim(&mut self) {
        while self.taken < self.filled
            && !matches!(self.status(self.taken), libc::TP_STATUS_SEND_REQUEST | REJECTED)
        {
            self.taken += 1;
        }
        while self.reaped < self.taken && self.status(self.reaped) & libc::TP_STATUS_SENDING == 0 {
            self.reaped += 1;
        }
    }

    /// Returns the counts so far, as of the last [`send`](Self::send) or
    /// [`reclaim`](Self::reclaim).
    pub fn counts(&self) -> TxRingCounts {
        let (sent, rejected) = (self.reaped, self.rejected);
        TxRingCounts { pushed: self.filled + rejected, sent, rejected }
    }

    /// Packets that the kernel has not yet taken from the ring, as of then.
    pub fn waiting(&self) -> u64 {
        self.filled - self.taken
    }

    /// Queries the state of the interface. Cost: up to seven system calls.
    ///
    /// # Errors
    /// Errors from the kernel, unless the interface is down or gone.
    pub fn link_state(&self) -> io::Result<LinkState> {
        self.socket.link_state(self.interface.index)
    }

    #[inline]
    fn slot(&self, number: u64) -> usize {
        number as usize & (self.memory.slots() - 1)
    }

    #[inline]
    fn status(&self, number: u64) -> c_uint {
        // Acquire pairs with the kernel's barrier before it stores the status: it is done with the
        // slot.
        self.memory.status(self.slot(number)).load(Acquire)
    }

    /// Removes the packet at which the kernel has stopped: later ones move up. It also removes
    /// others that are too long for the interface now, so that this happens once.
    #[cold]
    fn take_out(&mut self) {
        let now = match self.link_state() {
            Ok(LinkState::Present(interface)) => Some(interface),
            _ => None,
        };
        let mut kept = self.taken;
        for number in self.taken..self.filled {
            let (from, to) = (self.slot(number), self.slot(kept));
            // SAFETY: T2: the kernel has taken none of these, and no call is running.
            let packet = unsafe { self.memory.packet(from) };
            let is_wrong = number == self.taken
                || now.as_ref().is_some_and(|interface| !interface.admits(packet));
            self.memory.status(from).store(libc::TP_STATUS_AVAILABLE, Relaxed);
            if is_wrong {
                continue;
            }
            // SAFETY: T2: the kernel has taken neither slot, and no call is running.
            unsafe { self.memory.copy(from, to) };
            self.memory.status(to).store(libc::TP_STATUS_SEND_REQUEST, Release);
            kept += 1;
        }
        self.rejected += self.filled - kept;
        self.filled = kept;
    }
}

/// The status that the kernel gives the slot of a rejected packet.
const REJECTED: c_uint = libc::TP_STATUS_WRONG_FORMAT;

impl AsFd for TxRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn configure(socket: &Socket, options: &TxRingOptions) -> io::Result<()> {
    socket.set(libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V2 as c_int))?;
    socket.set(libc::PACKET_VNET_HDR, &1)?;
    socket.set(libc::PACKET_QDISC_BYPASS, &c_int::from(options.bypasses_queue))
}

#[cfg(all(test, not(miri)))]
mod tests;
