//! Threads that move packets, as EAL knows them.
//!
//! A pool has a cache for each thread that has an lcore number; one without goes to the pool's
//! shared ring for every burst. So a thread of ours takes a number when it first touches an mbuf,
//! and gives it back when it ends. There are 128 numbers; a thread that gets none is only slower.

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
    // SAFETY: EAL runs, or there would be no device to ask for packets. The caches are the same
    // for any thread that has the number.
    static SEAT: Seat = Seat { is_ours: unsafe { ffi::shim_thread_enter() } == 0 };
}

/// To be called before mbufs are allocated or freed. Cost: a load, after the first time.
#[inline]
pub(crate) fn enter() {
    // While a thread ends there is no seat any more, and none is needed.
    let _ = SEAT.try_with(|_| ());
}
