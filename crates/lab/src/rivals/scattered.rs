//! The scattered design as the DPDK documents describe it, from core to core.
//!
//! ```text
//!   producer: take 32 objects -> fill header and data -> push 32 pointers
//!   consumer: pull 32 pointers -> prefetch ahead, read header and data -> give 32 objects back
//! ```
//!
//! The metadata is two cache lines and is treated as in an mbuf. Taking an object resets both lines
//! (`rte_pktmbuf_reset`). Giving it back checks the references in the first and the chain in the
//! second (`rte_pktmbuf_prefree_seg`). [`super::lean`] does without all that.
//!
//! An object belongs to the thread that took it from the pool or pulled its pointer, until that
//! thread pushes it or gives it back. The rings order the two sides' accesses.

use std::hint::spin_loop;

use super::pool::{Cache, HEADER_BYTES, Pool};
use super::{Address, BURST, Pull, Push, Run};
use crate::threads::{Cores, run_together};
use crate::traffic::{self, Traffic};
use burstline_sys::prefetch;

/// Prefetch distance of the consumer, in packets, as in DPDK's forwarding examples.
pub(super) const AHEAD: usize = 4;

/// A packet's main metadata, in the first of the header's two cache lines.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub(crate) struct Header {
    pub(super) data: *mut u8,
    pub(super) length: u32,
    pub(super) hash: u32,
    pub(super) time_ns: u64,
    pub(super) port: u16,
    pub(super) segments: u16,
    pub(super) references: u16,
    /// Time of a burst, in the header of its first packet.
    pub(super) stamp: u64,
}

impl Header {
    /// Creates the header of a whole packet with a single owner.
    pub(super) fn of_whole(data: *mut u8, length: u32) -> Self {
        let (hash, time_ns, port, stamp) = (0, 0, 0, 0);
        Self { data, length, hash, time_ns, port, segments: 1, references: 1, stamp }
    }

    /// Returns the packet's bytes.
    ///
    /// # Safety
    /// `data` is valid for reads of `length` bytes for as long as the result is used.
    #[inline]
    pub(super) unsafe fn bytes<'a>(&self) -> &'a [u8] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(self.data, self.length as usize) }
    }
}

/// Metadata that few packets need, in the second cache line.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Chain {
    next: *mut u8,
    offload: u64,
}

const CHAIN_AT: usize = size_of::<Header>();
const _: () = assert!(CHAIN_AT + size_of::<Chain>() == HEADER_BYTES);

/// Resets the metadata of an object just taken to that of a whole packet.
///
/// # Safety
/// The caller owns `object`, which is from a pool.
#[inline]
pub(super) unsafe fn reset(object: Address) {
    let chain = Chain { next: std::ptr::null_mut(), offload: 0 };
    // SAFETY: the header has room for both lines, and the caller owns the object.
    unsafe { object.0.add(CHAIN_AT).cast::<Chain>().write(chain) };
}

/// Checks that an object may be given back: it has no other references and no chain.
///
/// # Safety
/// The caller owns `object`, which is reset and filled.
#[inline]
pub(crate) unsafe fn unchain(object: Address) {
    // SAFETY: reset and filled, so both lines are initialised.
    let (header, chain) =
        unsafe { (&*object.0.cast::<Header>(), &mut *object.0.add(CHAIN_AT).cast::<Chain>()) };
    assert!(header.references == 1, "only chains of clones have more, and there are none");
    if !chain.next.is_null() {
        chain.next = std::ptr::null_mut();
    }
}

/// Fills one object with packet `counter`.
///
/// # Safety
/// The caller owns `object`, which has room for `header_bytes` and the packet.
#[inline]
pub(crate) unsafe fn fill(object: Address, header_bytes: usize, traffic: &Traffic, counter: u32) {
    // SAFETY: the caller's promise.
    unsafe { fill_flow(object, header_bytes, traffic, counter, traffic::hash_of(counter)) };
}

/// Resets an object and fills it with packet `counter`, whose flow has this `hash`.
///
/// # Safety
/// As [`fill`]; the object is from a pool with headers.
#[inline]
pub(crate) unsafe fn receive(object: Address, traffic: &Traffic, counter: u32, hash: u32) {
    // SAFETY: the caller's promise.
    unsafe { reset(object) };
    // SAFETY: the caller's promise.
    unsafe { fill_flow(object, HEADER_BYTES, traffic, counter, hash) };
}

/// Like [`fill`], with a hash.
///
/// # Safety
/// As [`fill`].
#[inline]
unsafe fn fill_flow(
    object: Address,
    header_bytes: usize,
    traffic: &Traffic,
    counter: u32,
    hash: u32,
) {
    // SAFETY: the data follow the header within the object.
    let data = unsafe { object.0.add(header_bytes) };
    let header = Header {
        data,
        length: traffic.length() as u32,
        hash,
        time_ns: traffic::time_of(counter),
        port: 0,
        segments: 1,
        references: 1,
        stamp: 0,
    };
    // SAFETY: objects are aligned to a cache line, and the caller owns this one.
    unsafe { object.0.cast::<Header>().write(header) };
    // SAFETY: there is room for the packet, and the template is elsewhere.
    unsafe { traffic.fill(data, counter) };
}

/// Does the consumer's work on one object.
///
/// # Safety
/// The caller owns `object`, and `fill` has filled it before it was handed over.
#[inline]
pub(crate) unsafe fn read(object: Address) -> u64 {
    // SAFETY: filled, and ordered by the ring that the address came through.
    let header = unsafe { &*object.0.cast::<Header>() };
    // SAFETY: `fill` wrote that many bytes there.
    let packet = unsafe { std::slice::from_raw_parts(header.data, header.length as usize) };
    traffic::digest(packet, header.hash, header.time_ns)
}

/// The caches of both cores for one pool, which persist from run to run.
pub struct Caches {
    producer: Cache,
    consumer: Cache,
}

impl Caches {
    /// Creates two empty caches of `size` objects each.
    pub fn new(size: usize) -> Self {
        Self { producer: Cache::new(size), consumer: Cache::new(size) }
    }

    /// Returns the producer's and the consumer's cache.
    pub fn both(&mut self) -> (&mut Cache, &mut Cache) {
        (&mut self.producer, &mut self.consumer)
    }
}

/// Hands over `packets` packets, a multiple of [`BURST`].
pub fn hand_off<P, C>(
    cores: Cores,
    traffic: &Traffic,
    packets: u64,
    pool: &Pool<'_>,
    caches: &mut Caches,
    mut push: P,
    mut pull: C,
) -> Run
where
    P: Push<Address> + Send,
    C: Pull<Address> + Send,
{
    let Caches { producer, consumer } = caches;
    let done = run_together(
        cores,
        move || {
            let mut burst = [Address::NOWHERE; BURST];
            for first in (0..packets as u32).step_by(BURST) {
                while !pool.take(producer, &mut burst) {
                    spin_loop();
                }
                for &object in &burst {
                    // SAFETY: just taken from the pool.
                    unsafe { reset(object) };
                }
                for (index, &object) in burst.iter().enumerate() {
                    // SAFETY: just taken from the pool; a packet fits in its data.
                    unsafe { fill(object, HEADER_BYTES, traffic, first + index as u32) };
                }
                while !push.push(&burst) {
                    spin_loop();
                }
            }
        },
        move || {
            let mut sum = 0_u64;
            let mut burst = [Address::NOWHERE; BURST];
            for _ in 0..packets / BURST as u64 {
                while !pull.pull(&mut burst) {
                    spin_loop();
                }
                sum = sum.wrapping_add(read_burst(&burst, HEADER_BYTES));
                for &object in &burst {
                    // SAFETY: pulled from the ring of filled objects.
                    unsafe { unchain(object) };
                }
                pool.give(consumer, &burst);
            }
            sum
        },
    );
    Run { seconds: done.seconds, sum: done.consumer }
}

/// Reads a burst of filled objects just pulled from a ring, prefetching ahead.
#[inline]
pub(crate) fn read_burst(burst: &[Address; BURST], header_bytes: usize) -> u64 {
    let ahead = |object: Address| {
        prefetch::to_read(object.0);
        prefetch::to_read(object.0.wrapping_add(header_bytes));
        if header_bytes > CHAIN_AT {
            prefetch::to_read(object.0.wrapping_add(CHAIN_AT));
        }
    };
    burst[..AHEAD].iter().copied().for_each(ahead);
    let mut sum = 0_u64;
    for index in 0..BURST {
        if let Some(&later) = burst.get(index + AHEAD) {
            ahead(later);
        }
        // SAFETY: only filled objects are pushed, and the consumer owns those it has pulled.
        sum = sum.wrapping_add(unsafe { read(burst[index]) });
    }
    sum
}
