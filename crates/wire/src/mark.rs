//! The mark at the end of a generated packet, by which a receiver detects loss, delay and damage.
//!
//! ```text
//!  ... payload | magic | check | run, flow | sequence | time |(0)|
//!              0       2       4           8          12     18    one byte more in odd lengths
//! ```
//!
//! All numbers are big-endian. The mark is at the end of the packet. So it is found without parsing
//! headers, even if the packet was encapsulated on its way. Its offset is even, so sums of words
//! can be split there.
//!
//! - magic: [`MAGIC`].
//! - check: the complement of the sum of all the packet's words, Ethernet header, mark and the
//!   check itself included. It detects every error of one byte anywhere in the packet, and misses
//!   one in 65,535 other errors. (A TCP or UDP checksum cancels the payload, so the sum of a whole
//!   packet depends only on its headers: the check is a constant of a flow and a length.)
//! - run and flow: 12 and 20 bits, see [`Stream`].
//! - sequence: number of the packet among the marked ones of its flow, from 0, modulo 2^32.
//! - time: when the packet was due, in ns since 1970, modulo 2^48 (78 hours).
//!
//! A packet shorter than its headers plus 18 bytes has no mark. UDP over IPv4 has one from frames
//! of 64 bytes on, FCS included; TCP from 76. IPv6 adds 20 to these, a VLAN tag 4.

use crate::checksum::{fold, sum};

/// Bytes of a mark.
pub const BYTES: usize = 18;

/// First bytes of a mark.
pub const MAGIC: [u8; 2] = [0xb5, 0x7e];

/// Bits of a flow's number.
const FLOW_BITS: u32 = 20;

/// Bits of a time.
const TIME_BITS: u32 = 48;

/// A flow of one run of a generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream(pub u32);

impl Stream {
    /// Creates the stream of flow `flow`, in `[0, 2^20)`, of run `run`, in `[0, 2^12)`.
    #[must_use]
    pub fn new(run: u16, flow: u32) -> Self {
        Self(u32::from(run) << FLOW_BITS | flow & ((1 << FLOW_BITS) - 1))
    }

    /// Returns the run of the generator, which distinguishes consecutive runs. 0 for a run that can
    /// be repeated byte for byte.
    #[must_use]
    pub fn run(self) -> u16 {
        (self.0 >> FLOW_BITS) as u16
    }

    /// Returns the number of the flow.
    #[must_use]
    pub fn flow(self) -> u32 {
        self.0 & ((1 << FLOW_BITS) - 1)
    }
}

/// Contents of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The flow.
    pub stream: Stream,
    /// The number of the packet in its flow, modulo 2^32.
    pub sequence: u32,
    /// When the packet was due, in ns since 1970, modulo 2^48.
    pub time_ns: u64,
}

impl Mark {
    /// Returns the nanoseconds from the mark's time to `now_ns`; negative if that clock is behind.
    /// Exact for less than 39 hours.
    #[inline]
    #[must_use]
    pub fn age_ns(&self, now_ns: u64) -> i64 {
        let age = now_ns.wrapping_sub(self.time_ns) << (u64::BITS - TIME_BITS);
        (age as i64) >> (u64::BITS - TIME_BITS)
    }
}

/// Returns the offset of the mark in a packet of `length` bytes; `None` if it does not fit.
#[inline]
#[must_use]
pub fn offset(length: usize) -> Option<usize> {
    Some(length.checked_sub(BYTES)? & !1)
}

/// Returns the check of a packet with a word sum of `sum`.
#[inline]
#[must_use]
pub fn check(sum: u16) -> u16 {
    !sum
}

/// Encodes a mark. Cost: a few instructions.
#[inline]
#[must_use]
pub fn encode(mark: &Mark, check: u16) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..2].copy_from_slice(&MAGIC);
    bytes[2..4].copy_from_slice(&check.to_be_bytes());
    bytes[4..8].copy_from_slice(&mark.stream.0.to_be_bytes());
    bytes[8..12].copy_from_slice(&mark.sequence.to_be_bytes());
    bytes[12..].copy_from_slice(&mark.time_ns.to_be_bytes()[2..]);
    bytes
}

/// Returns the mark of a packet, even if its check is wrong. `None` if it has no magic.
#[inline]
#[must_use]
pub fn find(packet: &[u8]) -> Option<Mark> {
    let bytes: &[u8; BYTES] = packet.get(offset(packet.len())?..)?.first_chunk()?;
    (bytes[..2] == MAGIC).then(|| decode(bytes))
}

/// Like [`find`], for a packet of which only the magic is damaged.
#[must_use]
pub fn find_damaged(packet: &[u8]) -> Option<Mark> {
    let bytes: &[u8; BYTES] = packet.get(offset(packet.len())?..)?.first_chunk()?;
    let word = |bytes: &[u8]| u32::from(u16::from_be_bytes([bytes[0], bytes[1]]));
    let healed = u32::from(sum(packet)) + word(&MAGIC) + u32::from(!(word(bytes) as u16));
    (fold(fold(healed).into()) == !word(&bytes[2..]) as u16).then(|| decode(bytes))
}

/// Returns whether every byte of a packet is unchanged. Cost: a pass over its bytes.
#[inline]
#[must_use]
pub fn is_intact(packet: &[u8]) -> bool {
    let Some(at) = offset(packet.len()) else { return false };
    let check = u16::from_be_bytes([packet[at + 2], packet[at + 3]]);
    fold(u32::from(sum(packet)) + u32::from(check)) == 0xffff
}

fn decode(bytes: &[u8; BYTES]) -> Mark {
    let word = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|next| bytes[at + next]));
    let time_ns = u64::from(word(14)) | u64::from(word(10) & 0xffff) << 32;
    Mark { stream: Stream(word(4)), sequence: word(8), time_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a marked packet of `length` bytes with its "transport checksum" at byte 40.
    fn packet(length: usize, mark: &Mark) -> Vec<u8> {
        let mut packet: Vec<u8> = (0..length).map(|at| (at * 31) as u8).collect();
        if length % 2 == 1 {
            packet[length - 1] = 0;
        }
        let at = offset(length).unwrap();
        packet[at..at + BYTES].copy_from_slice(&encode(mark, 0));
        let total = sum(&packet);
        packet[at..at + BYTES].copy_from_slice(&encode(mark, check(total)));
        // A transport checksum cancels the difference of the payload.
        let more = fold(u32::from(sum(&packet)) + u32::from(!total));
        let old = u16::from_be_bytes([packet[40], packet[41]]);
        let new = fold(u32::from(old) + u32::from(!more));
        packet[40..42].copy_from_slice(&new.to_be_bytes());
        packet
    }

    #[test]
    fn what_is_written_is_found() {
        let mark =
            Mark { stream: Stream::new(0xabc, 77), sequence: 0xdead_beef, time_ns: 1 << 47 | 5 };
        for length in [60, 61, 1514] {
            let packet = packet(length, &mark);
            assert_eq!(find(&packet), Some(mark));
            assert!(is_intact(&packet));
        }
        assert_eq!((mark.stream.run(), mark.stream.flow()), (0xabc, 77));
        assert_eq!(find(&[0; 60]), None);
        assert!(find(&[0; 17]).is_none() && !is_intact(&[0; 17]));
    }

    #[test]
    fn every_error_of_one_byte_is_found() {
        let mark = Mark { stream: Stream::new(1, 2), sequence: 3, time_ns: 4 };
        for length in [60, 61] {
            let packet = packet(length, &mark);
            for at in 0..length {
                for change in 1..=255 {
                    let mut damaged = packet.clone();
                    damaged[at] ^= change;
                    assert!(!is_intact(&damaged), "byte {at} by {change:#x}");
                    let is_magic = (offset(length).unwrap()..).take(2).any(|magic| magic == at);
                    assert_eq!(find_damaged(&damaged) == Some(mark), is_magic, "{at} {change:#x}");
                }
            }
        }
    }

    #[test]
    fn ages_are_right_over_the_wrap_of_the_time() {
        let at = |time_ns| Mark { stream: Stream(0), sequence: 0, time_ns };
        let now_ns = 1_800_000_000_123_456_789;
        for age_ns in [0, 1, -1, 5_000_000_000, -7_000] {
            let time_ns = (now_ns as i64 - age_ns) as u64 & ((1 << 48) - 1);
            assert_eq!(at(time_ns).age_ns(now_ns), age_ns);
        }
        assert_eq!(at((1 << 48) - 1).age_ns(1 << 48), 1);
    }
}
