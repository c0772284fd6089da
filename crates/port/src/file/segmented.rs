//! A segmented output.
//!
//! ```text
//!  slot    0        1          2            3
//!  file  | header | sealed   | sealed     | open: written by a flush, again when it is sealed |
//! ```
//!
//! A full segment is handed to a queue of writes; several are in progress at a time. A flush waits
//! for them, and writes the open segment into its slot in its current state; the segment is written
//! again later. After a failed write, the file is truncated after the last block of the writes
//! completed without a gap. Blocks of a slot never change, so a torn second write does not corrupt
//! any.
//!
//! In a compressed file segments are contiguous ([`Slots`]). There a flush closes the open segment,
//! and the next packet begins another one. So it waits until it is due ([`Segmented::can_wait`]).
//!
//! The header is written with the first segment. A recording that ends in its first segment needs
//! no segments: it becomes plain pcapng, unless segments were requested ([`Segmented::end`]). Until
//! the plain file is safe, its header and its first blocks can be restored.

pub(super) mod slots;

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use burstline_sys::direct::{AlignedBuffer, WriteQueue};
use burstline_sys::prefetch;
use burstline_wire::files::{
    Counters, EncodeError, InterfaceDescription, LOSS_CAUSES, LossCause, PacketToWrite, PlainItem,
    PlainRun, SectionDescription, SegmentEncoder, SegmentEnd,
};
use burstline_wire::hash::HashKind;
use burstline_wire::headers::LinkType;

use super::Put;
use super::recording::Flush;
use super::sink::ClosingCounts;
use slots::Slots;

/// How far ahead of a block lines of the segment are prefetched, in bytes.
const AHEAD_BYTES: usize = 512;

/// A flush writes the open segment into its slot if none was written for so long, or for half as
/// long as `--flush` says. It costs as much as some 10,000 packets, and is done again for a full
/// one. A compressed segment is written once, so that takes a segment of the capture each time.
const WRITE_AFTER: Duration = Duration::from_secs(1);

/// The hash kind of sketches, independent of the job's.
pub(super) const SKETCHED: HashKind = HashKind::FiveTuple;

/// A prefix of a file or segment: its packets, and its end offset.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    packets: u64,
    end: u64,
}

/// Fills segments and writes each into its slot.
pub(super) struct Segmented {
    slots: Slots,
    encoder: SegmentEncoder,
    /// The header segment, as long as the file may become plain pcapng.
    header: Option<AlignedBuffer>,
    /// Whether the header is written.
    is_begun: bool,
    /// The blocks of the header.
    descriptions: Vec<u8>,
    /// Whether a recording of one segment becomes plain pcapng.
    is_compact: bool,
    losses: [u64; LOSS_CAUSES],
    /// Whether only closing counts follow, and the last segment gets the sketch of all flows.
    is_closed: bool,
    /// Whether the open segment has unwritten blocks.
    is_dirty: bool,
    /// When a segment was written or handed over last, or the file began.
    written_at: Instant,
    /// Packets in sealed segments, including those being written.
    sealed: u64,
    /// For each full segment being written, in order: what is certainly in the file before it.
    under_way: VecDeque<Part>,
    /// Completed writes of the queue that are already processed.
    settled: u64,
    /// The ends of segments being written, and of the last that is certainly in the file.
    ends: VecDeque<SegmentEnd>,
    last_end: SegmentEnd,
    /// Packets of the open segment that a flush has written, and the end of their blocks in it.
    flushed: Part,
    /// The size of the file, once it is plain pcapng.
    plain_bytes: Option<u64>,
    /// Bytes of a file with segments that plain pcapng was written over, at least in part.
    overwritten: u64,
}

impl Segmented {
    /// Starts a file with the description of its first interface. Nothing is written yet.
    pub(super) fn start(
        slots: Slots,
        mut encoder: SegmentEncoder,
        section: &SectionDescription<'_>,
        interface: &InterfaceDescription<'_>,
        is_compact: bool,
    ) -> io::Result<Self> {
        let bytes = encoder.segment_bytes();
        let mut header = AlignedBuffer::new(bytes)?;
        let first = std::slice::from_ref(interface);
        encoder.header(&mut header, section, first).map_err(io::Error::other)?;
        let descriptions = header[..encoder.blocks_end()].to_vec();
        let last_end = encoder.end(&header);
        encoder.advance();
        Ok(Self {
            slots,
            encoder,
            header: Some(header),
            is_begun: false,
            descriptions,
            is_compact,
            losses: [0; LOSS_CAUSES],
            is_closed: false,
            is_dirty: false,
            written_at: Instant::now(),
            sealed: 0,
            under_way: VecDeque::new(),
            settled: 0,
            ends: VecDeque::new(),
            last_end,
            flushed: Part::default(),
            plain_bytes: None,
            overwritten: 0,
        })
    }

    /// Creates the encoder. `first_packet` is the recording's number of the file's first packet.
    pub(super) fn encoder(
        segment_bytes: usize,
        link: LinkType,
        snapshot_bytes: u32,
        first_packet: u64,
    ) -> SegmentEncoder {
        SegmentEncoder::new(segment_bytes, link, snapshot_bytes, SKETCHED, first_packet)
    }

    pub(super) fn interface(&mut self, interface: &InterfaceDescription<'_>) -> Put {
        self.put(|encoder, segment| encoder.push_interface(segment, interface))
    }

    #[inline]
    pub(super) fn packet(&mut self, packet: &PacketToWrite<'_>) -> Put {
        let put = self.put(|encoder, segment| encoder.push(segment, packet))?;
        if put.is_ok() {
            self.losses[LossCause::Miss as usize] += packet.drops_before;
        }
        Ok(put)
    }

    /// Adds packets of one interface that need no options, until one may not fit.
    #[inline]
    pub(super) fn plain_packets(&mut self, interface: u32, packets: &[PlainItem<'_>]) -> PlainRun {
        // The disk has read the last bytes here: they are in no cache, or in another core's.
        let end = self.encoder.blocks_end() + AHEAD_BYTES;
        let mut ahead = self.slots.bytes().as_ptr().wrapping_add(end);
        let packets = packets.iter().copied().inspect(|packet| {
            let bytes = packet.block_bytes();
            prefetch::start_to_write(ahead, bytes);
            ahead = ahead.wrapping_add(bytes);
        });
        let run = self.encoder.push_plain(self.slots.bytes_mut(), interface, packets);
        self.is_dirty |= run.packets > 0;
        run
    }

    pub(super) fn statistics(&mut self, interface: u32, time_ns: u64, counters: &Counters) -> Put {
        self.put(|encoder, segment| encoder.push_statistics(segment, interface, time_ns, counters))
    }

    /// Counts lost packets that no `drops_before` reports.
    pub(super) fn count_losses(&mut self, cause: LossCause, packets: u64) {
        self.losses[cause as usize] += packets;
        self.is_dirty |= packets > 0;
    }

    /// Tells that a reader of a log has missed `packets` of those that the last packet reported.
    pub(super) fn name_overrun(&mut self, packets: u64) {
        let [miss, overrun] = [LossCause::Miss, LossCause::Overrun].map(|cause| cause as usize);
        let packets = packets.min(self.losses[miss]);
        self.losses[miss] -= packets;
        self.losses[overrun] += packets;
    }

    /// Declares that only closing counts follow. The last segment gets the sketch of all flows,
    /// unless there is only one segment.
    pub(super) fn close(&mut self) {
        if !self.is_compact || self.encoder.sequence() > 1 {
            self.is_closed = true;
            self.encoder.close();
        }
    }

    /// Whether a flush has something to write, but not yet according to `flush`.
    pub(super) fn can_wait(&self, flush: Option<Flush>) -> bool {
        let Flush { after_ns, bytes } = flush.unwrap_or(Flush { after_ns: None, bytes: None });
        let unwritten = (self.encoder.blocks_end() as u64).saturating_sub(self.flushed.end);
        let after = Duration::from_nanos(after_ns.unwrap_or(u64::MAX));
        let after = match self.slots.can_rewrite() {
            // The other half of the time is for the sync.
            true => (after / 2).min(WRITE_AFTER),
            false => after,
        };
        let is_little = bytes.is_none_or(|most| unwritten < most);
        self.is_dirty && is_little && self.written_at.elapsed() < after
    }

    /// Writes the open segment into its slot in its current state, once all before it are written.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let waited = self.slots.wait_all();
        self.settle();
        waited?;
        if !self.is_dirty {
            return Ok(());
        }
        if !self.slots.can_rewrite() {
            return self.seal();
        }
        self.encoder.finish(self.slots.bytes_mut(), &self.losses);
        self.write_header()?;
        self.slots.rewrite(self.encoder.file_offset())?;
        (self.is_dirty, self.written_at) = (false, Instant::now());
        let end = self.encoder.blocks_end() as u64;
        self.flushed = Part { packets: self.encoder.packets().into(), end };
        Ok(())
    }

    /// Writes the remaining blocks: as plain pcapng if there is one segment. Returns whether
    /// segments written before are still behind that: [`cut_plain`](Self::cut_plain) ends the file
    /// when it is safe without them.
    pub(super) fn end(&mut self) -> io::Result<bool> {
        if !self.is_compact || self.encoder.sequence() > 1 {
            self.flush()?;
            self.slots.end()?;
            return Ok(false);
        }
        let plain = self.plain();
        self.overwritten = if self.is_begun { plain.len() as u64 } else { 0 };
        self.plain_bytes = Some(self.slots.write_plain(&plain)?);
        self.flushed = Part { packets: self.encoder.packets().into(), end: 0 };
        Ok(self.is_begun)
    }

    /// Truncates the file behind the plain pcapng.
    pub(super) fn cut_plain(&mut self) -> io::Result<()> {
        self.plain_bytes.map_or(Ok(()), |bytes| self.slots.cut_plain(bytes))
    }

    /// Returns the file, and the queue for the next one. No write is in progress any more.
    pub(super) fn into_parts(self) -> (Box<dyn Send>, Option<WriteQueue>) {
        self.slots.into_parts()
    }

    /// Returns the packets handed to writes: those of whole segments, and those of the open segment
    /// that a flush has written.
    pub(super) fn handed(&self) -> u64 {
        self.sealed + self.flushed.packets
    }

    /// Returns the packets certainly written, and the bytes up to the last of them.
    pub(super) fn kept(&self) -> (u64, u64) {
        if let Some(first) = self.under_way.front() {
            return (first.packets, self.slots.file_bytes(first.end));
        }
        let bytes = match self.plain_bytes {
            Some(bytes) => bytes,
            None if !self.is_begun => 0,
            None => self.slots.file_bytes(self.encoder.file_offset() + self.flushed.end),
        };
        (self.sealed + self.flushed.packets, bytes)
    }

    /// Returns the size of the file if it ended here.
    pub(super) fn bytes(&self) -> u64 {
        match self.is_compact && self.encoder.sequence() == 1 {
            true => (self.descriptions.len() + self.encoder.used_bytes()) as u64,
            false => {
                self.slots.file_bytes(self.encoder.file_offset()) + self.encoder.used_bytes() as u64
            }
        }
    }

    /// Returns the unwritten bytes of the file: segments being written, and the current segment.
    pub(super) fn pending(&self) -> u64 {
        (self.under_way.len() as u64 + 1) * self.encoder.segment_bytes() as u64
    }

    /// Truncates the file to `bytes`, after an error.
    pub(super) fn cut(&mut self, bytes: u64) -> io::Result<()> {
        let offset = self.encoder.file_offset();
        let has_segments = bytes >= offset && self.plain_bytes != Some(bytes);
        if self.overwritten > 0
            && has_segments
            && let Some(header) = &self.header
        {
            // The packets that stay were synced in the first segment.
            let over = self.overwritten.saturating_sub(offset).min(bytes - offset);
            self.slots.restore(header, offset, over as usize);
        }
        self.slots.cut(bytes)
    }

    /// Writes closing counts after the first `bytes` of a file that was truncated there, as far as
    /// a segment has room; if nothing can follow, into the last segment. The current segment is
    /// lost. Returns the new size of the file.
    pub(super) fn append_closing(
        &mut self,
        bytes: u64,
        closing: &[ClosingCounts],
    ) -> io::Result<u64> {
        self.encoder.discard();
        for ClosingCounts { interface, time_ns, counters } in closing {
            let segment = self.slots.bytes_mut();
            let put = self.encoder.push_statistics(segment, *interface, *time_ns, counters);
            if !put.map_err(io::Error::other)? {
                break;
            }
        }
        if bytes == 0 {
            return self.write_closing_alone();
        }
        if let Slots::Packed(packer) = &mut self.slots {
            packer.go_on(bytes)?;
            self.encoder.finish(&mut packer.segment, &self.losses);
            return packer.close();
        }
        let (end, segment_bytes) = (self.encoder.blocks_end(), self.encoder.segment_bytes());
        // A block may not cross slots.
        let has_room = bytes as usize % segment_bytes + end <= segment_bytes;
        if has_room && self.slots.append(bytes, end).is_ok() {
            return Ok(bytes + end as u64);
        }
        self.slots.cut(bytes)?;
        let last = Some(&self.last_end).filter(|last| last.file_end() == bytes);
        let tail = last.and_then(|last| last.with_blocks(&self.slots.bytes()[..end]));
        let tail = tail.ok_or(io::ErrorKind::StorageFull)?;
        self.slots.overwrite(self.last_end.blocks_end(), &tail)?;
        Ok(bytes)
    }

    /// Writes a plain file that has the closing counts and no packet.
    fn write_closing_alone(&mut self) -> io::Result<u64> {
        if let Slots::Packed(_) = &self.slots {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let plain = self.plain();
        self.slots.write_plain(&plain)
    }

    /// Returns the blocks of the open segment as plain pcapng, behind the descriptions.
    fn plain(&self) -> Vec<u8> {
        let blocks = &self.slots.bytes()[..self.encoder.blocks_end()];
        [&self.descriptions[..], blocks].concat()
    }

    fn seal(&mut self) -> io::Result<()> {
        self.encoder.finish(self.slots.bytes_mut(), &self.losses);
        self.write_header()?;
        let offset = self.encoder.file_offset();
        let packets = u64::from(self.encoder.packets());
        let Part { packets: flushed, end } = self.flushed;
        self.under_way.push_back(Part { packets: self.sealed + flushed, end: offset + end });
        self.ends.push_back(self.encoder.end(self.slots.bytes()));
        let submitted = self.slots.submit(offset);
        self.settle();
        submitted?;
        self.sealed += packets;
        self.encoder.advance();
        // A file of two segments keeps them.
        self.header = None;
        self.losses = [0; LOSS_CAUSES];
        self.flushed = Part::default();
        (self.is_dirty, self.written_at) = (false, Instant::now());
        Ok(())
    }

    /// Processes segments that are written.
    fn settle(&mut self) {
        while self.settled < self.slots.written() {
            self.settled += 1;
            self.under_way.pop_front();
            self.last_end = self.ends.pop_front().unwrap_or_else(|| self.last_end.clone());
        }
    }

    fn write_header(&mut self) -> io::Result<()> {
        if let Some(header) = self.header.as_ref().filter(|_| !self.is_begun) {
            self.slots.write_header(header)?;
            self.is_begun = true;
        }
        Ok(())
    }

    #[inline]
    fn put(
        &mut self,
        mut push: impl FnMut(&mut SegmentEncoder, &mut [u8]) -> Result<bool, EncodeError>,
    ) -> Put {
        loop {
            match push(&mut self.encoder, self.slots.bytes_mut()) {
                Ok(true) => {
                    self.is_dirty = true;
                    return Ok(Ok(()));
                }
                // Closing counts may begin another segment, which has the sketch of the file then.
                Ok(false) if self.is_closed => {
                    self.encoder.reopen();
                    self.seal()?;
                    self.encoder.close();
                }
                Ok(false) => self.seal()?,
                Err(error) => return Ok(Err(error)),
            }
        }
    }
}
