//! A simulated network card with three ways to deliver packets to memory, its driver, and an
//! account of the bus between them.
//!
//! ```text
//!  writeback    | d | d | d |  ring      buffers  [ packet  ] [ packet ]    descriptor and packet
//!                 ^---------- DD --------------------'                      are two writes
//!  inline       | d | d | d |  ring      buffers  [ m packet ] [ m packet ] one write: metadata in
//!                                                                           front, ring untouched
//!  contiguous   a segment of a log       [m packet|m packet ... |desc|desc] one write for many,
//!                                                                           descs by the driver
//! ```
//!
//! No card on the market has all three, so they cannot be compared in hardware. The device is a
//! thread that accesses memory like a card's DMA, so the driver's cost to the host is *measured*.
//! The bus traffic is *computed*, transaction by transaction, from what the device does ([`pcie`]).
//!
//! Ownership: a buffer, or a segment of a log, belongs to the driver or the device, and passes
//! between them by the five edges of `ring`. A buffer that a driver hands on or keeps is a value
//! ([`Part`], [`Kept`]) that cannot be copied. Only `memory` writes through pointers, and its users
//! argue by those edges. `tests/loom.rs` models them.
//!
//! Differences to a card: positions never wrap, so a ring of one descriptor works. A VLAN tag stays
//! in the packet and is also reported. There are no interrupts. Time on the wire stops while the
//! device's thread is off its core for long. Frames of a line arrive in batches of up to 2 us, and
//! the device shows written packets in groups.
//!
//! Read in this order: `descriptor`, `ring`, `memory`, `device`, `driver`, `card`, `pcie`.
//!
//! Invariants of the crate:
//! - N1: arrived = taken by the driver + every named loss + in the FIFO + in memory and not taken.
//! - N2: no input from the wire, and no setting that [`Settings::check`] accepts, panics. A device
//!   whose wire panics dies and reports that: N1 holds, and drivers do not wait. This applies if
//!   panics unwind; the released program aborts on any panic.

mod bus;
mod card;
mod carousel;
mod counters;
pub mod descriptor;
mod device;
mod driver;
pub mod experiment;
mod fifo;
mod line;
pub mod pcie;
#[doc(hidden)]
pub mod ring;
pub mod rss;
mod settings;
mod wire;

use bus::{memory, meter, trace};

pub use card::{Assembly, Card, CardError, Room, Sending, Transmit};
pub use carousel::Carousel;
pub use counters::ReceiveCounts;
pub use device::Device;
pub use driver::{Kept, LogTransmitter, Part, Receiver, Scattered, Transmitter};
pub use memory::HostMemory;
pub use meter::BusAccount;
pub use settings::{Mode, Settings};
pub use trace::Trace;
pub use wire::{Arrived, Wire, WireState};

#[cfg(test)]
mod tests;
