//! Our layout without the log's other functions: the limit of what the log could reach.
//!
//! ```text
//!   segment: | packet | packet | ... free ... | desc 1 | desc 0 |     marks: a line a segment
//! ```
//!
//! Segments are filled in turn. There are no pins, policies, readers that come and go, sleepers or
//! statistics. Each segment has a mark with its number of packets, which continues from lap to lap.
//!
//! Invariants:
//! - I1: the producer writes a segment only after the consumer has left it (`left`), and only above
//!   the count in its mark. The consumer reads below that count.
//! - I2: marks only grow: lap `n` of a segment counts from `n << 32`.

use std::hint::spin_loop;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

use burstline_log::{Desc, Flags, PACKET_ALIGNMENT};

use super::{BURST, Run};
use crate::arena::Arena;
use crate::threads::{Cores, run_together};
use crate::traffic::{self, Traffic};

#[repr(align(64))]
#[derive(Default)]
struct Mark(AtomicU64);

const DESC_BYTES: usize = size_of::<Desc>();

/// The segments, their marks, and the position of the consumer.
pub struct Bare {
    memory: NonNull<u8>,
    segment_bytes: usize,
    marks: Vec<Mark>,
}

// SAFETY: I1 keeps the two threads' accesses apart, ordered by the marks and `left`.
unsafe impl Sync for Bare {}

/// One use of a segment.
struct Segment<'a> {
    /// Start of the segment.
    start: NonNull<u8>,
    /// Counter of its packets.
    mark: &'a AtomicU64,
    /// Value of the mark at the start of this lap.
    lap: u64,
}

impl Bare {
    /// Creates `count` segments of `segment_bytes` bytes each. The arena must outlive it.
    pub fn new(arena: &Arena, segment_bytes: usize, count: usize) -> Self {
        let memory = arena.piece(segment_bytes * count);
        Self { memory, segment_bytes, marks: (0..count).map(|_| Mark::default()).collect() }
    }

    /// Hands over at least `packets` packets, enough to fill whole segments. Returns the run and
    /// their number.
    pub fn hand_off(&mut self, cores: Cores, traffic: &Traffic, packets: u64) -> (Run, u64) {
        for mark in &mut self.marks {
            *mark.0.get_mut() = 0;
        }
        let each = traffic.length().next_multiple_of(PACKET_ALIGNMENT) + DESC_BYTES;
        let per_segment = (self.segment_bytes / each) as u32;
        let segments = packets.div_ceil(per_segment.into());
        let left = Mark::default();
        let (this, left) = (&*self, &left);
        let done = run_together(
            cores,
            move || this.produce(traffic, segments, per_segment, left),
            move || this.consume(segments, per_segment, left),
        );
        let run = Run { seconds: done.seconds, sum: done.consumer };
        (run, segments * u64::from(per_segment))
    }

    fn segment(&self, sequence: u64) -> Segment<'_> {
        let count = self.marks.len() as u64;
        let index = (sequence % count) as usize;
        // SAFETY: the index is below the number of segments.
        let start = unsafe { self.memory.add(index * self.segment_bytes) };
        Segment { start, mark: &self.marks[index].0, lap: (sequence / count + 1) << 32 }
    }

    fn produce(&self, traffic: &Traffic, segments: u64, per_segment: u32, left: &Mark) {
        let length = traffic.length();
        let step = length.next_multiple_of(PACKET_ALIGNMENT);
        let mut counter = 0_u32;
        for sequence in 0..segments {
            // Pairs with the Release in `consume`, after its last read of the segment.
            while sequence - left.0.load(Acquire) >= self.marks.len() as u64 {
                spin_loop();
            }
            let Segment { start, mark, lap } = self.segment(sequence);
            let mut offset = 0;
            for index in 0..per_segment {
                let desc = Desc::new(offset as u32, length as u32, 0, Flags::NONE);
                let desc = desc.with(traffic::hash_of(counter), counter);
                let behind = self.segment_bytes - DESC_BYTES * (index as usize + 1);
                // SAFETY: I1; `per_segment` packets and descs fit a segment.
                unsafe {
                    start.add(behind).cast::<Desc>().write(desc);
                    traffic.fill(start.add(offset).as_ptr(), counter);
                }
                offset += step;
                counter += 1;
                let count = index + 1;
                if (count as usize).is_multiple_of(BURST) || count == per_segment {
                    mark.store(lap + u64::from(count), Release); // pairs with `consume`
                }
            }
        }
    }

    fn consume(&self, segments: u64, per_segment: u32, left: &Mark) -> u64 {
        let (mut sum, start_ns) = (0_u64, traffic::time_of(0));
        for sequence in 0..segments {
            let Segment { start, mark, lap } = self.segment(sequence);
            let mut index = 0;
            while index < per_segment {
                // Pairs with the Release in `produce`. A mark from an earlier lap is below `lap`.
                let count = mark.load(Acquire).saturating_sub(lap) as u32;
                if count <= index {
                    spin_loop();
                }
                for index in index..count {
                    let behind = self.segment_bytes - DESC_BYTES * (index as usize + 1);
                    // SAFETY: I1, below the published count.
                    let packet = unsafe {
                        let desc = start.add(behind).cast::<Desc>().read();
                        let at = start.add(desc.offset() as usize).as_ptr();
                        (std::slice::from_raw_parts(at, desc.length() as usize), desc)
                    };
                    let (bytes, desc) = packet;
                    let time_ns = start_ns + u64::from(desc.time_delta_ns());
                    sum = sum.wrapping_add(traffic::digest(bytes, desc.hash(), time_ns));
                }
                index = count.max(index);
            }
            left.0.store(sequence + 1, Release); // pairs with the Acquire in `produce`
        }
        sum
    }
}
