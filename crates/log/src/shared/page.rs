//! A reader's page: the memory that one reader writes and the writer reads.
//!
//! ```text
//! pins | cursor | waiting, wake word | attached | account        a cache line each
//! ```
//!
//! The writer treats all of it as hostile input. Each field has its own line, so that a reader's
//! account, which changes with every burst, does not touch a line that the writer polls.

use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::control::{Line, MAX_WINDOW};
use crate::protocol::ReaderPage;

/// The minimum size of a reader's page, in bytes.
pub(crate) const PAGE_BYTES: usize = 4096;

/// Values of the word `attached`: 0 at first, then one of these for good.
const CLAIMED: u32 = 1;
const REVOKED: u32 = 2;

#[repr(C)]
struct PageLayout {
    pins: Line<[AtomicU32; MAX_WINDOW]>,
    cursor: Line<AtomicU64>,
    waiting: Line<[AtomicU32; 2]>,
    attached: Line<AtomicU32>,
    account: Line<[AtomicU64; 3]>,
}

const _: () = assert!(size_of::<PageLayout>() <= PAGE_BYTES);

/// A view of one reader's page, for either side.
///
/// # Invariants
/// As for `ControlView`: `PAGE_BYTES` mapped bytes, 64-byte aligned, all accesses atomic.
#[derive(Clone, Copy)]
pub(crate) struct PageView(NonNull<u8>);

// SAFETY: everything reachable through a view is atomic, so any thread may use it.
unsafe impl Send for PageView {}
// SAFETY: everything reachable through a view is atomic, so threads may share it.
unsafe impl Sync for PageView {}

impl PageView {
    /// # Safety
    /// The invariants of the type must hold for `base` while the view lives.
    pub(crate) unsafe fn over(base: NonNull<u8>) -> Self {
        Self(base)
    }

    /// Claims the page for a reader of another process. Returns false if it was claimed before or
    /// revoked. A page serves one reader only: two would clear each other's pins.
    pub(crate) fn claim(&self) -> bool {
        self.decide(CLAIMED)
    }

    /// Makes every later [`claim`](Self::claim) fail; returns false if one has succeeded.
    pub(crate) fn revoke(&self) -> bool {
        self.decide(REVOKED)
    }

    /// Decides the owner of the page; only the first call succeeds.
    fn decide(&self, word: u32) -> bool {
        // Relaxed: the word orders no other memory.
        self.layout().attached.0.compare_exchange(0, word, Relaxed, Relaxed).is_ok()
    }

    /// Reader: stores its account, as a statistic: packets delivered, packets missed, and the
    /// number of the next one. The words order no other memory.
    #[inline]
    pub(crate) fn say(&self, account: [u64; 3]) {
        for (word, value) in self.layout().account.0.iter().zip(account) {
            word.store(value, Relaxed);
        }
    }

    /// Returns the reader's last account. It is unchecked: any value may be there.
    pub(crate) fn said(&self) -> [u64; 3] {
        self.layout().account.0.each_ref().map(|word| word.load(Relaxed))
    }

    /// Returns whether a reader of another process has claimed the page.
    pub(crate) fn is_claimed(&self) -> bool {
        self.layout().attached.0.load(Relaxed) == CLAIMED
    }

    /// Returns the word that the page's reader sleeps on; the writer changes it with every wake-up.
    /// No other reader has the page, so none can wake this one, or be woken by it (decision 0060).
    pub(crate) fn wake_word(&self) -> &AtomicU32 {
        &self.layout().waiting.0[1]
    }

    #[inline]
    fn layout(&self) -> &PageLayout {
        // SAFETY: by the type's invariants; every bit pattern of an atomic is valid.
        unsafe { self.0.cast::<PageLayout>().as_ref() }
    }
}

impl ReaderPage for PageView {
    type Word = AtomicU32;
    type Wide = AtomicU64;

    fn pin(&self, slot: usize) -> &AtomicU32 {
        &self.layout().pins.0[slot]
    }

    fn cursor(&self) -> &AtomicU64 {
        &self.layout().cursor.0
    }

    #[inline]
    fn waiting(&self) -> &AtomicU32 {
        &self.layout().waiting.0[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_or_a_revocation_stands_whatever_comes_after_it() {
        #[repr(align(64))]
        struct Bytes([u8; PAGE_BYTES]);
        for is_claimed in [true, false] {
            let mut bytes = Bytes([0; PAGE_BYTES]);
            // SAFETY: `bytes` has this size, is aligned to 64, outlives the view, and only the view
            // accesses it.
            let page = unsafe { PageView::over(NonNull::from(&mut bytes.0).cast()) };
            assert!(!page.is_claimed());
            assert!(if is_claimed { page.claim() } else { page.revoke() });
            assert!(!page.claim() && !page.revoke());
            assert_eq!(page.is_claimed(), is_claimed);
        }
    }
}
