//! The publisher's end of a column: reads each word once, and trusts none.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use burstline_sys::memory::{MemoryError, Region};

use super::{
    REPLACEMENT_BYTES_MAX, REPLACEMENT_BYTES_MIN, VERDICTS_WAITING_MAX, VerdictWords, look, place,
    settle,
};
use crate::control::ControlView;
use crate::log::{Log, Shared};
use crate::untrusted::load;

const WORD_BYTES: usize = size_of::<u64>();
const WORDS_BYTES: usize = VERDICTS_WAITING_MAX as usize * WORD_BYTES;
const PLACES_AT: usize = WORDS_BYTES;
/// The offset of the replacements in the column.
pub(super) const ROOM_AT: usize = 2 * WORDS_BYTES;
/// The size of the memory for replacements, in bytes.
pub(super) const ROOM_BYTES: usize = 1 << 20;
/// The alignment of replacements, in bytes.
pub(super) const ROOM_ALIGNMENT: usize = 16;
pub(crate) const COLUMN_BYTES: usize = ROOM_AT + ROOM_BYTES;

/// A view of a column, from either side.
///
/// # Invariants
/// C1. `base` points to `COLUMN_BYTES` mapped bytes, 64-byte aligned, for as long as the view is
/// used. All accesses in this process are atomic. `control` is valid for as long as the view is
/// used.
#[derive(Clone, Copy)]
pub(crate) struct ColumnView {
    base: NonNull<u8>,
    control: ControlView,
}

// SAFETY: C1, everything reachable through a view is atomic, so any thread may use it.
unsafe impl Send for ColumnView {}
// SAFETY: C1, everything reachable through a view is atomic, so threads may share it.
unsafe impl Sync for ColumnView {}

impl ColumnView {
    /// # Safety
    /// C1 holds for `base` and `control` while the view lives.
    pub(crate) unsafe fn over(base: NonNull<u8>, control: ControlView) -> Self {
        Self { base, control }
    }

    /// Returns word `index` from byte `start` on, a multiple of 8; the word must be in the column.
    #[inline]
    fn at(&self, start: usize, index: usize) -> &AtomicU64 {
        let at = start + index * WORD_BYTES;
        assert!(at + WORD_BYTES <= COLUMN_BYTES, "byte {at} of a column of {COLUMN_BYTES}");
        // SAFETY: C1, inside by the check above, aligned to 8; every value of an atomic is valid.
        unsafe { self.base.add(at).cast::<AtomicU64>().as_ref() }
    }

    /// Returns word `index` of the memory for replacements.
    pub(super) fn room(&self, index: usize) -> &AtomicU64 {
        self.at(ROOM_AT, index)
    }
}

impl VerdictWords for ColumnView {
    type Word = AtomicU64;

    #[inline]
    fn word(&self, number: u64) -> &AtomicU64 {
        self.at(0, (number % VERDICTS_WAITING_MAX) as usize)
    }

    fn place(&self, number: u64) -> &AtomicU64 {
        self.at(PLACES_AT, (number % VERDICTS_WAITING_MAX) as usize)
    }

    fn settled(&self) -> &AtomicU64 {
        self.control.settled()
    }
}

/// A column that the publisher created for one reader.
pub(crate) struct Column {
    view: ColumnView,
    region: Region,
}

impl Column {
    pub(crate) fn create(shared: &Shared) -> Result<Arc<Self>, MemoryError> {
        let region = Region::create_shared("burstline-verdicts", COLUMN_BYTES)?;
        // SAFETY: C1: the region has this size, is page-aligned and zeroed, and lives as long as
        // the column. The log's memory does, too: every holder of a column also holds the log.
        let view = unsafe { ColumnView::over(region.as_ptr(), shared.memory.control) };
        Ok(Arc::new(Self { view, region }))
    }

    pub(crate) fn file(&self) -> std::os::fd::BorrowedFd<'_> {
        self.region.file()
    }
}

/// The publisher's reading of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// Like [`Verdict::Pass`](crate::Verdict::Pass).
    Pass,
    /// The packet is dropped.
    Drop,
    /// Other bytes are forwarded instead: see [`VerdictTaker::replacement`].
    Replace(Replacement),
    /// The packet is dropped, and its sender gets an answer.
    Reject,
    /// The packet is forwarded, and so is its flow.
    PassFlow,
    /// The code is unknown, or the replacement is out of bounds.
    Invalid,
}

/// The location of a replacement, already checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replacement {
    offset: u32,
    length: u32,
}

impl Replacement {
    /// Decodes a place; `None` if it is out of bounds.
    fn of(place: u64) -> Option<Self> {
        let (offset, length) = ((place >> 32) as u32, place as u32);
        let is_sound = (REPLACEMENT_BYTES_MIN..=REPLACEMENT_BYTES_MAX).contains(&(length as usize))
            && (offset as usize).is_multiple_of(ROOM_ALIGNMENT)
            && offset as usize + length as usize <= ROOM_BYTES;
        is_sound.then_some(Self { offset, length })
    }

    pub(super) fn place(offset: usize, length: usize) -> u64 {
        (offset as u64) << 32 | length as u64
    }
}

/// The publisher's end of a log's verdicts. Each log has one, owned by the writer's thread.
pub struct VerdictTaker {
    shared: Arc<Shared>,
    version: u64,
    column: Option<Arc<Column>>,
}

impl VerdictTaker {
    /// Creates the taker of a log's verdicts.
    ///
    /// # Panics
    /// If the log was made without [`takes_verdicts`](crate::LogConfig::takes_verdicts).
    pub fn new(log: &Log) -> Self {
        assert!(log.config().takes_verdicts, "a log that takes no verdicts");
        Self { shared: Arc::clone(&log.shared), version: 0, column: None }
    }

    /// Returns whether [`has_changed`](Self::has_changed) would return true. Until that is called,
    /// [`look`](Self::look) still finds all verdicts of the reader that left. Cost: a load.
    #[inline]
    pub fn is_changing(&self) -> bool {
        // Pairs with the Release of a leaving seat: its reader's verdicts are visible.
        self.shared.verdicts_version.load(Acquire) != self.version
    }

    /// Checks whether the reader that gives verdicts has changed, left or arrived. If it returns
    /// true, packets published before this call get no verdict.
    ///
    /// Cost: a load, if nothing has changed.
    pub fn has_changed(&mut self) -> bool {
        // A hint: the lock orders the rest. A change seen late costs one more check.
        let version = self.shared.verdicts_version.load(Relaxed);
        if version == self.version {
            return false;
        }
        self.version = version;
        self.column = self.shared.verdict_column();
        true
    }

    /// Returns whether a reader gave verdicts at the last check.
    #[inline]
    pub fn has_giver(&self) -> bool {
        self.column.is_some()
    }

    /// Returns the verdict on packet `number`, if it has one by now. Cost: a load.
    #[inline]
    pub fn look(&self, number: u64) -> Option<Ruling> {
        let view = &self.column.as_ref()?.view;
        Some(match look(view, number)? {
            1 => Ruling::Pass,
            2 => Ruling::Drop,
            3 => Replacement::of(place(view, number)).map_or(Ruling::Invalid, Ruling::Replace),
            4 => Ruling::Reject,
            5 => Ruling::PassFlow,
            _ => Ruling::Invalid,
        })
    }

    /// Appends the current bytes of a replacement to `bytes`.
    pub fn replacement(&self, replacement: Replacement, bytes: &mut Vec<u8>) {
        let Some(column) = &self.column else { return };
        let Replacement { offset, length } = replacement;
        let words = (length as usize).div_ceil(WORD_BYTES);
        let mut copy: Vec<u64> = Vec::with_capacity(words);
        // SAFETY: a replacement was checked to be inside the memory for replacements. That memory
        // is a multiple of 8 bytes long, and the replacement begins at a multiple of 16 in it. So
        // its words are inside, too (C1). This process accesses them only atomically. The copy has
        // room for `words` words, which are initialized before `set_len`.
        unsafe {
            let from = column.view.base.add(ROOM_AT + offset as usize);
            load::copy(from, copy.as_mut_ptr(), words);
            copy.set_len(words);
        }
        let start = bytes.len();
        copy.iter().for_each(|word| bytes.extend_from_slice(&word.to_ne_bytes()));
        bytes.truncate(start + length as usize);
    }

    /// Marks every packet below `number` as settled. Cost: a store.
    #[inline]
    pub fn settle(&self, number: u64) {
        if let Some(column) = &self.column {
            settle(&column.view, number);
        }
    }
}
