//! Encodes classic pcap in nanoseconds or microseconds.

use burstline_wire::files::{EncodeError, PacketToWrite, PcapNsEncoder, PlainItem};
use burstline_wire::headers::LinkType;

/// Magic number of a file in microseconds. Source: draft-ietf-opsawg-pcap, section 4.
const MICROSECONDS: u32 = 0xa1b2_c3d4;

/// Position of the fraction of a second in a record. Source: the same, section 5.
const FRACTION: std::ops::Range<usize> = 4..8;

/// Encoder of classic pcap. In microseconds it is the file in nanoseconds with another magic number
/// and the fractions divided.
pub(super) struct ClassicEncoder {
    encoder: PcapNsEncoder,
    nanoseconds: bool,
}

impl ClassicEncoder {
    pub(super) fn new(link: LinkType, snapshot_bytes: u32, nanoseconds: bool) -> Self {
        Self { encoder: PcapNsEncoder::new(link, snapshot_bytes), nanoseconds }
    }

    /// Writes the file header. Returns its length, 0 if `out` has no room.
    pub(super) fn header(&self, out: &mut [u8]) -> usize {
        let bytes = self.encoder.header(out);
        if bytes > 0 && !self.nanoseconds {
            out[..4].copy_from_slice(&MICROSECONDS.to_le_bytes());
        }
        bytes
    }

    /// Writes a record of a whole packet. Returns its length, 0 if `out` has no room or the packet
    /// is too long.
    #[inline]
    pub(super) fn plain(&self, out: &mut [u8], packet: &PlainItem<'_>) -> usize {
        self.packet(out, &PacketToWrite::new(packet.bytes, packet.time_ns)).unwrap_or(0)
    }

    /// Writes a record. Returns its length, 0 if `out` has no room.
    #[inline]
    pub(super) fn packet(
        &self,
        out: &mut [u8],
        packet: &PacketToWrite<'_>,
    ) -> Result<usize, EncodeError> {
        let bytes = self.encoder.packet(out, packet)?;
        if bytes > 0 && !self.nanoseconds {
            let microseconds = (packet.time_ns % 1_000_000_000 / 1000) as u32;
            out[FRACTION].copy_from_slice(&microseconds.to_le_bytes());
        }
        Ok(bytes)
    }
}
