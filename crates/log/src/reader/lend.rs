//! Makes bursts of the packets that a reader found.

use std::sync::atomic::Ordering::Relaxed;

use burstline_sys::prefetch::{self, LINE_BYTES};

use super::Found;
use crate::burst::{Burst, FactsAt, Place};
use crate::desc::{Desc, FACTS_BYTES, Flags, align_up};
use crate::log::Memory;

const DESCS_OF_LINE: usize = LINE_BYTES / size_of::<Desc>();

/// Lines of descs that are prefetched together: those of 256 packets.
const NEWEST_LINES: usize = 64;

/// Prefetches the newest descs, by ascending address. A worklist is read by descending address, so
/// the processor would prefetch the lines that follow. The writer is filling those, and would have
/// to fetch each of them back. Ascending order prefetches no line beyond the published ones
/// (Decision 0027).
#[inline]
fn ask_for_newest(worklist: &[Desc]) {
    let lines = worklist.len().div_ceil(DESCS_OF_LINE).min(NEWEST_LINES);
    let mut line = worklist.as_ptr();
    for _ in 0..lines {
        prefetch::to_read(line);
        line = line.wrapping_add(DESCS_OF_LINE);
    }
}

/// Makes the burst of the packets found.
///
/// # Safety
/// `to` was read from the segment's watermark, and the segment stays pinned while `'a` lasts.
#[inline]
pub(super) unsafe fn lend<'a>(memory: &'a Memory, found: &Found) -> Burst<'a> {
    let &Found { current, from, to } = found;
    let geometry = memory.control.geometry();
    let (segment_bytes, top) = (geometry.segment_bytes, geometry.top());
    // A count that does not fit comes from a broken writer in another process.
    let to = to.min((top / size_of::<Desc>()) as u32);
    let from = from.min(to);
    let worklist_bytes = to as usize * size_of::<Desc>();
    // SAFETY: the segment number was checked on entry, so this is inside the mapping.
    let start = unsafe { memory.packets.add(current.segment as usize * segment_bytes) };
    // SAFETY: descs `[from, to)` are in `[top - 16 * to, top - 16 * from)`, published and pinned,
    // so nobody writes them; every bit pattern is a desc.
    let worklist = unsafe {
        let oldest = start.add(top - worklist_bytes).cast::<Desc>();
        std::slice::from_raw_parts(oldest.as_ptr(), (to - from) as usize)
    };
    ask_for_newest(worklist);
    // The newest desc marks the end of the published bytes; the writer may be writing above it.
    let end = worklist.first().map_or(0, end_of).min(top - worklist_bytes);
    // SAFETY: bytes `[0, end)` are below every unpublished packet: published and pinned.
    let bytes = unsafe { std::slice::from_raw_parts(start.as_ptr(), end) };
    let line = memory.control.line(current.segment);
    let base_time_ns = line.base_time_ns.load(Relaxed); // before the first publish (E1)
    let first_packet = current.first_packet + u64::from(from);
    // Only this crate's writer can write to a log made in this process, so its claims hold. Packets
    // before the first special one have no facts, and all end below the newest one's end.
    // `first_special` was written before that packet was published (E1).
    let special = if memory.is_own() { line.first_special.load(Relaxed) } else { 0 };
    let facts = FactsAt::Behind { plain: special.saturating_sub(from) };
    // SAFETY: nobody writes `bytes`, as above. If `facts` claims plain packets, the writer is this
    // crate's and its claim holds; otherwise it claims none.
    unsafe { Burst::new(Place::whole(bytes), worklist, base_time_ns, first_packet, facts) }
}

/// Returns the end of a packet in its segment, including its facts.
pub(crate) fn end_of(desc: &Desc) -> usize {
    let end = align_up(desc.offset() as usize + desc.length() as usize);
    let has_facts = desc.flags().contains(Flags::FACTS);
    end + if has_facts { FACTS_BYTES } else { 0 }
}
