//! Appends packets of several bursts in a given order, for merging.
//!
//! ```text
//! strand 0   | a | b | c |        order  0 1 0 0 1          segment  | a | x | b | c | y |
//! strand 1   | x | y |                                        free     | y c b x a |
//! ```
//!
//! A packet that moves from one worklist to another keeps its length, flags, port and hash. Its
//! offset changes, and its time counts from another base: the same number is added to the times of
//! all packets of a strand. So each check is made once for all of them. When a strand is made, each
//! packet must be plain and inside its burst. Before a part of a segment is begun, all times must
//! fit, and so must the longest packet, times the number of packets taken.
//!
//! Consecutive packets of one strand that are stored back to back are moved as one block.
//!
//! Invariant S1: each desc of a strand has no facts, and points into its place.

use std::ptr;

use super::{Appended, DESC_BYTES, Edge, Meta, Writer, edge::ask_ahead};
use crate::burst::{Burst, Place};
use crate::copy::copy_packet;
use crate::desc::{Desc, Flags, PACKET_ALIGNMENT, align_up};

/// Consecutive plain packets of a burst; some may already be taken.
#[derive(Clone, Copy, Debug)]
pub struct Strand<'a> {
    place: Place<'a>,
    /// The descs of the packets that are left, the next one's last.
    left: &'a [Desc],
    /// The base of the packets' times, in ns.
    base_time_ns: u64,
    /// A number added to a desc's second word, so that its time counts from the segment's base.
    later: u64,
    longest: usize,
    taken_bytes: u64,
    /// Whether the bytes between its packets are not written either.
    is_whole: bool,
}

impl<'a> Strand<'a> {
    /// Creates a strand without packets.
    pub fn empty() -> Self {
        let (place, left) = (Place::whole(&[]), &[]);
        Self { place, left, base_time_ns: 0, later: 0, longest: 0, taken_bytes: 0, is_whole: false }
    }

    /// Makes a strand of packets `[from, from + count)` of a burst, with `offset_ns` added to their
    /// times. `None` if one has facts, points outside its burst, or has a time that can't be
    /// expressed. Their times must ascend; if not, those of packets in between may become wrong.
    ///
    /// Cost: some six instructions a packet.
    pub fn new(burst: &Burst<'a>, from: usize, count: usize, offset_ns: i64) -> Option<Self> {
        let end = burst.len().checked_sub(from)?;
        let left = &burst.worklist()[end.checked_sub(count)?..end];
        let (mut any, mut most, mut farthest) = (0, 0, 0);
        for desc in left {
            let [place, _] = desc.words();
            any |= place;
            // The length is in the highest bits.
            most = place.max(most);
            farthest = desc.offset().max(farthest);
        }
        let has_facts = Desc::from_words([any, 0]).flags().contains(Flags::FACTS);
        let longest = Desc::from_words([most, 0]).length() as usize;
        let base_time_ns = burst.base_time_ns().checked_add_signed(offset_ns)?;
        let is_inside = match farthest as usize + longest <= burst.extent() {
            true => true,
            // The longest packet may not be the farthest one.
            false => left.iter().all(|desc| end_of(*desc) <= burst.extent()),
        };
        let (place, is_whole) = (burst.place(), !burst.is_in_frames());
        let (later, taken_bytes) = (0, 0);
        let strand = Self { place, left, base_time_ns, later, longest, taken_bytes, is_whole };
        (!has_facts && is_inside && base_time_ns <= u64::MAX >> 1).then_some(strand)
    }

    /// Returns the number of packets not taken yet.
    pub fn left(&self) -> usize {
        self.left.len()
    }

    /// Bytes of the packets that were taken.
    pub fn taken_bytes(&self) -> u64 {
        self.taken_bytes
    }

    /// Returns the length of the longest packet; 0 if there is none.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Makes times count from `base_ns`, the segment's. Returns whether all can be expressed.
    fn count_from(&mut self, base_ns: u64) -> bool {
        let [last, .., next] = self.left else {
            let [only] = self.left else { return true };
            return self.count_ends(base_ns, *only, *only);
        };
        self.count_ends(base_ns, *next, *last)
    }

    fn count_ends(&mut self, base_ns: u64, next: Desc, last: Desc) -> bool {
        let later_ns = self.base_time_ns.wrapping_sub(base_ns);
        self.later = later_ns << 32;
        let delta = |desc: Desc| later_ns.wrapping_add(desc.time_delta_ns().into());
        delta(next).max(delta(last)) <= u64::from(u32::MAX)
    }

    /// Takes the next packet alone.
    fn next(&mut self) -> Option<(&'a [u8], Meta)> {
        let (&desc, left) = self.left.split_last()?;
        self.left = left;
        self.taken_bytes += u64::from(desc.length());
        let time_ns = self.base_time_ns + u64::from(desc.time_delta_ns());
        let mut meta = Meta::new(time_ns, desc.length(), desc.port());
        (meta.hash, meta.flags) = (desc.hash(), desc.flags());
        // SAFETY: S1, the desc is one of the strand's.
        Some((unsafe { self.place.inside(desc) }, meta))
    }

    /// Returns a desc as it is in the segment, with its packet moved by `by` bytes.
    #[inline(always)]
    fn moved(&self, desc: Desc, by: u64) -> Desc {
        let [place, flow] = desc.words();
        Desc::from_words([place.wrapping_add(by), flow.wrapping_add(self.later)])
    }

    /// Returns how many of the next `most` packets are back to back, as they would be in a segment.
    fn run(&self, most: usize) -> usize {
        if !self.is_whole {
            return most.min(1);
        }
        let next = &self.left[self.left.len() - most..];
        let Some(mut at) = next.last().map(|desc| desc.offset() as usize) else { return 0 };
        if at % PACKET_ALIGNMENT != 0 {
            return 1;
        }
        let follows = |desc: &&Desc| {
            let is_so = desc.offset() as usize == at;
            at = align_up(end_of(**desc));
            is_so
        };
        next.iter().rev().take_while(follows).count()
    }
}

/// Returns the end of the packet's bytes, from the burst's base.
#[inline(always)]
fn end_of(desc: Desc) -> usize {
    desc.offset() as usize + desc.length() as usize
}

impl Writer {
    /// Appends packets of `strands` in an order. The low 16 bits of a key are the number of the
    /// packet's strand; the other bits are ignored. Returns the number of packets appended: fewer
    /// than keys if the log is full, or a strand has no more.
    ///
    /// Cost: some 60 instructions for a packet of up to 64 bytes.
    pub fn gather(&mut self, strands: &mut [Strand<'_>], order: &[u64]) -> usize {
        let longest = strands.iter().map(|strand| strand.longest).max().unwrap_or(0);
        let mut done = 0;
        while let Some(rest @ [next, ..]) = order.get(done..) {
            let fits = self.gather_most(strands, longest, rest.len());
            let taken = match fits {
                0 => {
                    let strand = strands.get_mut(usize::from(*next as u16));
                    strand.map_or(0, |strand| usize::from(self.append_next(strand)))
                }
                _ => self.by_way(longest, fits, |edge, most| edge.gather(strands, &rest[..most])),
            };
            if taken == 0 {
                break;
            }
            done += taken;
        }
        done
    }

    /// Appends the next `count` packets of a strand. Returns how many, like
    /// [`gather`](Self::gather).
    ///
    /// Cost: some 30 instructions a packet, and one copy of all, if they are back to back.
    pub fn gather_run(&mut self, strand: &mut Strand<'_>, count: usize) -> usize {
        let (longest, count) = (strand.longest, count.min(strand.left()));
        let mut done = 0;
        while done < count {
            let fits = self.gather_most(std::slice::from_mut(strand), longest, count - done);
            let taken = match fits {
                0 => usize::from(self.append_next(strand)),
                _ => self.by_way(longest, fits, |edge, most| edge.gather_run(strand, most)),
            };
            if taken == 0 {
                break;
            }
            done += taken;
        }
        done
    }

    /// Returns how many of `most` packets fit, none longer than `longest`; 0 if the next one must
    /// be appended alone.
    fn gather_most(&mut self, strands: &mut [Strand<'_>], longest: usize, most: usize) -> usize {
        if self.way.goes_far() {
            self.edge.measure();
        }
        let base_ns = self.edge.base_time_ns;
        let mut strands = strands.iter_mut();
        // In a segment without packets, `base_ns` is not a time.
        match self.count() > 0 && strands.all(|strand| strand.count_from(base_ns)) {
            true => self.edge.fits(longest, most),
            false => 0,
        }
    }

    /// Lets `take` append up to `most` packets, through the caches or past them.
    fn by_way(
        &mut self,
        longest: usize,
        most: usize,
        take: impl FnOnce(&mut Edge, usize) -> usize,
    ) -> usize {
        let at_once = self.staged_most(longest, most);
        if at_once == 0 {
            return take(&mut self.edge, most);
        }
        let (staged, mut edge) = self.enter_stage(self.edge);
        let taken = take(&mut edge, at_once);
        self.edge = self.leave_stage(staged, edge, 0);
        taken
    }

    /// Appends a strand's next packet, if it has one and there is room.
    #[cold]
    fn append_next(&mut self, strand: &mut Strand<'_>) -> bool {
        let before = *strand;
        let Some((packet, meta)) = strand.next() else { return false };
        let is_in = self.append(packet, &meta) != Appended::Full;
        if !is_in {
            *strand = before;
        }
        is_in
    }
}

impl Edge {
    /// Appends packets in order, until a strand is empty; all must fit if each is the longest.
    fn gather(&mut self, strands: &mut [Strand<'_>], order: &[u64]) -> usize {
        let (mut at, mut descs) = (self.at(), self.descs());
        let taken = |strands: &[Strand<'_>]| -> u64 {
            strands.iter().map(|strand| strand.taken_bytes).sum()
        };
        let before = taken(strands);
        for key in order {
            let Some(strand) = strands.get_mut(usize::from(*key as u16)) else { break };
            let Some((&desc, left)) = strand.left.split_last() else { break };
            strand.left = left;
            // SAFETY: S1 for the source. W2 for the target: there is room for as many of the
            // longest packet as there are keys, and no slice of unpublished bytes exists.
            unsafe { copy_packet(strand.place.inside(desc), at) };
            let low = (at.addr() - self.base().addr()) as u64;
            let desc = strand.moved(desc, low.wrapping_sub(desc.offset().into()));
            descs = descs.wrapping_sub(1);
            // SAFETY: W2, these 16 bytes are in that room; the segment's base and `descs` are
            // aligned to 16.
            unsafe { descs.write(desc) };
            let length = desc.length() as usize;
            at = at.wrapping_add(align_up(length));
            strand.taken_bytes += length as u64;
            ask_ahead(at, descs, length);
        }
        self.advance(at, descs, (taken(strands) - before) as usize)
    }

    /// Appends the next packets of a strand that are back to back, at most `most`. There must be
    /// room for this number of the longest packet.
    fn gather_run(&mut self, strand: &mut Strand<'_>, most: usize) -> usize {
        let count = strand.run(most);
        let (left, run) = strand.left.split_at(strand.left.len() - count);
        let [last, ..] = run else { return 0 };
        let first = run[count - 1].offset() as usize;
        let length = end_of(*last) - first;
        // SAFETY: the range from the first packet to the last one's end is in the place, because
        // both are (S1). Nobody writes there, because the strand is whole or this is one packet. W2
        // for the target: each packet takes its length rounded up, as in a segment, and there is
        // room for all.
        unsafe {
            let packets = strand.place.start().add(first);
            ptr::copy_nonoverlapping(packets, self.at(), length);
        }
        let by = (self.low() as u64).wrapping_sub(first as u64);
        let descs = self.descs().wrapping_sub(count);
        let mut bytes = 0;
        for (index, desc) in run.iter().enumerate() {
            bytes += desc.length() as usize;
            // SAFETY: W2, these 16 bytes are in that room; the segment's base and `descs` are
            // aligned to 16.
            unsafe { descs.add(index).write(strand.moved(*desc, by)) };
        }
        let at = self.at().wrapping_add(align_up(length));
        strand.left = left;
        strand.taken_bytes += bytes as u64;
        self.advance(at, descs, bytes)
    }

    /// Records the packets written up to `at` and `descs`, of `bytes` bytes. Returns their number.
    fn advance(&mut self, at: *mut u8, descs: *mut Desc, bytes: usize) -> usize {
        let (low, count) = (at.addr() - self.at().addr(), self.descs().addr() - descs.addr());
        let count = count / DESC_BYTES;
        self.taken(low, count, bytes);
        count
    }
}

#[cfg(test)]
mod tests;
