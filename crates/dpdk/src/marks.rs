//! A device's marks on a packet.

use crate::ffi;

/// A device's information on a packet besides its bytes.
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

    /// Whether anything is unusual: if this is false, so are the next four.
    #[inline]
    pub fn is_odd(self) -> bool {
        const ODD: u32 = ffi::PARTIAL_CHECKSUM | ffi::MERGED | ffi::BAD_CHECKSUM | ffi::CHAINED;
        self.marks & ODD != 0
    }

    /// Whether the transport checksum is left to a device: virtual devices do that.
    pub fn has_partial_checksum(self) -> bool {
        self.marks & ffi::PARTIAL_CHECKSUM != 0
    }

    /// Whether it is several wire packets merged into one.
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

    /// The device's hash of addresses and ports, for a TCP or UDP packet that is not a fragment and
    /// not in a tunnel. [`Offloads`](crate::Offloads) has the key.
    #[inline]
    pub fn hash(self) -> Option<u32> {
        (self.marks & ffi::HASHED != 0).then_some(self.hash)
    }

    /// The receive time in the device's unit, if any device has timestamps enabled.
    #[inline]
    pub fn time(self) -> Option<u64> {
        (self.marks & ffi::TIMED != 0).then_some(self.time)
    }
}
