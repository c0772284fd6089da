//! vhost-user, device side: a guest's network card whose other end is this program.
//!
//! ```text
//!   guest's driver                                              this program
//!     ring 2q    buffers for packets   <--- ToGuest::put ------ sink       packet thread
//!     ring 2q+1  packets               ---- FromGuest::take --> source     packet thread
//!   QEMU, DPDK   messages on a socket  <--> Session             server     control thread
//! ```
//!
//! A front-end (QEMU, DPDK's virtio-user) tells by messages where the guest's memory and rings are.
//! One control thread for each port carries the messages out and sleeps in between. It puts rings
//! into berths. Packet threads take them from there, for a burst each, and make no system call
//! except to ring a bell that the guest wants rung.
//!
//! The guest is hostile: it may write its memory at any moment. A descriptor is read once into a
//! local value, then checked, then used. A chain has at most as many descriptors as its ring.
//! What is wrong with one chain costs that packet; what is wrong with a ring's index stops the
//! ring. Nothing of it reaches another port.
//!
//! Read on in this order: `message`, `session`, `memory`, `split`, `from_guest`, `to_guest`,
//! `server`, `device`.
//!
//! # Invariants
//! - V1. A descriptor, an index and a header are each read once from the guest's memory.
//! - V2. Packets are copied out of the guest's memory before any code looks at them.
//! - V3. A ring's used index moves by as many chains as were taken from its available ring.
//! - V4. A malformed message ends the connection, and with it all of its rings, and nothing else.
#![forbid(unsafe_code)]

mod device;
mod features;
mod from_guest;
mod memory;
mod message;
mod port;
mod server;
mod session;
mod split;
mod to_guest;
mod vring;

pub use device::{Device, DeviceOptions};
pub use from_guest::FromGuest;
pub use message::{BODY_BYTES_MAX, Fault, HEADER_BYTES, Header, Message};
pub use port::Port;
pub use session::Session;
pub use split::RingFault;
pub use to_guest::ToGuest;

/// The most pairs of queues.
pub const QUEUES_MAX: u16 = 16;
