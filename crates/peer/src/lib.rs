//! Memory, sockets and events shared by two processes that do not trust each other.
//!
//! ```text
//!   PeerMemory   a file of the peer, mapped: bytes are copied out and in, words are atomic
//!   Window       a checked part of it, such as a ring
//!   Guard        the peer may truncate the file: zeros instead of SIGBUS
//!   Berth        a ring belongs to the control thread or the packet thread, never to both
//!   Bells        the peer's event descriptors: waited for and rung, never read, never blocking
//!   Socket       UNIX sockets of both kinds, whose messages carry descriptors
//!   Attendant    the control thread: accepts peers, one after the other, and handles messages
//!   Lanes        the berths of all rings of a device; operations of packet threads on a ring
//! ```
//!
//! `vhost` and `memif` are built from these. In both protocols, a control thread receives messages
//! that say where rings are, and a packet thread works on the rings.
//!
//! # Invariants
//! - P1. No reference to the peer's memory exists, only pointers inside this crate. A byte may
//!   change between two reads: callers copy once, then check, then use.
//! - P2. Each access is inside the mapping: a [`Window`] or a range that is checked in the call.
//! - P3. Nothing that the peer does with its files or descriptors ends or blocks a packet thread.

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
