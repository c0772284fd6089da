//! Words whose memory ordering can be removed, to see that a model needs it.

use burstline_log::protocol::{Word32, Word64};
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A word of 64 bits.
pub(super) struct Word {
    value: AtomicU64,
    is_ordered: bool,
}

impl Word {
    pub(super) fn new(is_ordered: bool) -> Self {
        Self { value: AtomicU64::new(0), is_ordered }
    }
}

impl Word64 for Word {
    fn load(&self, order: Ordering) -> u64 {
        self.value.load(kept(order, self.is_ordered))
    }
    fn store(&self, value: u64, order: Ordering) {
        self.value.store(value, kept(order, self.is_ordered));
    }
}

/// A word of 32 bits.
pub(super) struct Narrow {
    value: AtomicU32,
    is_ordered: bool,
}

impl Narrow {
    pub(super) fn new(is_ordered: bool) -> Self {
        Self { value: AtomicU32::new(0), is_ordered }
    }
}

impl Word32 for Narrow {
    fn load(&self, order: Ordering) -> u32 {
        self.value.load(kept(order, self.is_ordered))
    }
    fn store(&self, value: u32, order: Ordering) {
        self.value.store(value, kept(order, self.is_ordered));
    }
}

fn kept(order: Ordering, is_ordered: bool) -> Ordering {
    if is_ordered { order } else { Ordering::Relaxed }
}
