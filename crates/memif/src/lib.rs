//! memif, version 2: exchanges packets between two processes through rings in shared memory.
//!
//! ```text
//!   client (slave)                                     server (master)
//!   owns the memory: rings and buffers                 maps it
//!   S2M ring   head ->  packets of the client   -> tail
//!   M2S ring   head ->  buffers of the client   -> tail, filled by the server
//! ```
//!
//! The client moves the heads of both rings, the server the tails. So between tail and head, a
//! server sees packets to take, or buffers to fill. The client sees the complement: free slots in
//! the one, packets in the other. The two directions of the two roles are `Lane`s.
//!
//! The peer may write all of the memory at any moment. Descriptors are read once, checked, then
//! used. A client never reads the location of its own buffers from the ring, because it knows it.
//!
//! Reading order: `message`, `ring`, `lane`, `server`, `client`, `device`.
//!
//! # Invariants
//! - M1. Each index and each descriptor is read once from the shared memory.
//! - M2. Our index moves by the number of slots taken or filled.
//! - M3. A malformed message ends only its connection, and the rings of that connection.
//!
//! Source: DPDK's drivers/net/memif/memif.h and its guide, "Memif Poll Mode Driver".
#![forbid(unsafe_code)]

mod client;
mod device;
mod lane;
mod message;
mod port;
mod ring;
mod server;

pub use device::{Device, DeviceOptions};
pub use lane::{FromPeer, ToPeer};
pub use message::{Fault, MESSAGE_BYTES, Message};
pub use port::Port;
pub use server::ServerSession;

/// The most queue pairs.
pub const QUEUES_MAX: u16 = 16;
/// The largest ring, as a power of two. Source: the guide, `rsize`.
pub const LOG2_SLOTS_MAX: u8 = 14;
