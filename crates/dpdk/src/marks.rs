//! What a device says of a packet.

use crate::ffi;

/// What the device says of a packet besides its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    marks: u32,
    hash: u32,
    time: u64,
}

impl Marks {
    #[inline]
    pub(crate) fn new(packet: &ffi::Packet) -> Self {
        Self { marks: packet.marks, hash: packet.hash, time: packet.time }
    }

    /// Whether anything is unusual: nothing of the next four is, where this is false.
    #[inline]
    pub fn is_odd(self) -> bool {
        const ODD: u32 = ffi::PARTIAL_CHECKSUM | ffi::MERGED | ffi::BAD_CHECKSUM | ffi::CHAINED;
        self.marks & ODD != 0
    }

    /// Whether the transport checksum is left to a device: virtual ones do that.
    pub fn has_partial_checksum(self) -> bool {
        self.marks & ffi::PARTIAL_CHECKSUM != 0
    }

    /// Whether it is several packets of the wire in one.
    pub fn is_merged(self) -> bool {
        self.marks & ffi::MERGED != 0
    }

    /// Whether the device has found a wrong checksum.
    pub fn has_bad_checksum(self) -> bool {
        self.marks & ffi::BAD_CHECKSUM != 0
    }

    /// Whether it came in several mbufs.
    pub fn is_chained(self) -> bool {
        self.marks & ffi::CHAINED != 0
    }

    /// The device's hash of addresses and ports, of a packet of TCP or UDP that is not a fragment
    /// and in no tunnel. By which key, [`Offloads`](crate::Offloads) knows.
    #[inline]
    pub fn hash(self) -> Option<u32> {
        (self.marks & ffi::HASHED != 0).then_some(self.hash)
    }

    /// When the device received it, in its unit, if anybody has asked a device for that.
    #[inline]
    pub fn time(self) -> Option<u64> {
        (self.marks & ffi::TIMED != 0).then_some(self.time)
    }
}
