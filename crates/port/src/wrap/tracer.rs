//! Traces each packet in one line.

use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use burstline_log::{Burst, Packet, Scratch, Writer};

use super::{Copying, Held};
use crate::{Lent, LostPackets, Port, PortAccount, PortError, PortInfo, Received, Sink, Source};

/// Writes a line for each packet: direction, number, time, port, length, flags, flow hash.
///
/// When a line cannot be written, tracing ends, packets continue, and a note says so.
pub struct Tracer<P: ?Sized> {
    inner: Box<P>,
    output: Box<dyn Write + Send>,
    failure: Option<io::Error>,
    copying: Copying,
    /// The packet that was held before and is lent now.
    lent: Option<Held>,
    /// Packets traced on input.
    packets: u64,
}

impl<P: Port + ?Sized> Tracer<P> {
    /// Traces the packets of `inner` to `output`.
    pub fn new(inner: Box<P>, output: Box<dyn Write + Send>) -> Self {
        Self { inner, output, failure: None, copying: Copying::default(), lent: None, packets: 0 }
    }
}

impl<P: Port + ?Sized> Port for Tracer<P> {
    fn info(&self) -> &PortInfo {
        self.inner.info()
    }

    fn finish(&mut self) -> Result<(), PortError> {
        if let Err(error) = self.output.flush() {
            self.failure.get_or_insert(error);
        }
        self.inner.finish()
    }

    fn account(&self) -> PortAccount {
        let mut account = self.inner.account();
        self.copying.add_to(&mut account);
        if let Some(error) = &self.failure {
            account.note(|| format!("tracing ended: {error}"));
        }
        account
    }

    fn wait(&self, timeout_ns: u64) -> Option<bool> {
        self.inner.wait(timeout_ns)
    }

    fn may_gather(&self) -> bool {
        self.inner.may_gather()
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        self.inner.readiness()
    }
}

impl<P: Source + ?Sized> Source for Tracer<P> {
    fn files(&self) -> Vec<PathBuf> {
        self.inner.files()
    }

    fn lend<'a>(
        &'a mut self,
        scratch: &'a mut Scratch,
        budget: u64,
    ) -> Result<Lent<'a>, PortError> {
        if let Some(held) = self.copying.held.take_if(|_| budget > 0) {
            return Ok(self.lent.insert(held).lend(scratch, self.packets - 1));
        }
        let lent = self.inner.lend(scratch, budget)?;
        for packet in lent.burst.packets() {
            let line = Line { verb: "lend", number: self.packets, packet: &packet };
            trace(&mut self.output, &mut self.failure, format_args!("{line}"));
            self.packets += 1;
        }
        Ok(lent)
    }

    fn receive(&mut self, writer: &mut Writer, budget: u64) -> Result<Received, PortError> {
        let see = |packet: &Packet<'_>| {
            let line = Line { verb: "receive", number: self.packets, packet };
            trace(&mut self.output, &mut self.failure, format_args!("{line}"));
            self.packets += 1;
        };
        self.copying.receive_seen(&mut *self.inner, writer, budget, see)
    }
}

impl<P: Sink + ?Sized> Sink for Tracer<P> {
    fn transmit(&mut self, burst: &Burst<'_>) -> Result<u64, PortError> {
        for (packet, number) in burst.packets().zip(burst.first_packet()..) {
            let line = Line { verb: "transmit", number, packet: &packet };
            trace(&mut self.output, &mut self.failure, format_args!("{line}"));
        }
        self.inner.transmit(burst)
    }

    fn lost(&self) -> LostPackets {
        self.inner.lost()
    }

    forward_sink!();
}

/// A packet as one line.
struct Line<'a> {
    verb: &'static str,
    number: u64,
    packet: &'a Packet<'a>,
}

impl std::fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { verb, number, packet } = self;
        let desc = packet.desc();
        let (seconds, ns) = (packet.time_ns() / 1_000_000_000, packet.time_ns() % 1_000_000_000);
        write!(f, "{verb} {number} {seconds}.{ns:09} port={}", packet.port())?;
        write!(f, " length={}", packet.length())?;
        if packet.original_length() != packet.length() {
            write!(f, "/{}", packet.original_length())?;
        }
        write!(f, " flags={:#x} flow={:08x}", desc.flags().bits(), desc.hash())
    }
}

fn trace(output: &mut dyn Write, failure: &mut Option<io::Error>, line: std::fmt::Arguments<'_>) {
    if failure.is_none() {
        *failure = writeln!(output, "{line}").err();
    }
}
