//! `dpdk:` over the drivers that need no card: what goes in comes out, whoever is at the other end.
//!
//! EAL is one for all tests of this program, so each test has device names of its own.
#![cfg(feature = "dpdk")]

#[path = "../common/mod.rs"]
mod common;

mod endings;
mod faults;
mod offloads;
mod pairs;
mod passing;
