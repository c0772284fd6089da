//! A word whose memory ordering can be removed, to see that the model needs it.

use burstline_log::protocol::Word64;
use loom::sync::atomic::{AtomicU64, Ordering};

/// A word whose memory ordering can be removed.
pub(super) struct Word {
    value: AtomicU64,
    is_ordered: bool,
}

impl Word {
    pub(super) fn new(is_ordered: bool) -> Self {
        Self { value: AtomicU64::new(0), is_ordered }
    }

    fn order(&self, order: Ordering) -> Ordering {
        if self.is_ordered { order } else { Ordering::Relaxed }
    }
}

impl Word64 for Word {
    fn load(&self, order: Ordering) -> u64 {
        self.value.load(self.order(order))
    }
    fn store(&self, value: u64, order: Ordering) {
        self.value.store(value, self.order(order));
    }
}
