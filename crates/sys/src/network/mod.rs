//! Network interfaces: their properties, features and counters, and filters for their packets.

pub mod counters;
pub mod device;
pub mod filter;
pub mod interface;
pub mod links;
pub mod namespace;
pub mod netlink;
pub mod pcap;
pub mod rising;
pub mod tap;
