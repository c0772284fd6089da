//! Sending through a log: the device reads packets in place, as far as it is allowed to.

use std::sync::Arc;

use burstline_log::{Appended, Burst, Writer};

use crate::device::Control;
use crate::device::send::Pointers;
use crate::trace::{Trace, Who};

/// The driver's side of a log that a device sends.
pub struct LogTransmitter {
    /// The log to copy into; `None` if another writer fills it.
    writer: Option<Writer>,
    pointers: Arc<Pointers>,
    control: Arc<Control>,
    allowed: u64,
    trace: Option<Trace>,
}

impl LogTransmitter {
    pub(crate) fn new(
        writer: Option<Writer>,
        pointers: Arc<Pointers>,
        control: Arc<Control>,
        trace: Option<Trace>,
    ) -> Self {
        Self { writer, pointers, control, allowed: 0, trace }
    }

    /// Copies packets into the log, as many as fit, and lets the device send them. Returns how
    /// many, and their bytes.
    pub fn copy(&mut self, burst: &Burst<'_>) -> (u64, u64) {
        let Some(writer) = &mut self.writer else { return (0, 0) };
        let (mut packets, mut bytes) = (0, 0);
        for packet in burst.packets() {
            if writer.append(packet.bytes(), &packet.meta()) == Appended::Full {
                break;
            }
            packets += 1;
            bytes += packet.length() as u64;
        }
        writer.publish();
        self.allow(packets);
        (packets, bytes)
    }

    /// Lets the device send this many more packets, which are in the log.
    pub fn allow(&mut self, packets: u64) {
        if packets == 0 {
            return;
        }
        self.allowed += packets;
        if let Some(trace) = self.trace.take() {
            let what = format_args!("{packets} packets of the log may be sent: no descriptor");
            trace.step("4.2.1", Who::Driver, what);
        }
        self.pointers.allow(self.allowed);
        self.control.ring_doorbell();
    }

    /// Returns the packets that the device may send and has not sent.
    pub fn in_flight(&self) -> u64 {
        self.allowed - self.pointers.sent()
    }

    /// Returns the length in bytes of the longest packet that can be copied.
    pub fn longest(&self) -> usize {
        self.writer.as_ref().map_or(0, Writer::max_packet_bytes)
    }
}
