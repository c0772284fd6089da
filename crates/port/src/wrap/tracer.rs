//! A line for each packet that passes.

use std::io::{self, Write};
use std::os::fd::BorrowedFd;

use burstline_log::{Burst, Packet, Scratch, Writer};

use super::{Held, append};
use crate::{InterfaceTotals, Lent, Port, PortAccount, PortError, PortInfo, PortState, Received};

/// Writes a line for each packet: direction, number, time, port, length, flags, flow hash.
///
/// A port that cannot lend gets a line for each call of `receive` instead. When a line cannot be
/// written, tracing ends, the packets go on, and a note says so.
pub struct Tracer {
    inner: Box<dyn Port>,
    output: Box<dyn Write + Send>,
    failure: Option<io::Error>,
    scratch: Scratch,
    held: Option<Held>,
    /// Held before, and lent now.
    lent: Option<Held>,
    /// Packets traced on their way in.
    packets: u64,
    /// What it adds to the account of the port inside.
    account: PortAccount,
}

impl Tracer {
    /// Traces what passes `inner` to `output`.
    pub fn new(inner: Box<dyn Port>, output: Box<dyn Write + Send>) -> Self {
        Self {
            inner,
            output,
            failure: None,
            scratch: Scratch::new(),
            held: None,
            lent: None,
            packets: 0,
            account: PortAccount::default(),
        }
    }
}

impl Port for Tracer {
    fn info(&self) -> &PortInfo {
        self.inner.info()
    }

    fn receive(&mut self, writer: &mut Writer, budget: u64) -> Result<Received, PortError> {
        if !self.info().capabilities.can_lend {
            let received = self.inner.receive(writer, budget)?;
            let line = format_args!("receive {} {:?}", received.packets, received.state);
            trace(&mut self.output, &mut self.failure, line);
            return Ok(received);
        }
        let mut packets = 0;
        let mut state = if budget == 0 { PortState::Blocked } else { PortState::Busy };
        while packets < budget {
            if let Some(held) = self.held.take() {
                if !append(writer, &held.bytes, &held.meta, &mut self.account) {
                    self.held = Some(held);
                    return Ok(Received { packets, state: PortState::Blocked });
                }
                packets += 1;
                continue;
            }
            let lent = match self.inner.lend(&mut self.scratch, 1) {
                Ok(lent) => lent,
                // It will say so again.
                Err(_) if packets > 0 => break,
                Err(error) => return Err(error),
            };
            state = lent.state;
            let Some(packet) = lent.burst.packets().next() else { break };
            let line = Line { verb: "receive", number: self.packets, packet: &packet };
            trace(&mut self.output, &mut self.failure, format_args!("{line}"));
            self.packets += 1;
            let meta = packet.meta();
            if !append(writer, packet.bytes(), &meta, &mut self.account) {
                self.held = Some(Held::new(packet.bytes(), meta));
                return Ok(Received { packets, state: PortState::Blocked });
            }
            packets += 1;
            if state != PortState::Busy {
                break;
            }
        }
        Ok(Received { packets, state })
    }

    fn lend<'a>(
        &'a mut self,
        scratch: &'a mut Scratch,
        budget: u64,
    ) -> Result<Lent<'a>, PortError> {
        if let Some(held) = self.held.take_if(|_| budget > 0) {
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

    fn transmit(&mut self, burst: &Burst<'_>) -> Result<u64, PortError> {
        for (packet, number) in burst.packets().zip(burst.first_packet()..) {
            let line = Line { verb: "transmit", number, packet: &packet };
            trace(&mut self.output, &mut self.failure, format_args!("{line}"));
        }
        self.inner.transmit(burst)
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.inner.flush()
    }

    fn tell_gap(&mut self, port: u8, packets: u64) {
        self.inner.tell_gap(port, packets);
    }

    fn set_totals(&mut self, totals: &[InterfaceTotals]) {
        self.inner.set_totals(totals);
    }

    fn finish(&mut self) -> Result<(), PortError> {
        if let Err(error) = self.output.flush() {
            self.failure.get_or_insert(error);
        }
        self.inner.finish()
    }

    fn account(&self) -> PortAccount {
        let mut account = self.inner.account();
        account.in_flight += u64::from(self.held.is_some());
        account.bytes_copied += self.account.bytes_copied;
        account.truncated += self.account.truncated;
        if let Some(error) = &self.failure {
            account.note(|| format!("tracing ended: {error}"));
        }
        account
    }

    fn wait(&self, timeout_ns: u64) -> Option<bool> {
        self.inner.wait(timeout_ns)
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        self.inner.readiness()
    }
}

/// One packet in one line.
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
