//! Packets within packets, and tshark's view of them.

#[path = "../support/headers.rs"]
mod headers_build;
#[path = "../support/tunnel.rs"]
mod tunnel_build;

mod built;
mod tshark;
