//! Values for buffers that have left a driver. They cannot be copied, so each buffer has one owner.

/// One buffer's part of a packet, handed on. Its holder owns the buffer; a dropped part is lost to
/// its ring.
#[derive(Debug)]
#[must_use = "its buffer is lost if it is not returned"]
pub struct Part {
    /// Where its bytes start.
    pub(super) at: u32,
    pub(super) length: u16,
    pub(super) is_last: bool,
    /// Whether the device reported an error.
    pub(super) is_damaged: bool,
    pub(super) hash: u32,
    /// Start of its buffer, and the number of its memory.
    pub(super) buffer: u32,
    pub(super) memory: u32,
}

impl Part {
    /// Returns its length in bytes.
    #[inline]
    pub fn length(&self) -> u16 {
        self.length
    }

    /// Returns whether it is the packet's last part.
    #[inline]
    pub fn is_last(&self) -> bool {
        self.is_last
    }
}

/// The kept buffer of a packet that was lent. A dropped one is lost to its driver.
#[derive(Debug)]
#[must_use = "its buffer is lost if it is not let go"]
pub struct Kept {
    pub(super) at: u32,
    pub(super) length: u32,
    pub(super) buffer: u32,
    /// Number of its driver.
    pub(super) owner: u32,
}
