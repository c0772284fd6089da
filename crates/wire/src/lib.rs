//! What the bytes of packets mean, and how files hold them: pure functions over byte slices.
//!
//! ```text
//! bytes --headers--> offsets and facts --flow--> which conversation
//!                      |         ^     --hash--> 32 bits that spread conversations over workers
//!                      `-tunnel--'
//! file  --files----> packets with times, and back
//! ```
//!
//! - `headers`: one forward pass over a packet; link, VLAN tags, IPv4, IPv6, transport.
//! - `tunnel`: the packet inside a packet: MPLS, GRE, VXLAN, Geneve, GTP-U and so on.
//! - `flow`: addresses, ports and protocol, in either direction.
//! - `hash`: Toeplitz as NICs compute it, and a hash that does not see the direction; fragments
//!   follow their flow.
//! - `filter`: classic BPF programs, checked and run: is this packet wanted?
//! - `grammar`: numbers, sizes, times and rates, as people type them; `link_address`: six bytes.
//! - `answer`: the reply to the sender of a rejected packet.
//! - `checksum`: the Internet checksum, by parts; whether a packet's own hold.
//! - `mark`: what a generated packet carries, so that its receiver can tell what happened to it.
//! - `rewrite`: other link addresses, VLAN and IP addresses, with checksums kept as they were.
//! - `files`: pcap, pcapng and the segmented pcapng of our own recordings.
//!
//! This crate does no I/O and knows no device. It is the boundary where untrusted bytes become
//! facts, so everything here holds for any input:
//!
//! - I1: no input panics, overflows or runs in more than linear time.
//! - I2: every offset handed out lies inside the bytes it was found in.
//! - I3: the per-packet paths allocate nothing.

#![forbid(unsafe_code)]

pub mod answer;
pub mod checksum;
pub mod ethernet;
pub mod files;
pub mod filter;
pub mod flow;
pub mod grammar;
pub mod hash;
pub mod headers;
pub mod link_address;
pub mod mark;
pub mod rewrite;
pub mod tunnel;
