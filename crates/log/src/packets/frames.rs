//! Packets that lie in memory which the log did not make: frames of a card or of the kernel.
//!
//! ```text
//! frames   | held | filled now | held | free | ...      somebody goes on writing the others
//!            ^                   ^
//!            '-- descs of a burst point to held ones alone
//! ```
//!
//! The log knows no card, socket or library. A crate that has such memory says what is held by
//! [`Frames`], and a source that hands packets out of it is a [`FrameSource`]. Both are `unsafe` to
//! implement: a burst of descs that they accepted is read like any other memory.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Memory of which some parts are held: nobody writes them for now.
///
/// # Safety
/// - F1. While `self` is borrowed, `[start, start + extent)` is mapped, and neither changes.
/// - F2. What `holds` accepts lies within, is initialised, and nobody writes there while `self` is
///   borrowed.
/// - F3. What it accepted, it accepts for as long as `turn` is the same.
pub unsafe trait Frames {
    /// The first byte, for descs to count from.
    fn start(&self) -> NonNull<u8>;

    /// Bytes from there on.
    fn extent(&self) -> usize;

    /// Whether `[offset, offset + length)` is held.
    fn holds(&self, offset: u32, length: u32) -> bool;

    /// Which turn it is: a new one begins when something is given back.
    fn turn(&self) -> Turn;
}

/// A source of packets in frames.
///
/// # Safety
/// - F4. What `take_plain` shows is held by `frames`, as of the turn after the call.
pub unsafe trait FrameSource {
    /// Where its packets lie.
    type Frames: Frames;

    /// Where its packets lie.
    fn frames(&self) -> &Self::Frames;

    /// Takes packets that are whole and have up to `longest` bytes, up to `most`, and shows where
    /// each is and how long. Returns how many.
    fn take_plain(&mut self, most: usize, longest: u32, show: impl FnMut(u32, u32)) -> usize;
}

/// A time in the life of some frames of this process during which what is held stays held. Turns
/// of two [`Turns`] are never the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    frames: u64,
    number: u64,
}

/// The turns of some frames: one at a time.
#[derive(Debug)]
pub struct Turns(Turn);

impl Turns {
    /// The first turn of other frames than all before.
    #[expect(clippy::new_without_default, reason = "no two of them are the same")]
    pub fn new() -> Self {
        static FRAMES: AtomicU64 = AtomicU64::new(0);
        // Numbers that differ are all that is wanted: relaxed.
        Self(Turn { frames: FRAMES.fetch_add(1, Relaxed), number: 0 })
    }

    /// Which one it is.
    #[inline]
    pub fn now(&self) -> Turn {
        self.0
    }

    /// Begins the next one.
    #[inline]
    pub fn end(&mut self) {
        self.0.number += 1;
    }
}
