//! Measures the cost of reading packets by their layout: back to back, or in slots of a pool.
//!
//! ```text
//!   contiguous      |p0|p1|p2|p3|...                       in order
//!   slots           |p0......|p1......|p2......|...        2,048 bytes each, in order or shuffled
//!   slots, spread   |p0.......|p1.......|p2.......|...     2,112: a line more, as in DPDK's pools
//! ```
//!
//! All cases have a worklist of offsets and read the first bytes of each packet by it. Slots whose
//! size is a power of two map to the same few sets of every cache and to the same memory channels.
//! One more cache line per slot spreads them. A pool in use hands out slots in random order.
//! Source: DPDK's Programmer's Guide, "Mempool Library", memory alignment constraints.

use std::hint::black_box;

use burstline_sys::prefetch::{self, LINE_BYTES};

use crate::arena::Arena;
use crate::contenders::memory::Order;
use crate::contenders::{Adapter, Job, Sample, timed};
use crate::scenario::Work;

/// Size of a slot in bytes: fits any Ethernet frame.
const SLOT_BYTES: usize = 2048;

/// Words of 8 bytes read from each packet, its headers; fewer if it is shorter.
const WORDS: usize = 7;

/// Prefetch distance in packets. Source: DPDK 22.11, examples/l3fwd, `PREFETCH_OFFSET`.
const AHEAD: usize = 3;

/// Default number of packets if no case is given.
const PACKETS: usize = 4096;

/// A packet layout and the order of access.
pub(crate) struct Layout {
    name: &'static str,
    /// Slot size in bytes; `None` if packets are back to back.
    slot: Option<usize>,
    is_shuffled: bool,
    is_prefetched: bool,
}

impl Layout {
    pub(crate) const CONTIGUOUS: Self = Self::new("layout-contiguous", None, false);
    pub(crate) const SLOTS: Self = Self::new("layout-slots", Some(SLOT_BYTES), false);
    pub(crate) const SHUFFLED: Self = Self::new("layout-shuffled", Some(SLOT_BYTES), true);
    pub(crate) const SPREAD: Self =
        Self::new("layout-shuffled-spread", Some(SLOT_BYTES + LINE_BYTES), true);
    pub(crate) const PREFETCHED: Self = Self {
        is_prefetched: true,
        ..Self::new("layout-shuffled-prefetch", Some(SLOT_BYTES), true)
    };

    const fn new(name: &'static str, slot: Option<usize>, is_shuffled: bool) -> Self {
        Self { name, slot, is_shuffled, is_prefetched: false }
    }

    /// Returns the bytes from one packet's start to the next.
    fn stride(&self, job: &Job<'_>) -> usize {
        self.slot.unwrap_or_else(|| job.frame_bytes().next_multiple_of(8))
    }

    /// Returns the word offsets of the packets, in order of access.
    fn worklist(&self, packets: usize, stride: usize) -> Vec<usize> {
        let mut places: Vec<usize> = (0..packets).map(|packet| packet * stride / 8).collect();
        if self.is_shuffled {
            let mut order = Order::new(packets);
            (0..packets).for_each(|at| places.swap(at, order.next()));
        }
        places
    }
}

/// Returns the number of packets in memory: the case, if it is a number.
fn held(job: &Job<'_>) -> usize {
    job.case.and_then(|case| case.parse().ok()).unwrap_or(PACKETS)
}

impl Adapter for Layout {
    fn name(&self) -> &'static str {
        self.name
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Touch]
    }

    fn command(&self, job: &Job<'_>) -> String {
        let order = if self.is_shuffled { "in random order" } else { "in order" };
        let ahead = if self.is_prefetched { ", prefetched" } else { "" };
        format!(
            "reads 56 bytes of packets that are {} bytes apart, {order}{ahead}",
            self.stride(job)
        )
    }

    fn measure(&self, job: &Job<'_>) -> Result<Sample, String> {
        timed::pin(job)?;
        let (packets, stride) = (held(job), self.stride(job));
        let bytes = packets * stride + SLOT_BYTES;
        let arena = Arena::in_best_pages(bytes)?;
        let cells = arena.cells::<u64>(bytes / 8);
        // SAFETY: the arena is alive, its words are initialised, and no one writes to it: a turn
        // runs entirely on this thread.
        let words: &[u64] =
            unsafe { std::slice::from_raw_parts(cells.as_ptr().cast(), cells.len()) };
        let worklist = self.worklist(packets, stride);
        let ahead = if self.is_prefetched { AHEAD } else { 0 };
        let read = WORDS.min(job.frame_bytes() / 8);
        // Touch each page once, so that it is mapped.
        black_box(round(words, &worklist, read, 0));
        let mut sum = 0_u64;
        let done = timed::run(job, packets, || {
            sum = sum.wrapping_add(round(words, &worklist, read, ahead));
        })?;
        black_box(sum);
        let mut sample = Sample::default();
        sample.set("packets", "packets", done.pieces as f64);
        sample.set("ns", "ns per packet", done.ns_each());
        sample.lies_in(arena.page());
        Ok(sample)
    }
}

/// Reads the first words of each packet. Returns their sum.
fn round(words: &[u64], worklist: &[usize], read: usize, ahead: usize) -> u64 {
    let mut sum = 0_u64;
    for (at, &place) in worklist.iter().enumerate() {
        if ahead > 0
            && let Some(&next) = worklist.get(at + ahead)
        {
            prefetch::to_read(&raw const words[next]);
        }
        sum = words[place..place + read].iter().fold(sum, |sum, word| sum.wrapping_add(*word));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worklist_has_each_place_once() {
        assert_eq!(Layout::CONTIGUOUS.worklist(3, 64), [0, 8, 16]);
        let mut shuffled = Layout::SPREAD.worklist(100, 2112);
        assert_ne!(shuffled, Layout::SLOTS.worklist(100, 2112));
        shuffled.sort_unstable();
        assert_eq!(shuffled, Layout::SLOTS.worklist(100, 2112));
    }

    #[test]
    fn a_round_reads_what_the_worklist_says() {
        let words: Vec<u64> = (0..32).collect();
        assert_eq!(round(&words, &[16, 0], 3, 0), 16 + 17 + 18 + 1 + 2);
        assert_eq!(round(&words, &[16, 0, 8], 1, 2), 24);
    }
}
