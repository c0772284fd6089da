//! The packet header that says which offload work is left.
//!
//! ```text
//! | flags, 1 | kind of segments, 1 | header bytes, 2 | segment bytes, 2 | start, 2 | offset, 2 |
//! ```
//!
//! Source: `struct virtio_net_hdr`, include/uapi/linux/virtio_net.h; in the host's byte order.

pub(super) const HEADER_BYTES: usize = 10;

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`.
const NEEDS_CHECKSUM: u8 = 1;

/// The kind of segments to cut a packet into: `VIRTIO_NET_HDR_GSO_`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segments {
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP datagrams.
    Udp,
}

impl Segments {
    fn code(self) -> u8 {
        match self {
            Self::Tcp4 => 1,
            Self::Tcp6 => 4,
            Self::Udp => 5,
        }
    }
}

/// A checksum that is not yet filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// The first byte that it sums up, from the start of the packet.
    pub start: u16,
    /// The position of the checksum, from `start`.
    pub offset: u16,
}

/// How to cut a packet into segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The kind of segments.
    pub kind: Segments,
    /// Header bytes of each segment.
    pub header_bytes: u16,
    /// Payload bytes of each segment.
    pub segment_bytes: u16,
}

/// Offload work that is left to do on a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// The checksum to fill in.
    pub checksum: Option<Checksum>,
    /// Whether it is several wire packets merged into one.
    pub is_merged: bool,
    /// For a packet to send: how to segment it.
    pub cut: Option<Cut>,
}

impl Offload {
    /// Parses the header of a received packet.
    pub(super) fn of(header: &[u8; HEADER_BYTES]) -> Self {
        let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        let is_open = header[0] & NEEDS_CHECKSUM != 0;
        Self {
            checksum: is_open.then(|| Checksum { start: half(6), offset: half(8) }),
            // The top bit says that some packets have a congestion mark.
            is_merged: header[1] & 0x7f != 0,
            cut: None,
        }
    }

    /// Returns the header of a packet to send.
    pub fn header(&self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        let mut put = |at: usize, value: u16| {
            header[at..at + 2].copy_from_slice(&value.to_ne_bytes());
        };
        if let Some(cut) = self.cut {
            put(2, cut.header_bytes);
            put(4, cut.segment_bytes);
        }
        if let Some(Checksum { start, offset }) = self.checksum {
            put(6, start);
            put(8, offset);
            header[0] = NEEDS_CHECKSUM;
        }
        header[1] = self.cut.map_or(0, |cut| cut.kind.code());
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_done_is_said_as_it_is_read() {
        let cut = Some(Cut { kind: Segments::Tcp6, header_bytes: 74, segment_bytes: 1428 });
        let checksum = Some(Checksum { start: 54, offset: 16 });
        let offload = Offload { checksum, is_merged: true, cut };
        let header = offload.header();
        assert_eq!(header[..2], [1, 4]);
        assert_eq!(Offload::of(&header), Offload { cut: None, ..offload });
        assert_eq!(Offload::of(&[0; HEADER_BYTES]), Offload::default());
        assert_eq!(Offload::default().header(), [0; HEADER_BYTES]);
        assert!(!Offload::of(&[0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0]).is_merged);
    }
}
