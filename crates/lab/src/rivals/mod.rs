//! What the log is compared with, written as well as we can.
//!
//! | rival | design |
//! |---|---|
//! | [`scattered`] | a named pool of fixed objects, CAS ring of the free ones, cache a core |
//! | [`balancer`] | the same, with a pointer ring for each of four workers |
//! | [`lean`] | a few hundred buffers, a ring forth and a ring back, one thread at each end |
//! | [`staged`] | receive, merge by burst, copy: many ports into one queue of the pool's objects |
//! | [`bare`] | our own layout and nothing else: no policies, no pins, no sleepers |
//! | [`behind`] | the same two behind a core that passes packets on |
//! | [`contents`] | contents in packets by Hyperscan, in buffers of the pool and back to back |
//! | [`movement`] | lines that go from core to core, and nothing done with them: a limit |
//! | `dpdk` | with the feature `dpdk`: DPDK's own mbufs, mempools and rings, in C |
//!
//! The rings below them are safe to use: their halves and orderings keep the promises that the
//! `unsafe` in them needs. Orders of atomics are argued where they stand.

pub mod balancer;
pub mod bare;
pub mod behind;
pub mod contents;
#[cfg(feature = "dpdk")]
pub mod dpdk;
pub mod hyperscan;
pub mod lean;
pub mod movement;
pub mod pool;
pub mod ring;
pub mod scattered;
pub mod spsc;
pub mod staged;

use std::sync::atomic::AtomicU32;

/// Packets taken, passed and given back at a time.
pub const BURST: usize = 32;

/// A hand-off that took place.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Wall time, in s.
    pub seconds: f64,
    /// What the consumer's work added up to.
    pub sum: u64,
}

/// An index of a ring on its own cache line. (128 bytes: the prefetcher fetches pairs.)
#[repr(align(128))]
#[derive(Debug, Default)]
pub(crate) struct Index(pub(crate) AtomicU32);

/// The address of a buffer on its way through a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Address(pub(crate) *mut u8);

// SAFETY: an address is only a number; what may be done through it, and by whom, is the business
// of those who pass it on.
unsafe impl Send for Address {}
// SAFETY: any bits are an address.
unsafe impl crate::arena::Plain for Address {}

impl Address {
    /// A place for an address to come.
    pub const NOWHERE: Self = Self(std::ptr::null_mut());
}

/// The writing end of a ring.
pub trait Push<T> {
    /// Puts all of `values` in, or nothing. Returns whether it did.
    fn push(&mut self, values: &[T]) -> bool;
}

/// The reading end of a ring.
pub trait Pull<T> {
    /// Fills all of `values`, or nothing. Returns whether it did.
    fn pull(&mut self, values: &mut [T]) -> bool;
}
