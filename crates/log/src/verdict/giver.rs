//! The reader's end of a column: gives verdicts.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use burstline_sys::memory::Mapping;

use super::column::{COLUMN_BYTES, ROOM_ALIGNMENT, ROOM_BYTES, Replacement};
use super::{ColumnView, REPLACEMENT_BYTES_MAX, REPLACEMENT_BYTES_MIN, Verdict, give, settled};
use crate::error::AttachError;
use crate::log::Memory;
use crate::reader::Reader;
use crate::untrusted::UntrustedReader;

/// The reason why a verdict was not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerdictError {
    /// A replacement is too short for a link header, or too long.
    #[error("a replacement of {bytes} bytes: it must have {least} to {most}")]
    Length {
        /// The length of the replacement.
        bytes: usize,
        /// The shortest length.
        least: usize,
        /// The longest length.
        most: usize,
    },
    /// Replacements of packets that were not sent yet fill the memory for them.
    #[error(
        "{waiting} replacements wait to be sent, and there is no room for {bytes} bytes more: give \
         the older packets their verdicts first, or try again"
    )]
    NoRoom {
        /// Replacements that the publisher has not taken yet.
        waiting: usize,
        /// The size of the replacement that did not fit.
        bytes: usize,
    },
}

/// Gives verdicts on the packets of one log. Threads may share it.
///
/// A packet's number is its burst's [`first_packet`](crate::Burst::first_packet) plus its index in
/// the burst. If a packet gets several verdicts, the publisher takes one of them. A verdict after
/// that, or after the packet's deadline, has no effect.
pub struct VerdictGiver {
    view: ColumnView,
    room: Mutex<Room>,
    _column: Mapping,
    _memory: Arc<Memory>,
}

/// The used bytes of the memory for replacements: a ring.
#[derive(Default)]
struct Room {
    /// The position of the next replacement, if it fits before the end.
    head: usize,
    /// The packet and start of each replacement that may still be read, the oldest first.
    taken: VecDeque<Taken>,
}

struct Taken {
    number: u64,
    start: usize,
}

impl Room {
    /// Allocates `length` bytes for packet `number`. Packets below `settled` no longer need theirs.
    /// `None` if there is not enough room now.
    fn take(&mut self, number: u64, length: usize, settled: u64) -> Option<usize> {
        while self.taken.front().is_some_and(|taken| taken.number < settled) {
            self.taken.pop_front();
        }
        let length = length.next_multiple_of(ROOM_ALIGNMENT);
        let start = match self.taken.front() {
            None => 0,
            // Used is [tail, head): free bytes follow it or precede it. If head meets tail, all are
            // used.
            Some(&Taken { start: tail, .. }) if self.head > tail => {
                if self.head + length <= ROOM_BYTES {
                    self.head
                } else if length < tail {
                    0
                } else {
                    return None;
                }
            }
            Some(&Taken { start: tail, .. }) if self.head + length < tail => self.head,
            Some(_) => return None,
        };
        self.head = start + length;
        self.taken.push_back(Taken { number, start });
        Some(start)
    }
}

impl VerdictGiver {
    fn new(memory: &Arc<Memory>, file: OwnedFd) -> Result<Self, AttachError> {
        // Of small pages: see `Reader::attach`.
        let column = Mapping::attach_writable(file, Some(COLUMN_BYTES))?;
        // SAFETY: the mapping has this size, and is kept here, as is the log's memory.
        let view = unsafe { ColumnView::over(column.as_ptr(), memory.control) };
        let room = Mutex::default();
        Ok(Self { view, room, _column: column, _memory: Arc::clone(memory) })
    }

    /// Gives packet `number` a verdict.
    ///
    /// Cost: a store; for a replacement, also a lock and a copy.
    ///
    /// # Errors
    /// Only for a replacement: its length is invalid, or there is no room. Nothing was given then.
    #[inline]
    pub fn give(&self, number: u64, verdict: Verdict<'_>) -> Result<(), VerdictError> {
        let place = match verdict {
            Verdict::Replace(bytes) => Some(self.lay_down(number, bytes)?),
            _ => None,
        };
        give(&self.view, number, verdict.code(), place);
        Ok(())
    }

    /// Returns the number below which all packets of the log are settled: sent, or dropped.
    pub fn settled(&self) -> u64 {
        settled(&self.view)
    }

    fn lay_down(&self, number: u64, bytes: &[u8]) -> Result<u64, VerdictError> {
        let (least, most) = (REPLACEMENT_BYTES_MIN, REPLACEMENT_BYTES_MAX);
        if !(least..=most).contains(&bytes.len()) {
            return Err(VerdictError::Length { bytes: bytes.len(), least, most });
        }
        // A panic leaves the numbers and lengths consistent.
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(start) = room.take(number, bytes.len(), self.settled()) else {
            return Err(VerdictError::NoRoom { waiting: room.taken.len(), bytes: bytes.len() });
        };
        for (index, chunk) in bytes.chunks(size_of::<u64>()).enumerate() {
            let mut word = [0; size_of::<u64>()];
            word[..chunk.len()].copy_from_slice(chunk);
            let at = start / size_of::<u64>() + index;
            self.view.room(at).store(u64::from_ne_bytes(word), Relaxed); // ordered by `give`
        }
        Ok(Replacement::place(start, bytes.len()))
    }
}

impl std::fmt::Debug for VerdictGiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VerdictGiver").finish_non_exhaustive()
    }
}

impl Reader {
    /// Returns a giver of verdicts on the packets of this reader. `column` is the file that came
    /// with the reader's files ([`ReceivedFiles::verdicts`](crate::ReceivedFiles::verdicts)).
    ///
    /// # Errors
    /// If the file is not a column.
    pub fn verdicts(&self, column: OwnedFd) -> Result<VerdictGiver, AttachError> {
        VerdictGiver::new(&self.memory, column)
    }
}

impl UntrustedReader {
    /// Like [`Reader::verdicts`].
    ///
    /// # Errors
    /// As for [`Reader::verdicts`].
    pub fn verdicts(&self, column: OwnedFd) -> Result<VerdictGiver, AttachError> {
        self.reader.verdicts(column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_taken_in_a_ring_and_free_when_settled() {
        let mut room = Room::default();
        let half = ROOM_BYTES / 2;
        assert_eq!(room.take(0, half, 0), Some(0));
        assert_eq!(room.take(1, half, 0), Some(half));
        assert_eq!(room.take(2, 16, 0), None, "all of it is taken");
        assert_eq!(room.take(2, half, 1), None, "head would meet tail");
        assert_eq!(room.take(2, half - 16, 1), Some(0));
        assert_eq!(room.take(3, 16, 1), None);
        assert_eq!(room.take(3, 100, 2), Some(half - 16));
        assert_eq!(room.take(4, 100, 4), Some(0), "nothing is taken any more");
        assert_eq!(room.taken.len(), 1);
    }
}
