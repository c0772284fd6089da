//! Counts the bus traffic per packet in two ways, and computes the bus's limit.
//!
//! ```text
//!   device --- up:   packets, descriptors written back, read requests, pointers ---> host
//!   device <-- down: requested descriptors and packets, doorbells -------------------- host
//!
//!   a TLP:  | framing | header |  payload, at most `max payload`  | LCRC |
//! ```
//!
//! Nothing runs here: these are functions of a length and of the parameters of a bus.
//! [`PaperRules`] counts as the paper on Minimum-Overhead DMA does: only the upstream traffic, each
//! TLP padded to 64 bytes. [`Bus`] counts everything that the simulated device does, in both
//! directions; a [`Ceiling`] is the rate at which the fuller direction is full.
//!
//! Not counted, but deducted from the bus's rate as a share: flow control and acknowledgements
//! (DLLPs), whose number depends on the chipset. Not modelled: credits, latency, a host slower than
//! its bus.
//!
//! Invariants:
//! - P1: no payload is larger than the max payload, no read request larger than the max request.
//! - P2: the bytes of a [`Cost`] are payload + padding + its TLPs' headers and framing.

mod bus;
mod ceiling;
mod link;
mod paper;
mod work;

pub use bus::{Bus, BusError, Cost, Direction};
pub use ceiling::{Ceiling, EthernetRate, ceiling};
pub use link::{Generation, Link};
pub use paper::PaperRules;
pub use work::{Batch, Entry, Kind, Work};

/// Bytes of a descriptor, and of the metadata before a packet.
/// Source: Intel 82599 Datasheet, 7.1.6 and 7.2.3.
pub const DESCRIPTOR_BYTES: u64 = 16;

/// Returns the bytes that a packet of `length` takes in a contiguous buffer: head and packet,
/// aligned.
#[must_use]
pub fn stride(length: u64) -> u64 {
    DESCRIPTOR_BYTES + length.next_multiple_of(16)
}

#[cfg(test)]
mod tests;
