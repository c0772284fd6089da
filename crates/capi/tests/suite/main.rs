//! Tests the C library as C programs use it: installed by `make install-c`, found by pkg-config,
//! linked both ways, reading what another process publishes. `calls` tests the same functions from
//! Rust.

mod calls;
mod common;
mod examples;
mod installed;
mod misuse;
mod roles;
mod writing;
