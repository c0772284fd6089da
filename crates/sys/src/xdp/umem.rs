//! The memory that frames lie in.

use std::ptr::NonNull;

use crate::memory::{MemoryError, Placement, Region, RegionRequest};

use super::SocketOptions;

/// Room behind the frames, where packets of several frames are joined: two of the longest that
/// the kernel makes (64 KiB, and a header).
pub const GATHER_BYTES: usize = 2 * (68 << 10);

/// Frames, and the gather area behind them, in one region.
///
/// # Invariants
/// - U1. Frames `[0, frames)` lie at multiples of `frame_bytes`; only they are registered with the
///   kernel, which writes none whose bit in `held` is set.
/// - U2. The gather area is written through `&mut self` alone.
/// - U3. The region is below 4 GiB, so that an offset is a `u32`.
pub struct Umem {
    region: Region,
    frame_shift: u32,
    frames: u32,
    held: Vec<u64>,
}

impl Umem {
    pub(super) fn create(name: &str, options: &SocketOptions) -> Result<Self, MemoryError> {
        let frames = options.frames + options.tx_frames;
        let request = RegionRequest {
            name: format!("burstline-umem-{name}"),
            bytes: frames as usize * options.frame_bytes as usize + GATHER_BYTES,
            pages: options.pages,
            node: options.node,
        };
        let region = Region::create(&request)?;
        let held = vec![0; (frames as usize).div_ceil(64)];
        Ok(Self { region, frame_shift: options.frame_bytes.trailing_zeros(), frames, held })
    }

    /// The bytes `[offset, offset + length)`, if they lie in one held frame or in the gather area.
    /// Cost: a bit.
    #[inline]
    pub fn bytes(&self, offset: u32, length: u32) -> Option<&[u8]> {
        if !self.holds(offset, length) {
            return None;
        }
        // SAFETY: `holds` has checked that the bytes are inside of the region, which is mapped and
        // was zeroed; by U1 and U2 nobody writes them while `self` is borrowed.
        Some(unsafe { std::slice::from_raw_parts(self.at(offset).as_ptr(), length as usize) })
    }

    /// Whether `[offset, offset + length)` lies in one held frame or in the gather area: nobody
    /// writes there while `self` is borrowed. Cost: a bit.
    #[inline]
    pub fn holds(&self, offset: u32, length: u32) -> bool {
        let frame = offset >> self.frame_shift;
        let end = u64::from(offset) + u64::from(length);
        if frame < self.frames {
            return self.is_held(frame) && end <= u64::from(frame + 1) << self.frame_shift;
        }
        offset as usize >= self.frame_area() && end <= (self.frame_area() + GATHER_BYTES) as u64
    }

    /// The first byte, for descs to count from. Valid for as long as the UMEM lives.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.region.as_ptr()
    }

    /// Bytes of frames and gather area together.
    pub fn extent(&self) -> usize {
        self.frame_area() + GATHER_BYTES
    }

    /// Where its pages are.
    pub fn placement(&self) -> &Placement {
        self.region.placement()
    }

    /// Bytes of a frame.
    pub fn frame_bytes(&self) -> u32 {
        1 << self.frame_shift
    }

    /// How many frames there are.
    pub(super) fn frames(&self) -> u32 {
        self.frames
    }

    /// Bytes of all frames, without the gather area.
    pub(super) fn frame_area(&self) -> usize {
        (self.frames as usize) << self.frame_shift
    }

    /// The frame that a kernel's address is in, if the whole packet is.
    #[inline]
    pub(super) fn frame_of(&self, address: u64, length: u32) -> Option<u32> {
        let frame = address >> self.frame_shift;
        let end = address.checked_add(length.into())?;
        let fits = frame < u64::from(self.frames) && end <= (frame + 1) << self.frame_shift;
        fits.then_some(frame as u32)
    }

    #[inline]
    fn is_held(&self, frame: u32) -> bool {
        self.held[frame as usize / 64] >> (frame % 64) & 1 == 1
    }

    /// Marks a frame that the kernel has handed over. False if it was held already.
    #[inline]
    pub(super) fn hold(&mut self, frame: u32) -> bool {
        let (word, bit) = (&mut self.held[frame as usize / 64], 1 << (frame % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// To be called before the kernel may have the frame again.
    #[inline]
    pub(super) fn let_go(&mut self, frame: u32) {
        self.held[frame as usize / 64] &= !(1 << (frame % 64));
    }

    /// Reads the 8 bytes that the XDP program wrote in front of a held packet, and clears them, so
    /// that they are not read again for a packet that it could not write them for.
    #[inline]
    pub(super) fn take_word_before(&mut self, offset: u32) -> u64 {
        let Some(word) = self.word_before(offset) else { return 0 };
        // SAFETY: 8 bytes that nobody else writes, and `&mut self` excludes references. They need
        // not be aligned.
        unsafe {
            let value = word.read_unaligned();
            word.write_unaligned(0);
            value
        }
    }

    /// Moves the 8 bytes in front of a held packet to the front of its place in the gather area.
    pub(super) fn move_word_before(&mut self, from: u32, to: u32) {
        let value = self.take_word_before(from);
        if let Some(word) = self.word_before(to) {
            // SAFETY: as above.
            unsafe { word.write_unaligned(value) };
        }
    }

    /// The 8 bytes in front of `offset`, if they lie in a held frame or in the gather area.
    #[inline]
    fn word_before(&mut self, offset: u32) -> Option<*mut u64> {
        let at = offset.checked_sub(8).filter(|&at| self.holds(at, 8))?;
        Some(self.at(at).cast().as_ptr())
    }

    /// Copies a held stretch into the gather area, `at` bytes behind its start. False if either
    /// is not where it has to be.
    pub(super) fn gather(&mut self, offset: u32, length: u32, at: usize) -> bool {
        let room = GATHER_BYTES.checked_sub(at).is_some_and(|room| room >= length as usize);
        if !room || !self.holds(offset, length) {
            return false;
        }
        let (from, to) = (self.at(offset), self.at((self.frame_area() + at) as u32));
        // SAFETY: both stretches are inside of the region, as checked; frames and gather area do
        // not overlap, and `&mut self` excludes references to either.
        unsafe { to.copy_from_nonoverlapping(from, length as usize) };
        true
    }

    /// Writes a packet into a free frame. `bytes` must fit.
    pub(super) fn write(&mut self, frame: u32, bytes: &[u8]) {
        assert!(frame < self.frames && bytes.len() <= 1 << self.frame_shift, "frame {frame}");
        let to = self.at(frame << self.frame_shift);
        // SAFETY: inside of the region, as just checked; a free frame is nobody else's (X1), and
        // `bytes` cannot lie in the UMEM, which `&mut self` borrows.
        unsafe { to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
    }

    #[inline]
    fn at(&self, offset: u32) -> NonNull<u8> {
        debug_assert!((offset as usize) <= self.region.bytes());
        // SAFETY: all callers have checked that the offset is inside of the region, or its end.
        unsafe { self.region.as_ptr().add(offset as usize) }
    }
}
