//! Forwards packets from one queue to another, in the frames they arrived in.
//!
//! ```text
//!            entry: rx ring                         exit: tx ring
//!   device ----------------> ours: inspected, ------------------> device
//!     ^                      rewritten, or dropped                  |
//!     |                         | dropped                           |
//!     '---- entry: fill ring <--+----------- exit: completion ring <'
//! ```
//!
//! Both queues share one memory. The entry's socket registers it, and the exit's binds to it with
//! `XDP_SHARED_UMEM` (Linux 5.10: on another device, with its own fill and completion ring). Each
//! direction has its own frames. The two directions between a pair of queues share the sockets and
//! the memory, but no ring, so each can run on its own thread.
//!
//! A packet never spans several frames: the sockets are bound without `XDP_USE_SG`, so the kernel
//! drops and counts packets longer than a frame.
//!
//! At most half of the frames are on their way out. So a stuck exit takes no frames from the entry.
//! Packets beyond that are dropped as [`Passed::full`], or wait in the rx ring.
//!
//! # Invariants
//! - P1. Each frame of a direction is in one place: at the entry (fill ring, kernel, rx ring), with
//!   us (the current packet, or `ours`), or at the exit (tx ring, kernel, completion ring). Debug
//!   builds track the owner of each frame and refuse a transfer by anyone else.
//! - P2. Only bytes of the one packet that is ours are accessed, and only within its frame.
//! - P3. taken = passed on + dropped by the caller + full + bad. The kernel's rings and this
//!   module's list together hold all frames that are not inside a device ([`Passage::census`]).
//!
//! Source: net/xdp/xsk.c and xsk_buff_pool.c of Linux 6.18: `xsk_bind`, `xp_assign_dev_shared`.

mod open;
mod owners;

use std::io;
use std::slice;
use std::sync::Arc;

use libc::xdp_desc;

use super::end::QueueEnd;
use super::fill::RingsNow;
use super::frames::FrameMemory;
use super::outgoing::{Outgoing, SenderCounts};
use super::ring::Ring;
use super::{SocketStatistics, XdpError};
use burstline_sys::memory::Placement;
pub use open::PassageOptions;
use owners::{Owner, Owners};

/// What to do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Forward it.
    Send,
    /// Drop it and free its frame.
    Drop,
}

/// The result of a call of [`Passage::pass`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Packets taken from the rx ring.
    pub taken: u32,
    /// Packets of `taken` that the tx ring had no room for.
    pub full: u32,
    /// Packets of `taken` with a bad descriptor: at most 1, the last.
    pub bad: u32,
}

/// The locations of a direction's frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// All of them.
    pub frames: u32,
    /// In the fill ring, for the kernel to take.
    pub fill: u32,
    /// In the rx ring, with a packet.
    pub rx: u32,
    /// In our list.
    pub ours: u32,
    /// In the tx ring, not yet taken by the kernel.
    pub tx: u32,
    /// In the completion ring.
    pub completion: u32,
}

impl Census {
    /// Returns frames in none of these places: inside the kernel or a device. 0 when nothing is in
    /// flight; negative if a frame is in two places.
    pub fn elsewhere(&self) -> i64 {
        let found = [self.fill, self.rx, self.ours, self.tx, self.completion];
        i64::from(self.frames) - found.into_iter().map(i64::from).sum::<i64>()
    }
}

/// One direction between two queues.
pub struct Passage {
    // Field order matters: rings and sockets are closed before the memory is freed.
    rx: Ring<xdp_desc>,
    fill: Ring<u64>,
    out: Outgoing,
    entry: Arc<QueueEnd>,
    exit: Arc<QueueEnd>,
    memory: Arc<FrameMemory>,
    frames: u32,
    /// Free frames that did not fit into the fill ring yet.
    ours: Vec<u32>,
    owners: Owners,
    is_always_told: bool,
}

impl Passage {
    /// The queue that receives packets.
    pub fn entry(&self) -> &QueueEnd {
        &self.entry
    }

    /// The queue that sends them.
    pub fn exit(&self) -> &QueueEnd {
        &self.exit
    }

    /// Whether both devices access the frames directly, without a copy.
    pub fn is_zero_copy(&self) -> bool {
        self.entry.is_zero_copy() && self.exit.is_zero_copy()
    }

    /// Bytes of the frames of both directions.
    pub fn memory_bytes(&self) -> usize {
        self.memory.frame_area()
    }

    /// The placement of their pages.
    pub fn placement(&self) -> &Placement {
        self.memory.placement()
    }

    /// Takes up to `budget` packets from the rx ring and passes each to `work`. Packets that `work`
    /// forwards go into the tx ring, for the next [`send`](Self::send). If the tx ring has no room,
    /// packets stay in the rx ring, up to `backlog` of them. Further packets are dropped unseen.
    ///
    /// Cost: no system call; only `work` touches a packet.
    ///
    /// # Errors
    /// [`XdpError::BadDescriptor`], together with the result so far: the kernel's descriptor is
    /// invalid. Nothing more is taken.
    #[inline]
    pub fn pass(
        &mut self,
        budget: u32,
        backlog: u32,
        mut work: impl FnMut(&mut [u8]) -> Fate,
    ) -> (Passed, Result<(), XdpError>) {
        let waiting = self.rx.filled(u32::MAX);
        let mut passed = Passed::default();
        if waiting == 0 {
            return (passed, Ok(()));
        }
        let mut room = self.room(waiting.min(budget));
        let most = waiting.min(budget).min(room.max(waiting.saturating_sub(backlog)));
        while passed.taken < most {
            let desc = self.rx.pop();
            passed.taken += 1;
            let Some(frame) = self.frame_to(desc.addr, desc.len, Owner::Entry, Owner::Us) else {
                passed.bad = 1;
                self.rx.give_back();
                return (passed, Err(self.entry.bad_descriptor(desc.addr, desc.len)));
            };
            let fate = match room {
                0 => {
                    passed.full += 1;
                    Fate::Drop
                }
                _ => {
                    let start = self.memory.at(desc.addr as u32);
                    // SAFETY: `frame_to` has checked that the bytes are inside one frame, which is
                    // mapped and was zeroed. It came out of the rx ring, so it is ours (P1), and
                    // this is the only reference into it (P2).
                    let bytes =
                        unsafe { slice::from_raw_parts_mut(start.as_ptr(), desc.len as usize) };
                    work(bytes)
                }
            };
            if fate == Fate::Send {
                room -= 1;
                self.owners.hand_over(frame, Owner::Us, Owner::Exit);
                self.out.push(desc.addr, desc.len);
            } else {
                self.ours.push(frame);
            }
        }
        self.rx.give_back();
        (passed, Ok(()))
    }

    /// Tells the kernel to send the forwarded packets, as far as it takes them now. Returns true if
    /// it took all.
    ///
    /// Cost: in copy mode one system call for up to all packets; otherwise one or none.
    ///
    /// # Errors
    /// Errors from the kernel, `ENXIO` when the interface is gone.
    pub fn send(&mut self) -> io::Result<bool> {
        self.out.send()
    }

    /// Returns frames of sent, refused or dropped packets to the entry. Returns how many came back
    /// from the exit.
    ///
    /// # Errors
    /// [`XdpError::BadDescriptor`]: the kernel returned a frame that it did not have.
    #[inline]
    pub fn recycle(&mut self) -> Result<u32, XdpError> {
        let Self { out, memory, owners, ours, .. } = self;
        let reclaimed = out.reclaim(|address| {
            let frame = memory.frame_of(address, 0);
            let frame = frame.filter(|&frame| owners.hand_over(frame, Owner::Exit, Owner::Us));
            ours.extend(frame);
            frame.is_some()
        });
        let room = self.fill.room(self.ours.len() as u32) as usize;
        for frame in self.ours.drain(self.ours.len() - room..) {
            self.owners.hand_over(frame, Owner::Us, Owner::Entry);
            self.fill.push(self.memory.address(frame));
        }
        self.fill.publish();
        reclaimed.map_err(|address| self.exit.bad_descriptor(address, 0))
    }

    /// Wakes the kernel to fill frames, if it needs a wakeup. Call it when there were no packets.
    /// Cost: one system call or none.
    pub fn wake_entry(&self) {
        if self.is_always_told || self.fill.needs_wakeup() {
            // Errors show in the entry's `link_state`.
            let _ = self.entry.socket().kick_receive();
        }
    }

    /// Packets in the rx ring. Exact if none arrives meanwhile.
    pub fn in_rx(&self) -> u32 {
        self.rx.peek().count() as u32
    }

    /// Packets at the exit: forwarded, and not come back.
    #[inline]
    pub fn in_exit(&self) -> u32 {
        let counts = self.out.counts();
        (counts.pushed - counts.completed) as u32
    }

    /// Packets that the kernel has not yet taken from the tx ring.
    pub fn in_tx(&self) -> u32 {
        self.out.waiting()
    }

    /// Counts of the forwarded packets, as of the last [`send`](Self::send) and
    /// [`recycle`](Self::recycle).
    pub fn counts(&self) -> SenderCounts {
        self.out.counts()
    }

    /// Bytes of forwarded packets that came back, without refused ones, not counting the newest
    /// `missing`. In copy mode packets come back in order, so this is exact.
    pub fn sent_bytes(&self, missing: u32) -> u64 {
        let bytes = self.out.bytes(missing);
        bytes.pushed.saturating_sub(bytes.refused + bytes.newest)
    }

    /// Fill levels of the entry's rings. Cost: two loads.
    pub fn rings(&self) -> RingsNow {
        RingsNow::of(&self.rx, &self.fill, self.frames)
    }

    /// Reads the kernel's counters at the entry. Cost: one system call.
    ///
    /// # Errors
    /// Errors from the kernel.
    pub fn statistics(&self) -> io::Result<SocketStatistics> {
        self.entry.statistics()
    }

    /// Locates all frames. Exact if nothing arrives and nothing is in flight. Otherwise frames that
    /// the kernel moves meanwhile are in no place: each ring is read before the one from which the
    /// kernel fills it. For a moment they may be in two: packets are in the rx ring before their
    /// frames leave the fill ring. Source: `xsk_flush`, net/xdp/xsk.c.
    pub fn census(&self) -> Census {
        let (rx, completion) = (self.in_rx(), self.out.returned());
        Census {
            frames: self.frames,
            fill: self.fill.unread(),
            rx,
            ours: self.ours.len() as u32,
            tx: self.in_tx(),
            completion,
        }
    }

    /// Returns the room at the exit, up to `wanted`: at most half of the frames may be there.
    #[inline]
    fn room(&mut self, wanted: u32) -> u32 {
        let wanted = wanted.min((self.frames / 2).saturating_sub(self.in_exit()));
        self.out.room(wanted)
    }

    /// Returns the frame at a kernel's address, and moves it from one owner to the other.
    #[inline]
    fn frame_to(&mut self, address: u64, length: u32, from: Owner, to: Owner) -> Option<u32> {
        let frame = self.memory.frame_of(address, length)?;
        self.owners.hand_over(frame, from, to).then_some(frame)
    }
}

#[cfg(all(test, debug_assertions, not(miri)))]
mod tests;
