//! `dpdk:` over the drivers that need no card: what goes in comes out, whatever the other end is.
//!
//! EAL is one for all tests of this program, so each test has its own device names; and one test
//! runs at a time, for when no device is open all mbufs must be in their pools.
#![cfg(feature = "dpdk")]

#[path = "../common/mod.rs"]
mod common;

mod endings;
mod faults;
mod losses;
mod offloads;
mod pairs;
mod passing;
mod testpmd;

use std::sync::{Mutex, MutexGuard, PoisonError};

use burstline_port::leaked_mbufs;

static TURN: Mutex<()> = Mutex::new(());

/// To be held to the end of a test, and so until its devices are closed.
struct Alone(#[expect(dead_code, reason = "it is held")] MutexGuard<'static, ()>);

fn alone() -> Alone {
    Alone(TURN.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Drop for Alone {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(leaked_mbufs(), 0, "mbufs are in no pool");
        }
    }
}
