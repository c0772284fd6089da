//! The buffer that a file is read into and its packets are lent from.
//!
//! ```text
//!            | room for what is carried over |            what one read brings             |
//! before     |                               | record | record | record | record | rec     |
//! after      |                          |rec | ord | record | record | ...                 |
//!                                       ^ position                                         ^ end
//! ```
//!
//! Reads always land at the same aligned place. If a read cuts a record off, its start is moved in
//! front of the next read. So every record is contiguous, and nothing else is ever moved. The
//! window is small enough to stay in the second cache level. There the kernel's copy out of the
//! page cache and the decoder's reads of headers meet.
//!
//! A segment of a recording is longer than a read and is needed whole. Then reads land one behind
//! the other, exactly up to its end, so nothing is moved.
//!
//! Invariants: `position <= end <= buffer.len()`; `end - position < MAX_NEED` when filled.

use std::io;

use burstline_sys::direct::{ALIGNMENT, AlignedBuffer};
use burstline_wire::files::USUAL_NEED;

/// Bytes of one read: what is read then stays in a second cache level of 512 KiB or more. On a
/// cached file of 1 GB, 128 KiB to 1 MiB were within a tenth of each other.
pub(super) const READ_BYTES: usize = 256 << 10;

/// Where reads land: the decoder never needs more than this many bytes in front of them.
const CARRY_BYTES: usize = USUAL_NEED.next_multiple_of(ALIGNMENT);

/// What lies between the last read and the next record.
pub(super) struct Window {
    buffer: AlignedBuffer,
    /// Where the next record starts.
    pub(super) position: usize,
    end: usize,
    /// Bytes moved to keep records contiguous.
    pub(super) bytes_moved: u64,
}

impl Window {
    pub(super) fn new() -> io::Result<Self> {
        let buffer = AlignedBuffer::new(CARRY_BYTES + READ_BYTES)?;
        Ok(Self { buffer, position: CARRY_BYTES, end: CARRY_BYTES, bytes_moved: 0 })
    }

    /// Everything up to the end of the last read. Records lie from `position` on.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.end]
    }

    /// All, and where the next record starts, for the decoder to move on.
    #[inline]
    pub(super) fn split(&mut self) -> (&[u8], &mut usize) {
        (&self.buffer[..self.end], &mut self.position)
    }

    /// What is not decoded yet.
    pub(super) fn rest(&self) -> &[u8] {
        &self.buffer[self.position..self.end]
    }

    /// Forgets what is not decoded yet.
    pub(super) fn clear(&mut self) {
        (self.position, self.end) = (CARRY_BYTES, CARRY_BYTES);
    }

    /// Carries the rest over and lets `read` fill the place behind it with up to [`READ_BYTES`]. If
    /// more is missing of `needed` contiguous bytes, it reads that.
    pub(super) fn fill<T>(
        &mut self,
        needed: usize,
        read: impl FnOnce(&mut [u8]) -> io::Result<(usize, T)>,
    ) -> io::Result<T> {
        let carried = self.end - self.position;
        if needed > READ_BYTES && needed > carried {
            return self.fill_up(needed, read);
        }
        debug_assert!(carried <= CARRY_BYTES, "the decoder requested too many bytes");
        self.buffer.copy_within(self.position..self.end, CARRY_BYTES - carried);
        self.bytes_moved += carried as u64;
        (self.position, self.end) = (CARRY_BYTES - carried, CARRY_BYTES);
        let (bytes, outcome) = read(&mut self.buffer[CARRY_BYTES..])?;
        self.end += bytes;
        Ok(outcome)
    }

    /// Lets `read` append to what is here, up to `needed` bytes from `position` on.
    fn fill_up<T>(
        &mut self,
        needed: usize,
        read: impl FnOnce(&mut [u8]) -> io::Result<(usize, T)>,
    ) -> io::Result<T> {
        let carried = self.end - self.position;
        if self.position + needed > self.buffer.len() {
            if needed > self.buffer.len() {
                let mut larger = AlignedBuffer::new(needed.next_multiple_of(ALIGNMENT))?;
                larger[..carried].copy_from_slice(&self.buffer[self.position..self.end]);
                self.buffer = larger;
            } else {
                self.buffer.copy_within(self.position..self.end, 0);
            }
            self.bytes_moved += carried as u64;
            (self.position, self.end) = (0, carried);
        }
        let (bytes, outcome) = read(&mut self.buffer[self.end..self.position + needed])?;
        self.end += bytes;
        Ok(outcome)
    }
}
