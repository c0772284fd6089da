//! A hash that ignores the direction: the two ends are put in order, then mixed.
//!
//! An end is its address and port together. So the different flows `a:1 > b:2` and `a:2 > b:1` stay
//! different (an XOR of the fields would be the same for both). The mixing step is a 64 by 64 bit
//! multiplication whose two halves are XORed, as in the public-domain wyhash.

use crate::headers::Ports;

// Odd numbers without structure: the fractional parts of the square roots of 2, 3, 5 and 7 in 64
// bits, the last bit set.
const K0: u64 = 0x6a09_e667_f3bc_c909;
const K1: u64 = 0xbb67_ae85_84ca_a73b;
const K2: u64 = 0x3c6e_f372_fe94_f82b;
const K3: u64 = 0xa54f_f53a_5f1d_36f1;

/// Hashes an IPv4 flow; `addresses` are source and destination as in the packet.
#[inline(always)]
pub(super) fn ipv4(addresses: [u8; 8], ports: Option<Ports>, protocol: u8) -> u32 {
    let addresses = u64::from_be_bytes(addresses);
    let (source_port, destination_port) = split(ports);
    let source = (addresses >> 32) << 16 | source_port;
    let destination = (addresses & 0xffff_ffff) << 16 | destination_port;
    finish(ordered_mix(source, destination), u64::from(protocol))
}

/// Hashes an IPv6 flow; `addresses` are source and destination as in the packet.
#[inline]
pub(super) fn ipv6(addresses: [u8; 32], ports: Option<Ports>, protocol: u8) -> u32 {
    let (words, _) = addresses.as_chunks::<8>();
    let [s0, s1, d0, d1] = [words[0], words[1], words[2], words[3]].map(u64::from_be_bytes);
    let (source_port, destination_port) = split(ports);
    let (source, destination) = ((s0, s1, source_port), (d0, d1, destination_port));
    let (low, high) =
        if source <= destination { (source, destination) } else { (destination, source) };
    let addresses = mix(low.0 ^ K0, low.1 ^ K1).rotate_left(32) ^ mix(high.0 ^ K2, high.1 ^ K3);
    finish(addresses, low.2 << 24 | high.2 << 8 | u64::from(protocol))
}

/// Hashes an Ethernet frame that is not IP; `macs` are destination and source as in the frame.
#[inline]
pub(super) fn ethernet(macs: [u8; 12], ether_type: u16) -> u32 {
    let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5] = macs;
    let destination = u64::from_be_bytes([0, 0, d0, d1, d2, d3, d4, d5]);
    let source = u64::from_be_bytes([0, 0, s0, s1, s2, s3, s4, s5]);
    finish(ordered_mix(source, destination), u64::from(ether_type))
}

/// Hashes a list of VLAN ids; their order matters.
#[inline]
pub(super) fn vlans(numbers: impl Iterator<Item = u16>) -> u32 {
    finish(numbers.fold(K0, |hash, number| mix(hash ^ u64::from(number), K1)), 0)
}

/// Hashes the identity of a datagram, with direction, for the fragment table.
#[inline]
pub(super) fn datagram(addresses: &[u8], id: u32, protocol: u8) -> u64 {
    let (words, _) = addresses.as_chunks::<8>();
    let seed = u64::from(id) << 8 | u64::from(protocol);
    words.iter().fold(mix(seed ^ K0, K1), |hash, word| mix(hash ^ u64::from_be_bytes(*word), K2))
}

#[inline]
fn split(ports: Option<Ports>) -> (u64, u64) {
    ports.map_or((0, 0), |ports| (u64::from(ports.source), u64::from(ports.destination)))
}

#[inline]
fn ordered_mix(a: u64, b: u64) -> u64 {
    mix(a.min(b) ^ K0, a.max(b) ^ K1)
}

#[inline]
fn finish(ends: u64, rest: u64) -> u32 {
    let hash = mix(ends ^ K2, rest ^ K3);
    (hash ^ hash >> 32) as u32
}

#[inline]
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}
