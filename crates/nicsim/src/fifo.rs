//! The packet buffer on the chip: frames waiting for a descriptor.
//!
//! ```text
//!   | bytes ... | bytes ... |      one circular buffer of bytes, and for each frame
//!                                  its position and its metadata
//! ```

use std::collections::VecDeque;

use crate::descriptor::Metadata;

/// Bytes that a frame takes in addition to its own.
const OVERHEAD_BYTES: usize = 16;

pub(crate) struct Frame<'a> {
    pub(crate) bytes: &'a [u8],
    /// The device's metadata except the length; empty if it is not reported anywhere.
    pub(crate) metadata: Metadata,
    pub(crate) time_ns: u64,
}

struct Waiting {
    at: usize,
    length: usize,
    metadata: Metadata,
    time_ns: u64,
}

/// A FIFO of frames with a limit in bytes.
///
/// A frame is contiguous. The circular buffer exceeds the capacity by one longest frame. So a gap
/// at its end, too small for a frame, does not reduce the capacity.
pub(crate) struct Fifo {
    circle: Box<[u8]>,
    /// Position of the next frame, unless it has to wrap to the start.
    end: usize,
    frames: VecDeque<Waiting>,
    held: usize,
    capacity: usize,
}

impl Fifo {
    /// Creates a FIFO for frames of up to `longest` bytes.
    pub(crate) fn new(capacity: usize, longest: usize) -> Self {
        let circle = vec![0; capacity + longest].into();
        Self { circle, end: 0, frames: VecDeque::new(), held: 0, capacity }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub(crate) fn len(&self) -> u64 {
        self.frames.len() as u64
    }

    /// Returns the free bytes.
    pub(crate) fn room(&self) -> usize {
        self.capacity - self.held
    }

    /// Returns the bytes that a frame takes.
    pub(crate) fn takes(length: usize) -> usize {
        length + OVERHEAD_BYTES
    }

    /// Adds a frame. Returns false if there is no room, or the frame is too long.
    pub(crate) fn push(&mut self, frame: &Frame<'_>) -> bool {
        let &Frame { bytes, metadata, time_ns } = frame;
        let length = bytes.len();
        if self.room() < Self::takes(length) || length > self.circle.len() - self.capacity {
            return false;
        }
        // There is contiguous room: all waiting frames, the gap at the end and this frame are less
        // than the buffer.
        let at = if self.end + length <= self.circle.len() { self.end } else { 0 };
        self.circle[at..at + length].copy_from_slice(bytes);
        self.end = at + length;
        self.held += Self::takes(length);
        self.frames.push_back(Waiting { at, length, metadata, time_ns });
        true
    }

    /// Returns the oldest frame.
    pub(crate) fn front(&self) -> Option<Frame<'_>> {
        let &Waiting { at, length, metadata, time_ns } = self.frames.front()?;
        Some(Frame { bytes: &self.circle[at..at + length], metadata, time_ns })
    }

    /// Removes the oldest frame.
    pub(crate) fn pop(&mut self) {
        if let Some(first) = self.frames.pop_front() {
            self.held -= Self::takes(first.length);
        }
    }

    /// Removes all frames, and returns how many there were.
    pub(crate) fn clear(&mut self) -> u64 {
        let frames = self.len();
        self.frames.clear();
        (self.end, self.held) = (0, 0);
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(fifo: &mut Fifo, bytes: &[u8], time_ns: u64) -> bool {
        let metadata = Metadata { hash: time_ns as u32, ..Metadata::default() };
        fifo.push(&Frame { bytes, metadata, time_ns })
    }

    #[test]
    fn frames_come_out_as_they_went_in_and_room_is_kept() {
        let mut fifo = Fifo::new(1000, 984);
        let frame = |number: u8| vec![number; 60 + usize::from(number)];
        let (mut pushed, mut popped) = (0_u8, 0_u8);
        while popped < 100 {
            while pushed < 200 && push(&mut fifo, &frame(pushed), pushed.into()) {
                pushed += 1;
            }
            assert!(fifo.room() < Fifo::takes(260));
            let room = fifo.room();
            let first = fifo.front().unwrap();
            assert_eq!((first.bytes, first.time_ns), (&frame(popped)[..], popped.into()));
            assert_eq!(first.metadata.hash, popped.into());
            assert_eq!(fifo.room(), room, "looking makes no room");
            fifo.pop();
            popped += 1;
        }
        let left = fifo.len();
        assert_eq!((fifo.clear(), fifo.is_empty(), fifo.room()), (left, true, 1000));
        assert!(fifo.front().is_none());
        assert!(!push(&mut fifo, &[0; 985], 0) && push(&mut fifo, &[0; 984], 0));
    }
}
