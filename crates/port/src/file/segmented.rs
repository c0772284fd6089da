//! An output in segments.
//!
//! ```text
//!  slot    0        1          2            3
//!  file  | header | sealed   | sealed     | open: written by a flush, again when it is sealed |
//! ```
//!
//! A segment is handed to a queue of writes when it is full; several are under way at a time. A
//! flush waits for them, and writes the open one into its slot as it is; it is written there again
//! later. When a write fails, the file is cut behind the last block that an earlier write
//! completed, with all before it. Blocks of a slot never change, so a torn second write spoils
//! none.
//!
//! In a compressed file segments lie one behind the other ([`Slots`]). There a flush closes the
//! open segment as it is, and the next packet begins another one.
//!
//! The header is written with the first segment. A recording that ends in its first segment needs
//! none of them: it becomes plain pcapng, unless segments were asked for ([`Segmented::end`]).

pub(super) mod slots;

use std::collections::VecDeque;
use std::io;

use burstline_sys::direct::{AlignedBuffer, WriteQueue};
use burstline_wire::files::{
    Counters, EncodeError, InterfaceDescription, LOSS_CAUSES, LossCause, PacketToWrite, PlainItem,
    PlainRun, SectionDescription, SegmentEncoder, SegmentEnd,
};
use burstline_wire::hash::HashKind;
use burstline_wire::headers::LinkType;

use super::sink::ClosingCounts;
use slots::Slots;

/// The hash kind of sketches, whatever hash the job has.
pub(super) const SKETCHED: HashKind = HashKind::FiveTuple;

/// The first part of a file, or of a segment: its packets, and where it ends.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    packets: u64,
    end: u64,
}

/// Gathers segments and writes each into its slot.
pub(super) struct Segmented {
    slots: Slots,
    encoder: SegmentEncoder,
    /// The header segment, until it is written.
    header: Option<AlignedBuffer>,
    /// Its blocks.
    descriptions: Vec<u8>,
    /// Whether a recording of one segment becomes plain pcapng.
    is_compact: bool,
    losses: [u64; LOSS_CAUSES],
    /// Whether the open segment has blocks that were not written yet.
    is_dirty: bool,
    /// Packets in sealed segments, those that are under way included.
    sealed: u64,
    /// What is surely in the file while a full segment is under way, in the order of these.
    under_way: VecDeque<Part>,
    /// Writes that the queue has counted and that are not under way any more.
    settled: u64,
    /// The ends of segments under way, and of the last that is surely in the file.
    ends: VecDeque<SegmentEnd>,
    last_end: SegmentEnd,
    /// Packets of the open segment that a flush has written, and where their blocks end in it.
    flushed: Part,
    /// Bytes of the file, once it is plain pcapng.
    plain_bytes: Option<u64>,
}

impl Segmented {
    /// Begins a file with the description of its first interface. Nothing is written yet.
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
            descriptions,
            is_compact,
            losses: [0; LOSS_CAUSES],
            is_dirty: false,
            sealed: 0,
            under_way: VecDeque::new(),
            settled: 0,
            ends: VecDeque::new(),
            last_end,
            flushed: Part::default(),
            plain_bytes: None,
        })
    }

    /// `first_packet`: the number of the file's first packet in the recording.
    pub(super) fn encoder(
        segment_bytes: usize,
        link: LinkType,
        snapshot_bytes: u32,
        first_packet: u64,
    ) -> SegmentEncoder {
        SegmentEncoder::new(segment_bytes, link, snapshot_bytes, SKETCHED, first_packet)
    }

    pub(super) fn interface(
        &mut self,
        interface: &InterfaceDescription<'_>,
    ) -> io::Result<Result<(), EncodeError>> {
        self.put(|encoder, segment| encoder.push_interface(segment, interface))
    }

    #[inline]
    pub(super) fn packet(
        &mut self,
        packet: &PacketToWrite<'_>,
    ) -> io::Result<Result<(), EncodeError>> {
        let put = self.put(|encoder, segment| encoder.push(segment, packet))?;
        if put.is_ok() {
            self.losses[LossCause::Miss as usize] += packet.drops_before;
        }
        Ok(put)
    }

    /// Packets of one interface that have nothing special about them, until one does not fit.
    #[inline]
    pub(super) fn plain_packets<'a>(
        &mut self,
        interface: u32,
        packets: impl Iterator<Item = PlainItem<'a>>,
    ) -> PlainRun {
        let run = self.encoder.push_plain(self.slots.bytes_mut(), interface, packets);
        self.is_dirty |= run.packets > 0;
        run
    }

    pub(super) fn statistics(
        &mut self,
        interface: u32,
        time_ns: u64,
        counters: &Counters,
    ) -> io::Result<Result<(), EncodeError>> {
        self.put(|encoder, segment| encoder.push_statistics(segment, interface, time_ns, counters))
    }

    /// Counts packets that are lost and that no packet tells of.
    pub(super) fn count_losses(&mut self, cause: LossCause, packets: u64) {
        self.losses[cause as usize] += packets;
        self.is_dirty |= packets > 0;
    }

    /// Only closing counts follow. The last segment gets the sketch of all flows, unless there is
    /// but one.
    pub(super) fn close(&mut self) {
        if !self.is_compact || self.encoder.sequence() > 1 {
            self.encoder.close();
        }
    }

    /// Writes the open segment into its slot, as it is, when all before it are written.
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
        self.is_dirty = false;
        let end = self.encoder.blocks_end() as u64;
        self.flushed = Part { packets: self.encoder.packets().into(), end };
        Ok(())
    }

    /// Writes what is left and ends the file: as plain pcapng where there is one segment.
    /// `is_kept_safe`: what was written before may be synced, and stays so.
    pub(super) fn end(&mut self, is_kept_safe: bool) -> io::Result<()> {
        if !self.is_compact || self.encoder.sequence() > 1 {
            self.flush()?;
            return self.slots.end();
        }
        let blocks = &self.slots.bytes()[..self.encoder.blocks_end()];
        let plain = [&self.descriptions[..], blocks].concat();
        let has_segments = self.header.is_none();
        let bytes = self.slots.write_plain(&plain)?;
        (self.plain_bytes, self.header) = (Some(bytes), None);
        self.slots.cut_plain(bytes, is_kept_safe && has_segments)?;
        self.flushed = Part { packets: self.encoder.packets().into(), end: 0 };
        Ok(())
    }

    /// The file, and the queue for the next one. Nothing is under way any more.
    pub(super) fn into_parts(self) -> (Box<dyn Send>, Option<WriteQueue>) {
        self.slots.into_parts()
    }

    /// Packets that are written or under way: those of whole segments, and of the open one what a
    /// flush has written.
    pub(super) fn handed(&self) -> u64 {
        self.sealed + self.flushed.packets
    }

    /// Packets surely written, and the bytes up to the last of them.
    pub(super) fn kept(&self) -> (u64, u64) {
        if let Some(first) = self.under_way.front() {
            return (first.packets, self.slots.file_bytes(first.end));
        }
        let bytes = match (self.plain_bytes, &self.header) {
            (Some(bytes), _) => bytes,
            (None, Some(_)) => 0,
            (None, None) => self.slots.file_bytes(self.encoder.file_offset() + self.flushed.end),
        };
        (self.sealed + self.flushed.packets, bytes)
    }

    /// Bytes of the file if it ended here.
    pub(super) fn bytes(&self) -> u64 {
        match self.is_compact && self.encoder.sequence() == 1 {
            true => (self.descriptions.len() + self.encoder.used_bytes()) as u64,
            false => {
                self.slots.file_bytes(self.encoder.file_offset()) + self.encoder.used_bytes() as u64
            }
        }
    }

    /// Bytes of the file that are not written yet: those under way, and the segment in hand.
    pub(super) fn pending(&self) -> u64 {
        (self.under_way.len() as u64 + 1) * self.encoder.segment_bytes() as u64
    }

    /// Cuts the file to `bytes`, after an error.
    pub(super) fn cut(&mut self, bytes: u64) {
        // Plain pcapng is shorter than the segments that were synced before.
        self.slots.cut(self.plain_bytes.map_or(bytes, |plain| bytes.min(plain)));
    }

    /// Writes closing counts behind the first `bytes` of a file that was cut there, as far as a
    /// segment has room; where nothing can be behind them, into the last segment. What was in hand
    /// is lost. Returns where the file ends then.
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
        if let Slots::Packed(packer) = &mut self.slots {
            packer.go_on(bytes)?;
            self.encoder.finish(&mut packer.segment, &self.losses);
            return packer.close();
        }
        let (end, segment_bytes) = (self.encoder.blocks_end(), self.encoder.segment_bytes());
        // A block lies in one slot.
        let has_room = bytes as usize % segment_bytes + end <= segment_bytes;
        if has_room && self.slots.append(bytes, end).is_ok() {
            return Ok(bytes + end as u64);
        }
        self.slots.cut(bytes);
        let last = Some(&self.last_end).filter(|last| last.file_end() == bytes);
        let tail = last.and_then(|last| last.with_blocks(&self.slots.bytes()[..end]));
        let tail = tail.ok_or(io::ErrorKind::StorageFull)?;
        self.slots.overwrite(self.last_end.blocks_end(), &tail)?;
        Ok(bytes)
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
        self.losses = [0; LOSS_CAUSES];
        self.flushed = Part::default();
        self.is_dirty = false;
        Ok(())
    }

    /// Takes note of segments that are written.
    fn settle(&mut self) {
        while self.settled < self.slots.written() {
            self.settled += 1;
            self.under_way.pop_front();
            self.last_end = self.ends.pop_front().unwrap_or_else(|| self.last_end.clone());
        }
    }

    fn write_header(&mut self) -> io::Result<()> {
        if let Some(header) = &self.header {
            self.slots.write_header(header)?;
            self.header = None;
        }
        Ok(())
    }

    #[inline]
    fn put(
        &mut self,
        mut push: impl FnMut(&mut SegmentEncoder, &mut [u8]) -> Result<bool, EncodeError>,
    ) -> io::Result<Result<(), EncodeError>> {
        loop {
            match push(&mut self.encoder, self.slots.bytes_mut()) {
                Ok(true) => {
                    self.is_dirty = true;
                    return Ok(Ok(()));
                }
                Ok(false) => self.seal()?,
                Err(error) => return Ok(Err(error)),
            }
        }
    }
}
