//! A simulated network card that brings packets to memory in three ways, and a driver that runs for
//! real. There is also an account of the bus between them.
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
//! No card with all three is on the market, so nobody can compare them there. The device is a
//! thread that accesses memory like a card's DMA, so the driver's cost to the host is *measured*.
//! What the bus carries is *computed*, transaction by transaction, from what the device really does
//! ([`pcie`]).
//!
//! Who owns what when: a buffer, or a segment of a log, belongs to the driver or the device, and
//! passes between them by the five edges of `ring`. A buffer that a driver hands on or keeps is a
//! value ([`Part`], [`Kept`]) that cannot be copied. `memory` is the one module that writes by
//! pointers, and its users argue by those edges. `tests/loom.rs` models them.
//!
//! Differences to a card: positions count up for ever, so a ring of one descriptor works. A VLAN
//! tag stays in the packet and is also reported. There are no interrupts. Time on the wire stands
//! still while the device's thread is off its core for long. Frames of a line come in batches of up
//! to 2 us, and the device shows what it wrote some packets at a time.
//!
//! Read on in this order: `descriptor`, `ring`, `memory`, `device`, `driver`, `card`, `pcie`.
//!
//! Invariants of the whole:
//! - N1: arrived = taken by the driver + every named loss + in the FIFO + in memory and not taken.
//! - N2: nothing that the wire brings, and no setting that [`Settings::check`] lets pass, panics. A
//!   device whose wire panics all the same dies, and says so: N1 holds, and drivers wait for
//!   nothing. That is where panics unwind; the program as it is shipped ends by any panic.

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
