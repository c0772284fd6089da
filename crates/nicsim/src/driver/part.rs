//! Buffers that are out of a driver's hands: each is one value, which cannot be copied, so that
//! what it stands for has one owner.

/// One buffer's part of a packet, handed on. Its holder has the buffer; one that is dropped is
/// lost to its ring.
#[derive(Debug)]
#[must_use = "its buffer is lost if it is not returned"]
pub struct Part {
    /// Where its bytes begin.
    pub(super) at: u32,
    pub(super) length: u16,
    pub(super) is_last: bool,
    /// Whether the device found something wrong.
    pub(super) is_damaged: bool,
    pub(super) hash: u32,
    /// Where its buffer begins, and in which memory.
    pub(super) buffer: u32,
    pub(super) memory: u32,
}

impl Part {
    /// How many bytes it has.
    #[inline]
    pub fn length(&self) -> u16 {
        self.length
    }

    /// Whether the packet ends here.
    #[inline]
    pub fn is_last(&self) -> bool {
        self.is_last
    }
}

/// The buffer of a packet that was lent, kept. One that is dropped is lost to its driver.
#[derive(Debug)]
#[must_use = "its buffer is lost if it is not let go"]
pub struct Kept {
    pub(super) at: u32,
    pub(super) length: u32,
    pub(super) buffer: u32,
    /// Which driver it is of.
    pub(super) owner: u32,
}
