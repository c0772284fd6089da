//! An output in segments.
//!
//! ```text
//!  slot    0        1          2            3
//!  file  | header | sealed   | sealed     | open: written by a flush, again when it is sealed |
//! ```
//!
//! A segment is written when it is full. A flush writes the open one into its slot as it is; it is
//! written there again later. When a write fails, the file is cut behind the last block that an
//! earlier write brought: blocks of a slot never change, so a torn second write spoils none.

use std::io;

use burstline_sys::direct::{AlignedBuffer, OutputFile};
use burstline_wire::files::{
    Counters, EncodeError, InterfaceDescription, LOSS_CAUSES, LossCause, PacketToWrite, PlainRun,
    SectionDescription, SegmentEncoder, SegmentIndex,
};
use burstline_wire::hash::HashKind;
use burstline_wire::headers::LinkType;

use super::layout::source;

/// Gathers segments and writes each into its slot.
pub(super) struct Segmented {
    output: OutputFile,
    encoder: SegmentEncoder,
    segment: AlignedBuffer,
    losses: [u64; LOSS_CAUSES],
    /// Whether the open segment has blocks that were not written yet.
    is_dirty: bool,
    /// Packets in sealed segments.
    sealed: u64,
    /// Packets of the open segment that a flush has written, and where their blocks end in it.
    flushed: (u64, u64),
}

impl Segmented {
    /// Writes the header segment, with the description of the first interface.
    pub(super) fn start(
        output: OutputFile,
        mut encoder: SegmentEncoder,
        section: &SectionDescription<'_>,
        interface: &InterfaceDescription<'_>,
    ) -> io::Result<Self> {
        let mut segment = AlignedBuffer::new(encoder.segment_bytes())?;
        let first = std::slice::from_ref(interface);
        encoder.header(&mut segment, section, first).map_err(io::Error::other)?;
        let losses = [0; LOSS_CAUSES];
        let mut this =
            Self { output, encoder, segment, losses, is_dirty: false, sealed: 0, flushed: (0, 0) };
        if let Err(error) = this.write() {
            this.cut();
            return Err(error);
        }
        this.encoder.advance();
        Ok(this)
    }

    pub(super) fn encoder(
        segment_bytes: usize,
        link: LinkType,
        snapshot_bytes: u32,
        hash: HashKind,
    ) -> SegmentEncoder {
        SegmentEncoder::new(segment_bytes, link, snapshot_bytes, hash, 0)
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
        self.losses[LossCause::Miss as usize] += packet.drops_before;
        self.put(|encoder, segment| encoder.push(segment, packet))
    }

    /// Packets of one interface that have nothing special about them, until one does not fit.
    #[inline]
    pub(super) fn plain_packets<'a>(
        &mut self,
        interface: u32,
        packets: impl Iterator<Item = (&'a [u8], u64)>,
    ) -> PlainRun {
        let run = self.encoder.push_plain(&mut self.segment, interface, packets);
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

    /// Counts packets that the sink discards.
    pub(super) fn count_drop(&mut self) {
        self.losses[LossCause::Drop as usize] += 1;
    }

    /// Writes the open segment into its slot, as it is.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if !self.is_dirty {
            return Ok(());
        }
        self.encoder.finish(&mut self.segment, &self.losses);
        self.write()?;
        self.is_dirty = false;
        let end = SegmentIndex::parse(&self.segment).map_err(io::Error::other)?;
        self.flushed = (self.encoder.packets().into(), end.trailer().blocks_end.into());
        Ok(())
    }

    /// Packets surely written, and the bytes up to the last of them.
    pub(super) fn kept(&self) -> (u64, u64) {
        let (packets, end) = self.flushed;
        (self.sealed + packets, self.encoder.file_offset() + end)
    }

    /// Ends the file behind what is surely written, after an error.
    pub(super) fn cut(&mut self) {
        // As well as it goes: the error before is the one to tell.
        let _ = self.output.set_len(self.kept().1);
    }

    fn seal(&mut self) -> io::Result<()> {
        self.encoder.finish(&mut self.segment, &self.losses);
        self.write()?;
        self.sealed += u64::from(self.encoder.packets());
        self.encoder.advance();
        self.losses = [0; LOSS_CAUSES];
        self.flushed = (0, 0);
        self.is_dirty = false;
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        let offset = self.encoder.file_offset();
        self.output.write_all_at(&self.segment, offset).map_err(source)
    }

    #[inline]
    fn put(
        &mut self,
        mut push: impl FnMut(&mut SegmentEncoder, &mut [u8]) -> Result<bool, EncodeError>,
    ) -> io::Result<Result<(), EncodeError>> {
        loop {
            match push(&mut self.encoder, &mut self.segment) {
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
