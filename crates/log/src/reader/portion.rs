//! Takes a given number of packets, and puts back those that the caller has no room for.
//!
//! ```text
//! segment    ... taken before | taken() | not taken | unpublished
//!                             '-- last --^ taken
//! ```
//!
//! The packets are not moved, only the reader's position in its segment changes. On every path,
//! taken packets are below the published count of the segment that the reader pins. So lending them
//! again is sound at any time (R1).

use super::{Found, Reader, lend};
use crate::burst::Burst;

impl Reader {
    /// Takes up to `most` of the packets published since the last ones, and returns their number;
    /// [`taken`](Self::taken) lends them. 0 if `most` is 0 or [`next_burst`](Self::next_burst)
    /// would return `None`.
    pub fn take_up_to(&mut self, most: u64) -> u64 {
        self.find_up_to(most).map_or(0, |_| u64::from(self.last))
    }

    /// Lends the packets taken last; `None` if there are none, or [`next_burst`](Self::next_burst)
    /// was called since.
    pub fn taken(&self) -> Option<Burst<'_>> {
        if self.part.is_some() {
            return self.lend_part(self.last);
        }
        let current = self.current?;
        let from = current.taken.checked_sub(self.last)?;
        let found = Found { current, from, to: current.taken };
        // SAFETY: `taken` never exceeds a count read from the watermark of the segment, which is
        // pinned while it is the current one (R1); the borrow of `self` keeps it current (R2).
        (self.last > 0).then(|| unsafe { lend(&self.memory, &found) })
    }

    /// Puts the newest `packets` of those taken last back, so that they are taken again.
    ///
    /// # Panics
    /// If there are more than [`taken`](Self::taken) lends.
    pub fn put_back(&mut self, packets: u64) {
        assert!(packets <= u64::from(self.last), "{packets} packets of {} taken", self.last);
        if packets == 0 {
            return;
        }
        if self.part.is_some() {
            return self.put_back_part(packets as u32);
        }
        self.last -= packets as u32;
        self.unread(packets as u32);
        self.say();
    }

    /// Undoes the reading of the newest `packets` of the current segment.
    pub(super) fn unread(&mut self, packets: u32) {
        if let Some(current) = &mut self.current {
            current.taken -= packets;
            self.statistics.delivered -= u64::from(packets);
            self.next_packet = self.next_packet.wrapping_sub(packets.into());
        }
    }

    /// Finds up to `most` packets and takes them.
    pub(crate) fn find_up_to(&mut self, most: u64) -> Option<Found> {
        self.last = 0;
        if most == 0 {
            return None;
        }
        if self.part.is_some() {
            return self.find_part(most);
        }
        let found = self.advance()?;
        self.last = found.to - found.from;
        let surplus = u64::from(self.last).saturating_sub(most);
        if surplus > 0 {
            self.put_back(surplus);
        }
        Some(Found { to: found.to - surplus as u32, ..found })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Appended, Log, LogConfig, Meta, ReaderConfig};

    #[test]
    fn what_is_put_back_is_taken_again() {
        let (log, mut writer) = Log::create(LogConfig::small(8)).unwrap();
        let mut reader = log.attach(ReaderConfig::default()).unwrap();
        for number in 0..200_u8 {
            let meta = Meta::new(number.into(), 100, 0);
            assert_eq!(writer.append(&[number; 100], &meta), Appended::Whole);
        }
        writer.publish();
        assert_eq!((reader.take_up_to(0), reader.taken().is_none()), (0, true));
        let mut next = 0;
        while let taken @ 1.. = reader.take_up_to(7) {
            assert!(taken <= 7);
            let kept = taken.div_ceil(2);
            let burst = reader.taken().unwrap();
            assert_eq!((burst.len() as u64, burst.first_packet()), (taken, next));
            for (number, packet) in (next..).zip(burst.packets()) {
                assert_eq!(packet.bytes(), [number as u8; 100]);
            }
            reader.put_back(taken - kept);
            assert_eq!(reader.taken().unwrap().len() as u64, kept);
            next += kept;
            assert_eq!((reader.statistics().delivered, reader.lag()), (next, 200 - next));
        }
        assert_eq!((next, reader.statistics().missed), (200, 0));
        drop(writer);
        assert!(reader.next_burst().is_none() && reader.is_finished());
        assert!(reader.taken().is_none());
    }

    #[test]
    #[should_panic(expected = "1 packets of 0 taken")]
    fn what_a_burst_has_passed_cannot_be_put_back() {
        let (log, mut writer) = Log::create(LogConfig::small(8)).unwrap();
        let mut reader = log.attach(ReaderConfig::default()).unwrap();
        for number in 0..60 {
            assert_eq!(writer.append(&[7; 100], &Meta::new(number, 100, 0)), Appended::Whole);
        }
        writer.publish();
        assert_eq!(reader.take_up_to(20), 20);
        while reader.next_burst().is_some() {} // into the next segments
        assert!(reader.taken().is_none());
        reader.put_back(1);
    }
}
