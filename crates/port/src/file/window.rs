//! The buffer that a file is read into and its packets are lent from.
//!
//! ```text
//!            | room for what is carried over |              bytes of one read                |
//! before     |                               | record | record | record | record | rec     |
//! after      |                          |rec | ord | record | record | ...                 |
//!                                       ^ position                                         ^ end
//! ```
//!
//! Reads always land at the same aligned offset. If a read cuts a record off, its start is moved in
//! front of the next read. So every record is contiguous, and nothing else is ever moved. The
//! window is small enough to stay in the L2 cache. The kernel copies into it from the page cache,
//! and the decoder reads headers there.
//!
//! A segment of a recording, or a block that is not parsed, may be longer than a read and must be
//! contiguous. Then reads land one after another, exactly up to its end, so nothing is moved. The
//! buffer stays as large as that, but later reads land at the same offset and are short again.
//!
//! Invariants: `position <= end <= buffer.len()`; `end - position < MAX_NEED` when filled.

use std::io;

use burstline_sys::direct::{ALIGNMENT, AlignedBuffer};
use burstline_wire::files::USUAL_NEED;

/// Bytes of one read: these stay in an L2 cache of 512 KiB or more. On a cached file of 1 GB, 128
/// KiB to 1 MiB were within a tenth of each other.
pub(super) const READ_BYTES: usize = 256 << 10;

/// Offset where reads land: only a segment, or a block that is not parsed, needs more before them.
const CARRY_BYTES: usize = USUAL_NEED.next_multiple_of(ALIGNMENT);

/// The bytes between the next record and the end of the last read.
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

    /// Returns everything up to the end of the last read. Records start at `position`.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.end]
    }

    /// Returns all bytes, and the position of the next record, for the decoder to advance.
    #[inline]
    pub(super) fn split(&mut self) -> (&[u8], &mut usize) {
        (&self.buffer[..self.end], &mut self.position)
    }

    /// Returns the bytes not decoded yet.
    pub(super) fn rest(&self) -> &[u8] {
        &self.buffer[self.position..self.end]
    }

    /// Returns the bytes not decoded yet, to correct them.
    pub(super) fn rest_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.position..self.end]
    }

    /// Discards the bytes not decoded yet.
    pub(super) fn clear(&mut self) {
        (self.position, self.end) = (CARRY_BYTES, CARRY_BYTES);
    }

    /// Carries the rest over and lets `read` fill the space after it with up to [`READ_BYTES`]. If
    /// `needed` contiguous bytes require more, it reads that many. If the rest has as many already,
    /// it reads more all the same.
    pub(super) fn fill<T>(
        &mut self,
        needed: usize,
        read: impl FnOnce(&mut [u8]) -> io::Result<(usize, T)>,
    ) -> io::Result<T> {
        let carried = self.end - self.position;
        if needed > carried && needed > READ_BYTES {
            return self.fill_up(needed, read);
        }
        // A caller that looks ahead may ask for less than it has.
        if carried > CARRY_BYTES {
            return self.fill_up(carried + READ_BYTES, read);
        }
        self.buffer.copy_within(self.position..self.end, CARRY_BYTES - carried);
        self.bytes_moved += carried as u64;
        (self.position, self.end) = (CARRY_BYTES - carried, CARRY_BYTES);
        let (bytes, outcome) = read(&mut self.buffer[CARRY_BYTES..CARRY_BYTES + READ_BYTES])?;
        self.end += bytes;
        Ok(outcome)
    }

    /// Lets `read` append to the present bytes, up to `needed` bytes from `position` on.
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

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// Fills a window with `read`, whose bytes have their file offset, modulo 251.
    fn fill(window: &mut Window, needed: usize, offset: &mut usize) {
        let filled = window.fill(needed, |place| {
            for byte in &mut *place {
                *byte = (*offset % 251) as u8;
                *offset += 1;
            }
            Ok((place.len(), ()))
        });
        filled.unwrap();
    }

    #[test]
    fn a_window_that_holds_more_than_a_usual_rest_takes_any_request() {
        let (mut window, mut offset) = (Window::new().unwrap(), 0);
        let mut before = 0;
        for needed in [0, CARRY_BYTES, 12, 0, 3 * CARRY_BYTES, 3 * CARRY_BYTES, 12, CARRY_BYTES] {
            fill(&mut window, needed, &mut offset);
            let rest = window.rest();
            assert!(rest.len() > before && rest.len() >= needed, "{needed}: {}", rest.len());
            assert!(rest.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8));
            before = rest.len();
        }
        assert_eq!(before, offset);
        window.position = window.end;
        fill(&mut window, 12, &mut offset);
        // The buffer has grown, a read has not.
        assert_eq!(window.rest().len(), READ_BYTES);
    }
}
