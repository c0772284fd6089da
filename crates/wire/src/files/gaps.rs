//! Remembers which packets of a recording are missing, to tell a late segment from a repeated one.

use std::collections::BTreeMap;
use std::ops::Range;

/// Gaps that are remembered, in some 4 MB. A late segment that needs one more counts as repeated.
const MAX_GAPS: usize = 1 << 16;

/// Gaps in the numbers of packets: disjoint, and never empty.
///
/// A late segment touches the gaps that its packets are in, and no others. So a file whose segments
/// are all late takes no more steps for each of them than it has packets.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// By the number of the first packet.
    gaps: BTreeMap<u64, Gap>,
}

#[derive(Clone, Debug)]
struct Gap {
    packets: Range<u64>,
    /// Whether a broken segment is the reason.
    is_broken: bool,
}

impl Gaps {
    /// Adds packets behind all others that were added.
    pub(super) fn add(&mut self, packets: Range<u64>, is_broken: bool) {
        if self.gaps.len() < MAX_GAPS && !packets.is_empty() {
            self.gaps.insert(packets.start, Gap { packets, is_broken });
        }
    }

    /// Removes the packets of a late segment, if all of them are missing, and a gap that it splits
    /// has room. Returns how many of them were counted as corrupt. Broken segments do not say how
    /// many packets they have, so the border between two gaps is a guess: a segment may be in both.
    ///
    /// Cost: a search, and a step for each gap that the segment is in.
    pub(super) fn fill(&mut self, packets: &Range<u64>) -> Option<u64> {
        if packets.is_empty() {
            let (_, gap) = self.gaps.range(..=packets.start).next_back()?;
            return (packets.end <= gap.packets.end).then_some(0);
        }
        let touched: Vec<Gap> = self.touched(packets).cloned().collect();
        let within =
            |gap: &Gap| gap.packets.end.min(packets.end) - gap.packets.start.max(packets.start);
        let filled: u64 = touched.iter().map(within).sum();
        let is_split =
            |gap: &Gap| gap.packets.start < packets.start && packets.end < gap.packets.end;
        let has_room = self.gaps.len() < MAX_GAPS || !touched.iter().any(is_split);
        if filled < packets.end - packets.start || !has_room {
            return None;
        }
        let mut corrupt = 0;
        for gap in touched {
            let is_broken = gap.is_broken;
            corrupt += if is_broken { within(&gap) } else { 0 };
            self.gaps.remove(&gap.packets.start);
            let before = gap.packets.start..packets.start;
            let behind = packets.end..gap.packets.end;
            for packets in [before, behind].into_iter().filter(|part| !part.is_empty()) {
                self.gaps.insert(packets.start, Gap { packets, is_broken });
            }
        }
        Some(corrupt)
    }

    /// Returns the gaps that some packets are in.
    fn touched(&self, packets: &Range<u64>) -> impl Iterator<Item = &Gap> {
        let before = self.gaps.range(..packets.start).next_back().map(|(_, gap)| gap);
        let behind = self.gaps.range(packets.clone()).map(|(_, gap)| gap);
        let start = packets.start;
        before.into_iter().filter(move |gap| gap.packets.end > start).chain(behind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_segment_touches_only_its_own_gap() {
        let mut gaps = Gaps::default();
        let all = 40_000;
        gaps.add(0..all, false);
        // Every second packet comes late, and leaves a gap before and behind itself.
        for late in (1..all).step_by(2) {
            assert_eq!(gaps.touched(&(late..late + 1)).count(), 1, "{late}");
            assert_eq!(gaps.fill(&(late..late + 1)), Some(0), "{late}");
            assert_eq!(gaps.fill(&(late..late + 1)), None, "{late} a second time");
        }
        assert_eq!(gaps.gaps.len() as u64, all / 2);
        for late in (0..all).step_by(2) {
            assert_eq!(gaps.touched(&(late..late + 1)).count(), 1, "{late}");
            assert_eq!(gaps.fill(&(late..late + 1)), Some(0), "{late}");
        }
        assert!(gaps.gaps.is_empty());
    }

    #[test]
    fn no_more_gaps_are_kept_than_there_is_room_for() {
        let mut gaps = Gaps::default();
        let all = 4 * MAX_GAPS as u64;
        gaps.add(0..all, false);
        let filled = (1..all - 1).step_by(2).filter(|&late| gaps.fill(&(late..late + 1)).is_some());
        assert_eq!(filled.count(), MAX_GAPS - 1);
        assert_eq!(gaps.gaps.len(), MAX_GAPS);
        // What leaves no new gap is still filled.
        assert_eq!(gaps.fill(&(0..1)), Some(0));
        assert_eq!(gaps.fill(&(all - 9..all)), Some(0));
    }

    #[test]
    fn a_segment_may_be_in_two_gaps_of_which_one_is_broken() {
        let mut gaps = Gaps::default();
        gaps.add(10..20, true);
        gaps.add(20..30, false);
        gaps.add(40..50, true);
        assert_eq!(gaps.fill(&(25..45)), None, "30 to 40 are not missing");
        assert_eq!(gaps.fill(&(0..0)), None);
        assert_eq!(gaps.fill(&(35..35)), None);
        assert_eq!(gaps.fill(&(30..30)), Some(0), "a segment without packets, in a gap");
        assert_eq!(gaps.fill(&(15..25)), Some(5));
        assert_eq!(gaps.fill(&(10..15)), Some(5));
        assert_eq!(gaps.fill(&(25..30)), Some(0));
        assert_eq!(gaps.fill(&(40..50)), Some(10));
        assert!(gaps.gaps.is_empty());
    }
}
