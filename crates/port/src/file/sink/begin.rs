//! Begins a file with its first interface.

use std::io;

use burstline_wire::files::{InterfaceDescription, SectionDescription};

use super::super::layout::{Format, Target};
use super::super::plain::Plain;
use super::super::segmented::Segmented;
use super::super::segmented::slots::{self, Slots};
use super::super::zstd::packed::Packer;
use super::{Body, FileSink, section};

impl FileSink {
    /// Starts the file with its first interface.
    pub(super) fn start(&mut self, interface: &InterfaceDescription<'_>) -> io::Result<()> {
        let comment = self.take_comment();
        let section = section(&comment);
        let (link, snapshot_bytes) = (interface.link, self.snapshot_bytes);
        // `Closed` remains if a step below fails.
        let bytes = self.layout.segment_bytes;
        let begun = match std::mem::replace(&mut self.body, Body::Closed) {
            Body::Opened(Target::Segments(output)) => {
                let queue = self.queue.take().map_or_else(|| slots::queue(bytes), Ok)?;
                self.segmented(Slots::Placed { output, queue }, &section, interface)?
            }
            Body::Opened(Target::Stream(output)) if self.layout.format == Format::Segmented => {
                self.segmented(Slots::Packed(Packer::new(output, bytes)), &section, interface)?
            }
            Body::Opened(Target::Stream(output)) => {
                let classic = match self.layout.format {
                    Format::Classic { nanoseconds } => Some(nanoseconds),
                    _ => None,
                };
                let is_file = output.share()?.is_some() && !output.is_compressed();
                let body = Plain::new(output, link, snapshot_bytes, classic, &section);
                let mut body = body.map_err(io::Error::other)?;
                body.interface(interface)?.map_err(io::Error::other)?;
                // This takes a block of the disk. If the disk is full later, the closing counts
                // still fit into it. And if the recorder is killed, all tools can open the file.
                if is_file {
                    body.flush()?;
                }
                Body::Plain(Box::new(body))
            }
            begun => begun,
        };
        (self.body, self.link) = (begun, link);
        Ok(())
    }

    /// Creates a segmented body on these slots.
    fn segmented(
        &self,
        slots: Slots,
        section: &SectionDescription<'_>,
        interface: &InterfaceDescription<'_>,
    ) -> io::Result<Body> {
        let first = self.first_packet + self.accepted_before;
        let bytes = self.layout.segment_bytes;
        let encoder = Segmented::encoder(bytes, interface.link, self.snapshot_bytes, first);
        let is_compact = !self.layout.keeps_segments;
        let body = Segmented::start(slots, encoder, section, interface, is_compact)?;
        Ok(Body::Segmented(Box::new(body)))
    }
}
