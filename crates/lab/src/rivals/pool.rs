//! A pool of fixed objects, with a ring of free objects and a cache for each core.
//!
//! ```text
//!   core 0: cache --\                          /-- cache :core 1
//!                    >-- ring of free objects <
//!   take: from the cache; if it is empty, refill from the ring
//!   give: into the cache; if it is above the threshold, flush to the ring
//! ```
//!
//! Objects are an odd number of cache lines apart, so their headers spread over all cache sets and
//! memory channels, as the documents advise.
//!
//! Source: the mempool library chapter of the DPDK Programmer's Guide, 22.11. It says that the
//! threshold is one and a half times the cache size. A refill goes up to the cache size, and a
//! flush empties the whole cache.

use burstline_sys::prefetch::LINE_BYTES;

use super::ring::Ring;
use super::{Address, BURST};
use crate::arena::Arena;

/// Size of the metadata before each packet, in bytes, as in an mbuf.
pub const HEADER_BYTES: usize = 128;
/// Space for a packet in each object, in bytes.
pub const DATA_BYTES: usize = 2048;
/// Distance between two objects: 35 cache lines.
pub const STRIDE_BYTES: usize = stride_bytes(DATA_BYTES);

/// Returns the distance between two objects with this much space for a packet: an odd number of
/// cache lines.
pub const fn stride_bytes(room: usize) -> usize {
    let lines = (HEADER_BYTES + room).div_ceil(LINE_BYTES) + 1;
    (lines + (lines + 1) % 2) * LINE_BYTES
}

/// The largest cache, in objects.
pub const MAX_CACHE: usize = 512;

/// A pool.
pub struct Pool<'a> {
    count: usize,
    free: Ring<'a, Address>,
}

impl<'a> Pool<'a> {
    /// Creates `count` objects, at least a burst of them; all are free.
    pub fn new(arena: &'a Arena, count: usize) -> Self {
        Self::with_room(arena, count, DATA_BYTES)
    }

    /// Like [`new`](Self::new), each with space for a packet of `room` bytes.
    pub fn with_room(arena: &'a Arena, count: usize, room: usize) -> Self {
        let stride = stride_bytes(room);
        assert!(count >= BURST, "a pool of {count} objects cannot fill a burst");
        let free = Ring::new(arena, count.next_power_of_two());
        let objects = arena.piece(count * stride);
        for index in 0..count {
            // SAFETY: inside the piece.
            let object = unsafe { objects.add(index * stride) };
            assert!(free.enqueue(&[Address(object.as_ptr())]), "the ring has room for all");
        }
        Self { count, free }
    }

    /// Takes exactly `objects.len()` objects, or none.
    #[inline]
    pub fn take(&self, cache: &mut Cache, objects: &mut [Address]) -> bool {
        if cache.size == 0 {
            return self.free.dequeue(objects);
        }
        if cache.count < objects.len() {
            let refill = objects.len() + cache.size - cache.count;
            let room = &mut cache.objects[cache.count..cache.count + refill];
            if !self.free.dequeue(room) {
                return self.free.dequeue(objects); // no refill, but the ring may have just enough
            }
            cache.count += refill;
        }
        // The most recently freed objects first, because they are still in this core's CPU cache.
        for object in objects {
            cache.count -= 1;
            *object = cache.objects[cache.count];
        }
        true
    }

    /// Gives objects back, at most a burst.
    ///
    /// # Panics
    /// If more objects are given back than exist.
    #[inline]
    pub fn give(&self, cache: &mut Cache, objects: &[Address]) {
        if cache.size == 0 {
            assert!(self.free.enqueue(objects), "more objects than {}", self.count);
            return;
        }
        if cache.count + objects.len() > cache.threshold() {
            let flushed = self.free.enqueue(&cache.objects[..cache.count]);
            assert!(flushed, "more objects than {}", self.count);
            cache.count = 0;
        }
        cache.objects[cache.count..cache.count + objects.len()].copy_from_slice(objects);
        cache.count += objects.len();
    }
}

/// One core's cache of free objects.
pub struct Cache {
    size: usize,
    count: usize,
    objects: [Address; MAX_CACHE * 2],
}

impl Cache {
    /// Creates an empty cache for `size` objects, in `[0, MAX_CACHE]`; 0 means no caching.
    pub fn new(size: usize) -> Self {
        assert!(size <= MAX_CACHE, "a cache of {size} objects");
        Self { size, count: 0, objects: [Address::NOWHERE; MAX_CACHE * 2] }
    }

    #[inline]
    fn threshold(&self) -> usize {
        self.size * 3 / 2
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use burstline_sys::memory::PageChoice;

    use super::*;

    #[test]
    fn objects_are_distinct_and_none_is_lost_whatever_the_cache() {
        for size in [0, 64, 256] {
            let arena = Arena::create(2 << 20, PageChoice::Size4K).unwrap();
            let pool = Pool::new(&arena, 511);
            let (mut here, mut there) = (Cache::new(size), Cache::new(size));
            let mut burst = [Address::NOWHERE; BURST];
            for _ in 0..1000 {
                assert!(pool.take(&mut here, &mut burst));
                pool.give(&mut there, &burst);
            }
            let mut seen = HashSet::new();
            for cache in [&mut here, &mut there] {
                // Objects that the ring does not have are in the caches.
                while pool.take(cache, &mut burst[..1]) {
                    assert!(seen.insert(burst[0].0 as usize), "an object came twice");
                }
            }
            assert_eq!(seen.len(), 511);
        }
    }

    #[test]
    fn an_empty_pool_gives_nothing() {
        let arena = Arena::create(1 << 20, PageChoice::Size4K).unwrap();
        let pool = Pool::new(&arena, BURST);
        let mut cache = Cache::new(0);
        let mut burst = [Address::NOWHERE; BURST];
        assert!(pool.take(&mut cache, &mut burst));
        assert!(!pool.take(&mut cache, &mut burst[..1]));
        pool.give(&mut cache, &burst[..1]);
        assert!(pool.take(&mut cache, &mut burst[..1]));
    }
}
