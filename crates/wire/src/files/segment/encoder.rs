//! The encoder that fills segments owned by the caller.

mod plain;

use super::super::encode::write_packet;
use super::super::{
    CLOSING_BLOCK, Counters, EncodeError, InterfaceDescription, MAX_CAPTURED, PacketToWrite,
    PcapngEncoder, SectionDescription,
};
use super::order::Order;
use super::sketch::{self, Sketch};
use super::{LOSS_CAUSES, SegmentEnd, TAIL_BYTES, Trailer, list};
use crate::crc32c;
use crate::hash::HashKind;
use crate::headers::LinkType;
pub use plain::{PlainItem, PlainRun};

/// Fills one segment after the other with packets, worklist and trailer; see the module essay.
///
/// The caller owns the S bytes of a segment and lends the same ones to each call until it advances.
/// It writes a finished segment at [`file_offset`](Self::file_offset). The order is:
///
/// ```text
/// header -> write, advance -> push ... push -> false: finish -> write, advance -> push ...
///                                  early flush: finish -> write ------------> push ... (same slot)
/// ```
#[derive(Clone, Debug)]
pub struct SegmentEncoder {
    file: PcapngEncoder,
    snapshot_length: u32,
    /// The trailer of the open segment, except for its checksum.
    open: Trailer,
    /// Interfaces described before the open segment.
    interfaces_before: u32,
    /// Times of the previous segments.
    order: Order,
    /// Bytes of the open segment that `checksum` covers: whole blocks, which do not change.
    summed: u32,
    checksum: u32,
    /// Where the block of the last packet starts; 0 if there is none.
    last_block: usize,
    /// The flow hashes of the open segment, if packets have hashes.
    sketch: Option<Sketch>,
    /// Those of the previous segments, in a sketch of the same size.
    file_sketch: Option<Sketch>,
    /// The sketch of the whole file, once no packet follows: it is stored in the last segment.
    last_sketch: Vec<u8>,
}

/// The most bytes of padding of a worklist.
const PADDING_BYTES: usize = 4;

/// Zeros, for the checksum of bytes that count as zeros.
const ZEROS: [u8; 4096] = [0; 4096];

/// Bytes of the blocks over which the checksum is computed: enough for its strides, few enough to
/// be still in the cache.
const SUM_BYTES: u32 = 8 << 10;

impl SegmentEncoder {
    /// Creates an encoder for a file of segments of `segment_bytes`, at its header segment.
    ///
    /// `first_packet` is the number of the file's first packet in the recording: 0, or where the
    /// previous file ended.
    ///
    /// # Panics
    /// If `segment_bytes` is not a power of two in [4 KiB, 16 MiB].
    pub fn new(
        segment_bytes: usize,
        link: LinkType,
        snapshot_length: u32,
        hash_kind: HashKind,
        first_packet: u64,
    ) -> Self {
        let segment_bytes = u32::try_from(segment_bytes).unwrap_or(0);
        let open = Trailer { hash_kind, segment_bytes, first_packet, ..Trailer::default() };
        assert!(open.segment_bytes_are_possible(), "segment of {segment_bytes} bytes");
        let file = PcapngEncoder::new(link, snapshot_length);
        let has_hashes = hash_kind != HashKind::None;
        let sketch = has_hashes.then(|| Sketch::new(open.segment_bytes as usize));
        SegmentEncoder {
            file,
            snapshot_length,
            open,
            interfaces_before: 0,
            order: Order::default(),
            summed: 0,
            checksum: 0,
            last_block: 0,
            file_sketch: sketch.clone(),
            sketch,
            last_sketch: Vec::new(),
        }
    }

    /// Returns the most captured bytes of a packet that fits into an empty segment with all its
    /// options. It is `MAX_CAPTURED` from S = 512 KiB on.
    pub fn capacity(&self) -> usize {
        // The block's own 32 bytes, options of at most 32, the closing block's head, and the tail
        // of one packet.
        let sketch = sketch::first_room_bytes(self.segment_bytes());
        let around = 32 + 32 + 8 + list::ENTRY_BYTES + PADDING_BYTES + sketch + TAIL_BYTES;
        (self.segment_bytes() - around).min(MAX_CAPTURED as usize)
    }

    /// Fills segment 0 with the descriptions and finishes it; [`advance`](Self::advance) is next.
    ///
    /// # Errors
    /// Those of [`PcapngEncoder::interface`], and [`EncodeError::HeaderTooLong`].
    ///
    /// # Panics
    /// If `segment` is not S bytes, or not segment 0.
    pub fn header(
        &mut self,
        segment: &mut [u8],
        section: &SectionDescription<'_>,
        interfaces: &[InterfaceDescription<'_>],
    ) -> Result<(), EncodeError> {
        assert_eq!(self.open.sequence, 0, "the header is segment 0");
        let too_long = EncodeError::HeaderTooLong { segment_bytes: self.segment_bytes() };
        (self.open.blocks_end, self.summed, self.checksum) = (0, 0, 0);
        let room = self.room(segment, 0);
        match self.file.section(room, section)? {
            0 => return Err(too_long),
            bytes => self.open.blocks_end = bytes as u32,
        }
        for interface in interfaces {
            if !self.push_interface(segment, interface)? {
                return Err(too_long);
            }
        }
        self.finish(segment, &[0; LOSS_CAUSES]);
        Ok(())
    }

    /// Appends a packet. Returns false if the segment is full: finish it, advance, push again.
    ///
    /// # Errors
    /// [`EncodeError::UnknownInterface`], [`EncodeError::TooLong`] above the
    /// [`capacity`](Self::capacity).
    ///
    /// # Panics
    /// If `segment` is not S bytes.
    ///
    /// Cost: tens of instructions and the copy of the packet's bytes.
    #[inline]
    pub fn push(
        &mut self,
        segment: &mut [u8],
        packet: &PacketToWrite<'_>,
    ) -> Result<bool, EncodeError> {
        self.file.check(packet)?;
        let (captured, capacity) = (packet.bytes.len(), self.capacity());
        if captured > capacity {
            return Err(EncodeError::TooLong { captured, capacity });
        }
        let start = self.open.blocks_end as usize;
        let bytes = write_packet(self.room(segment, 1), packet);
        if bytes == 0 {
            return Ok(false);
        }
        let open = &mut self.open;
        if open.packets == 0 {
            (open.base_time_ns, open.earliest_ns) = (packet.time_ns, packet.time_ns);
        }
        open.earliest_ns = open.earliest_ns.min(packet.time_ns);
        open.latest_ns = open.latest_ns.max(packet.time_ns);
        list::put(segment, open.packets as usize, self.last_block, start);
        self.last_block = start;
        match (&mut self.sketch, packet.hash) {
            (Some(sketch), Some(hash)) => sketch.insert(hash),
            (Some(sketch), None) => sketch.open(),
            (None, _) => {}
        }
        open.packets += 1;
        open.blocks_end += bytes as u32;
        Ok(true)
    }

    /// Describes an interface that appeared while recording. Returns false if the segment is full.
    ///
    /// # Errors
    /// Those of [`PcapngEncoder::interface`].
    ///
    /// # Panics
    /// If `segment` is not S bytes.
    pub fn push_interface(
        &mut self,
        segment: &mut [u8],
        interface: &InterfaceDescription<'_>,
    ) -> Result<bool, EncodeError> {
        let mut file = self.file.clone();
        let bytes = file.interface(self.room(segment, 0), interface)?;
        self.file = file;
        self.open.interfaces = self.file.interfaces();
        self.open.blocks_end += bytes as u32;
        Ok(bytes > 0)
    }

    /// Appends the closing counts of an interface. Returns false if the segment is full.
    ///
    /// # Errors
    /// [`EncodeError::UnknownInterface`].
    ///
    /// # Panics
    /// If `segment` is not S bytes.
    pub fn push_statistics(
        &mut self,
        segment: &mut [u8],
        interface: u32,
        time_ns: u64,
        counters: &Counters,
    ) -> Result<bool, EncodeError> {
        let bytes = self.file.statistics(self.room(segment, 0), interface, time_ns, counters)?;
        self.open.blocks_end += bytes as u32;
        Ok(bytes > 0)
    }

    /// Ends the packets of this file; only closing counts may follow. The last segment gets the
    /// sketch of all flows of the file, and reserves room for it.
    pub fn close(&mut self) {
        if let (Some(file), Some(sketch)) = (&mut self.file_sketch, &self.sketch) {
            file.add(sketch);
            self.last_sketch = file.to_file_bytes();
        }
    }

    /// Takes [`close`](Self::close) back: the open segment will not be the last one.
    pub fn reopen(&mut self) {
        self.last_sketch.clear();
    }

    /// Closes the segment so that it can be written. More may be pushed afterwards, and the segment
    /// finished again: it keeps its slot until it is advanced.
    ///
    /// `losses` are packets lost since the previous segment, by [`LossCause`](super::LossCause).
    ///
    /// # Panics
    /// If `segment` is not S bytes.
    ///
    /// Cost: zeroes the slack and reads the segment once for its checksum.
    pub fn finish(&mut self, segment: &mut [u8], losses: &[u64; LOSS_CAUSES]) {
        assert_eq!(segment.len(), self.segment_bytes(), "a segment is S bytes");
        self.open.losses = *losses;
        self.sum_up(segment, 0);
        let size = segment.len();
        let start = self.open.blocks_end as usize;
        let length = (size - start) as u32;
        let tail = size - TAIL_BYTES;
        let worklist = tail - list::list_bytes(Trailer::VERSION, self.open.packets);
        let last = self.last_sketch.len();
        self.open.sketch_is_of_file = last > 0 && start + 8 + last <= worklist;
        let sketch = match &self.sketch {
            _ if self.open.sketch_is_of_file => self.last_sketch.clone(),
            Some(sketch) if self.open.packets > 0 => sketch.to_bytes(),
            _ => Vec::new(),
        };
        self.open.sketch_bytes = sketch.len() as u32;
        let sketch_at = worklist - sketch.len();
        segment[start..start + 4].copy_from_slice(&CLOSING_BLOCK.to_le_bytes());
        segment[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
        segment[start + 8..sketch_at].fill(0);
        segment[sketch_at..worklist].copy_from_slice(&sketch);
        // An odd number of entries leaves two bytes.
        let entries = tail - list::ENTRY_BYTES * self.open.packets as usize;
        segment[worklist..entries].fill(0);
        segment[size - 4..].copy_from_slice(&length.to_le_bytes());
        let trailer = &mut segment[tail..size - 4];
        trailer.copy_from_slice(&self.open.to_bytes(self.order.with(&self.open)));
        let checked = tail + Trailer::CHECKED_BYTES;
        // Parts that may still grow are not included in the running checksum.
        let mut checksum =
            crc32c::crc32c_append(self.checksum, &segment[self.summed as usize..sketch_at]);
        checksum = sum_zeros(checksum, sketch.len());
        checksum = crc32c::crc32c_append(checksum, &segment[worklist..checked]);
        segment[checked..checked + 4].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Returns the end of the segment, which is finished.
    ///
    /// # Panics
    /// If `segment` is not S bytes.
    pub fn end(&self, segment: &[u8]) -> SegmentEnd {
        assert_eq!(segment.len(), self.segment_bytes(), "a segment is S bytes");
        SegmentEnd::of(segment, self.open, self.order.with(&self.open), self.checksum)
    }

    /// Moves on to the next segment, which is empty.
    pub fn advance(&mut self) {
        if let (Some(file), Some(sketch)) = (&mut self.file_sketch, &self.sketch) {
            file.add(sketch);
        }
        self.order = self.order.with(&self.open);
        self.open.sequence += 1;
        self.open.first_packet += u64::from(self.open.packets);
        self.interfaces_before = self.open.interfaces;
        self.discard();
    }

    /// Empties the open segment: the packets pushed into it are not in the file.
    pub fn discard(&mut self) {
        (self.summed, self.checksum, self.last_block) = (0, 0, 0);
        self.sketch.iter_mut().for_each(Sketch::clear);
        self.open = Trailer {
            hash_kind: self.open.hash_kind,
            segment_bytes: self.open.segment_bytes,
            sequence: self.open.sequence,
            first_packet: self.open.first_packet,
            interfaces: self.interfaces_before,
            ..Trailer::default()
        };
    }

    /// Returns the file offset of the open segment.
    pub fn file_offset(&self) -> u64 {
        self.open.sequence * u64::from(self.open.segment_bytes)
    }

    /// Returns the bytes of a segment: S.
    pub fn segment_bytes(&self) -> usize {
        self.open.segment_bytes as usize
    }

    /// Returns where the blocks of the open segment end in it, in bytes.
    pub fn blocks_end(&self) -> usize {
        self.open.blocks_end as usize
    }

    /// Returns the used bytes of the open segment: blocks, worklist, closing block and trailer.
    pub fn used_bytes(&self) -> usize {
        self.blocks_end() + self.tail_bytes(self.open.packets as usize, 0) + 8 + TAIL_BYTES
    }

    /// Returns the number of the open segment in its file.
    pub fn sequence(&self) -> u64 {
        self.open.sequence
    }

    /// Returns the packets in the open segment.
    pub fn packets(&self) -> u32 {
        self.open.packets
    }

    /// Returns the number in the recording that the next packet gets.
    pub fn next_packet(&self) -> u64 {
        self.open.first_packet + u64::from(self.open.packets)
    }

    /// Returns the longest captured length that the file promises; 0 if it makes no promise.
    pub fn snapshot_length(&self) -> u32 {
        self.snapshot_length
    }

    /// Returns the most bytes before the trailer for `packets` packets, of which `pending` have no
    /// hash in the sketch yet: worklist and sketch.
    #[inline]
    fn tail_bytes(&self, packets: usize, pending: usize) -> usize {
        let of_sketch = |sketch: &Sketch| sketch.room_bytes() + sketch::SHARE_BYTES * pending;
        let sketch = self.sketch.as_ref().map_or(0, of_sketch);
        list::ENTRY_BYTES * packets + PADDING_BYTES + sketch.max(self.last_sketch.len())
    }

    /// Adds whole blocks to the checksum, if there are at least `least` new bytes of them.
    #[inline]
    fn sum_up(&mut self, segment: &[u8], least: u32) {
        let (from, to) = (self.summed, self.open.blocks_end);
        if to - from >= least {
            let blocks = &segment[from as usize..to as usize];
            (self.checksum, self.summed) = (crc32c::crc32c_append(self.checksum, blocks), to);
        }
    }

    /// Returns the bytes that a block may take if `entries` more entries must fit after it.
    #[inline]
    fn room<'a>(&self, segment: &'a mut [u8], entries: usize) -> &'a mut [u8] {
        assert_eq!(segment.len(), self.segment_bytes(), "a segment is S bytes");
        let around = self.tail_bytes(self.open.packets as usize + entries, entries) + 8;
        let start = self.open.blocks_end as usize;
        // The head of the closing block must fit as well.
        let end = (segment.len() - TAIL_BYTES).saturating_sub(around);
        segment.get_mut(start..end).unwrap_or_default()
    }
}

/// Extends `checksum` by `bytes` zeros.
pub(super) fn sum_zeros(mut checksum: u32, mut bytes: usize) -> u32 {
    while bytes > 0 {
        let part = bytes.min(ZEROS.len());
        checksum = crc32c::crc32c_append(checksum, &ZEROS[..part]);
        bytes -= part;
    }
    checksum
}
