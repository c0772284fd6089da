//! vhost-user, device side: a guest's network card that is connected to this program.
//!
//! ```text
//!   guest's driver                                              this program
//!     ring 2q    buffers for packets   <--- ToGuest::put ------ sink       packet thread
//!     ring 2q+1  packets               ---- FromGuest::take --> source     packet thread
//!   QEMU, DPDK   messages on a socket  <--> Session             server     control thread
//! ```
//!
//! A front-end (QEMU, DPDK's virtio-user) sends messages that say where the guest's memory and
//! rings are. Each port has a control thread, which handles the messages and otherwise sleeps. It
//! puts rings into berths. Packet threads take them from there, for a burst each. They make no
//! system call except to ring a bell that the guest requested.
//!
//! The guest is hostile: it may write its memory at any moment. A descriptor is read once into a
//! local value, then checked, then used. A chain has at most as many descriptors as its ring. A
//! fault in a chain costs that packet; a fault in a ring's index stops the ring. No fault affects
//! another port.
//!
//! Reading order: `message`, `session`, `memory`, `split`, `from_guest`, `to_guest`, `server`,
//! `device`.
//!
//! # Invariants
//! - V1. Each descriptor, index and header is read once from the guest's memory.
//! - V2. Packets are copied out of the guest's memory before any code inspects them.
//! - V3. A ring's used index moves by the number of chains taken from its available ring.
//! - V4. A malformed message ends only its connection, with all rings of that connection.
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

/// The most queue pairs.
pub const QUEUES_MAX: u16 = 16;
