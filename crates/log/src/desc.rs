//! The worklist entry: where one packet is, and its metadata.
//!
//! ```text
//! byte   0        4               8      12             16
//!        | offset | length,flags,port | hash | time delta |
//! word 1: bit 31 .. 13 length | 12 .. 8 flags | 7 .. 0 port
//! ```
//!
//! A desc is 16 bytes, so four of them share a cache line. It is two words rather than four fields,
//! because stores limit a writer's rate. A few packets are truncated, are far in time from their
//! neighbours, or follow losses. Their extra data does not fit here and is stored in [`Facts`],
//! marked by [`Flags::FACTS`].

use std::fmt;

/// The longest packet that a desc can describe, in bytes: 19 bits of length.
pub const MAX_PACKET_BYTES: usize = (1 << LENGTH_BITS) - 1;

/// Alignment of packets, in bytes. A 60-byte packet is then one cache line, which halves the cost
/// of the hand-off between cores, compared with a file format's 4-byte alignment.
pub const PACKET_ALIGNMENT: usize = 16;

const LENGTH_BITS: u32 = 19;
const LENGTH_SHIFT: u32 = 32 - LENGTH_BITS;
const FLAGS_SHIFT: u32 = 8;
const FLAGS_MASK: u32 = 0x1f;

/// The location and length of one packet, its port, flags, flow hash and time delta.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct Desc {
    /// Offset in the low half, length, flags and port in the high half.
    place: u64,
    /// Flow hash in the low half, time delta in the high half.
    flow: u64,
}

const _: () = assert!(size_of::<Desc>() == 16 && align_of::<Desc>() == 16);
const _: () = assert!(LENGTH_SHIFT == FLAGS_SHIFT + FLAGS_MASK.count_ones());

impl Desc {
    /// Describes `length` bytes, in `[0, MAX_PACKET_BYTES]`, at `offset` from the burst's base.
    #[inline]
    pub fn new(offset: u32, length: u32, port: u8, flags: Flags) -> Self {
        debug_assert!(length as usize <= MAX_PACKET_BYTES, "length {length} needs more bits");
        let shape = length << LENGTH_SHIFT | u32::from(flags.0) << FLAGS_SHIFT | u32::from(port);
        Self { place: u64::from(offset) | u64::from(shape) << 32, flow: 0 }
    }

    /// Returns the same desc with a flow hash and a time, in ns after the burst's base time.
    #[inline]
    pub fn with(self, hash: u32, time_delta_ns: u32) -> Self {
        Self { flow: u64::from(hash) | u64::from(time_delta_ns) << 32, ..self }
    }

    /// Returns this desc, of length 0, moved by `offset` bytes and with `length` bytes. The caller
    /// makes sure that both fit. For loops over packets that share all other fields.
    #[inline]
    pub(crate) fn moved(self, offset: usize, length: u64) -> Self {
        let place = self.place + offset as u64 + (length << (32 + LENGTH_SHIFT));
        Self { place, ..self }
    }

    /// Makes a desc of the two words in memory; every value is valid.
    #[inline]
    pub(crate) fn from_words([place, flow]: [u64; 2]) -> Self {
        Self { place, flow }
    }

    #[inline]
    pub(crate) fn words(&self) -> [u64; 2] {
        [self.place, self.flow]
    }

    /// Returns the offset of the packet's first byte from the burst's base.
    #[inline]
    pub fn offset(&self) -> u32 {
        self.place as u32
    }

    /// Returns the number of the packet's bytes stored here, in `[0, MAX_PACKET_BYTES]`.
    #[inline]
    pub fn length(&self) -> u32 {
        self.shape() >> LENGTH_SHIFT
    }

    /// Returns the port it came from: an index into the log writer's ports.
    #[inline]
    pub fn port(&self) -> u8 {
        self.shape() as u8
    }

    /// Returns the packet's flags.
    #[inline]
    pub fn flags(&self) -> Flags {
        Flags((self.shape() >> FLAGS_SHIFT & FLAGS_MASK) as u8)
    }

    /// Returns the flow hash, of the log's hash kind; 0 if the log has no hash.
    #[inline]
    pub fn hash(&self) -> u32 {
        self.flow as u32
    }

    /// Time after the burst's base time, in ns; meaningless if [`Flags::FACTS`] is set.
    #[inline]
    pub fn time_delta_ns(&self) -> u32 {
        (self.flow >> 32) as u32
    }

    #[inline]
    fn shape(&self) -> u32 {
        (self.place >> 32) as u32
    }
}

impl fmt::Debug for Desc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desc")
            .field("offset", &self.offset())
            .field("length", &self.length())
            .field("port", &self.port())
            .field("flags", &self.flags())
            .field("hash", &format_args!("{:#010x}", self.hash()))
            .field("time_delta_ns", &self.time_delta_ns())
            .finish()
    }
}

/// Five flags of a packet.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Flags(u8);

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// The packet has [`Facts`].
    pub const FACTS: Self = Self(1);
    /// The kernel left the transport checksum to a device, so it is not valid yet.
    pub const PARTIAL_CHECKSUM: Self = Self(2);
    /// Several wire packets that GRO or LRO merged into one.
    pub const MERGED: Self = Self(4);
    /// Sent by this host, not received.
    pub const OUTGOING: Self = Self(8);
    /// The device or the file says the packet arrived damaged (CRC, symbol or length error).
    pub const DAMAGED: Self = Self(16);

    /// Returns whether every flag of `other` is set here.
    #[inline]
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the flags of both.
    #[inline]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the flags of `self` that are not in `other`.
    #[inline]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the five flags as bits `[0, 32)`.
    #[inline]
    pub const fn bits(self) -> u8 {
        self.0
    }
}

/// Metadata that few packets have. In a segment it follows the packet's bytes, 16-byte aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C, align(16))]
pub struct Facts {
    /// When the packet arrived, in ns since 1970.
    pub time_ns: u64,
    /// Packets that this port lost just before this one.
    pub drops_before: u64,
    /// The packet's length on the wire, in bytes without FCS; at least the desc's length.
    pub original_length: u32,
    reserved: [u32; 3],
}

/// The size of [`Facts`] in a segment, in bytes.
pub const FACTS_BYTES: usize = size_of::<Facts>();
const _: () = assert!(FACTS_BYTES == 32 && FACTS_BYTES.is_multiple_of(PACKET_ALIGNMENT));

impl Facts {
    /// Combines the three facts.
    pub fn new(time_ns: u64, drops_before: u64, original_length: u32) -> Self {
        Self { time_ns, drops_before, original_length, reserved: [0; 3] }
    }

    /// Returns these facts, limited to what is possible for a packet with `length` stored bytes:
    /// sums do not overflow, and no packet is shorter on the wire.
    pub(crate) fn moderated(self, length: u32) -> Self {
        let drops_before = self.drops_before.min(u32::MAX.into());
        Self::new(self.time_ns, drops_before, self.original_length.max(length))
    }

    pub(crate) fn words(self) -> [u64; 4] {
        let mut length = [0; 8];
        length[..4].copy_from_slice(&self.original_length.to_ne_bytes());
        [self.time_ns, self.drops_before, u64::from_ne_bytes(length), 0]
    }

    /// Reads facts from `bytes`, written in this machine's byte order; `None` if they are
    /// incomplete.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let time_ns = u64::from_ne_bytes(*bytes.first_chunk()?);
        let drops_before = u64::from_ne_bytes(*bytes.get(8..)?.first_chunk()?);
        let original_length = u32::from_ne_bytes(*bytes.get(16..)?.first_chunk()?);
        Some(Self::new(time_ns, drops_before, original_length))
    }
}

/// Rounds a length up to the next possible start of a packet or of facts.
#[inline]
pub(crate) const fn align_up(bytes: usize) -> usize {
    (bytes + PACKET_ALIGNMENT - 1) & !(PACKET_ALIGNMENT - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn every_field_comes_back(offset: u32, length in 0..=MAX_PACKET_BYTES as u32, port: u8,
                                  flags in 0..32_u8, hash: u32, delta: u32) {
            let desc = Desc::new(offset, length, port, Flags(flags)).with(hash, delta);
            prop_assert_eq!(desc.offset(), offset);
            prop_assert_eq!(desc.length(), length);
            prop_assert_eq!(desc.port(), port);
            prop_assert_eq!(desc.flags().bits(), flags);
            prop_assert_eq!(desc.hash(), hash);
            prop_assert_eq!(desc.time_delta_ns(), delta);
        }
    }

    #[test]
    fn flags_combine() {
        let both = Flags::MERGED.union(Flags::OUTGOING);
        assert!(both.contains(Flags::MERGED) && both.contains(Flags::OUTGOING));
        assert!(!both.contains(Flags::FACTS));
        assert_eq!(both.without(Flags::MERGED), Flags::OUTGOING);
    }

    #[test]
    fn short_facts_are_none() {
        assert_eq!(Facts::read(&[0; 19]), None);
        assert!(Facts::read(&[0; 20]).is_some());
    }
}
