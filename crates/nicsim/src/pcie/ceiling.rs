//! Computes the packet rate at which a bus or the wire is full.

use super::{Batch, Bus, Direction, Work};
use crate::Mode;

/// Bytes that a packet takes on the wire in addition to its own: FCS 4, preamble 8, gap 12.
/// Source: IEEE 802.3, 3.1.1 and 4.4.2.
const WIRE_BYTES: f64 = 24.0;

/// Rate of an Ethernet link in bit/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EthernetRate(pub f64);

impl EthernetRate {
    /// Returns the packets of `length` bytes without FCS that fill it per second.
    #[must_use]
    pub fn packets_per_s(&self, length: u64) -> f64 {
        self.0 / ((length as f64 + WIRE_BYTES) * 8.0)
    }
}

/// The limit of a bus.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceiling {
    /// Packets per second.
    pub packets_per_s: f64,
    /// The direction that is full at that rate.
    pub full: Direction,
    /// Bytes per packet upstream.
    pub up_bytes: f64,
    /// Bytes per packet downstream.
    pub down_bytes: f64,
}

impl Ceiling {
    /// Returns this rate on an Ethernet link, in bit/s with FCS, preamble and gap.
    #[must_use]
    pub fn line_bits_per_s(&self, length: u64) -> f64 {
        self.packets_per_s * (length as f64 + WIRE_BYTES) * 8.0
    }
}

/// Returns the rate of packets of `length` bytes without FCS that fills one direction of the bus.
#[must_use]
pub fn ceiling(bus: &Bus, batch: &Batch, mode: Mode, work: Work, length: u64) -> Ceiling {
    let (up_bytes, down_bytes) = batch.bytes_a_packet(bus, mode, work, length);
    let is_up = up_bytes >= down_bytes;
    let full = if is_up { Direction::Up } else { Direction::Down };
    let packets_per_s = bus.bytes_per_s() / up_bytes.max(down_bytes);
    Ceiling { packets_per_s, full, up_bytes, down_bytes }
}
