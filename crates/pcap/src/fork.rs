//! Handles children by fork(2): `daemon(3)` makes one, and the program continues in it.
//!
//! ```text
//! parent:  pcap_t * -> place -> Capture ---- its seat at the log, its memory
//!                                              ^
//! child:   pcap_t * -> place -> the copy ------'   never used again, never dropped
//!                        '----> a new Capture: the same device, filter and settings
//! ```
//!
//! A child has a copy of every handle, and of the parent's seats at the logs behind it. If it read
//! through them, or freed one, that would affect its parent. So its first call with a handle opens
//! it again. It then gets packets from that moment on, or from the oldest on with `?start=oldest`.
//! Its counts begin at 0.
//!
//! Invariant F1: the child neither uses nor drops anything made before a fork, except plain values
//! and locks that are held for moments. The descriptor for select keeps its number.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::{dump, slots};

/// The number of forks between this process and the one that loaded the library.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Returns a number that differs in each child.
pub(crate) fn generation() -> u32 {
    FORKS.load(Relaxed) // set in a child before it has a second thread
}

/// Makes children notice that they are children.
pub(crate) fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: the function does only what a child with one thread may do. If it cannot be
        // registered, a child uses its parent's handles.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// Called in the child, before fork(2) returns there.
unsafe extern "C" fn in_child() {
    FORKS.fetch_add(1, Relaxed);
    dump::in_child();
    slots::in_child();
}
