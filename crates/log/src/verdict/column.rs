//! The publisher's end of a column: reads each word once, and believes none.

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
/// Where replacements lie, from the start of the column.
pub(super) const ROOM_AT: usize = 2 * WORDS_BYTES;
/// Bytes for replacements.
pub(super) const ROOM_BYTES: usize = 1 << 20;
/// Replacements begin at multiples of this.
pub(super) const ROOM_ALIGNMENT: usize = 16;
pub(crate) const COLUMN_BYTES: usize = ROOM_AT + ROOM_BYTES;

/// A view of a column, from either side.
///
/// # Invariants
/// C1. `base` points to `COLUMN_BYTES` mapped bytes, 64-byte aligned, for as long as the view is
/// used. All accesses by anybody in this process are atomic. `control` is valid for as long as the
/// view is used.
#[derive(Clone, Copy)]
pub(crate) struct ColumnView {
    base: NonNull<u8>,
    control: ControlView,
}

// SAFETY: C1, all that is reachable through a view is atomic.
unsafe impl Send for ColumnView {}
// SAFETY: C1, all that is reachable through a view is atomic, so threads may share it.
unsafe impl Sync for ColumnView {}

impl ColumnView {
    /// # Safety
    /// C1 holds for `base` and `control` while the view lives.
    pub(crate) unsafe fn over(base: NonNull<u8>, control: ControlView) -> Self {
        Self { base, control }
    }

    /// Word `index` of those from byte `start` on, a multiple of 8; the sum is below the end.
    #[inline]
    fn at(&self, start: usize, index: usize) -> &AtomicU64 {
        let at = start + index * WORD_BYTES;
        assert!(at + WORD_BYTES <= COLUMN_BYTES, "byte {at} of a column of {COLUMN_BYTES}");
        // SAFETY: C1, inside by the check above, aligned to 8; any bits are an atomic.
        unsafe { self.base.add(at).cast::<AtomicU64>().as_ref() }
    }

    /// Word `index` of the replacements' room.
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

/// A column that the publisher made for one reader.
pub(crate) struct Column {
    view: ColumnView,
    region: Region,
}

impl Column {
    pub(crate) fn create(shared: &Shared) -> Result<Arc<Self>, MemoryError> {
        let region = Region::create_shared("burstline-verdicts", COLUMN_BYTES)?;
        // SAFETY: C1: the region has as many bytes, page-aligned and zeroed, and lives as long as
        // this; the log's memory does, since who has a column has the log, too.
        let view = unsafe { ColumnView::over(region.as_ptr(), shared.memory.control) };
        Ok(Arc::new(Self { view, region }))
    }

    pub(crate) fn file(&self) -> std::os::fd::BorrowedFd<'_> {
        self.region.file()
    }
}

/// What a reader's verdict comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// As the verdict of this name, here and below.
    Pass,
    /// It ends here.
    Drop,
    /// It goes on with other bytes: see [`VerdictTaker::replacement`].
    Replace(Replacement),
    /// It ends here, and its sender gets an answer.
    Reject,
    /// It goes on, and its flow with it.
    PassFlow,
    /// There is no such verdict, or its replacement is out of bounds.
    Invalid,
}

/// Where a replacement lies: checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replacement {
    offset: u32,
    length: u32,
}

impl Replacement {
    /// What a place says, if it is inside of the room.
    fn of(place: u64) -> Option<Self> {
        let (offset, length) = ((place >> 32) as u32, place as u32);
        let is_sound = (REPLACEMENT_BYTES_MIN..=REPLACEMENT_BYTES_MAX).contains(&(length as usize))
            && (offset as usize).is_multiple_of(ROOM_ALIGNMENT)
            && offset as usize + length as usize <= ROOM_BYTES;
        is_sound.then_some(Self { offset, length })
    }

    /// How it is written.
    pub(super) fn place(offset: usize, length: usize) -> u64 {
        (offset as u64) << 32 | length as u64
    }
}

/// The publisher's end of a log's verdicts. One for each log; the writer's thread has it.
pub struct VerdictTaker {
    shared: Arc<Shared>,
    version: u64,
    column: Option<Arc<Column>>,
}

impl VerdictTaker {
    /// Takes the verdicts of a log.
    ///
    /// # Panics
    /// If it was made without [`takes_verdicts`](crate::LogConfig::takes_verdicts).
    pub fn new(log: &Log) -> Self {
        assert!(log.config().takes_verdicts, "a log that takes no verdicts");
        Self { shared: Arc::clone(&log.shared), version: 0, column: None }
    }

    /// Whether [`has_changed`](Self::has_changed) has something to say. Until it is called,
    /// [`look`](Self::look) still finds all verdicts of the reader that has gone. Cost: a load.
    #[inline]
    pub fn is_changing(&self) -> bool {
        // Pairs with the Release of a seat that goes: what its reader said is visible.
        self.shared.verdicts_version.load(Acquire) != self.version
    }

    /// Looks whether another reader gives verdicts, or none any more, or one at last. True: what
    /// was published before this call will get no verdict.
    ///
    /// Cost: a load, where nothing has changed.
    pub fn has_changed(&mut self) -> bool {
        // A hint: the lock orders what it leads to. Seen late costs a look.
        let version = self.shared.verdicts_version.load(Relaxed);
        if version == self.version {
            return false;
        }
        self.version = version;
        self.column = self.shared.verdict_column();
        true
    }

    /// Whether somebody gives verdicts, as of the last look.
    #[inline]
    pub fn has_giver(&self) -> bool {
        self.column.is_some()
    }

    /// The verdict on packet `number`, if there is one by now. Cost: a load.
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

    /// Puts a replacement's bytes at the end of `bytes`, as they are now.
    pub fn replacement(&self, replacement: Replacement, bytes: &mut Vec<u8>) {
        let Some(column) = &self.column else { return };
        let Replacement { offset, length } = replacement;
        let words = (length as usize).div_ceil(WORD_BYTES);
        let mut copy: Vec<u64> = Vec::with_capacity(words);
        // SAFETY: a replacement was checked to lie inside of the room. The room is a multiple of 8
        // long, and the replacement begins at a multiple of 16 of it. So its words lie inside, too
        // (C1). Nobody here writes there but atomically. The copy has room for as many, which are
        // there when they are set.
        unsafe {
            let from = column.view.base.add(ROOM_AT + offset as usize);
            load::copy(from, copy.as_mut_ptr(), words);
            copy.set_len(words);
        }
        let start = bytes.len();
        copy.iter().for_each(|word| bytes.extend_from_slice(&word.to_ne_bytes()));
        bytes.truncate(start + length as usize);
    }

    /// Says that every packet below `number` is settled. Cost: a store.
    #[inline]
    pub fn settle(&self, number: u64) {
        if let Some(column) = &self.column {
            settle(&column.view, number);
        }
    }
}
