//! The rate at which a bus is full, or the wire.

use super::{Batch, Bus, Direction, Work};
use crate::Mode;

/// Bytes that a packet takes on the wire beside its own: FCS 4, preamble 8, gap 12.
/// Source: IEEE 802.3, 3.1.1 and 4.4.2.
const WIRE_BYTES: f64 = 24.0;

/// Bits a second of an Ethernet link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EthernetRate(pub f64);

impl EthernetRate {
    /// Packets a second that fill it, of `length` bytes without FCS.
    #[must_use]
    pub fn packets_per_s(&self, length: u64) -> f64 {
        self.0 / ((length as f64 + WIRE_BYTES) * 8.0)
    }
}

/// Where a bus ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceiling {
    /// Packets a second.
    pub packets_per_s: f64,
    /// Which direction is full then.
    pub full: Direction,
    /// Bytes a packet that go up.
    pub up_bytes: f64,
    /// Bytes a packet that go down.
    pub down_bytes: f64,
}

impl Ceiling {
    /// This rate on an Ethernet link, in bits a second with FCS, preamble and gap.
    #[must_use]
    pub fn line_bits_per_s(&self, length: u64) -> f64 {
        self.packets_per_s * (length as f64 + WIRE_BYTES) * 8.0
    }
}

/// The rate of packets of `length` bytes, without FCS, that fills one direction of the bus.
#[must_use]
pub fn ceiling(bus: &Bus, batch: &Batch, mode: Mode, work: Work, length: u64) -> Ceiling {
    let (up_bytes, down_bytes) = batch.bytes_a_packet(bus, mode, work, length);
    let is_up = up_bytes >= down_bytes;
    let full = if is_up { Direction::Up } else { Direction::Down };
    let packets_per_s = bus.bytes_per_s() / up_bytes.max(down_bytes);
    Ceiling { packets_per_s, full, up_bytes, down_bytes }
}
