//! Back to back into a segment of a log, and a desc beside it: the article's card.
//!
//! What the article's card writes in front of each packet (time, length) is the log's desc here:
//! the same 16 bytes, at the other end of the segment. So the driver finds a worklist, and writes
//! none.

use burstline_log::{Appended, Meta, Writer};

use super::Frame;
use crate::meter::Meter;
use crate::pcie::stride;
use crate::trace::{Trace, Who};

/// The log of one queue.
pub(crate) struct Logs {
    writer: Writer,
    port: u8,
    /// Packets, and bytes with descs, since the last time that they were told of.
    unpublished: u64,
    bytes: u64,
}

impl Logs {
    pub(crate) fn new(writer: Writer, port: u8) -> Self {
        Self { writer, port, unpublished: 0, bytes: 0 }
    }

    pub(super) fn can_take(&self, length: usize) -> bool {
        length <= self.writer.max_packet_bytes()
    }

    #[inline]
    pub(super) fn deliver(&mut self, frame: &Frame<'_>, trace: &mut Option<Trace>) -> bool {
        let mut meta = Meta::new(frame.time_ns, frame.bytes.len() as u32, self.port);
        meta.hash = frame.hash;
        if self.writer.append(frame.bytes, &meta) == Appended::Full {
            return false;
        }
        self.unpublished += 1;
        self.bytes += stride(frame.bytes.len() as u64);
        if let Some(trace) = trace.take() {
            self.tell(frame, &trace);
        }
        true
    }

    /// Lets readers see what was written.
    pub(super) fn publish(&mut self, meter: &mut Meter) {
        if self.unpublished > 0 {
            self.writer.publish();
            meter.run_up(self.unpublished, self.bytes);
            (self.unpublished, self.bytes) = (0, 0);
        }
    }

    #[cold]
    fn tell(&self, frame: &Frame<'_>, trace: &Trace) {
        let (length, hash, time_ns) = (frame.bytes.len(), frame.hash, frame.time_ns);
        let step = |step: &str, what: std::fmt::Arguments<'_>| trace.step(step, Who::Device, what);
        step(
            "4.1.1",
            format_args!("a frame of {length} bytes has come in; no descriptor is needed"),
        );
        step("4.1.2", format_args!("none is fetched: the open segment has room"));
        step("4.1.3", format_args!("desc: length {length}, hash {hash:08x}, time {time_ns} ns"));
        let bytes = stride(length as u64);
        step("4.1.4", format_args!("{bytes} bytes go up behind the packet before, desc included"));
    }
}
