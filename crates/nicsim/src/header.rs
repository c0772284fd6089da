//! The 16 bytes in front of a packet in contiguous mode, as the article has it: at least time and
//! length.
//!
//! ```text
//!      63                    32 31      18  17   16 15            0
//! 0    | time, ns since 1970                                      |
//! 8    | RSS hash            | 0       | far | end | packet length |
//! ```

use burstline_log::FACTS_BYTES;

/// Bytes of a header: packets begin at multiples of them.
pub(crate) const HEADER_BYTES: usize = 16;

const END: u64 = 1 << 16;
const FAR: u64 = 1 << 17;

/// What the device knows of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) time_ns: u64,
    pub(crate) hash: u32,
    pub(crate) length: u16,
    /// Whether it came 2^32 ns or more after the buffer's first packet, or before that: a desc
    /// cannot say when, so there is room for the driver to say it behind the packet.
    pub(crate) is_far: bool,
}

impl Header {
    /// There is no packet: it goes on in the next buffer.
    pub(crate) const END: [u64; 2] = [0, END];

    #[inline]
    pub(crate) fn words(&self) -> [u64; 2] {
        let far = if self.is_far { FAR } else { 0 };
        [self.time_ns, u64::from(self.hash) << 32 | far | u64::from(self.length)]
    }

    /// What is told of the packet behind; `None` where the buffer ends.
    #[inline(always)]
    pub(crate) fn read([time_ns, second]: [u64; 2]) -> Option<Self> {
        let (hash, length) = ((second >> 32) as u32, second as u16);
        let is_far = second & FAR != 0;
        (second & END == 0).then_some(Self { time_ns, hash, length, is_far })
    }

    /// Bytes up to the next header.
    #[inline(always)]
    pub(crate) fn stride(&self) -> usize {
        let facts = if self.is_far { FACTS_BYTES } else { 0 };
        HEADER_BYTES + usize::from(self.length).next_multiple_of(HEADER_BYTES) + facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_written() {
        let near = Header { time_ns: u64::MAX, hash: 0xdead_beef, length: 65_535, is_far: false };
        assert_eq!((Header::read(near.words()), near.stride()), (Some(near), 16 + 65_536));
        let far = Header { time_ns: 1, hash: 0, length: 60, is_far: true };
        assert_eq!((Header::read(far.words()), far.stride()), (Some(far), 16 + 64 + 32));
        assert_eq!(Header::read(Header::END), None);
        // The least bytes first, as in memory.
        let bytes = near.words()[1].to_le_bytes();
        assert_eq!(bytes, [0xff, 0xff, 0, 0, 0xef, 0xbe, 0xad, 0xde]);
    }
}
