//! The packets of the hand-off figures and the work done on them, identical for every side.
//!
//! The producer copies a template into place and writes a counter at byte 26, where an IPv4 source
//! address is. The consumer reads the fields of a flow classifier: protocol, addresses, ports and
//! one byte after them; and the packet's length, hash and time. It adds them all up, so a side that
//! loses, duplicates or tears a packet produces a wrong sum.

use std::ptr;

use burstline_log::{Burst, PlainPacket};

/// Size of the longest packet of a figure, in bytes.
pub const MAX_BYTES: usize = 2048;
/// Bytes that the consumer reads: `[0, 55)`.
const TOUCHED_BYTES: usize = 55;
/// Offset of the counter.
const COUNTER_AT: usize = 26;
/// Time of packet 0, in ns since 1970. Packets are 1 ns apart.
const START_NS: u64 = 1_700_000_000_000_000_000;

#[repr(align(64))]
struct Aligned([u8; MAX_BYTES]);

/// A stream of packets of one length.
pub struct Traffic {
    template: Aligned,
    length: usize,
}

/// Returns the flow hash of packet `counter`, any mix of its bits.
#[inline]
pub fn hash_of(counter: u32) -> u32 {
    counter.wrapping_mul(2_654_435_761)
}

/// Returns the time of packet `counter`, in ns since 1970.
#[inline]
pub fn time_of(counter: u32) -> u64 {
    START_NS + u64::from(counter)
}

impl Traffic {
    /// Creates packets of `length` bytes, in `[60, MAX_BYTES]`.
    pub fn new(length: usize) -> Self {
        assert!((60..=MAX_BYTES).contains(&length), "{length} bytes are not a packet here");
        let mut template = Aligned([0; MAX_BYTES]);
        for (index, byte) in template.0.iter_mut().enumerate() {
            *byte = (index * 7) as u8;
        }
        Self { template, length }
    }

    /// Returns the length of each packet, in bytes.
    #[inline]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Returns the template: a packet without its counter.
    pub fn template(&self) -> &[u8] {
        &self.template.0[..self.length]
    }

    /// Writes packet `counter` to `at`.
    ///
    /// # Safety
    /// `at` must be valid for writes of `length` bytes and not point into the template.
    #[inline]
    pub unsafe fn fill(&self, at: *mut u8, counter: u32) {
        // SAFETY: the caller's promise; the template holds at least `length` bytes.
        unsafe { copy(self.template.0.as_ptr(), at, self.length) };
        // SAFETY: `length` is at least 60, so the four bytes are inside.
        unsafe { at.add(COUNTER_AT).cast::<u32>().write_unaligned(counter.to_le()) };
    }

    /// Returns the sum of [`digest`] over packets `[0, packets)`.
    pub fn expected(&self, packets: u64) -> u64 {
        let mut packet = [0_u8; MAX_BYTES];
        let mut sum = 0_u64;
        for counter in 0..packets as u32 {
            // SAFETY: `packet` has room for any length and is not the template.
            unsafe { self.fill(packet.as_mut_ptr(), counter) };
            let (hash, time_ns) = (hash_of(counter), time_of(counter));
            sum = sum.wrapping_add(digest(&packet[..self.length], hash, time_ns));
        }
        sum
    }
}

/// Received packets that wait to be copied, stored one after another in slots of whole cache lines,
/// as in a kernel's blocks.
pub struct Frames {
    memory: Vec<Line>,
    length: usize,
    lines_each: usize,
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    _bytes: [u8; 64],
}

impl Frames {
    /// Creates packets `[0, packets)` of `traffic`.
    pub fn new(traffic: &Traffic, packets: u64) -> Self {
        let lines_each = traffic.length.div_ceil(size_of::<Line>());
        let mut memory = vec![Line { _bytes: [0; 64] }; lines_each * packets as usize];
        for (counter, lines) in memory.chunks_exact_mut(lines_each).enumerate() {
            // SAFETY: the lines have room for `length` bytes and are not the template.
            unsafe { traffic.fill(lines.as_mut_ptr().cast(), counter as u32) };
        }
        Self { memory, length: traffic.length, lines_each }
    }

    /// Returns the length of each packet, in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Returns the size of all slots, in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.memory[..])
    }

    /// Copies packet `counter`.
    ///
    /// # Safety
    /// `at` must be valid for writes of `length` bytes and not point into the frames.
    #[inline]
    pub(crate) unsafe fn copy_to(&self, at: *mut u8, counter: u32) {
        let first = counter as usize * self.lines_each;
        let lines = &self.memory[first..first + self.lines_each];
        // SAFETY: the caller's promise; the lines hold `length` bytes.
        unsafe { copy(lines.as_ptr().cast(), at, self.length) };
    }
}

/// Does the consumer's work on one packet. A packet too short to be one of ours adds only its
/// length, which makes the sum wrong.
#[inline]
pub fn digest(packet: &[u8], hash: u32, time_ns: u64) -> u64 {
    let known = (packet.len() as u64).wrapping_add(hash.into()).wrapping_add(time_ns);
    let Some(head) = packet.first_chunk::<TOUCHED_BYTES>() else { return known };
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let words = word(26) ^ word(30) ^ word(34);
    known.wrapping_add(words.into()).wrapping_add((head[23] ^ head[54]).into())
}

/// Does the consumer's work on a burst of the log.
#[inline]
pub fn digest_of(burst: &Burst<'_>) -> u64 {
    let add = |(sum, count): (u64, usize), packet: PlainPacket<'_>| {
        let digest = digest(packet.bytes, packet.desc.hash(), packet.time_ns);
        (sum.wrapping_add(digest), count + 1)
    };
    let (sum, count) = burst.plain_packets().fold((0, 0), add);
    // Handles the rest from the first packet whose desc is not sufficient; normally none.
    (count..burst.len()).fold(sum, |sum, index| {
        let packet = burst.packet(index);
        sum.wrapping_add(digest(packet.bytes(), packet.desc().hash(), packet.time_ns()))
    })
}

/// Returns the counter of a packet, or `None` if the packet is too short.
#[inline]
pub fn counter_of(packet: &[u8]) -> Option<u32> {
    let bytes = packet.get(COUNTER_AT..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

/// Copies `length` bytes, at least 32. Short copies are inlined, as in a packet library.
///
/// # Safety
/// As for [`ptr::copy_nonoverlapping`].
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, length: usize) {
    if length > 256 {
        // SAFETY: the caller's promise.
        unsafe { ptr::copy_nonoverlapping(from, to, length) };
        return;
    }
    let last = length - 2 * size_of::<Piece>();
    // SAFETY: `length` is at least 32; the last 32 bytes, some of them for the second time.
    unsafe {
        copy_two(from, to);
        copy_two(from.add(last), to.add(last));
    }
    let mut at = 2 * size_of::<Piece>();
    while at < last {
        // SAFETY: `at + 32 <= length`, within both.
        unsafe { copy_two(from.add(at), to.add(at)) };
        at += 2 * size_of::<Piece>();
    }
}

/// # Safety
/// Both must be valid for 32 bytes and not overlap.
#[inline(always)]
unsafe fn copy_two(from: *const u8, to: *mut u8) {
    const STEP: usize = size_of::<Piece>();
    // SAFETY: the caller's promise.
    unsafe {
        copy_piece(from, to);
        copy_piece(from.add(STEP), to.add(STEP));
    }
}

type Piece = [u8; 16];

/// # Safety
/// Both must be valid for 16 bytes and not overlap.
#[inline]
unsafe fn copy_piece(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise; unaligned accesses are one instruction each.
    unsafe { to.cast::<Piece>().write_unaligned(from.cast::<Piece>().read_unaligned()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fill_writes_length_bytes_and_no_more() {
        for length in [60, 61, 64, 256, 257, 1514] {
            let traffic = Traffic::new(length);
            let mut room = [0xee_u8; MAX_BYTES];
            // SAFETY: there is room for the longest packet.
            unsafe { traffic.fill(room.as_mut_ptr(), 0x0403_0201) };
            assert_eq!(room[26..30], [1, 2, 3, 4]);
            assert_eq!(room[length - 1], ((length - 1) * 7) as u8);
            assert!(room[length..].iter().all(|&byte| byte == 0xee));
        }
    }

    #[test]
    fn frames_are_the_packets_of_their_traffic_in_whole_lines() {
        for (length, bytes) in [(60, 64), (64, 64), (65, 128), (1514, 1536)] {
            let traffic = Traffic::new(length);
            let frames = Frames::new(&traffic, 5);
            assert_eq!((frames.length(), frames.bytes()), (length, 5 * bytes));
            for counter in [4, 0, 3] {
                let (mut copy, mut filled) = ([0xee_u8; MAX_BYTES], [0xee_u8; MAX_BYTES]);
                // SAFETY: there is room for the longest packet, apart from the frames.
                unsafe { frames.copy_to(copy.as_mut_ptr(), counter) };
                // SAFETY: there is room for the longest packet.
                unsafe { traffic.fill(filled.as_mut_ptr(), counter) };
                assert!(copy == filled, "packet {counter} of {length} bytes");
            }
        }
    }

    #[test]
    fn a_lost_doubled_or_torn_packet_changes_the_sum() {
        let traffic = Traffic::new(60);
        assert_ne!(traffic.expected(3), traffic.expected(2));
        let mut packet = [0_u8; 60];
        // SAFETY: the room is as long as the packet.
        unsafe { traffic.fill(packet.as_mut_ptr(), 1) };
        let whole = digest(&packet, 5, 6);
        for at in [23, 26, 30, 34, 54] {
            packet[at] ^= 1;
            assert_ne!(digest(&packet, 5, 6), whole, "byte {at}");
            packet[at] ^= 1;
        }
        assert_ne!(digest(&packet[..54], 5, 6), whole);
    }
}
