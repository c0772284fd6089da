//! Packets in memory that the log did not allocate: frames of a network card or of the kernel.
//!
//! ```text
//! frames   | held | filled now | held | free | ...      the device keeps writing to the others
//!            ^                   ^
//!            '-- descs of a burst point to held frames only
//! ```
//!
//! The log knows no card, socket or library. A crate with such memory implements [`Frames`] to say
//! what is held, and its packet source implements [`FrameSource`]. Both are `unsafe` to implement:
//! a burst over descs that they accepted is read like any other memory.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Memory in which some parts are held: nobody writes to them for now.
///
/// # Safety
/// - F1. While `self` is borrowed, `[start, start + extent)` is mapped, and neither changes.
/// - F2. Bytes that `holds` accepts are within that range and initialised, and nobody writes to
///   them while `self` is borrowed.
/// - F3. Bytes that `holds` accepted stay accepted for as long as `turn` is the same.
pub unsafe trait Frames {
    /// Returns the address that descs' offsets count from.
    fn start(&self) -> NonNull<u8>;

    /// Returns the size of the memory, in bytes.
    fn extent(&self) -> usize;

    /// Returns whether `[offset, offset + length)` is held.
    fn holds(&self, offset: u32, length: u32) -> bool;

    /// Returns the current turn. A new turn begins when a frame is given back.
    fn turn(&self) -> Turn;
}

/// A source of packets in frames.
///
/// # Safety
/// - F4. Packets that `take_plain` shows are held by `frames`, during the turn after the call.
pub unsafe trait FrameSource {
    /// The memory that holds its packets.
    type Frames: Frames;

    /// Returns the memory that holds its packets.
    fn frames(&self) -> &Self::Frames;

    /// Takes up to `most` packets that are not truncated and have up to `longest` bytes. Calls
    /// `show` with the offset and length of each. Returns the number of packets.
    fn take_plain(&mut self, most: usize, longest: u32, show: impl FnMut(u32, u32)) -> usize;
}

/// A period in the life of this process's frames during which held frames stay held. Turns of two
/// different [`Turns`] are never equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    frames: u64,
    number: u64,
}

/// The turns of one set of frames: one at a time.
#[derive(Debug)]
pub struct Turns(Turn);

impl Turns {
    /// Begins the first turn of a new set of frames.
    #[expect(clippy::new_without_default, reason = "no two of them are the same")]
    pub fn new() -> Self {
        static FRAMES: AtomicU64 = AtomicU64::new(0);
        // Relaxed: the numbers only have to differ.
        Self(Turn { frames: FRAMES.fetch_add(1, Relaxed), number: 0 })
    }

    /// Returns the current turn.
    #[inline]
    pub fn now(&self) -> Turn {
        self.0
    }

    /// Begins the next turn.
    #[inline]
    pub fn end(&mut self) {
        self.0.number += 1;
    }
}
