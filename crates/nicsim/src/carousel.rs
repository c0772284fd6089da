//! A wire that repeats given frames forever, like a tester's memory.

use burstline_log::{Meta, SCRATCH_PACKETS, Scratch};

use crate::wire::{Arrived, Wire, WireState};

/// Sends the given frames without end. What the card sends is counted.
///
/// The frames are described once, so the device's thread spends nothing on them here.
pub struct Carousel {
    bytes: Vec<u8>,
    /// All frames, in rounds of at most one scratch each.
    rounds: Vec<Scratch>,
    /// The current round, and how many of its frames have arrived.
    round: usize,
    next: usize,
    sent: u64,
}

impl Carousel {
    /// Creates a wire with these frames, below 4 GiB together; without any, none arrives.
    pub fn new<'a>(frames: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let (mut bytes, mut rounds) = (Vec::new(), vec![Scratch::new()]);
        for frame in frames {
            if rounds.last().is_none_or(Scratch::is_full) {
                rounds.push(Scratch::new());
            }
            let length = frame.len() as u32;
            if let Some(round) = rounds.last_mut() {
                round.push(bytes.len() as u32, length, &Meta::new(0, length, 0));
            }
            bytes.extend_from_slice(frame);
            bytes.resize(bytes.len().next_multiple_of(16), 0);
        }
        // A few frames are repeated in one round.
        let few = rounds[0].len();
        if rounds.len() == 1 && few > 0 {
            let described: Vec<_> =
                rounds[0].burst(&bytes, 0).packets().map(|p| p.desc()).collect();
            while rounds[0].len() + few <= SCRATCH_PACKETS {
                for desc in &described {
                    let length = desc.length();
                    rounds[0].push(desc.offset(), length, &Meta::new(0, length, 0));
                }
            }
        }
        Self { bytes, rounds, round: 0, next: 0, sent: 0 }
    }
}

impl Wire for Carousel {
    /// All frames have the time 0: a caller that needs another one must read a clock.
    fn arrive(&mut self, budget: u64) -> Arrived<'_> {
        if self.next == self.rounds[self.round].len() {
            (self.round, self.next) = ((self.round + 1) % self.rounds.len(), 0);
        }
        let burst = self.rounds[self.round].burst(&self.bytes, 0).split_at(self.next).1;
        let count = burst.len().min(usize::try_from(budget).unwrap_or(usize::MAX));
        self.next += count;
        let state = if burst.is_empty() { WireState::Ended } else { WireState::Busy };
        Arrived { frames: burst.split_at(count).0, state }
    }

    fn can_wait(&self) -> bool {
        true
    }

    fn depart(&mut self, _frame: &[u8]) {
        self.sent += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_in_their_turn() {
        let frames = [[1; 60], [2; 60], [3; 60]];
        let mut carousel = Carousel::new(frames.iter().map(|frame| &frame[..]));
        let first: Vec<u8> =
            carousel.arrive(5).frames.packets().map(|packet| packet.bytes()[0]).collect();
        assert_eq!(first, [1, 2, 3, 1, 2]);
        assert_eq!(carousel.arrive(1).frames.packet(0).bytes(), [3; 60]);
        let many: Vec<[u8; 2]> = (0..2500_u16).map(u16::to_le_bytes).collect();
        let mut carousel = Carousel::new(many.iter().map(|frame| &frame[..]));
        for number in 0..6000 {
            let arrived = carousel.arrive(1);
            assert_eq!(arrived.frames.packet(0).bytes(), many[number % 2500]);
        }
        assert_eq!(Carousel::new([]).arrive(9).state, WireState::Ended);
    }
}
