//! The 16-byte head in front of a packet that a device has written: its metadata.
//!
//! ```text
//!      63                    32 31      18  17   16 15            0
//! 0    | time, ns since 1970                                      |
//! 8    | RSS hash            | 0       | far | end | packet length |
//! ```

use crate::desc::{FACTS_BYTES, align_up};

/// The size of a head, in bytes. Heads and packets begin at multiples of it.
pub const HEAD_BYTES: usize = 16;

const END: u64 = 1 << 16;
const FAR: u64 = 1 << 17;
/// Bits of a head that carries more than time, length and hash.
pub(crate) const RARE: u64 = END | FAR;

/// The device's metadata of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Arrival time, in ns since 1970.
    pub time_ns: u64,
    /// The flow hash.
    pub hash: u32,
    /// The number of bytes.
    pub length: u16,
    /// Whether it arrived before the segment's first packet, or 2^32 ns or more after it. A desc
    /// cannot hold that time, so [`FACTS_BYTES`] after the packet are free for the writer.
    pub is_far: bool,
}

impl Head {
    /// A head without a packet: the packets go on in the next segment.
    pub const END: [u64; 2] = [0, END];

    /// Returns the head as it is in memory.
    #[inline]
    pub fn words(&self) -> [u64; 2] {
        let far = if self.is_far { FAR } else { 0 };
        [self.time_ns, u64::from(self.hash) << 32 | far | u64::from(self.length)]
    }

    /// Decodes the head of the packet behind it; `None` if the segment ends here.
    pub fn read([time_ns, second]: [u64; 2]) -> Option<Self> {
        let (hash, length) = ((second >> 32) as u32, second as u16);
        let is_far = second & FAR != 0;
        (second & END == 0).then_some(Self { time_ns, hash, length, is_far })
    }

    /// Returns the distance to the next head, in bytes.
    #[inline]
    pub fn stride(&self) -> usize {
        let facts = if self.is_far { FACTS_BYTES } else { 0 };
        HEAD_BYTES + align_up(self.length.into()) + facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_as_written() {
        let near = Head { time_ns: u64::MAX, hash: 0xdead_beef, length: 65_535, is_far: false };
        assert_eq!((Head::read(near.words()), near.stride()), (Some(near), 16 + 65_536));
        let far = Head { time_ns: 1, hash: 0, length: 60, is_far: true };
        assert_eq!((Head::read(far.words()), far.stride()), (Some(far), 16 + 64 + 32));
        assert_eq!(Head::read(Head::END), None);
        // In memory, the least significant byte comes first.
        let bytes = near.words()[1].to_le_bytes();
        assert_eq!(bytes, [0xff, 0xff, 0, 0, 0xef, 0xbe, 0xad, 0xde]);
    }
}
