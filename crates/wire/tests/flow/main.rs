//! Flow keys and their hashes, and the cost of hashing.

#[path = "../support/headers.rs"]
mod headers_build;
#[path = "../support/tunnel.rs"]
mod tunnel_build;

mod cost;
mod fragments;
mod inner;
mod key;
mod rss;
mod symmetric;
