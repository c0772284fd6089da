//! The end of a finished segment, to which closing counts can be added without a new segment.

use super::super::CLOSING_BLOCK;
use super::encoder::sum_zeros;
use super::order::Order;
use super::{TAIL_BYTES, Trailer, list};
use crate::crc32c;

/// Everything after the blocks of a finished segment, except for its sketch.
#[derive(Clone, Debug)]
pub struct SegmentEnd {
    pub(super) trailer: Trailer,
    order: Order,
    /// CRC32C of the blocks.
    pub(super) checksum: u32,
    pub(super) list: Vec<u8>,
}

impl SegmentEnd {
    /// Creates it from a segment of S bytes with this trailer.
    pub(super) fn of(segment: &[u8], trailer: Trailer, order: Order, checksum: u32) -> Self {
        let tail = segment.len() - TAIL_BYTES;
        let list = list::list_bytes(Trailer::VERSION, trailer.packets);
        Self { trailer, order, checksum, list: segment[tail - list..tail].to_vec() }
    }

    /// Returns where the segment's blocks end in the file.
    pub fn blocks_end(&self) -> u64 {
        self.trailer.sequence * u64::from(self.trailer.segment_bytes)
            + u64::from(self.trailer.blocks_end)
    }

    /// Returns where the segment ends in the file.
    pub fn file_end(&self) -> u64 {
        (self.trailer.sequence + 1) * u64::from(self.trailer.segment_bytes)
    }

    /// Returns the bytes to write at the end of the segment's blocks to append more `blocks`,
    /// without a packet. They replace the sketch. `None` if there is not enough room.
    pub fn with_blocks(&self, blocks: &[u8]) -> Option<Vec<u8>> {
        let start = self.trailer.blocks_end as usize;
        let (size, blocks_end) = (self.trailer.segment_bytes as usize, start + blocks.len());
        let used = blocks_end + 8 + self.list.len() + TAIL_BYTES;
        let zeros = size.checked_sub(used)?;
        let length = ((size - blocks_end) as u32).to_le_bytes();
        let head = [CLOSING_BLOCK.to_le_bytes(), length];
        let trailer = Trailer {
            blocks_end: blocks_end as u32,
            sketch_bytes: 0,
            sketch_is_of_file: false,
            ..self.trailer
        };
        let mut trailer = trailer.to_bytes(self.order);
        let checked = &trailer[..Trailer::CHECKED_BYTES];
        let mut checksum = crc32c::crc32c_append(self.checksum, blocks);
        checksum = crc32c::crc32c_append(checksum, head.as_flattened());
        checksum = sum_zeros(checksum, zeros);
        checksum = crc32c::crc32c_append(checksum, &self.list);
        checksum = crc32c::crc32c_append(checksum, checked);
        trailer[Trailer::CHECKED_BYTES..].copy_from_slice(&checksum.to_le_bytes());
        let zeros = vec![0; zeros];
        Some([blocks, head.as_flattened(), &zeros, &self.list, &trailer, &length].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LOSS_CAUSES, SegmentEncoder, SegmentIndex};
    use crate::files::{Counters, InterfaceDescription, PlainItem, SectionDescription};
    use crate::hash::HashKind;
    use crate::headers::LinkType;

    #[test]
    fn closing_counts_take_the_place_of_a_sketch() {
        let mut encoder = SegmentEncoder::new(8192, LinkType::ETHERNET, 0, HashKind::FiveTuple, 5);
        let mut segment = vec![0; 8192];
        let interfaces = [InterfaceDescription::new(LinkType::ETHERNET, "eth0")];
        encoder.header(&mut segment, &SectionDescription::default(), &interfaces).unwrap();
        encoder.advance();
        let items = (0..).map(|at| PlainItem { bytes: &[7; 60], time_ns: at, hash: at as u32 });
        let packets = encoder.push_plain(&mut segment, 0, items).packets;
        encoder.finish(&mut segment, &[3; LOSS_CAUSES]);
        let end = encoder.end(&segment);
        assert_eq!((end.file_end(), end.list.len()), (2 * 8192, (2 * packets).next_multiple_of(4)));
        let mut blocks = vec![0; 8192];
        encoder.advance();
        assert!(encoder.push_statistics(&mut blocks, 0, 9, &Counters::default()).unwrap());
        let blocks = &blocks[..encoder.blocks_end()];
        let before = *SegmentIndex::parse(&segment).unwrap().trailer();
        let tail = end.with_blocks(blocks).unwrap();
        let start = before.blocks_end as usize;
        segment[start..].copy_from_slice(&tail);
        let index = SegmentIndex::parse(&segment).unwrap();
        assert_eq!(index.contradiction(), None);
        assert_eq!((index.packets(), index.trailer().losses), (before.packets, before.losses));
        assert_eq!(index.trailer().blocks_end as usize, start + blocks.len());
        assert!(before.sketch_bytes > 0 && index.trailer().sketch_bytes == 0);
        assert!(end.with_blocks(&[0; 4096]).is_none());
    }
}
