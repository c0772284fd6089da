//! The source: takes packets from the transmit rings of a guest.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use burstline_log::Flags;
use burstline_vhost::{ChainFault, Device, FromGuest, LONGEST, Queue, Taken};

use super::Half;
use crate::Loss;
use crate::live::{Got, Intake, IntakeCounts};

/// The largest ring.
const RING_MOST: u64 = 32_768;

/// Transmit rings, each of which is here for a burst and in its berth between.
pub(super) struct FromGuests {
    half: Half,
    queues: Vec<Queue>,
    /// The queue that is asked now.
    current: usize,
    /// Its ring, while we work on it.
    ring: Option<Box<FromGuest>>,
    /// Queues that had nothing, in a row.
    empty: usize,
    counts: IntakeCounts,
    /// The guest was asked to ring.
    is_armed: AtomicBool,
}

impl FromGuests {
    pub(super) fn new(half: Half) -> Self {
        Self {
            queues: half.device().device().queues().collect(),
            half,
            current: 0,
            ring: None,
            empty: 0,
            counts: IntakeCounts::default(),
            is_armed: AtomicBool::new(false),
        }
    }

    fn device(&self) -> &Arc<Device> {
        self.half.device().device()
    }

    /// Puts the ring back, and goes on with the next one.
    fn next_queue(&mut self) {
        self.leave();
        self.current = (self.current + 1) % self.queues.len();
    }

    fn leave(&mut self) {
        if let Some(mut ring) = self.ring.take() {
            self.counts.taken += u64::from(ring.publish());
            self.device().from_guest(self.queues[self.current]).give_back(ring);
        }
    }

    #[cold]
    fn disarm(&mut self) {
        // This thread's own word.
        self.is_armed.store(false, Relaxed);
        self.device().bells().lower();
        for queue in &self.queues {
            self.device().from_guest(*queue).try_look(FromGuest::disarm);
        }
    }
}

impl Intake for FromGuests {
    const LONGEST: usize = LONGEST;

    #[inline]
    fn take(&mut self, room: &mut [u8], refused: &mut u64) -> Option<Got> {
        if *self.is_armed.get_mut() {
            self.disarm();
        }
        loop {
            if self.ring.is_none() {
                self.ring = self.device().from_guest(self.queues[self.current]).take();
            }
            let taken = self.ring.as_mut().map_or(Taken::Nothing, |ring| ring.take(room));
            match taken {
                Taken::Packet { bytes, is_partial, is_merged } => {
                    self.empty = 0;
                    // A guest that was not offered it has nothing to say.
                    let is_open = self.half.options().passes_offloads;
                    let flags = flags(is_open && is_partial, is_open && is_merged);
                    return Some(Got { bytes, flags });
                }
                Taken::Refused(fault) => {
                    self.counts.lost.add(cause(fault), 1);
                    *refused += 1;
                    if *refused >= u64::from(u8::MAX) {
                        return None;
                    }
                }
                Taken::Nothing => {
                    self.next_queue();
                    self.empty += 1;
                    if self.empty >= self.queues.len() {
                        self.empty = 0;
                        return None;
                    }
                }
            }
        }
    }

    fn give_back(&mut self) {
        if self.ring.is_some() {
            self.next_queue();
        }
    }

    fn counts(&self) -> &IntakeCounts {
        &self.counts
    }

    fn capacity(&self) -> u64 {
        RING_MOST * self.queues.len() as u64
    }

    fn events(&self) -> Vec<String> {
        self.device().events()
    }

    fn passes_offloads(&self) -> bool {
        self.half.options().passes_offloads
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.is_armed.store(true, Relaxed); // this thread's own word
        let device = self.device();
        for queue in &self.queues {
            if device.from_guest(*queue).try_look(FromGuest::arm) == Some(true) {
                device.bells().raise();
            }
        }
        device.bells().as_fd()
    }
}

impl Drop for FromGuests {
    fn drop(&mut self) {
        self.leave();
    }
}

#[inline]
fn flags(is_partial: bool, is_merged: bool) -> Flags {
    let mut flags = Flags::NONE;
    if is_partial {
        flags = flags.union(Flags::PARTIAL_CHECKSUM);
    }
    if is_merged {
        flags = flags.union(Flags::MERGED);
    }
    flags
}

fn cause(fault: ChainFault) -> Loss {
    match fault {
        ChainFault::Long => Loss::TooLong,
        ChainFault::Short => Loss::TooShort,
        _ => Loss::BadDescriptor,
    }
}
