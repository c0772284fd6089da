//! Registers packet threads with EAL.
//!
//! A pool has a cache for each thread with an lcore number. A thread without a number accesses the
//! pool's shared ring for every burst. So our threads take a number when they first touch an mbuf,
//! and give it back when they end. There are 128 numbers; a thread without one is only slower.

use crate::ffi;

struct Seat {
    is_ours: bool,
}

impl Drop for Seat {
    fn drop(&mut self) {
        if self.is_ours {
            // SAFETY: this thread has registered, and touches no pool after this.
            unsafe { ffi::shim_thread_leave() }
        }
    }
}

thread_local! {
    // SAFETY: EAL runs, since a device exists to request packets from. The caches are the same for
    // any thread that has the number.
    static SEAT: Seat = Seat { is_ours: unsafe { ffi::shim_thread_enter() } == 0 };
}

/// Registers this thread; call it before allocating or freeing mbufs. Cost: a load, after the first
/// call.
#[inline]
pub(crate) fn enter() {
    // A thread that is ending has no seat any more, and needs none.
    let _ = SEAT.try_with(|_| ());
}
