//! The transmit side of the device: moves packets from memory to the wire.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

use burstline_log::Reader;
use burstline_sys::clock;

use crate::descriptor::{Outgoing, SENT};
use crate::line::Line;
use crate::memory::HostMemory;
use crate::meter::Meter;
use crate::pcie::stride;
use crate::ring::Ring;
use crate::trace::{Trace, Who};
use crate::wire::Wire;

/// Packets per step.
const BATCH: u64 = 64;

/// The transmit queue, and its line.
pub(crate) struct Sender {
    way: Way,
    line: Line,
    trace: Option<Trace>,
}

enum Way {
    Ring(SendRing),
    Log(SendLog),
}

struct SendRing {
    ring: Arc<Ring>,
    /// The memory with the packets, possibly another card's.
    memory: Arc<HostMemory>,
    next: u32,
    /// The pieces so far of a packet with several.
    joined: Vec<u8>,
}

struct SendLog {
    reader: Box<Reader>,
    pointers: Arc<Pointers>,
    sent: u64,
}

/// Up to which packet of a log the driver lets the device send, and the device's position.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Pointers {
    /// Written by the driver: the doorbell.
    allowed: AtomicU64,
    /// Written by the device.
    sent: AtomicU64,
}

impl Pointers {
    pub(crate) fn allow(&self, packets: u64) {
        self.allowed.store(packets, Release); // E1
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Acquire) // E3
    }
}

impl Sender {
    pub(crate) fn ring(
        ring: Arc<Ring>,
        memory: Arc<HostMemory>,
        line: Option<f64>,
        trace: Option<Trace>,
    ) -> Self {
        let way = Way::Ring(SendRing { ring, memory, next: 0, joined: Vec::new() });
        Self { way, line: Line::new(line), trace }
    }

    pub(crate) fn log(
        reader: Box<Reader>,
        pointers: Arc<Pointers>,
        line: Option<f64>,
        trace: Option<Trace>,
    ) -> Self {
        let way = Way::Log(SendLog { reader, pointers, sent: 0 });
        Self { way, line: Line::new(line), trace }
    }

    /// Sends a batch. Returns whether there was anything to send.
    pub(crate) fn step(&mut self, wire: &mut dyn Wire, meter: &mut Meter) -> bool {
        let now_ns = if self.line.is_timed() { clock::monotonic_ns() } else { 0 };
        let due = self.line.due(now_ns, BATCH);
        let sent = match &mut self.way {
            _ if due == 0 => return false,
            Way::Ring(ring) => ring.send(due, wire, &mut self.line, meter, &mut self.trace),
            Way::Log(log) => log.send(due, wire, &mut self.line, meter, &mut self.trace),
        };
        sent > 0
    }
}

impl SendRing {
    fn send(
        &mut self,
        most: u64,
        wire: &mut dyn Wire,
        line: &mut Line,
        meter: &mut Meter,
        trace: &mut Option<Trace>,
    ) -> u64 {
        // E1: descriptors below the tail are written, and the device may read their packets.
        let posted = self.ring.tail.read().wrapping_sub(self.next);
        let wanted = posted.min(self.ring.len()).min(most as u32);
        if wanted == 0 {
            return 0;
        }
        meter.fetched(wanted.into());
        let ring = Arc::clone(&self.ring);
        for number in 0..wanted {
            let slot = ring.slot(self.next);
            let piece = Outgoing::read(slot.words());
            if let Some(trace) = trace.as_ref() {
                tell(&piece, self.next, wanted, trace);
            }
            self.take(&piece, wire, line, meter);
            if piece.reports {
                slot.store([0, SENT]); // E2
                meter.written_back();
            }
            self.next = self.next.wrapping_add(1);
            if piece.is_last
                && let Some(trace) = trace.take()
            {
                let told =
                    if piece.reports { "DD is written back" } else { "nothing is written back" };
                let step =
                    format_args!("it leaves on the port; {told} (number {number} of the batch)");
                trace.step("4.2.6", Who::Device, step);
            }
        }
        self.ring.head.write(self.next); // E3
        wanted.into()
    }

    fn take(&mut self, piece: &Outgoing, wire: &mut dyn Wire, line: &mut Line, meter: &mut Meter) {
        let length = usize::from(piece.length);
        meter.piece_down(length);
        // SAFETY: the driver does not touch a buffer from the doorbell until it learns that the
        // device has passed its descriptor (D1).
        let bytes = unsafe { self.memory.bytes(piece.address, length) };
        if !piece.is_last {
            self.joined.extend_from_slice(bytes);
            return;
        }
        meter.account.sent += 1;
        if self.joined.is_empty() {
            line.advance(1, bytes.len() as u64);
            return wire.depart(bytes);
        }
        self.joined.extend_from_slice(bytes);
        line.advance(1, self.joined.len() as u64);
        wire.depart(&self.joined);
        self.joined.clear();
    }
}

impl SendLog {
    fn send(
        &mut self,
        most: u64,
        wire: &mut dyn Wire,
        line: &mut Line,
        meter: &mut Meter,
        trace: &mut Option<Trace>,
    ) -> u64 {
        let allowed = self.pointers.allowed.load(Acquire) - self.sent; // E1
        if allowed == 0 || self.reader.take_up_to(allowed.min(most)) == 0 {
            return 0;
        }
        let Some(burst) = self.reader.taken() else { return 0 };
        let (packets, mut bytes) = (burst.len() as u64, 0);
        for packet in burst.packets() {
            if let Some(trace) = trace.take() {
                tell_of_log(packet.length(), packets, &trace);
            }
            bytes += stride(packet.length() as u64);
            line.advance(1, packet.length() as u64);
            wire.depart(packet.bytes());
        }
        self.sent += packets;
        meter.run_down(packets, bytes);
        self.pointers.sent.store(self.sent, Release); // E3
        packets
    }
}

#[cold]
fn tell(piece: &Outgoing, position: u32, fetched: u32, trace: &Trace) {
    let step = |step: &str, what: std::fmt::Arguments<'_>| trace.step(step, Who::Device, what);
    let (address, length) = (piece.address, piece.length);
    step(
        "4.2.2",
        format_args!("the tail has moved: descriptors from position {position} on are requested"),
    );
    step("4.2.3", format_args!("{fetched} descriptors come down"));
    step("4.2.4", format_args!("{length} bytes at {address:#x} are requested"));
    step("4.2.5", format_args!("{length} bytes come down into the FIFO"));
}

#[cold]
fn tell_of_log(length: usize, packets: u64, trace: &Trace) {
    let step = |step: &str, what: std::fmt::Arguments<'_>| trace.step(step, Who::Device, what);
    step(
        "4.2.2",
        format_args!("{packets} packets of the log may be sent: no descriptor is requested"),
    );
    step("4.2.3", format_args!("the worklist comes down, 16 bytes a packet"));
    step("4.2.4", format_args!("the packets are requested, in one run of bytes"));
    step("4.2.5", format_args!("{length} bytes of the first come down into the FIFO"));
    step(
        "4.2.6",
        format_args!("it leaves on the port; the pointer moves on, nothing is written back"),
    );
}
