//! Frames that go round and round, as from a tester's memory.

use burstline_log::{Meta, SCRATCH_PACKETS, Scratch};

use crate::wire::{Arrived, Wire, WireState};

/// Given frames, without end. What is sent is counted.
pub struct Carousel {
    bytes: Vec<u8>,
    frames: Vec<(u32, u32)>,
    next: usize,
    scratch: Scratch,
    sent: u64,
}

impl Carousel {
    /// Of these frames, below 4 GiB together; without any, none ever comes.
    pub fn new<'a>(frames: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let (mut bytes, mut list) = (Vec::new(), Vec::new());
        for frame in frames {
            list.push((bytes.len() as u32, frame.len() as u32));
            bytes.extend_from_slice(frame);
            bytes.resize(bytes.len().next_multiple_of(16), 0);
        }
        Self { bytes, frames: list, next: 0, scratch: Scratch::new(), sent: 0 }
    }
}

impl Wire for Carousel {
    /// All frames have the time 0: whoever wants another has to read a clock.
    fn arrive(&mut self, budget: u64) -> Arrived<'_> {
        self.scratch.clear();
        let budget = budget.min(SCRATCH_PACKETS as u64) as usize;
        while self.scratch.len() < budget && !self.frames.is_empty() {
            let (at, length) = self.frames[self.next];
            self.next = if self.next + 1 == self.frames.len() { 0 } else { self.next + 1 };
            self.scratch.push(at, length, &Meta::new(0, length, 0));
        }
        let state = if self.frames.is_empty() { WireState::Ended } else { WireState::Busy };
        Arrived { frames: self.scratch.burst(&self.bytes, 0), state }
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
        assert_eq!(Carousel::new([]).arrive(9).state, WireState::Ended);
    }
}
