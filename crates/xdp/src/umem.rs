//! The frames of a receiving socket: tracks which are held, and the gather area behind them.

use std::ptr::NonNull;
use std::sync::Arc;

use burstline_log::{Frames, Turn, Turns};
use burstline_sys::memory::{MemoryError, Placement};

use super::SocketOptions;
use super::frames::{FrameMemory, FrameShape};

/// Bytes behind the frames, where packets of several frames are joined: two of the longest that the
/// kernel makes (64 KiB, and a header).
pub const GATHER_BYTES: usize = 2 * (68 << 10);

/// Frames, and the gather area behind them, in one region.
///
/// # Invariants
/// - U1. The kernel writes no frame whose bit in `held` is set.
/// - U2. The gather area is the memory's tail; it is written only through `&mut self`.
/// - U3. While the turn stays the same, no bit in `held` is cleared.
pub struct Umem {
    memory: Arc<FrameMemory>,
    held: Vec<u64>,
    turns: Turns,
}

// SAFETY: F1: M1 of the memory, which lives as long as `self`. F2: `holds` accepts only ranges
// within one held frame (U1) or the gather area (U2). F3: U3.
unsafe impl Frames for Umem {
    fn start(&self) -> NonNull<u8> {
        self.memory.as_ptr()
    }

    /// Bytes of frames and gather area together.
    fn extent(&self) -> usize {
        self.frame_area() + GATHER_BYTES
    }

    /// Whether the range is in one held frame or in the gather area. Cost: a bit.
    #[inline]
    fn holds(&self, offset: u32, length: u32) -> bool {
        let shift = self.memory.frame_shift();
        let frame = offset >> shift;
        let end = u64::from(offset) + u64::from(length);
        if frame < self.memory.frames() {
            return self.is_held(frame) && end <= u64::from(frame + 1) << shift;
        }
        offset as usize >= self.frame_area() && end <= (self.frame_area() + GATHER_BYTES) as u64
    }

    #[inline]
    fn turn(&self) -> Turn {
        self.turns.now()
    }
}

/// Marks frames as held, with the needed fields at hand.
pub(super) struct Holder<'a> {
    held: &'a mut [u64],
    frames: u64,
    shift: u32,
}

impl Holder<'_> {
    /// Marks the frame at a kernel's address as held and returns it. `None` if the packet does not
    /// fit into it or the frame was held already.
    #[inline]
    pub(super) fn hold(&mut self, address: u64, length: u32) -> Option<u32> {
        let frame = address >> self.shift;
        let within = address & ((1 << self.shift) - 1);
        let fits = within + u64::from(length) <= 1 << self.shift;
        let (word, bit) = (self.held.get_mut(frame as usize / 64)?, 1 << (frame % 64));
        if frame >= self.frames || !fits || *word & bit != 0 {
            return None;
        }
        *word |= bit;
        Some(frame as u32)
    }
}

impl Umem {
    pub(super) fn create(name: &str, options: &SocketOptions) -> Result<Self, MemoryError> {
        let shape = FrameShape {
            frames: options.frames,
            frame_bytes: options.frame_bytes,
            tail_bytes: GATHER_BYTES,
            pages: options.pages,
            node: options.node,
        };
        let memory = Arc::new(FrameMemory::create(name, &shape)?);
        let held = vec![0; (options.frames as usize).div_ceil(64)];
        Ok(Self { memory, held, turns: Turns::new() })
    }

    /// Returns the bytes `[offset, offset + length)`, if they are in one held frame or in the
    /// gather area. Cost: a bit.
    #[inline]
    pub fn bytes(&self, offset: u32, length: u32) -> Option<&[u8]> {
        if !self.holds(offset, length) {
            return None;
        }
        // SAFETY: `holds` has checked that the bytes are inside the region, which is mapped and was
        // zeroed; by U1 and U2 nothing writes them while `self` is borrowed.
        Some(unsafe { std::slice::from_raw_parts(self.at(offset).as_ptr(), length as usize) })
    }

    /// The placement of its pages.
    pub fn placement(&self) -> &Placement {
        self.memory.placement()
    }

    /// Bytes of a frame.
    pub fn frame_bytes(&self) -> u32 {
        self.memory.frame_bytes()
    }

    pub(super) fn memory(&self) -> &FrameMemory {
        &self.memory
    }

    /// Bytes of all frames, without the gather area.
    #[inline]
    pub(super) fn frame_area(&self) -> usize {
        self.memory.frame_area()
    }

    /// Returns the frame that contains a packet at a kernel's address, if it contains all of it.
    #[inline]
    pub(super) fn frame_of(&self, address: u64, length: u32) -> Option<u32> {
        self.memory.frame_of(address, length)
    }

    #[inline]
    fn is_held(&self, frame: u32) -> bool {
        self.held[frame as usize / 64] >> (frame % 64) & 1 == 1
    }

    /// Returns a [`Holder`], to mark many frames that the kernel has handed over.
    #[inline]
    pub(super) fn holder(&mut self) -> Holder<'_> {
        let (frames, shift) = (self.memory.frames().into(), self.memory.frame_shift());
        Holder { held: &mut self.held, frames, shift }
    }

    /// Marks a frame that the kernel has handed over. False if it was held already.
    #[inline]
    pub(super) fn hold(&mut self, frame: u32) -> bool {
        let (word, bit) = (&mut self.held[frame as usize / 64], 1 << (frame % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Unmarks a frame; call it before the kernel may have the frame again.
    #[inline]
    pub(super) fn let_go(&mut self, frame: u32) {
        self.held[frame as usize / 64] &= !(1 << (frame % 64));
        self.turns.end();
    }

    /// Reads and clears the 8 bytes that the XDP program wrote in front of a held packet. So they
    /// are not read again for a later packet without such bytes.
    #[inline]
    pub(super) fn take_word_before(&mut self, offset: u32) -> u64 {
        let Some(word) = self.word_before(offset) else { return 0 };
        // SAFETY: 8 bytes that nothing else writes, and `&mut self` excludes references. They need
        // not be aligned.
        unsafe {
            let value = word.read_unaligned();
            word.write_unaligned(0);
            value
        }
    }

    /// Moves the 8 bytes in front of a held packet to the front of its position in the gather area.
    pub(super) fn move_word_before(&mut self, from: u32, to: u32) {
        let value = self.take_word_before(from);
        if let Some(word) = self.word_before(to) {
            // SAFETY: 8 bytes that nothing else writes, and `&mut self` excludes references.
            unsafe { word.write_unaligned(value) };
        }
    }

    /// Returns the 8 bytes in front of `offset`, if they are in a held frame or in the gather area.
    #[inline]
    fn word_before(&mut self, offset: u32) -> Option<*mut u64> {
        let at = offset.checked_sub(8).filter(|&at| self.holds(at, 8))?;
        Some(self.at(at).cast().as_ptr())
    }

    /// Copies held bytes into the gather area, `at` bytes behind its start. Returns false if either
    /// range is out of bounds.
    pub(super) fn gather(&mut self, offset: u32, length: u32, at: usize) -> bool {
        let room = GATHER_BYTES.checked_sub(at).is_some_and(|room| room >= length as usize);
        if !room || !self.holds(offset, length) {
            return false;
        }
        let (from, to) = (self.at(offset), self.at((self.frame_area() + at) as u32));
        // SAFETY: both ranges are inside the region, as checked; frames and gather area do not
        // overlap, and `&mut self` excludes references to either.
        unsafe { to.copy_from_nonoverlapping(from, length as usize) };
        true
    }

    #[inline]
    fn at(&self, offset: u32) -> NonNull<u8> {
        self.memory.at(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: u32 = 2048;
    const FRAMES: u32 = 64;
    const END: u32 = FRAME * FRAMES;

    fn umem() -> Umem {
        let options = SocketOptions { frames: FRAMES, ..SocketOptions::default() };
        Umem::create("test", &options).unwrap()
    }

    #[test]
    fn only_held_frames_and_the_gather_area_have_bytes() {
        let mut umem = umem();
        assert!(!umem.holds(0, 1) && umem.bytes(0, 1).is_none());
        assert!(umem.hold(3) && !umem.hold(3), "a frame is held once");
        let start = 3 * FRAME;
        for (offset, length, is_held) in [
            (start, FRAME, true),
            (start + 256, FRAME - 256, true),
            (start + 256, FRAME - 255, false),
            (start + FRAME - 1, 1, true),
            (start - 1, 1, false),
            (start - 1, 2, false),
            (start + FRAME, 1, false),
            (start, u32::MAX, false),
            (u32::MAX, u32::MAX, false),
            (END - 1, 2, false),
            (END, GATHER_BYTES as u32, true),
            (END, GATHER_BYTES as u32 + 1, false),
            (END + GATHER_BYTES as u32, 0, true),
            (END + GATHER_BYTES as u32, 1, false),
        ] {
            assert_eq!(umem.holds(offset, length), is_held, "{offset} {length}");
            let bytes = umem.bytes(offset, length);
            assert_eq!(bytes.map(<[u8]>::len), is_held.then_some(length as usize));
        }
        let turn = umem.turn();
        assert!(turn == umem.turn() && turn != self::umem().turn());
        umem.let_go(3);
        assert!(!umem.holds(start, 1) && turn != umem.turn());
    }

    #[test]
    fn the_kernels_addresses_are_checked() {
        let mut umem = umem();
        let last = u64::from(END) - 1;
        for (address, length, frame) in [
            (0, FRAME, Some(0)),
            (256, FRAME - 256, Some(0)),
            (256, FRAME - 255, None),
            (last, 1, Some(FRAMES - 1)),
            (last, 2, None),
            (last + 1, 0, None),
            (1 << 32, 1, None),
            (u64::MAX, u32::MAX, None),
        ] {
            assert_eq!(umem.frame_of(address, length), frame, "{address} {length}");
            assert_eq!(umem.holder().hold(address, length), frame, "{address} {length}");
            assert_eq!(umem.holder().hold(address, length), None, "it is held already");
            frame.into_iter().for_each(|frame| umem.let_go(frame));
        }
    }

    #[test]
    fn frames_are_joined_and_the_word_in_front_goes_with_them() {
        let mut umem = umem();
        for (frame, byte) in [(0, 1), (1, 2)] {
            // SAFETY: the kernel does not know this memory, and there is no reference into it.
            unsafe { umem.memory.write(frame, &[byte; FRAME as usize]) };
        }
        assert!(!umem.gather(0, 1, 0), "it is not held");
        assert!(umem.hold(0) && umem.hold(1));
        assert!(umem.gather(256, 1792, 16) && umem.gather(FRAME + 256, 100, 16 + 1792));
        umem.move_word_before(256, END + 16);
        let joined = umem.bytes(END + 16, 1892).unwrap();
        assert!(joined[..1792].iter().all(|&byte| byte == 1));
        assert!(joined[1792..].iter().all(|&byte| byte == 2));
        let word = u64::from_ne_bytes([1; 8]);
        assert_eq!((umem.take_word_before(END + 16), umem.take_word_before(END + 16)), (word, 0));
        assert_eq!(umem.take_word_before(256), 0, "moved");
        // In front of the gather area is another packet's frame, or a free one.
        assert_eq!(umem.take_word_before(END), 0);
        assert_eq!(umem.take_word_before(0), 0);
        assert!(!umem.gather(256, 2, GATHER_BYTES - 1) && umem.gather(256, 1, GATHER_BYTES - 1));
        assert!(!umem.gather(256, 1, GATHER_BYTES + 1) && !umem.gather(256, 1793, 0));
    }
}
