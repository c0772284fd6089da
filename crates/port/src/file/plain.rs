//! An output of consecutive blocks or records.

use std::io;

use burstline_wire::files::{
    Counters, EncodeError, InterfaceDescription, PacketToWrite, PcapngEncoder, PlainItem, PlainRun,
    SectionDescription,
};
use burstline_wire::headers::LinkType;

use super::Put;
use super::classic::ClassicEncoder;
use super::output::Output;
use super::sink::ClosingCounts;

/// Room for a few of the largest packets.
const BUFFER_BYTES: usize = 1 << 20;

/// The most bytes of the closing counts of an interface.
const CLOSING_BYTES: u64 = 128;

/// The most bytes of an interface's description: a name of up to 256, and other options.
const DESCRIPTION_BYTES: u64 = 320;

/// The format of the blocks.
enum Encoder {
    Pcapng(PcapngEncoder),
    Classic(ClassicEncoder),
}

/// Collects blocks and writes them in order.
pub(super) struct Plain {
    output: Output,
    encoder: Encoder,
    buffer: Vec<u8>,
    filled: usize,
    /// Packets in the buffer.
    buffered: u64,
    /// Packets written.
    kept: u64,
}

impl Plain {
    /// Starts an output; `classic` selects pcap, in nanoseconds or not.
    pub(super) fn new(
        output: Output,
        link: LinkType,
        snapshot_bytes: u32,
        classic: Option<bool>,
        section: &SectionDescription<'_>,
    ) -> Result<Self, EncodeError> {
        let mut buffer = vec![0; BUFFER_BYTES];
        let (encoder, filled) = match classic {
            Some(nanoseconds) => {
                let encoder = ClassicEncoder::new(link, snapshot_bytes, nanoseconds);
                let filled = encoder.header(&mut buffer);
                (Encoder::Classic(encoder), filled)
            }
            None => {
                let mut encoder = PcapngEncoder::new(link, snapshot_bytes);
                let filled = encoder.section(&mut buffer, section)?;
                // A pipe may already have its section header.
                (Encoder::Pcapng(encoder), if output.bytes > 0 { 0 } else { filled })
            }
        };
        Ok(Self { output, encoder, buffer, filled, buffered: 0, kept: 0 })
    }

    pub(super) fn interface(&mut self, interface: &InterfaceDescription<'_>) -> Put {
        self.put(|encoder, out| match encoder {
            Encoder::Pcapng(encoder) => encoder.interface(out, interface).map(Some),
            Encoder::Classic(_) => Ok(None),
        })
    }

    #[inline]
    pub(super) fn packet(&mut self, packet: &PacketToWrite<'_>) -> Put {
        let put = self.put(|encoder, out| match encoder {
            Encoder::Pcapng(encoder) => encoder.packet(out, packet).map(Some),
            Encoder::Classic(encoder) => encoder.packet(out, packet).map(Some),
        })?;
        self.buffered += u64::from(put.is_ok());
        Ok(put)
    }

    /// Adds packets of one interface that need no options, until the buffer has no room.
    #[inline]
    pub(super) fn plain_packets(&mut self, interface: u32, packets: &[PlainItem<'_>]) -> PlainRun {
        let mut run = PlainRun::default();
        for packet in packets {
            let room = &mut self.buffer[self.filled..];
            let filled = match &self.encoder {
                Encoder::Pcapng(encoder) => encoder.plain(room, interface, packet),
                Encoder::Classic(encoder) => encoder.plain(room, packet),
            };
            if filled == 0 {
                break;
            }
            self.filled += filled;
            run.packets += 1;
            run.bytes += packet.bytes.len() as u64;
            run.latest_ns = run.latest_ns.max(packet.time_ns);
        }
        self.buffered += run.packets as u64;
        run
    }

    pub(super) fn statistics(&mut self, interface: u32, time_ns: u64, counters: &Counters) -> Put {
        self.put(|encoder, out| match encoder {
            Encoder::Pcapng(encoder) => {
                encoder.statistics(out, interface, time_ns, counters).map(Some)
            }
            Encoder::Classic(_) => Ok(None),
        })
    }

    /// Writes all buffered blocks.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.filled > 0 {
            self.output.write(&self.buffer[..self.filled])?;
            self.kept += self.buffered;
            (self.filled, self.buffered) = (0, 0);
        }
        Ok(())
    }

    /// Writes all buffered blocks, and the end of the output.
    pub(super) fn end(&mut self) -> io::Result<()> {
        self.flush()?;
        self.output.end()
    }

    /// Returns the size of the file if it ended here; an upper bound for a compressed one.
    pub(super) fn bytes(&self) -> u64 {
        self.output.bytes + self.filled as u64
    }

    /// Returns the most bytes that closing counts will take. They describe `more` interfaces.
    pub(super) fn closing_bytes(&self, more: u64) -> u64 {
        match &self.encoder {
            Encoder::Pcapng(encoder) => {
                let described = CLOSING_BYTES * u64::from(encoder.interfaces());
                described + more * (CLOSING_BYTES + DESCRIPTION_BYTES)
            }
            Encoder::Classic(_) => 0,
        }
    }

    /// Truncates a regular file to `bytes`, after an error.
    pub(super) fn cut(&mut self, bytes: u64) -> io::Result<()> {
        self.output.cut(bytes)
    }

    /// Writes closing counts at the end of a truncated file. Buffered blocks are lost. Returns the
    /// new size of the file.
    pub(super) fn append_closing(&mut self, closing: &[ClosingCounts]) -> io::Result<u64> {
        if self.output.share()?.is_none() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        if self.output.bytes == 0 {
            // The disk was full before the header was written.
            return Err(io::ErrorKind::StorageFull.into());
        }
        if self.output.is_compressed() {
            self.output.go_on();
        }
        (self.filled, self.buffered) = (0, 0);
        for ClosingCounts { interface, time_ns, counters } in closing {
            self.statistics(*interface, *time_ns, counters)?.map_err(io::Error::other)?;
        }
        self.end()?;
        Ok(self.output.bytes)
    }

    /// Returns the number of packets certainly written, and the bytes up to the last of them.
    pub(super) fn kept(&self) -> (u64, u64) {
        (self.kept, self.output.bytes)
    }

    /// Puts a block into the buffer, and flushes the buffer first if it has no room. `write`
    /// returns `None` if there is no block.
    #[inline]
    fn put(
        &mut self,
        mut write: impl FnMut(&mut Encoder, &mut [u8]) -> Result<Option<usize>, EncodeError>,
    ) -> Put {
        loop {
            match write(&mut self.encoder, &mut self.buffer[self.filled..]) {
                Ok(Some(0)) => self.flush()?,
                Ok(bytes) => {
                    self.filled += bytes.unwrap_or(0);
                    return Ok(Ok(()));
                }
                Err(error) => return Ok(Err(error)),
            }
        }
    }
}
