//! The sending socket: packets go into frames, frames to the tx ring and back by the completion
//! ring.
//!
//! ```text
//!           push                send: wakes the kernel           reclaim
//!   free ---------> tx ring ---------------------------> device ---------> free
//!   ^ newest first            refused: completed, not sent
//! ```
//!
//! In copy mode the kernel handles the tx ring inside the system call that wakes it. If it stops,
//! the error says why: `EBUSY` means that the driver dropped the packet. So drops are counted
//! exactly. In zero-copy mode the driver has them in its own counters.
//!
//! # Invariants
//! - S1. Each frame is in `free` or has its bit in `lent`. A lent one is in the tx ring, in the
//!   kernel or in the completion ring. A completion of any other frame is an error.
//! - S2. Pushed = completed + in flight; completed includes the refused ones.
//!
//! Source: net/xdp/xsk.c of Linux 6.18, `__xsk_generic_xmit`; net/core/dev.c, `__dev_direct_xmit`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use super::end::QueueEnd;
use super::frames::{FrameMemory, FrameShape};
use super::interface::XdpInterface;
use super::outgoing::{Outgoing, SenderCounts};
use super::setup::{Binding, RING_MIN, bind, is_shape};
use super::system::RawSocket;
use super::{SenderOptions, XdpError};
use burstline_sys::interface::LinkState;
use burstline_sys::limits;

/// An XDP socket that sends. It needs no XDP program.
pub struct Sender {
    // Field order matters: rings and socket are closed before the memory is freed.
    out: Outgoing,
    end: QueueEnd,
    memory: Arc<FrameMemory>,
    /// A stack: the newest frame is the first to be reused, because it is in the cache.
    free: Vec<u32>,
    lent: Vec<u64>,
}

impl Sender {
    /// Opens a socket on queue `queue` of an interface of the calling thread's network namespace. A
    /// busy queue is retried for two seconds.
    ///
    /// # Errors
    /// See [`XdpError`].
    pub fn open(interface: &str, queue: u32, options: &SenderOptions) -> Result<Self, XdpError> {
        let (frames, frame_bytes) = (options.frames, options.frame_bytes);
        if !is_shape(frames, frame_bytes, 0) {
            return Err(XdpError::BadShape { frames, frame_bytes, entries: frames });
        }
        let end = QueueEnd::new(interface, queue)?;
        let (pages, node) = (options.pages, options.node);
        let shape = FrameShape { frames, frame_bytes, tail_bytes: 0, pages, node };
        let memory = Arc::new(FrameMemory::create(interface, &shape)?);
        // The kernel counts the frames of all sockets. If the limit is too low, registration fails.
        let _ = limits::allow_locked_memory(memory.frame_area() as u64);
        // SAFETY: the fields of `Sender` are dropped in an order that frees the memory last. On an
        // error before a `Sender` exists the kernel has no frame. Frames are accessed only while
        // they are in `free` (S1).
        unsafe { memory.register(end.socket(), interface) }?;
        let mut out = rings(end.socket(), frames, options.needs_wakeup)
            .map_err(XdpError::system(interface, "setting up XDP rings"))?;
        let &SenderOptions { copying, needs_wakeup, .. } = options;
        let binding = Binding { copying, needs_wakeup, is_multi_buffer: false };
        bind(&end, &binding)?;
        out.begin();
        Ok(Self {
            out,
            end,
            memory,
            free: (0..frames).rev().collect(),
            lent: vec![0; (frames as usize).div_ceil(64)],
        })
    }

    /// The interface as it was at opening.
    pub fn interface(&self) -> &XdpInterface {
        self.end.interface()
    }

    /// The queue.
    pub fn queue(&self) -> u32 {
        self.end.queue()
    }

    /// Whether the device reads the frames directly.
    pub fn is_zero_copy(&self) -> bool {
        self.out.is_zero_copy()
    }

    /// Length of the longest packet, in bytes.
    pub fn longest(&self) -> usize {
        self.memory.frame_bytes() as usize
    }

    /// Copies a packet into a free frame, for the next [`send`](Self::send). Returns false if no
    /// frame is free; then nothing was done.
    ///
    /// Cost: the copy; no system call.
    ///
    /// # Panics
    /// If the packet is empty or longer than [`longest`](Self::longest).
    #[inline]
    pub fn push(&mut self, packet: &[u8]) -> bool {
        assert!(!packet.is_empty(), "a packet without bytes");
        // The ring has an entry for every frame, but the kernel reports read entries with a delay.
        if self.free.is_empty() || self.out.room(1) == 0 {
            return false;
        }
        let Some(frame) = self.free.pop() else { return false };
        // SAFETY: it was in `free`, so it is ours (S1); nothing here has references into frames.
        unsafe { self.memory.write(frame, packet) };
        self.lent[frame as usize / 64] |= 1 << (frame % 64);
        self.out.push(self.memory.address(frame), packet.len() as u32);
        true
    }

    /// Publishes the pushed packets. If the kernel needs a wakeup, wakes it until it has taken all
    /// or takes no more now. Returns true if it has taken all.
    ///
    /// Cost: in copy mode one system call for up to all frames; otherwise one or none.
    ///
    /// # Errors
    /// Errors from the kernel, `ENXIO` when the interface is gone. An interface that is down is not
    /// an error: the kernel takes nothing.
    pub fn send(&mut self) -> io::Result<bool> {
        self.out.send()
    }

    /// Reclaims the frames of sent or refused packets. Returns how many.
    ///
    /// # Errors
    /// [`XdpError::BadDescriptor`]: the kernel returned a frame that it did not have.
    #[inline]
    pub fn reclaim(&mut self) -> Result<u32, XdpError> {
        let Self { out, memory, lent, free, .. } = self;
        let reclaimed = out.reclaim(|address| {
            let is_lent = |frame: u32| lent[frame as usize / 64] >> (frame % 64) & 1 == 1;
            let Some(frame) = memory.frame_of(address, 0).filter(|&frame| is_lent(frame)) else {
                return false;
            };
            lent[frame as usize / 64] &= !(1 << (frame % 64));
            free.push(frame);
            true
        });
        reclaimed.map_err(|address| self.end.bad_descriptor(address, 0))
    }

    /// Counts of the packets so far, as of the last [`send`](Self::send) and
    /// [`reclaim`](Self::reclaim).
    pub fn counts(&self) -> SenderCounts {
        self.out.counts()
    }

    /// Packets that the kernel has not yet taken from the ring.
    pub fn waiting(&self) -> u64 {
        self.out.waiting().into()
    }

    /// Queries the state of the interface. Cost: up to six system calls.
    ///
    /// # Errors
    /// Errors from the kernel, unless the interface is gone.
    pub fn link_state(&self) -> io::Result<LinkState> {
        self.end.link_state()
    }
}

impl AsFd for Sender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }
}

fn rings(socket: &Arc<RawSocket>, entries: u32, needs_wakeup: bool) -> io::Result<Outgoing> {
    // The kernel requires a fill ring even if nothing is received.
    socket.set(libc::XDP_UMEM_FILL_RING, &RING_MIN)?;
    Outgoing::ask(socket, entries)?;
    Outgoing::map(socket, entries, needs_wakeup)
}
