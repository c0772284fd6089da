//! The header of a block of a Zstandard frame. Source: RFC 8878, 3.1.1.2.

/// The header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct BlockHead {
    /// Whether it is the last block of the frame.
    pub(in super::super) is_last: bool,
    pub(in super::super) kind: u32,
    /// Length of the decompressed block; for a compressed one, the length of its content.
    pub(in super::super) size: usize,
}

impl BlockHead {
    /// Length of the header.
    pub(in super::super) const BYTES: usize = 3;

    /// The kind of an uncompressed block.
    pub(in super::super) const RAW: u32 = 0;

    /// The kind of a block that repeats one byte.
    pub(in super::super) const REPEATED: u32 = 1;

    /// The kind of a compressed block.
    pub(in super::super) const COMPRESSED: u32 = 2;

    /// An empty block that ends a frame.
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

    /// Returns the number of bytes that follow the header.
    pub(in super::super) fn content_bytes(self) -> usize {
        if self.kind == Self::REPEATED { 1 } else { self.size }
    }
}
