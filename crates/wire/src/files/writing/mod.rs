//! Encoders: heads of sections and interfaces, packet blocks, closing counts.

pub(crate) mod description;
pub(crate) mod encode;
pub(crate) mod pcap_encoder;
pub(crate) mod pcapng_encoder;
