//! Network interfaces: what they are, what they can do, and which packets are wanted of them.

pub mod device;
pub mod filter;
pub mod interface;
pub mod links;
pub mod namespace;
pub mod netlink;
pub mod pcap;
pub mod rising;
pub mod tap;
