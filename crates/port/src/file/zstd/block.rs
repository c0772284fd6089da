//! The header of a block of a Zstandard frame. Source: RFC 8878, 3.1.1.2.

/// What a block is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct BlockHead {
    /// Whether the frame ends behind it.
    pub(in super::super) is_last: bool,
    pub(in super::super) kind: u32,
    /// Bytes that come out of it, or where it is compressed, bytes of its content.
    pub(in super::super) size: usize,
}

impl BlockHead {
    /// Bytes of it.
    pub(in super::super) const BYTES: usize = 3;

    /// The kind of block that has its content as it is.
    pub(in super::super) const RAW: u32 = 0;

    /// The kind of block whose content is one byte, which is repeated.
    pub(in super::super) const REPEATED: u32 = 1;

    /// The kind of block that is compressed.
    pub(in super::super) const COMPRESSED: u32 = 2;

    /// A block of no bytes that ends a frame.
    pub(in super::super) const LAST: [u8; Self::BYTES] =
        Self { is_last: true, kind: Self::RAW, size: 0 }.to_bytes();

    pub(in super::super) fn of(bytes: [u8; Self::BYTES]) -> Self {
        let [first, second, third] = bytes;
        let word = u32::from_le_bytes([first, second, third, 0]);
        Self { is_last: word & 1 == 1, kind: word >> 1 & 3, size: (word >> 3) as usize }
    }

    pub(in super::super) const fn to_bytes(self) -> [u8; Self::BYTES] {
        let word = self.is_last as u32 | self.kind << 1 | (self.size as u32) << 3;
        let [first, second, third, _] = word.to_le_bytes();
        [first, second, third]
    }

    /// Bytes that follow it.
    pub(in super::super) fn content_bytes(self) -> usize {
        if self.kind == Self::REPEATED { 1 } else { self.size }
    }
}
