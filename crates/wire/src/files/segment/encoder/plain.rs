//! Runs of plain packets, for which room is looked for once in a batch.

use super::super::super::encode::{PLAIN_BYTES, write_plain};
use super::super::{TAIL_BYTES, list};
use super::{SUM_BYTES, SegmentEncoder};

/// Packets for which room is looked for together, and whose hashes the sketch gets together.
const BATCH: usize = 32;

/// A whole packet without options.
#[derive(Clone, Copy, Debug)]
pub struct PlainItem<'a> {
    /// All its bytes.
    pub bytes: &'a [u8],
    /// Time in ns since 1970.
    pub time_ns: u64,
    /// Flow hash; ignored in a file without hashes.
    pub hash: u32,
}

impl PlainItem<'_> {
    /// Returns the bytes of its block.
    #[inline]
    pub fn block_bytes(&self) -> usize {
        PLAIN_BYTES + self.bytes.len().next_multiple_of(4)
    }
}

/// The packets that [`SegmentEncoder::push_plain`] has taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlainRun {
    /// Number of packets, from the first on.
    pub packets: usize,
    /// Their captured bytes.
    pub bytes: u64,
    /// The latest of their times, in ns since 1970; 0 without a packet.
    pub latest_ns: u64,
}

impl SegmentEncoder {
    /// Appends packets of one interface until one may not fit: whole packets without direction,
    /// loss or queue. [`push`](Self::push) takes the first one that was not taken, or returns the
    /// reason.
    ///
    /// # Panics
    /// If `segment` is not S bytes.
    ///
    /// Cost: some 50 instructions a packet, and the copy of its bytes.
    #[inline]
    pub fn push_plain<'a>(
        &mut self,
        segment: &mut [u8],
        interface: u32,
        mut packets: impl Iterator<Item = PlainItem<'a>>,
    ) -> PlainRun {
        assert_eq!(segment.len(), self.segment_bytes(), "a segment is S bytes");
        let mut run = PlainRun::default();
        if interface >= self.file.interfaces() {
            return run;
        }
        while self.push_batch(segment, interface, &mut packets, &mut run) == BATCH {}
        self.sum_up(segment, SUM_BYTES);
        run
    }

    /// Appends up to [`BATCH`] packets and adds them to `run`. Returns how many.
    #[inline(always)]
    fn push_batch<'a>(
        &mut self,
        segment: &mut [u8],
        interface: u32,
        packets: &mut impl Iterator<Item = PlainItem<'a>>,
        run: &mut PlainRun,
    ) -> usize {
        let capacity = self.capacity();
        let (before, mut start) = (self.open.packets as usize, self.open.blocks_end as usize);
        // The head of the closing block must fit after them, and the tail of a whole batch.
        let around = TAIL_BYTES + 8 + self.tail_bytes(before + BATCH, BATCH);
        let room = segment.len().saturating_sub(around);
        if room <= start {
            return 0;
        }
        let (blocks, behind) = segment.split_at_mut(room);
        let (mut free, mut last_block) = (&mut blocks[start..], self.last_block);
        let (mut hashes, mut count) = ([0; BATCH], 0);
        for (entry, hash) in list::entries(behind, before, BATCH).zip(&mut hashes) {
            let Some(packet) = packets.next() else { break };
            let length = packet.block_bytes();
            if packet.bytes.len() > capacity || length > free.len() {
                break;
            }
            let (block, left) = free.split_at_mut(length);
            write_plain(block, interface, packet.bytes, packet.time_ns);
            free = left;
            *entry = list::entry(last_block, start);
            last_block = start;
            start += length;
            *hash = packet.hash;
            if before + count == 0 {
                (self.open.base_time_ns, self.open.earliest_ns) = (packet.time_ns, packet.time_ns);
            }
            self.open.earliest_ns = self.open.earliest_ns.min(packet.time_ns);
            run.latest_ns = run.latest_ns.max(packet.time_ns);
            run.bytes += packet.bytes.len() as u64;
            count += 1;
        }
        if let Some(sketch) = &mut self.sketch {
            sketch.insert_all(&hashes[..count]);
        }
        run.packets += count;
        self.last_block = last_block;
        self.open.latest_ns = self.open.latest_ns.max(run.latest_ns);
        self.open.packets += count as u32;
        self.open.blocks_end = start as u32;
        count
    }
}
