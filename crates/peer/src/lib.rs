//! What two processes share that do not trust each other: memory, a socket, bells.
//!
//! ```text
//!   PeerMemory   a file of the peer, mapped: bytes are copied out and in, words are atomic
//!   Window       a checked part of it, such as a ring
//!   Guard        the peer may cut the file: zeros instead of SIGBUS
//!   Berth        a ring is the control thread's or the packet thread's, never both at a time
//!   Bells        the peer's event descriptors: waited for and rung, never read, never blocking
//!   Socket       UNIX sockets of both kinds, whose messages bring descriptors
//!   Attendant    the control thread: meets peers, one after the other, and hears them
//!   Lanes        the berths of all rings of a device; what packet threads do with a ring
//! ```
//!
//! `vhost` and `memif` are made of these. Both are protocols in which a control thread learns by
//! messages where rings are, and a packet thread works on the rings.
//!
//! # Invariants
//! - P1. No reference to the peer's memory exists, only pointers inside this crate. A byte that is
//!   read may change before it is read again: callers copy once, then check, then use.
//! - P2. Each access is inside the mapping: a [`Window`] or a range that is checked in the call.
//! - P3. Nothing that the peer does with its files or descriptors ends or blocks a thread of
//!   ours that works on packets.

mod attendant;
mod bells;
mod berth;
mod guard;
mod lanes;
mod memory;
mod socket;

pub use attendant::{AttendError, Attendant, Attended, Dialogue, Place};
pub use bells::{Bell, Bells};
pub use berth::Berth;
pub use lanes::{
    Diary, FromPeer, LONGEST, Lane, Lanes, OFFLOAD_BYTES, Put, Refusal, Taken, ToPeer,
};
pub use memory::{PeerMemory, PeerMemoryError, Window, store_then_load};
pub use socket::{Kind, ListenError, Listener, Received, Socket};
