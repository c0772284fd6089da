//! Classic pcap with nanoseconds, for tools without pcapng.

use crate::files::MAX_CAPTURED;
use crate::files::encode::{EncodeError, PacketToWrite};
use crate::headers::LinkType;

/// Writes classic pcap with nanoseconds into lent bytes.
///
/// A file has one interface and no options: of a [`PacketToWrite`] only bytes, original length and
/// time are kept. Times end in the year 2106, where the seconds stay at their maximum.
#[derive(Clone, Copy, Debug)]
pub struct PcapNsEncoder {
    link: LinkType,
    snapshot_length: u32,
}

impl PcapNsEncoder {
    /// Bytes of the file header.
    pub const HEADER_BYTES: usize = 24;

    /// Sets link type and snapshot length of the file.
    pub fn new(link: LinkType, snapshot_length: u32) -> Self {
        PcapNsEncoder { link, snapshot_length }
    }

    /// Writes the file header. Returns its bytes, or 0 if `out` has no room.
    pub fn header(&self, out: &mut [u8]) -> usize {
        let Some(place) = out.first_chunk_mut::<24>() else { return 0 };
        let words = [0xA1B2_3C4D, 2 | 4 << 16, 0, 0, self.snapshot_length, u32::from(self.link.0)];
        for (place, word) in place.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        Self::HEADER_BYTES
    }

    /// Writes a record. Returns its bytes, or 0 if `out` has no room.
    ///
    /// # Errors
    /// [`EncodeError::TooLong`] above [`MAX_CAPTURED`].
    #[inline]
    pub fn packet(&self, out: &mut [u8], packet: &PacketToWrite<'_>) -> Result<usize, EncodeError> {
        let (captured, capacity) = (packet.bytes.len(), MAX_CAPTURED as usize);
        if captured > capacity {
            return Err(EncodeError::TooLong { captured, capacity });
        }
        let seconds = u32::try_from(packet.time_ns / 1_000_000_000).unwrap_or(u32::MAX);
        let fraction = (packet.time_ns % 1_000_000_000) as u32;
        let Some(record) = out.get_mut(..16 + captured) else { return Ok(0) };
        let Some((head, data)) = record.split_first_chunk_mut::<16>() else { return Ok(0) };
        let words = [seconds, fraction, captured as u32, packet.original_length];
        for (place, word) in head.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        data.copy_from_slice(packet.bytes);
        Ok(16 + captured)
    }
}
