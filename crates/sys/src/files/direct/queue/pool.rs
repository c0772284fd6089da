//! Rings that were made while the process might still make some.
//!
//! ```text
//!   keep_rings ──► pool ──take──► WriteQueue of a recording ──give back──► pool
//! ```
//!
//! A filter of system calls does not see what is asked of a ring. So a thread that has entered one
//! makes no ring: it could leave out the restrictions, and open and connect by it. A job that opens
//! recordings later makes rings before. A recording that finds none writes without.
//!
//! Invariant O1: a ring in the pool has no write under way, and no buffer registered.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::ring::Ring;
use crate::privileges;

/// The most writes at a time of a kept ring: as many as any queue asks for. It takes 7 KiB.
pub(super) const WRITES: usize = 64;

static POOL: Mutex<Vec<Ring>> = Mutex::new(Vec::new());

fn pool() -> MutexGuard<'static, Vec<Ring>> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes this many rings for recordings that are opened after threads have given up their rights.
/// Call it before that, and after a helper was started, which must not inherit them.
///
/// Where rings are not permitted there are none. Recordings then write without.
pub fn keep_rings(rings: usize) {
    let made = (0..rings).map_while(|_| Ring::new(WRITES).ok());
    pool().extend(made.map(Ring::kept));
}

/// Returns a ring for up to `writes` writes at a time: a new one, or one of the pool if the calling
/// thread may not make any.
///
/// # Errors
/// None is free, or the kernel's reason for making none.
pub(super) fn take(writes: usize) -> io::Result<Ring> {
    if !privileges::is_filtered() {
        return Ring::new(writes);
    }
    let none = || io::Error::other("no ring is left of those made at the start");
    pool().pop().ok_or_else(none)
}

/// Takes a ring back (O1). One that was made for its queue is closed.
pub(super) fn give_back(ring: Ring) {
    if ring.is_kept() && ring.under_way() == 0 {
        pool().push(ring);
    }
}
