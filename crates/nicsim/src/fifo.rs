//! The packet buffer on the chip: frames that wait for a descriptor.
//!
//! ```text
//!   | length, time | bytes ... | length, time | bytes ... |     one circle of bytes
//! ```

use std::collections::VecDeque;

/// What a frame takes beside its bytes.
const OVERHEAD_BYTES: usize = 16;

/// Frames, first in, first out, in so many bytes.
pub(crate) struct Fifo {
    bytes: VecDeque<u8>,
    frames: VecDeque<(u32, u64)>,
    capacity: usize,
    /// The frame at the front, in one piece.
    front: Vec<u8>,
    is_front_taken: bool,
}

impl Fifo {
    pub(crate) fn new(capacity: usize) -> Self {
        let (bytes, frames, front) = Default::default();
        Self { bytes, frames, capacity, front, is_front_taken: false }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub(crate) fn len(&self) -> u64 {
        self.frames.len() as u64
    }

    /// Bytes that are free.
    pub(crate) fn room(&self) -> usize {
        let held = self.bytes.len() + self.frames.len() * OVERHEAD_BYTES;
        let front = if self.is_front_taken { self.front.len() } else { 0 };
        self.capacity.saturating_sub(held + front)
    }

    /// Room that a frame takes.
    pub(crate) fn takes(length: usize) -> usize {
        length + OVERHEAD_BYTES
    }

    /// Takes a frame in. False: there is no room.
    pub(crate) fn push(&mut self, frame: &[u8], time_ns: u64) -> bool {
        if self.room() < Self::takes(frame.len()) {
            return false;
        }
        self.bytes.extend(frame);
        self.frames.push_back((frame.len() as u32, time_ns));
        true
    }

    /// The frame that came first, and when.
    pub(crate) fn front(&mut self) -> Option<(&[u8], u64)> {
        let &(length, time_ns) = self.frames.front()?;
        if !self.is_front_taken {
            self.front.clear();
            self.front.extend(self.bytes.drain(..length as usize));
            self.is_front_taken = true;
        }
        Some((&self.front, time_ns))
    }

    /// Forgets the frame at the front, which `front` has shown.
    pub(crate) fn pop(&mut self) {
        self.frames.pop_front();
        self.is_front_taken = false;
    }

    /// Forgets all, and returns how many there were.
    pub(crate) fn clear(&mut self) -> u64 {
        let frames = self.len();
        self.bytes.clear();
        self.frames.clear();
        self.is_front_taken = false;
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_as_they_went_in_and_room_is_kept() {
        let mut fifo = Fifo::new(1000);
        let frame = |number: u8| vec![number; 60 + usize::from(number)];
        let (mut pushed, mut popped) = (0_u8, 0_u8);
        while popped < 100 {
            while pushed < 200 && fifo.push(&frame(pushed), pushed.into()) {
                pushed += 1;
            }
            assert!(fifo.room() < Fifo::takes(260));
            let room = fifo.room();
            let (bytes, time_ns) = fifo.front().unwrap();
            assert_eq!((bytes, time_ns), (&frame(popped)[..], popped.into()));
            assert_eq!(fifo.room(), room, "looking makes no room");
            fifo.pop();
            popped += 1;
        }
        let left = fifo.len();
        assert_eq!((fifo.clear(), fifo.is_empty(), fifo.room()), (left, true, 1000));
        assert!(fifo.front().is_none() && !fifo.push(&[0; 985], 0) && fifo.push(&[0; 984], 0));
    }
}
