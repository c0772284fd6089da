//! Plain packets, those without [`Facts`](crate::Facts), for loops that look at each packet.
//!
//! ```text
//! worklist   | rest: not checked |   run   | returned |          in memory: newest first
//! ```
//!
//! In a log made in this process, the writer records the first special packet of each segment, so
//! all packets before it are one run. In other bursts, some dozens of descs are checked together,
//! in a loop that only collects whether any of them is special. A packet that is returned then
//! needs no check.
//!
//! Invariant P1: no desc of `run` has facts, and each points into the burst's place.

use std::slice;

use super::{AHEAD, Burst, FactsAt, Place};
use crate::desc::{Desc, Flags};

/// Descs that are checked together.
const RUN: usize = 32;

/// A packet that has no [`Facts`](crate::Facts): it is not truncated, and no packets were lost just
/// before it.
#[derive(Clone, Copy, Debug)]
pub struct PlainPacket<'a> {
    /// Its worklist entry.
    pub desc: Desc,
    /// See [`Packet::bytes`](crate::Packet::bytes).
    pub bytes: &'a [u8],
    /// See [`Packet::time_ns`](crate::Packet::time_ns).
    pub time_ns: u64,
}

/// Iterator over the plain packets at a burst's start: see [`Burst::plain_packets`].
#[derive(Clone, Debug)]
pub struct PlainPackets<'a> {
    run: slice::Iter<'a, Desc>,
    place: Place<'a>,
    base_time_ns: u64,
    rest: &'a [Desc],
}

impl<'a> PlainPackets<'a> {
    #[inline]
    pub(super) fn new(burst: &Burst<'a>) -> Self {
        let known = match burst.facts {
            FactsAt::Behind { plain } => plain as usize,
            FactsAt::Aside { .. } | FactsAt::Woven => 0,
        };
        let (rest, run) = burst.worklist.split_at(burst.worklist.len().saturating_sub(known));
        let (place, base_time_ns) = (burst.place, burst.base_time_ns);
        Self { run: run.iter(), place, base_time_ns, rest }
    }

    /// Checks the next descs. Returns false if the next packet is not plain.
    #[inline]
    fn look(&mut self) -> bool {
        if self.rest.is_empty() {
            return false;
        }
        let (rest, run) = self.rest.split_at(self.rest.len().saturating_sub(RUN));
        (self.rest, self.run) = match are_plain(run, &self.place) {
            true => (rest, run.iter()),
            false => (&[][..], self.start_of(run)),
        };
        !self.run.as_slice().is_empty()
    }

    /// Returns the plain packets at the start of `run`.
    #[cold]
    fn start_of(&self, run: &'a [Desc]) -> slice::Iter<'a, Desc> {
        let is_special = |desc: &Desc| !are_plain(slice::from_ref(desc), &self.place);
        let special = run.iter().rposition(is_special);
        run[special.map_or(0, |at| at + 1)..].iter()
    }

    /// # Safety
    /// `desc` is part of a run (P1).
    #[inline(always)]
    unsafe fn packet(place: Place<'a>, base_time_ns: u64, desc: Desc) -> PlainPacket<'a> {
        // SAFETY: the caller guarantees P1, so the desc points into the place.
        let bytes = unsafe { place.inside(desc) };
        PlainPacket { desc, bytes, time_ns: base_time_ns.wrapping_add(desc.time_delta_ns().into()) }
    }
}

impl<'a> Iterator for PlainPackets<'a> {
    type Item = PlainPacket<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<PlainPacket<'a>> {
        if self.run.as_slice().is_empty() && !self.look() {
            return None;
        }
        let &desc = self.run.next_back()?;
        let left = self.run.as_slice();
        if let Some(at) = left.len().checked_sub(AHEAD) {
            self.place.ask_for(left[at]);
        }
        // SAFETY: P1, the desc was taken from `run`.
        Some(unsafe { Self::packet(self.place, self.base_time_ns, desc) })
    }

    /// Loops over each run with no check per desc.
    #[inline(always)]
    fn fold<B, F: FnMut(B, PlainPacket<'a>) -> B>(mut self, first: B, mut add: F) -> B {
        let (mut sum, place, base_time_ns) = (first, self.place, self.base_time_ns);
        loop {
            // The loop keeps one pointer, to each desc; the later desc is `AHEAD` before it.
            let run = self.run.as_slice();
            let (last, _) = run.split_at(run.len().min(AHEAD));
            // Derived from the whole run, because both descs are read through it.
            let (mut at, end) = (run.as_ptr_range().end, run.as_ptr().wrapping_add(last.len()));
            while at != end {
                at = at.wrapping_sub(1);
                // SAFETY: both are in the run. `at` is after `last`, and `last` has `AHEAD` descs
                // if anything follows it.
                let (desc, later) = unsafe { (*at, *at.wrapping_sub(AHEAD)) };
                place.ask_for(later);
                // SAFETY: P1, the desc is in the run.
                sum = add(sum, unsafe { Self::packet(place, base_time_ns, desc) });
            }
            for &desc in last.iter().rev() {
                // SAFETY: P1, the desc is in the run.
                sum = add(sum, unsafe { Self::packet(place, base_time_ns, desc) });
            }
            if !self.look() {
                return sum;
            }
        }
    }
}

/// Returns whether no packet has facts and all are inside the place.
#[inline(always)]
fn are_plain(descs: &[Desc], place: &Place<'_>) -> bool {
    let (mut any, mut end) = (0, 0);
    for desc in descs {
        any |= desc.words()[0];
        end = end.max(u64::from(desc.offset()) + u64::from(desc.length()));
    }
    let has_facts = Desc::from_words([any, 0]).flags().contains(Flags::FACTS);
    !has_facts && end <= place.bytes as u64
}

#[cfg(test)]
mod tests {
    use crate::{Meta, Scratch};

    #[test]
    fn it_ends_before_the_first_special_packet_wherever_that_is() {
        let bytes = [7; 2_000];
        let (mut checked, mut ends) = (0, [0; 2]);
        let (lengths, expected): (&[_], _) = match cfg!(miri) {
            false => (&[0, 1, 31, 32, 33, 64, 100], [522, 14]),
            true => (&[1, 33], [68, 4]), // more would take minutes
        };
        for &length in lengths {
            for special in 0..=length {
                for outside in [false, true] {
                    let mut scratch = Scratch::new();
                    for number in 0..length {
                        let mut meta = Meta::new(u64::from(number), 20, 0);
                        let is_special = number == special;
                        meta.drops_before = u64::from(is_special && !outside);
                        let offset = if is_special && outside { 1_981 } else { number };
                        scratch.push(offset, 20, &meta);
                    }
                    let burst = scratch.burst(&bytes, 0);
                    let given: Vec<_> =
                        burst.plain_packets().map(|packet| packet.time_ns).collect();
                    assert!(given.iter().copied().eq(0..u64::from(special)), "{given:?}");
                    let folded = burst.plain_packets().fold(0, |count, packet| {
                        assert_eq!(packet.bytes, [7; 20]);
                        count + 1
                    });
                    assert_eq!(folded, special);
                    ends[usize::from(special == length)] += 1;
                    checked += 1;
                }
            }
        }
        assert!(checked == expected[0] + expected[1] && ends == expected, "{checked} {ends:?}");
    }
}
