//! `dpdk:` over drivers that need no card: packets sent come out, whatever the other end is.
//!
//! All tests of this program share one EAL, so each test has its own device names. One test runs at
//! a time, because all mbufs must be in their pools when no device is open.
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

/// Held to the end of a test, and so until its devices are closed.
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
