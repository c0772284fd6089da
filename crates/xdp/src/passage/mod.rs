//! Passing on: what comes in by one queue leaves by another, in the frames it came in.
//!
//! ```text
//!            entry: rx ring                         exit: tx ring
//!   device ----------------> ours: looked at, ------------------> device
//!     ^                      rewritten, or dropped                   |
//!     |                         | dropped                            |
//!     '---- entry: fill ring <--+----------- exit: completion ring <-'
//! ```
//!
//! One memory for both queues. The entry's socket registers it, and the exit's binds to it with
//! `XDP_SHARED_UMEM` (Linux 5.10: on another device, with its own fill and completion ring). Each
//! direction has its own frames. The two directions between a pair of queues share the sockets and
//! the memory, but no ring, so each can run on its own thread.
//!
//! No packet has several frames: the sockets are bound without `XDP_USE_SG`, so the kernel drops
//! what is longer than a frame, and counts it.
//!
//! At most half of the frames are on their way out. So a stuck exit takes no frames from the entry.
//! What it has no room for is [`Passed::full`], or waits in the rx ring.
//!
//! # Invariants
//! - P1. Each frame of a direction is in one place: at the entry (fill ring, kernel, rx ring), with
//!   us (the current packet, or `ours`), or at the exit (tx ring, kernel, completion ring). Debug
//!   builds keep the owner of each and refuse what is not the other's to give.
//! - P2. Bytes are touched only of the one packet that is ours, and within its frame.
//! - P3. taken = passed on + dropped by the caller + full + bad. The kernel's rings and this
//!   module's list together have all frames that are not inside of a device ([`Passage::census`]).
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
    /// It goes on.
    Send,
    /// It goes nowhere: its frame is free.
    Drop,
}

/// What a call of [`Passage::pass`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Packets taken from the rx ring.
    pub taken: u32,
    /// Of them, those that the tx ring had no room for.
    pub full: u32,
    /// Of them, those that the kernel described wrongly: 1 at most, the last.
    pub bad: u32,
}

/// Where the frames of a direction are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// All of them.
    pub frames: u32,
    /// In the fill ring, for the kernel to take.
    pub fill: u32,
    /// In the rx ring, with a packet.
    pub rx: u32,
    /// Here.
    pub ours: u32,
    /// In the tx ring, not looked at by the kernel.
    pub tx: u32,
    /// In the completion ring.
    pub completion: u32,
}

impl Census {
    /// Frames in none of these places: inside of the kernel or a device. 0 when nothing is in
    /// flight; negative if a frame is in two places.
    pub fn elsewhere(&self) -> i64 {
        let found = [self.fill, self.rx, self.ours, self.tx, self.completion];
        i64::from(self.frames) - found.into_iter().map(i64::from).sum::<i64>()
    }
}

/// One direction between two queues.
pub struct Passage {
    // In this order: rings and sockets are closed before the memory goes away.
    rx: Ring<xdp_desc>,
    fill: Ring<u64>,
    out: Outgoing,
    entry: Arc<QueueEnd>,
    exit: Arc<QueueEnd>,
    memory: Arc<FrameMemory>,
    frames: u32,
    /// Free frames that the fill ring had no room for yet.
    ours: Vec<u32>,
    owners: Owners,
    is_always_told: bool,
}

impl Passage {
    /// The queue that packets come in by.
    pub fn entry(&self) -> &QueueEnd {
        &self.entry
    }

    /// The queue that they leave by.
    pub fn exit(&self) -> &QueueEnd {
        &self.exit
    }

    /// Whether both devices work in the frames themselves, without a copy.
    pub fn is_zero_copy(&self) -> bool {
        self.entry.is_zero_copy() && self.exit.is_zero_copy()
    }

    /// Bytes of the frames of both directions.
    pub fn memory_bytes(&self) -> usize {
        self.memory.frame_area()
    }

    /// Where their pages are.
    pub fn placement(&self) -> &Placement {
        self.memory.placement()
    }

    /// Takes up to `budget` packets from the rx ring and shows each to `work`. Puts the ones that
    /// `work` passes into the tx ring, for the next [`send`](Self::send). Where that has no room,
    /// packets stay in the rx ring, up to `backlog` of them; beyond that they are dropped, unseen.
    ///
    /// Cost: no system call; a packet is not touched but by `work`.
    ///
    /// # Errors
    /// [`XdpError::BadDescriptor`], beside what was done before: what the kernel says cannot be.
    /// Nothing more is taken.
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
                    // SAFETY: `frame_to` has checked that the bytes are inside of one frame, which
                    // is mapped and was zeroed. It came out of the rx ring, so it is ours (P1), and
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

    /// Tells the kernel to send what was passed on, as far as it takes it now. True: all.
    ///
    /// Cost: in copy mode one system call for up to all packets; else one, or none.
    ///
    /// # Errors
    /// What the kernel says, `ENXIO` when the interface is gone.
    pub fn send(&mut self) -> io::Result<bool> {
        self.out.send()
    }

    /// Gives frames whose packets were sent, refused or dropped back to the entry. Returns how many
    /// came back from the exit.
    ///
    /// # Errors
    /// [`XdpError::BadDescriptor`]: the kernel gave back a frame that it did not have.
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

    /// Call it when there was nothing: wakes the kernel to fill frames, if it needs a wakeup. Cost:
    /// nothing, or one system call.
    pub fn wake_entry(&self) {
        if self.is_always_told || self.fill.needs_wakeup() {
            // What goes wrong shows in the entry's `link_state`.
            let _ = self.entry.socket().kick_receive();
        }
    }

    /// Packets in the rx ring: exact when none arrives meanwhile.
    pub fn in_rx(&self) -> u32 {
        self.rx.peek().count() as u32
    }

    /// Packets that were passed on and have not come back.
    #[inline]
    pub fn in_exit(&self) -> u32 {
        let counts = self.out.counts();
        (counts.pushed - counts.completed) as u32
    }

    /// Packets that the kernel has not even taken from the tx ring.
    pub fn in_tx(&self) -> u32 {
        self.out.waiting()
    }

    /// What became of the packets that were passed on, as of the last [`send`](Self::send) and
    /// [`recycle`](Self::recycle).
    pub fn counts(&self) -> SenderCounts {
        self.out.counts()
    }

    /// Bytes of the packets that were passed on and came back, those of refused ones apart, if the
    /// newest `missing` are not counted. In copy mode they come back in order, so this is exact.
    pub fn sent_bytes(&self, missing: u32) -> u64 {
        let bytes = self.out.bytes(missing);
        bytes.pushed.saturating_sub(bytes.refused + bytes.newest)
    }

    /// How full the entry's rings are. Cost: two loads.
    pub fn rings(&self) -> RingsNow {
        RingsNow::of(&self.rx, &self.fill, self.frames)
    }

    /// What the kernel has counted at the entry. Cost: one system call.
    ///
    /// # Errors
    /// Errors from the kernel.
    pub fn statistics(&self) -> io::Result<SocketStatistics> {
        self.entry.statistics()
    }

    /// Where all frames are. Exact when nothing arrives and nothing is on its way.
    pub fn census(&self) -> Census {
        Census {
            frames: self.frames,
            fill: self.fill.unread(),
            rx: self.in_rx(),
            ours: self.ours.len() as u32,
            tx: self.in_tx(),
            completion: self.out.returned(),
        }
    }

    /// Room at the exit, up to `wanted`: half of the frames may be there at most.
    #[inline]
    fn room(&mut self, wanted: u32) -> u32 {
        let wanted = wanted.min((self.frames / 2).saturating_sub(self.in_exit()));
        self.out.room(wanted)
    }

    /// The frame that a kernel's address is in, which goes from one owner to the other.
    #[inline]
    fn frame_to(&mut self, address: u64, length: u32, from: Owner, to: Owner) -> Option<u32> {
        let frame = self.memory.frame_of(address, length)?;
        self.owners.hand_over(frame, from, to).then_some(frame)
    }
}

#[cfg(all(test, debug_assertions, not(miri)))]
mod tests;
