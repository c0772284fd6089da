//! DPDK: its devices, pools and bursts, as far as a port needs them.
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
//! `unsafe` is allowed here, and the crate is empty without its feature `libdpdk`. Most of DPDK's
//! data path is inline functions of C; `shim.c` is the only place that calls them. `offloads.c` has
//! the device offloads, and `untaken.c` inspects the rings of drivers that do not report on them.
//!
//! **EAL**, DPDK's environment, exists once per process and pins the thread that starts it. So it
//! has its own thread, which starts and ends devices. The threads that move packets belong to the
//! caller, which alone pins them. EAL knows them only for the pools' caches. It leaves no files and
//! takes no signals. It logs to us: its last logged errors become the text of our errors.
//!
//! An mbuf belongs to its pool, until a device fills it. Then it belongs to a `Receiver`, from the
//! burst that delivered it to the next call after its packet was delivered. Then it belongs to the
//! device that sends it, which returns it to its pool. A pool therefore lives until all of its
//! mbufs are back, whichever device had them last. Two devices that send each other's packets
//! receive into one pool, if they are alike.
//!
//! Invariants:
//! - I1: lent bytes belong to an mbuf that is held until the borrow ends.
//! - I2: an allocated or received mbuf is freed or sent, once. When the last device is closed,
//!   every pool is full again, and `leaked_mbufs` counts missing ones.
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
mod sockets;
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
