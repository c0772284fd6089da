//! Feature bits that both sides negotiate.
//!
//! Source: Virtual I/O Device (VIRTIO) Version 1.1, sections 5.1.3 and 6; vhost-user protocol,
//! QEMU's docs/interop/vhost-user.rst.

/// The device fills in or checks the guest's checksums.
const NET_CSUM: u64 = 1 << 0;
/// The guest accepts packets whose checksum is not filled in.
const NET_GUEST_CSUM: u64 = 1 << 1;
const NET_GUEST_TSO4: u64 = 1 << 7;
const NET_GUEST_TSO6: u64 = 1 << 8;
const NET_HOST_TSO4: u64 = 1 << 11;
const NET_HOST_TSO6: u64 = 1 << 12;
/// A packet may be in several buffers.
pub(crate) const NET_MRG_RXBUF: u64 = 1 << 15;
/// Several queue pairs.
const NET_MQ: u64 = 1 << 22;
/// A descriptor may name a table of descriptors.
const RING_INDIRECT_DESC: u64 = 1 << 28;
/// Each side announces the index at which it wants to be woken up.
pub(crate) const RING_EVENT_IDX: u64 = 1 << 29;
/// Protocol features are supported.
pub(crate) const PROTOCOL_FEATURES: u64 = 1 << 30;
const ANY_LAYOUT: u64 = 1 << 27;
/// Virtio 1: little endian, with a header of 12 bytes.
pub(crate) const VERSION_1: u64 = 1 << 32;

/// The device uses buffers in the order in which they were made available. It always does; a driver
/// that knows it has less to check.
const IN_ORDER: u64 = 1 << 35;

/// Protocol features.
const PROTOCOL_MQ: u64 = 1 << 0;
/// Each message can be acknowledged.
pub(crate) const PROTOCOL_REPLY_ACK: u64 = 1 << 3;
/// Regions of memory are added and removed one by one.
pub(crate) const PROTOCOL_MEM_SLOTS: u64 = 1 << 15;

/// The offered protocol features.
pub(crate) const PROTOCOL: u64 = PROTOCOL_MQ | PROTOCOL_REPLY_ACK | PROTOCOL_MEM_SLOTS;

pub(crate) fn offered(pairs: u16, passes_offloads: bool) -> u64 {
    let mut features = NET_MRG_RXBUF
        | RING_INDIRECT_DESC
        | RING_EVENT_IDX
        | PROTOCOL_FEATURES
        | ANY_LAYOUT
        | VERSION_1
        | IN_ORDER;
    if pairs > 1 {
        features |= NET_MQ;
    }
    if passes_offloads {
        features |= NET_CSUM | NET_HOST_TSO4 | NET_HOST_TSO6;
        features |= NET_GUEST_CSUM | NET_GUEST_TSO4 | NET_GUEST_TSO6;
    }
    features
}

/// Returns whether the guest accepts packets longer than a link's MTU, or without checksums.
pub(crate) fn takes_offloads(features: u64) -> bool {
    let all = NET_GUEST_CSUM | NET_GUEST_TSO4 | NET_GUEST_TSO6;
    features & all == all
}

/// Returns whether the guest's packet headers are meaningful; otherwise they need not be read.
pub(crate) fn heeds_headers(features: u64) -> bool {
    features & (NET_CSUM | NET_HOST_TSO4 | NET_HOST_TSO6) != 0
}

/// Returns the size of the header before each packet in a ring.
pub(crate) fn header_bytes(features: u64) -> usize {
    match features & (NET_MRG_RXBUF | VERSION_1) {
        0 => 10,
        _ => 12,
    }
}
