//! Measures how fast two cores can move cache lines without other work: the limit of a hand-off.
//!
//! ```text
//!   writer   whole lines of a packet, a desc, a count for each burst    no template, hash, time
//!   reader   a word of each line                                        no header, no fields
//! ```
//!
//! The layout and the stores are the log's: 16 bytes each, which every x86-64 processor supports. A
//! hand-off cannot be faster than this loop; any difference is the cost of its other work. Like the
//! log, the loop uses ordinary or streaming stores.
//!
//! Invariants:
//! - I1: the producer writes a segment only after the consumer has left it (`left`), above `count`;
//!   the consumer reads below that.
//! - I2: streamed stores are fenced before `count` is updated.

use std::hint::spin_loop;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

use burstline_sys::prefetch::LINE_BYTES;

use super::{BURST, Run};
use crate::arena::Arena;
use crate::threads::{Cores, run_together};

const DESC_BYTES: usize = 16;

type Piece = [u64; 2];

/// A number on its own cache lines.
#[repr(align(128))]
#[derive(Default)]
struct Mark(AtomicU64);

/// Segments used in turn, in the memory of an arena that outlives them.
pub struct Movement {
    memory: NonNull<u8>,
    segment_bytes: usize,
    segments: usize,
}

// SAFETY: I1 keeps the two threads' accesses apart, ordered by the count and `left`.
unsafe impl Sync for Movement {}

/// The data moved in a run.
#[derive(Clone, Copy)]
struct Load {
    packets: u64,
    /// Size of a packet in whole cache lines.
    step: usize,
    /// Packets per segment.
    each: usize,
}

impl Movement {
    /// Creates `segments` segments of `segment_bytes` bytes each.
    pub fn new(arena: &Arena, segment_bytes: usize, segments: usize) -> Self {
        Self { memory: arena.piece(segment_bytes * segments), segment_bytes, segments }
    }

    /// Moves at least `packets` packets of `length` bytes, enough to fill whole segments. Returns
    /// the run and their number.
    pub fn hand_off<const STREAMS: bool>(
        &mut self,
        cores: Cores,
        length: usize,
        packets: u64,
    ) -> (Run, u64) {
        let step = length.next_multiple_of(LINE_BYTES);
        // Whole cache lines of descs.
        let each = self.segment_bytes / (step + DESC_BYTES) / 4 * 4;
        let packets = packets.next_multiple_of(each as u64);
        let (load, this) = (Load { packets, step, each }, &*self);
        let (count, left) = (&Mark::default(), &Mark::default());
        let done = run_together(
            cores,
            move || this.produce::<STREAMS>(load, count, left),
            move || this.consume(load, count, left),
        );
        (Run { seconds: done.seconds, sum: done.consumer }, packets)
    }

    /// Returns the expected sum of a run.
    pub fn expected(length: usize, packets: u64) -> u64 {
        let words = length.div_ceil(LINE_BYTES) as u64 + 1; // one word of the desc
        (packets * packets.wrapping_sub(1) / 2).wrapping_mul(words)
    }

    fn segment(&self, number: u64, load: Load) -> *mut u8 {
        let index = (number / load.each as u64) as usize % self.segments;
        self.memory.as_ptr().wrapping_add(index * self.segment_bytes)
    }

    fn produce<const STREAMS: bool>(&self, load: Load, count: &Mark, left: &Mark) {
        let Load { packets, step, each } = load;
        let room = (self.segments * each) as u64;
        let mut number = 0;
        while number < packets {
            // Pairs with the Release in `consume`, after its last read of the segment.
            while number + each as u64 > left.0.load(Acquire) + room {
                spin_loop();
            }
            let start = self.segment(number, load);
            let (mut at, mut desc) = (start, start.wrapping_add(self.segment_bytes));
            // Loops use pointers, because a range with a step costs a division per packet.
            for index in 1..=each {
                let end = at.wrapping_add(step);
                while at != end {
                    // SAFETY: I1; `each` packets and descs fit a segment, all aligned to 16.
                    unsafe { put_line::<STREAMS>(at, [number; 2]) };
                    at = at.wrapping_add(LINE_BYTES);
                }
                desc = desc.wrapping_sub(DESC_BYTES);
                // SAFETY: I1; `each` descs fit below the packets of a segment, aligned to 16.
                unsafe { put::<STREAMS>(desc, [number; 2]) };
                number += 1;
                if index.is_multiple_of(BURST) || index == each {
                    if STREAMS {
                        settle(); // I2
                    }
                    count.0.store(number, Release); // pairs with `consume`
                }
            }
        }
    }

    fn consume(&self, load: Load, count: &Mark, left: &Mark) -> u64 {
        let Load { packets, step, each } = load;
        let (mut sum, mut number, mut known) = (0_u64, 0, 0);
        while number < packets {
            let start = self.segment(number, load);
            let end = number + each as u64;
            let (mut at, mut desc) = (start, start.wrapping_add(self.segment_bytes));
            while number < end {
                while known == number {
                    known = count.0.load(Acquire); // pairs with `produce`
                    if known == number {
                        spin_loop();
                    }
                }
                for _ in number..known.min(end) {
                    desc = desc.wrapping_sub(DESC_BYTES);
                    // SAFETY: I1, below the count.
                    sum = sum.wrapping_add(unsafe { desc.cast::<u64>().read() });
                    let end = at.wrapping_add(step);
                    while at != end {
                        // SAFETY: I1; the packet's lines are below the count, too.
                        sum = sum.wrapping_add(unsafe { at.cast::<u64>().read() });
                        at = at.wrapping_add(LINE_BYTES);
                    }
                }
                number = known.min(end);
            }
            left.0.store(number, Release); // pairs with the Acquire in `produce`
        }
        sum
    }
}

/// Writes a line like [`put`].
///
/// # Safety
/// `at` is aligned to 16 and valid for writes of a line.
#[inline(always)]
unsafe fn put_line<const STREAMS: bool>(at: *mut u8, piece: Piece) {
    // SAFETY: the caller's promise.
    unsafe {
        put::<STREAMS>(at, piece);
        put::<STREAMS>(at.add(16), piece);
        put::<STREAMS>(at.add(32), piece);
        put::<STREAMS>(at.add(48), piece);
    }
}

/// Writes 16 bytes, bypassing the cache if `STREAMS`.
///
/// # Safety
/// `at` is aligned to 16 and valid for writes of 16 bytes.
#[inline(always)]
unsafe fn put<const STREAMS: bool>(at: *mut u8, piece: Piece) {
    #[cfg(target_arch = "x86_64")]
    if STREAMS {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        // SAFETY: every x86-64 processor has SSE2; the rest is the caller's promise.
        unsafe {
            _mm_stream_si128(at.cast::<__m128i>(), _mm_loadu_si128((&raw const piece).cast()))
        };
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { at.cast::<Piece>().write(piece) };
}

/// Orders streamed stores before later stores.
#[inline(always)]
fn settle() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and it changes no memory.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burstline_sys::memory::PageChoice;

    #[test]
    fn all_that_is_moved_arrives_either_way() {
        let arena = Arena::create(8 * 16_384, PageChoice::Size4K).unwrap();
        let mut movement = Movement::new(&arena, 16_384, 8);
        for length in [60, 64, 200, 1514] {
            for is_streamed in [false, true] {
                let cores = Cores::allowed();
                let (run, packets) = match is_streamed {
                    true => movement.hand_off::<true>(cores, length, 1000),
                    false => movement.hand_off::<false>(cores, length, 1000),
                };
                assert!(packets >= 1000);
                assert_eq!(run.sum, Movement::expected(length, packets), "{length}");
            }
        }
    }
}
