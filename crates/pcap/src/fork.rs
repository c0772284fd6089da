//! Children by fork(2): `daemon(3)` makes one, and the program goes on in it.
//!
//! ```text
//! parent:  pcap_t * -> place -> Capture ---- its seat at the log, its memory
//!                                              ^
//! child:   pcap_t * -> place -> the copy ------'   never used again, never dropped
//!                        '----> a new Capture: the same device, filter and settings
//! ```
//!
//! A child has a copy of every handle, and the parent's seats at the logs behind it. If it read by
//! them, or gave one back, it would do so to its parent. So its first call with a handle opens that
//! anew. It then has packets from that moment on, or from the oldest on with `?start=oldest`. Its
//! counts begin at 0.
//!
//! Invariant F1: nothing that was made before a fork is used or dropped in the child, but for plain
//! values and locks that are held for moments. The descriptor to select by keeps its number.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::{dump, slots};

/// How many forks lie between this process and the one that loaded the library.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Which process this is: another number in each child.
pub(crate) fn generation() -> u32 {
    FORKS.load(Relaxed) // a child is told of it before it has a second thread
}

/// Has children know that they are.
pub(crate) fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: the function keeps to what a child may do that has one thread. Where there is no
        // room for it, a child uses its parent's handles.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// In the child, before fork(2) returns there.
unsafe extern "C" fn in_child() {
    FORKS.fetch_add(1, Relaxed);
    dump::in_child();
    slots::in_child();
}
