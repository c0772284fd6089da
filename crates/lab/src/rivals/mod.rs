//! The rivals of the log, written as well as we can.
//!
//! | rival | design |
//! |---|---|
//! | [`scattered`] | a pool of fixed objects, CAS ring of the free ones, cache a core |
//! | [`balancer`] | the same, with a pointer ring for each of four workers |
//! | [`lean`] | a few hundred buffers, one ring in each direction, one thread at each end |
//! | [`staged`] | receive, merge by burst, copy: many ports into one queue of the pool's objects |
//! | [`bare`] | our layout alone: no policies, no pins, no sleepers |
//! | [`behind`] | the same two behind a core that forwards packets |
//! | [`contents`] | contents in packets by Hyperscan, in buffers of the pool and back to back |
//! | [`movement`] | cache lines that move from core to core without other work: a limit |
//! | `dpdk` | with the feature `dpdk`: DPDK's own mbufs, mempools and rings, in C |
//!
//! The rings below them are safe to use: their halves and orderings keep the promises that the
//! `unsafe` in them needs. The orderings of atomics are explained at each access.

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

/// Number of packets taken, passed and given back at a time.
pub const BURST: usize = 32;

/// The result of a hand-off.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Wall time, in s.
    pub seconds: f64,
    /// Sum of the consumer's work.
    pub sum: u64,
}

/// A ring index on its own cache line. (128 bytes, because the prefetcher fetches pairs of lines.)
#[repr(align(128))]
#[derive(Debug, Default)]
pub(crate) struct Index(pub(crate) AtomicU32);

/// The address of a buffer that passes through a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Address(pub(crate) *mut u8);

// SAFETY: an address is only a number. Its users must ensure what may be accessed through it, and
// by which thread.
unsafe impl Send for Address {}
// SAFETY: any bits are an address.
unsafe impl crate::arena::Plain for Address {}

impl Address {
    /// A placeholder for an address.
    pub const NOWHERE: Self = Self(std::ptr::null_mut());
}

/// The writing end of a ring.
pub trait Push<T> {
    /// Pushes all of `values` or nothing. Returns whether it did.
    fn push(&mut self, values: &[T]) -> bool;
}

/// The reading end of a ring.
pub trait Pull<T> {
    /// Pulls values to fill all of `values` or nothing. Returns whether it did.
    fn pull(&mut self, values: &mut [T]) -> bool;
}
