//! DPDK: its devices, pools and bursts, as much of them as a port needs.
//!
//! ```text
//!                    control thread (EAL's main lcore, keeps its rights)
//!   Device::open ──► probe ► configure ► pool ► start          close ► stop ► remove ► pools full?
//!
//!   device ──rx burst──► Receiver: held mbufs ──lend──► Burst over them, no copy
//!                            │          └──bytes──────► a log, one copy
//!                            └──forward──► Exit ──tx burst──► another device, no copy
//!   bytes ──► Sender: fresh mbufs ──► Exit
//! ```
//!
//! `unsafe` is allowed here, and the crate does nothing without its feature `libdpdk`. Most of
//! DPDK's data path is inline functions of C; `shim.c` is the only place that calls them.
//! `offloads.c` has what a device can do besides moving packets, and `untaken.c` looks into rings
//! that drivers do not tell about.
//!
//! **EAL**, DPDK's environment, exists once a process and pins the thread that starts it. So it has
//! its own thread, which starts and ends devices. The threads that move packets belong to the
//! caller, which alone pins them. EAL knows them only for the pools' caches. It leaves no files and
//! takes no signals. It logs to us: the last errors it logged become the text of our errors.
//!
//! Who owns an mbuf: the pool, until a device fills it. Then a `Receiver`, from the burst that
//! brought it to the next call after its packet was delivered. Then the device that sends it, which
//! gives it back to the pool it came from. A pool therefore lives until all of its mbufs are back,
//! whichever device had them last. Two devices that send each other's packets receive into one
//! pool, where they are alike.
//!
//! Invariants:
//! - I1: bytes that are lent belong to an mbuf that is held until the borrow ends.
//! - I2: an mbuf that was allocated or received is freed or sent, once. When the last device is
//!   closed, every pool is full again, and `leaked_mbufs` counts what is missing.
//! - I3: a queue of a device belongs to one `Receiver`, or one `Exit`.
#![cfg(feature = "libdpdk")]

mod devargs;
mod device;
mod environment;
mod error;
mod ffi;
mod kernel;
mod marks;
mod offloads;
mod options;
mod pool;
mod receiver;
mod sender;
mod statistics;

use environment::{drivers, eal, log_text, thread};

pub use device::{Device, DeviceFacts, DeviceRequest};
pub use drivers::{PciDriver, pci_drivers, version};
pub use eal::{EalOptions, start_eal};
pub use error::DpdkError;
pub use marks::Marks;
pub use offloads::{Offloads, Spreading};
pub use options::{DeviceOptions, RSS_KEY_BYTES, Rss};
pub use pool::leaked_mbufs;
pub use receiver::{BURST_MOST, Plain, Receiver};
pub use sender::{Exit, SENT_AT_ONCE, Sender};
pub use statistics::Statistics;
