//! memif, version 2: packets between two processes by rings in shared memory.
//!
//! ```text
//!   client (slave)                                     server (master)
//!   owns the memory: rings and buffers                 maps it
//!   S2M ring   head ->  packets of the client   -> tail
//!   M2S ring   head ->  buffers of the client   -> tail, filled by the server
//! ```
//!
//! The client moves the heads, the server the tails, of both rings. So a server sees packets to
//! take, or buffers to fill, between tail and head. A client sees the same from the other side:
//! room in the one, packets in the other. The two directions of the two roles are `Lane`s.
//!
//! The peer may write all of the memory at any moment. Descriptors are read once, checked, then
//! used. A client never reads where its own buffers are: it knows that.
//!
//! Read on in this order: `message`, `ring`, `lane`, `server`, `client`, `device`.
//!
//! # Invariants
//! - M1. An index and a descriptor are each read once from the shared memory.
//! - M2. Our index moves by as many slots as were taken or filled.
//! - M3. A malformed message ends the connection, and with it its rings, and nothing else.
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

/// The most pairs of queues.
pub const QUEUES_MAX: u16 = 16;
/// The largest ring, as a power of two. Source: the guide, `rsize`.
pub const LOG2_SLOTS_MAX: u8 = 14;
