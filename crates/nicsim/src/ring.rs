//! A ring of descriptors and its registers.
//!
//! ```text
//!   | . . . | d d d d d d | . . . |    the device owns descriptors [head, tail)
//!           ^ head        ^ tail       head: written by the device, tail: by the driver (doorbell)
//! ```
//!
//! Both positions only count up, so head = tail is always an empty ring, and a ring of one
//! descriptor works. The 82599's positions wrap at the ring's length, which costs one descriptor.
//!
//! The edges, each a Release store and an Acquire load:
//! - E1, `tail`: driver to device: descriptors and buffers below it are written, and now the
//!   device's.
//! - E2, the second word of a descriptor (DD) or of the metadata before a packet, device to driver:
//!   the buffer is written, and belongs to the driver.
//! - E3, `head`: device to driver: packets of transmit descriptors below it are read.
//! - E4, `epoch` and `acknowledged`: a device that restarts, and the driver that has started again.
//! - E5, `head` of a contiguous receive ring, in units of 16 bytes, device to driver: heads and
//!   packets below it are written. A buffer belongs to the driver once its last head is below it.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::descriptor::Words;

/// One descriptor, which both sides write.
#[repr(C, align(16))]
#[derive(Default)]
pub struct Slot([AtomicU64; 2]);

impl Slot {
    /// Stores both words in this side's turn. Published by `second`'s release, or by the tail's.
    #[inline]
    pub fn store(&self, words: Words) {
        self.0[0].store(words[0], Relaxed); // before the release below
        self.0[1].store(words[1], Release); // E2; for the device, the tail's release is what counts
    }

    /// Returns both words, for callers that know whose turn it is.
    #[inline(always)]
    #[cfg(not(loom))]
    pub fn atoms(&self) -> &[AtomicU64; 2] {
        &self.0
    }

    /// Compiled for drivers under loom; no model calls it.
    #[cfg(loom)]
    pub fn atoms(&self) -> &[std::sync::atomic::AtomicU64; 2] {
        unreachable!("the models look at words by `second`")
    }

    /// Loads the second word, which makes all earlier writes visible.
    #[inline]
    pub fn second(&self) -> u64 {
        self.0[1].load(Acquire) // E2
    }

    /// Loads both words, after the tail or `second` has published them.
    #[inline]
    pub fn words(&self) -> Words {
        [self.0[0].load(Relaxed), self.0[1].load(Relaxed)]
    }
}

/// A register in its own pair of cache lines, which the prefetcher loads together.
#[repr(align(128))]
#[derive(Default)]
pub struct Register(AtomicU32);

impl Register {
    /// Reads the value, and makes all earlier writes of the other side visible.
    #[inline]
    pub fn read(&self) -> u32 {
        self.0.load(Acquire) // E1, E3, E4 or E5
    }

    /// Writes the value, and publishes all earlier writes.
    #[inline]
    pub fn write(&self, value: u32) {
        self.0.store(value, Release); // E1, E3, E4 or E5
    }
}

/// Descriptors and registers of one queue in one direction.
pub struct Ring {
    slots: Box<[Slot]>,
    /// Written by the driver: the doorbell.
    pub tail: Register,
    /// Written by the device.
    pub head: Register,
    /// Counts the device's restarts; written by the device.
    pub epoch: Register,
    /// The restart after which the driver has started again.
    pub acknowledged: Register,
}

impl Ring {
    /// Creates a ring of `slots` descriptors, a power of two.
    pub fn new(slots: u32) -> Self {
        assert!(slots.is_power_of_two(), "{slots} descriptors");
        Self {
            slots: (0..slots).map(|_| Slot::default()).collect(),
            tail: Register::default(),
            head: Register::default(),
            epoch: Register::default(),
            acknowledged: Register::default(),
        }
    }

    /// Returns the number of descriptors.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "a ring has at least one")]
    pub fn len(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Returns the descriptor at a position, which may exceed the ring's length.
    #[inline]
    pub fn slot(&self, position: u32) -> &Slot {
        &self.slots[position as usize & (self.slots.len() - 1)]
    }
}
