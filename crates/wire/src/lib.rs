//! Parsing, writing and hashing of packets and capture files: pure functions over byte slices.
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
//! - `hash`: Toeplitz as NICs compute it, and a hash that ignores the direction; fragments follow
//!   their flow.
//! - `filter`: classic BPF programs: verifier and interpreter.
//! - `grammar`: numbers, sizes, times and rates in text form; `link_address`: MAC addresses.
//! - `answer`: the reply to the sender of a rejected packet.
//! - `checksum`: the Internet checksum, by parts, and the check of a packet's checksums.
//! - `mark`: a mark in generated packets that shows the receiver what happened to them.
//! - `rewrite`: replaces MAC addresses, VLAN ids and IP addresses, and updates checksums.
//! - `files`: pcap, pcapng and the segmented pcapng of our own recordings.
//!
//! This crate does no I/O and knows no device. It is the boundary where untrusted bytes are parsed,
//! so the invariants hold for any input:
//!
//! - I1: no input panics, overflows or runs in more than linear time.
//! - I2: every returned offset is inside the bytes it was found in.
//! - I3: the per-packet paths allocate nothing.

#![forbid(unsafe_code)]

pub mod answer;
pub mod checksum;
pub mod crc32c;
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
