//! Remembers where blocks lead that follow each other after damage: in a broken slot to its end or
//! not, in a plain file to a bad block.

use std::collections::BTreeMap;

use super::block_scan::Candidate;
use super::block_type::{ENHANCED_PACKET, SECTION};
use super::blocks::{MIN_BLOCK, is_known};
use super::slots::State;
use super::{Decoder, word};

/// Results for the slot being scanned: two bits for each position where a block may start.
///
/// A scan may try every position of a slot, and all of them may lead to one bad block. The result
/// for a position holds for all that lead to it. So a slot costs no more steps than it has
/// positions.
#[derive(Debug, Default)]
pub(super) struct Chains {
    /// Absolute file offset of the end of the slot or the file.
    end: u64,
    /// A bit per position, counted from the end: blocks were followed from here.
    followed: Vec<u64>,
    /// A bit per position: blocks lead from here to the end.
    lead: Vec<u64>,
}

impl Chains {
    /// Returns whether blocks lead from the position `left` bytes before `end` to `end`. `behind`
    /// returns for a position how many bytes are left after its block, or `None` if no block is
    /// there. Positions are multiples of 4 bytes apart.
    ///
    /// Cost: two steps for each block that no call for the same `end` has followed.
    pub(super) fn lead_on(
        &mut self,
        left: usize,
        end: u64,
        mut behind: impl FnMut(usize) -> Option<usize>,
    ) -> bool {
        let words = left / 4 / 64 + 1;
        if self.end != end {
            (self.end, self.followed, self.lead) = (end, Vec::new(), Vec::new());
        }
        if self.followed.len() < words {
            self.followed.resize(words, 0);
            self.lead.resize(words, 0);
        }
        let bit = |place: usize| (place / 4 / 64, 1_u64 << (place / 4 % 64));
        let mut at = left;
        let leads = loop {
            let (word, mask) = bit(at);
            if at == 0 {
                break true;
            }
            if self.followed[word] & mask != 0 {
                break self.lead[word] & mask != 0;
            }
            self.followed[word] |= mask;
            match behind(at) {
                Some(left) => at = left,
                None => break false,
            }
        };
        let known = at;
        at = left;
        while leads && at != known {
            let (word, mask) = bit(at);
            self.lead[word] |= mask;
            at = behind(at).unwrap_or(known);
        }
        leads
    }
}

/// A block's position in a plain file, and the byte order of its section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// Absolute file offset.
    pub(super) offset: u64,
    pub(super) swapped: bool,
}

/// Blocks of a plain file that lead to a bad one.
///
/// A scan may find a section header every few bytes, and all of them may lead to one bad block. So
/// what was learned on the way there holds for all that come upon it.
#[derive(Debug, Default)]
pub(super) struct DeadEnds {
    /// A block, and the file offset of the bad one that it leads to.
    known: BTreeMap<Place, u64>,
}

impl DeadEnds {
    /// Follows blocks from `start`: they are real if they lead to file offset `least` or further.
    /// `next` returns the block behind another one, or else the result. What lies before `start` is
    /// forgotten: a scan that needs more bytes may begin before it, and follow some blocks again.
    ///
    /// Cost: a step for each block that is not known to lead to a bad one.
    pub(super) fn follow(
        &mut self,
        start: Place,
        least: u64,
        mut next: impl FnMut(Place) -> Result<Place, Candidate>,
    ) -> Candidate {
        while self.known.first_key_value().is_some_and(|(known, _)| known.offset < start.offset) {
            self.known.pop_first();
        }
        let (mut place, mut passed) = (start, Vec::new());
        let end = loop {
            if place.offset >= least {
                return Candidate::Yes;
            }
            if let Some(&end) = self.known.get(&place) {
                break end;
            }
            passed.push(place);
            match next(place) {
                Ok(behind) => place = behind,
                Err(Candidate::No) => break place.offset,
                Err(result) => return result,
            }
        };
        self.known.extend(passed.into_iter().map(|place| (place, end)));
        if end >= least { Candidate::Yes } else { Candidate::No }
    }
}

impl Decoder {
    /// Returns whether a block after damage in a slot may be real. The worklist must name it, or
    /// blocks must lead from it to the end of the slot or of the truncated file. The block is
    /// `ahead` bytes after the offset, and `here` ends there.
    pub(super) fn leads_on(&mut self, here: &[u8], ahead: usize) -> bool {
        let end = self.offset + (ahead + here.len()) as u64;
        let Some(slots) = &mut self.slots else { return false };
        let block = slots.segment_bytes - here.len().min(slots.segment_bytes);
        let is_packet = word(here, 0, false) == ENHANCED_PACKET;
        let is_listed = || slots.listed.binary_search(&block).is_ok();
        if slots.state == State::Broken && is_packet && is_listed() {
            return true;
        }
        slots.chains.lead_on(here.len(), end, |left| {
            let here = &here[here.len() - left..];
            let head = here.get(..8)?;
            let (block_type, length) = (word(head, 0, false), word(head, 4, false));
            let is_length = length >= MIN_BLOCK && length.is_multiple_of(4);
            if !is_length || block_type == SECTION || !is_known(block_type) {
                return None;
            }
            let bytes = length as usize;
            let trailing = here.get(bytes - 4..bytes)?;
            (word(trailing, 0, false) == length).then_some(left - bytes)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_of_a_slot_is_followed_once() {
        const SLOT: usize = 1 << 16;
        for is_whole in [true, false] {
            let (mut chains, mut steps) = (Chains::default(), 0);
            for left in (12..=SLOT).rev().step_by(4) {
                let leads = chains.lead_on(left, SLOT as u64, |at| {
                    steps += 1;
                    (at > 24 || is_whole).then(|| at.checked_sub(12)).flatten()
                });
                assert_eq!(leads, is_whole && left % 12 == 0, "{left}");
            }
            assert!(steps <= SLOT / 2, "{steps}");
        }
        // Another slot has no results yet.
        let mut chains = Chains::default();
        assert!(!chains.lead_on(12, 100, |_| None));
        assert!(!chains.lead_on(12, 100, |_| Some(0)));
        assert!(chains.lead_on(12, 200, |_| Some(0)));
    }

    #[test]
    fn each_block_on_the_way_to_a_bad_one_is_followed_once() {
        const BLOCKS: u64 = 4096;
        let place = |offset| Place { offset, swapped: false };
        let (mut ends, mut steps) = (DeadEnds::default(), 0);
        // Four ways beside each other: blocks of 64 bytes, one every 16.
        for start in (0..BLOCKS).map(|number| place(16 * number)) {
            let result = ends.follow(start, u64::MAX, |at| {
                steps += 1;
                let behind = place(at.offset + 64);
                if behind.offset < 16 * BLOCKS { Ok(behind) } else { Err(Candidate::No) }
            });
            assert!(matches!(result, Candidate::No), "{start:?}");
        }
        assert_eq!(steps, BLOCKS);
        assert!(ends.known.len() <= 4, "what is behind the scan is forgotten");
        // Where bytes are missing, nothing is learned; nor does another byte order say the same.
        let (mut ends, start) = (DeadEnds::default(), place(0));
        let need = ends.follow(start, u64::MAX, |_| Err(Candidate::Need(12)));
        assert!(matches!(need, Candidate::Need(12)));
        assert!(matches!(ends.follow(start, u64::MAX, |_| Err(Candidate::No)), Candidate::No));
        assert!(matches!(ends.follow(start, u64::MAX, |_| Err(Candidate::Yes)), Candidate::No));
        let swapped = Place { swapped: true, ..start };
        assert!(matches!(ends.follow(swapped, u64::MAX, |_| Err(Candidate::Yes)), Candidate::Yes));
        // Blocks that lead to a bad one at 2000 are too near for one candidate only.
        let mut ends = DeadEnds::default();
        for (least, leads) in [(2001, false), (1001, true), (2000, true), (2001, false)] {
            let result = ends.follow(place(600), least, |at| match at.offset {
                2000 => Err(Candidate::No),
                offset => Ok(place(offset + 700)),
            });
            assert_eq!(matches!(result, Candidate::Yes), leads, "{least}");
        }
    }
}
