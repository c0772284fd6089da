//! Maps flows to slots: open addressing, eight entries per cache line.
//!
//! ```text
//! hash ──► home ──► | hash, slot | hash, slot | empty | ...      entries of 8 bytes, 0 is empty
//! ```
//!
//! Invariants:
//! - X1: an entry is at its home or after it, with no empty entry in between: `remove` moves
//!   entries back to preserve this.
//! - X2: at most half of the entries are used, so every search ends.

use burstline_sys::memory::ask_for_large_pages;
use burstline_sys::prefetch;

const LINE_ENTRIES: usize = 8;

#[derive(Clone)]
#[repr(align(64))]
struct Line([u64; LINE_ENTRIES]);

/// The entries of a table's flows.
pub(super) struct Index {
    lines: Vec<Line>,
    mask: usize,
}

impl Index {
    /// Creates an index for `flows` flows, in `[1, 2^31)`.
    pub(super) fn new(flows: usize) -> Self {
        let entries = (2 * flows).next_power_of_two().max(LINE_ENTRIES);
        let mut lines = Vec::with_capacity(entries / LINE_ENTRIES);
        ask_for_large_pages::<Line>(lines.as_ptr(), lines.capacity());
        lines.resize(entries / LINE_ENTRIES, Line([0; LINE_ENTRIES]));
        Self { lines, mask: entries - 1 }
    }

    pub(super) fn bytes(&self) -> usize {
        self.lines.len() * size_of::<Line>()
    }

    /// Prefetches the line of this hash.
    #[inline]
    pub(super) fn ask(&self, hash: u32) {
        let line = (hash as usize & self.mask) / LINE_ENTRIES;
        prefetch::to_read(self.lines.as_ptr().wrapping_add(line));
    }

    /// Returns the slot of the flow with this hash for which `is_it` holds.
    #[inline]
    pub(super) fn find(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = hash as usize & self.mask;
        loop {
            let entry = self.entry(at);
            if entry == 0 {
                return None;
            }
            let slot = entry as u32 - 1;
            if (entry >> 32) as u32 == hash && is_it(slot) {
                return Some(slot);
            }
            at = (at + 1) & self.mask;
        }
    }

    /// Adds a flow that is not in the index.
    pub(super) fn insert(&mut self, hash: u32, slot: u32) {
        let mut at = hash as usize & self.mask;
        while self.entry(at) != 0 {
            at = (at + 1) & self.mask;
        }
        *self.entry_mut(at) = u64::from(hash) << 32 | u64::from(slot + 1);
    }

    /// Removes a flow. Does nothing if it is not in the index.
    pub(super) fn remove(&mut self, hash: u32, slot: u32) {
        let wanted = u64::from(hash) << 32 | u64::from(slot + 1);
        let mut hole = hash as usize & self.mask;
        while self.entry(hole) != wanted {
            if self.entry(hole) == 0 {
                return;
            }
            hole = (hole + 1) & self.mask;
        }
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask;
            let entry = self.entry(at);
            if entry == 0 {
                break;
            }
            // It may move back to the hole if its home is not after the hole.
            let home = (entry >> 32) as usize & self.mask;
            if at.wrapping_sub(home) & self.mask >= at.wrapping_sub(hole) & self.mask {
                *self.entry_mut(hole) = entry;
                hole = at;
            }
        }
        *self.entry_mut(hole) = 0;
    }

    #[inline]
    fn entry(&self, at: usize) -> u64 {
        self.lines[at / LINE_ENTRIES].0[at % LINE_ENTRIES]
    }

    #[inline]
    fn entry_mut(&mut self, at: usize) -> &mut u64 {
        &mut self.lines[at / LINE_ENTRIES].0[at % LINE_ENTRIES]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Few homes, so that clusters form and wrap around.
        #[test]
        fn it_is_a_map(steps in proptest::collection::vec((0_u32..24, any::<bool>()), 0..400)) {
            let hash_of = |slot: u32| ((slot % 3) * 7) | ((slot % 5) << 20);
            let mut index = Index::new(24);
            let mut model = HashMap::new();
            for (slot, is_insert) in steps {
                let hash = hash_of(slot);
                if is_insert && !model.contains_key(&slot) {
                    index.insert(hash, slot);
                    model.insert(slot, hash);
                } else if !is_insert {
                    index.remove(hash, slot);
                    model.remove(&slot);
                }
                for slot in 0..24 {
                    let found = index.find(hash_of(slot), |at| at == slot);
                    prop_assert_eq!(found.is_some(), model.contains_key(&slot));
                }
            }
        }
    }
}
