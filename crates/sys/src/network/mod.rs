//! Network interfaces: their properties, their features, and filters for their packets.

pub mod device;
pub mod filter;
pub mod interface;
pub mod links;
pub mod namespace;
pub mod netlink;
pub mod pcap;
pub mod rising;
pub mod tap;
