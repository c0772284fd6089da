//! AF_XDP: receives packets from a driver's receive queue, in frames of our own memory.
//!
//! ```text
//!   UMEM     | frame 0 | frame 1 | frame 2 | ...           | gather |   one region, huge pages
//!
//!             free frames                      packets
//!   us  ------- fill ring ------> kernel ------ rx ring ------> us       receive
//!   us  ------- tx ring  ------> kernel - completion ring ----> us       transmit
//! ```
//!
//! A [`Socket`] receives from one queue of one interface, a [`Sender`] sends on one. The kernel
//! takes a frame from the fill ring, puts a packet into it and reports it in the rx ring. From then
//! until [`Socket::release`] the frame is *held*: it is ours, and nothing writes it. A packet
//! longer than a frame comes in several frames. They are joined in the gather area behind the
//! frames, so every packet is contiguous.
//!
//! Packets arrive only if an XDP program redirects them here: [`Redirect`], by [`crate::bpf`].
//!
//! Ownership: a frame is in the fill ring (the kernel's), held (ours, read only), free (ours), or
//! in the tx ring (the kernel's, to read). Receiving and sending are two values, each with its
//! rings and frames, because each direction of traffic belongs to one thread. The two directions
//! between a pair of interfaces share nothing.
//!
//! # Invariants
//! - X1. A frame number is in exactly one of these places: fill ring or kernel, held, free, tx ring
//!   or kernel. `held` has a bit for each frame; [`Umem::bytes`] refers only to held frames.
//! - X2. Every address and length from the kernel is checked against the UMEM before use. If one is
//!   outside, or names a frame that is not the kernel's, the socket stops reading.
//! - X3. The identity of the kernel's counters: redirected here = taken + in the rx ring +
//!   `rx_dropped` + `rx_ring_full`. `fill_ring_empty` counts some of `rx_dropped` a second time.
//! - X4. Nothing outlives the socket: it has no name and no file.
//!
//! Source: Documentation/networking/af_xdp.rst; net/xdp/xsk.c, xsk_queue.h and
//! include/uapi/linux/if_xdp.h of Linux 6.18.

// Under Miri nothing calls the kernel half of this crate.
#![cfg_attr(miri, allow(dead_code))]

pub mod bpf;
mod end;
mod error;
mod fill;
mod frames;
pub mod inject;
mod interface;
mod options;
mod outgoing;
mod passage;
mod redirect;
mod ring;
mod sender;
mod setup;
mod socket;
mod system;
#[cfg(all(test, not(miri)))]
mod tests;
mod umem;

pub use end::{QueueEnd, SocketStatistics};
pub use error::XdpError;
pub use fill::RingsNow;
pub use interface::XdpInterface;
pub use options::{Copying, SenderOptions, SocketOptions};
pub use outgoing::SenderCounts;
pub use passage::{Census, Fate, Passage, PassageOptions, Passed};
pub use redirect::{AddedCounts, QueueCounts, QueueSlot, Redirect, RedirectOptions};
pub use sender::Sender;
pub use socket::{Received, Socket};
pub use umem::{GATHER_BYTES, Umem};
