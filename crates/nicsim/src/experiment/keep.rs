//! The drawback: an application that keeps packets pins the memory they are in.
//!
//! ```text
//!   writeback, inline   a kept packet pins its buffer, whatever its length
//!   segments            a kept packet pins its segment, with everything in it
//!   copies              a kept packet is copied out, and its segment is returned
//! ```

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use burstline_log::HeldBurst;

use super::{BATCH, Cost, receiving};
use crate::{Assembly, CardError, Kept, Mode, Settings};

/// How packets are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// In their buffers, written back.
    Writeback,
    /// In their buffers, with metadata in front.
    Inline,
    /// Contiguous, with their segments.
    Segments,
    /// Contiguous, copied out.
    Copies,
}

impl Keeping {
    /// All ways.
    pub const ALL: [Self; 4] = [Self::Writeback, Self::Inline, Self::Segments, Self::Copies];

    /// Returns the name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Writeback => "writeback",
            Self::Inline => "inline",
            Self::Segments => "contiguous, segments",
            Self::Copies => "contiguous, copied",
        }
    }

    /// Returns the card's mode.
    #[must_use]
    pub fn mode(self) -> Mode {
        match self {
            Self::Writeback => Mode::Writeback,
            Self::Inline => Mode::Inline,
            Self::Segments | Self::Copies => Mode::Contiguous,
        }
    }
}

/// Parameters of keeping.
#[derive(Clone, Copy, Debug)]
pub struct Retention<'a> {
    /// Keep one packet in this many, at least 1.
    pub every: u64,
    /// Keep it until this many packets have followed.
    pub span: u64,
    /// Packets to receive.
    pub packets: u64,
    /// Set to end early.
    pub stop: &'a AtomicBool,
}

/// Results of keeping.
#[derive(Clone, Copy, Debug, Default)]
pub struct Retained {
    /// Cost of driver and application.
    pub cost: Cost,
    /// Most packets kept at the same time.
    pub kept: u64,
    /// Most bytes pinned at the same time.
    pub pinned_bytes: u64,
    /// Packets that could not be kept, or not long enough, for lack of memory.
    pub refused: u64,
}

impl Retained {
    fn pins(&mut self, kept: u64, bytes: u64) {
        self.kept = self.kept.max(kept);
        self.pinned_bytes = self.pinned_bytes.max(bytes);
    }
}

impl Retention<'_> {
    /// Runs until all packets have arrived or `stop` is set. A card with scattered buffers gets as
    /// many spare ones as are kept at the same time.
    ///
    /// # Errors
    /// The card cannot be created.
    pub fn run(
        &self,
        settings: &Settings,
        keeping: Keeping,
        frames: &[Vec<u8>],
    ) -> Result<Retained, CardError> {
        let kept = u32::try_from(self.span / self.every.max(1)).unwrap_or(u32::MAX);
        let spare = Some(settings.ring.saturating_add(kept).saturating_add(1));
        let mode = keeping.mode();
        let settings = Settings { mode, spare, window: 8, ..settings.clone() };
        let mut card = receiving(&settings, frames)?;
        let mut retained = Retained::default();
        match keeping {
            Keeping::Writeback | Keeping::Inline => {
                self.buffers(&mut card, &settings, &mut retained);
            }
            Keeping::Segments => self.segments(&mut card, &settings, &mut retained),
            Keeping::Copies => self.copies(&mut card, &mut retained),
        }
        Ok(retained)
    }

    /// Returns whether more packets are to come.
    fn goes_on(&self, retained: &Retained) -> bool {
        // The flag publishes no memory.
        retained.cost.packets < self.packets && !self.stop.load(Relaxed)
    }

    /// Returns the indices of the packets to keep, out of `count` packets from number `first` on.
    fn wanted(&self, first: u64, count: u64) -> impl Iterator<Item = usize> + use<> {
        let every = self.every.max(1);
        let before = first.next_multiple_of(every) - first;
        (before..count).step_by(every as usize).map(|index| index as usize)
    }

    fn buffers(&self, card: &mut Assembly, settings: &Settings, retained: &mut Retained) {
        let mut kept: VecDeque<(u64, Kept)> = VecDeque::new();
        while self.goes_on(retained) {
            card.device.step();
            let (receiver, start) = (&mut card.receivers[0], Instant::now());
            let first = receiver.taken();
            let packets = receiver.lend(BATCH).len() as u64;
            for index in self.wanted(first, packets) {
                match receiver.keep(index) {
                    Some(packet) => kept.push_back((first + index as u64, packet)),
                    None => retained.refused += 1,
                }
            }
            retained.pins(kept.len() as u64, kept.len() as u64 * u64::from(settings.buffer));
            let now = first + packets;
            while kept.front().is_some_and(|(number, _)| number + self.span <= now) {
                kept.pop_front().into_iter().for_each(|(_, packet)| receiver.let_go(packet));
            }
            retained.cost.add(packets, start);
        }
    }

    fn segments(&self, card: &mut Assembly, settings: &Settings, retained: &mut Retained) {
        let mut kept: VecDeque<(u64, u64, HeldBurst)> = VecDeque::new();
        let segment = settings.segment as u64;
        while self.goes_on(retained) {
            card.device.step();
            let (receiver, start) = (&mut card.receivers[0], Instant::now());
            let first = receiver.taken();
            if !receiver.can_hold() {
                let early = kept.pop_front();
                retained.refused += early.map_or(0, |(_, packets, _)| packets);
            }
            let held = receiver.hold();
            let packets = held.as_ref().map_or(0, |held| held.burst().len() as u64);
            let wanted = self.wanted(first, packets).count() as u64;
            if let Some(held) = held.filter(|_| wanted > 0) {
                kept.push_back((first + packets, wanted, held));
            }
            // Bursts of one segment are consecutive, and have the same start.
            let mut segments: Vec<_> = kept.iter().map(|(.., held)| held.burst().start()).collect();
            segments.dedup();
            let count = kept.iter().map(|(_, packets, _)| packets).sum();
            retained.pins(count, segments.len() as u64 * segment);
            let now = first + packets;
            while kept.front().is_some_and(|(end, ..)| end + self.span <= now) {
                kept.pop_front();
            }
            retained.cost.add(packets, start);
        }
    }

    fn copies(&self, card: &mut Assembly, retained: &mut Retained) {
        let mut kept: VecDeque<(u64, Box<[u8]>)> = VecDeque::new();
        let mut bytes = 0;
        while self.goes_on(retained) {
            card.device.step();
            let (receiver, start) = (&mut card.receivers[0], Instant::now());
            let first = receiver.taken();
            let burst = receiver.lend(BATCH);
            let packets = burst.len() as u64;
            for index in self.wanted(first, packets) {
                let copy: Box<[u8]> = burst.packet(index).bytes().into();
                bytes += copy.len() as u64;
                kept.push_back((first + index as u64, copy));
            }
            retained.pins(kept.len() as u64, bytes);
            let now = first + packets;
            while kept.front().is_some_and(|(number, _)| number + self.span <= now) {
                let copy = black_box(kept.pop_front());
                bytes -= copy.map_or(0, |(_, copy)| copy.len() as u64);
            }
            retained.cost.add(packets, start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcie::Bus;

    /// A stop flag that is never set.
    static GOES_ON: AtomicBool = AtomicBool::new(false);

    #[test]
    fn kept_packets_pin_what_they_lie_in() {
        let bus = Bus::new("3.0x8".parse().unwrap(), 256, 512).unwrap();
        let frames: Vec<Vec<u8>> = (0..64).map(|number| vec![number; 60]).collect();
        let settings = Settings { ring: 1024, ..Settings::new(Mode::Writeback, bus) };
        for every in [1, 7, 1000] {
            let retention = Retention { every, span: 4096, packets: 20_000, stop: &GOES_ON };
            for keeping in Keeping::ALL {
                let retained = retention.run(&settings, keeping, &frames).unwrap();
                let name = keeping.name();
                assert!(retained.cost.packets >= 20_000, "{name}: {retained:?}");
                assert_eq!(retained.refused, 0, "{name} {every}: {retained:?}");
                let kept = (4096 / every)..=((4096 + 2048) / every + 1);
                assert!(kept.contains(&retained.kept), "{name} {every}: {retained:?}");
                let each = match keeping {
                    Keeping::Writeback | Keeping::Inline => retained.kept * 2048,
                    Keeping::Copies => retained.kept * 60,
                    // 4,096 packets of 80 bytes: two or three segments.
                    Keeping::Segments => retained.pinned_bytes.clamp(2 << 18, 3 << 18),
                };
                assert_eq!(retained.pinned_bytes, each, "{name} {every}");
            }
        }
    }

    #[test]
    fn what_there_is_no_memory_for_is_counted() {
        let bus = Bus::new("3.0x8".parse().unwrap(), 256, 512).unwrap();
        let settings = Settings { ring: 64, segment: 1 << 14, ..Settings::new(Mode::Inline, bus) };
        // 8 segments of 16 KiB cannot hold a span of 4,096 packets.
        let retention = Retention { every: 1, span: 4096, packets: 20_000, stop: &GOES_ON };
        let retained = retention.run(&settings, Keeping::Segments, &[vec![1; 60]]).unwrap();
        assert!(retained.refused > 0 && retained.pinned_bytes <= 8 << 14, "{retained:?}");
    }
    #[test]
    fn a_flag_ends_it_where_no_packet_ever_comes() {
        let bus = Bus::new("3.0x8".parse().unwrap(), 256, 512).unwrap();
        let settings = Settings::new(Mode::Writeback, bus);
        let stop = AtomicBool::new(true);
        let retention = Retention { every: 1, span: 16, packets: 20_000, stop: &stop };
        // Longer than the card accepts.
        let frames = [vec![1; 1515]];
        for keeping in Keeping::ALL {
            let retained = retention.run(&settings, keeping, &frames).unwrap();
            assert_eq!(retained.cost.packets, 0, "{}: {retained:?}", keeping.name());
        }
    }
}
