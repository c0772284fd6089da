//! The publisher's side of a reader in another process.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::attach::LogFiles;
use crate::buckets::Buckets;
use crate::error::AttachError;
use crate::log::{Held, Shared, Start};
use crate::seat::{SEAT_DEMOTED, SeatEntry};
use crate::verdict::Column;

/// A seat that a reader in another process sits on. Dropping it frees the seat, pins or not: only
/// when that process is gone, or has let go (see the safety of [`Reader::attach`][attach]).
///
/// [attach]: crate::Reader::attach
pub struct RemoteSeat {
    entry: Arc<SeatEntry>,
    start: Start,
    part: Option<Buckets>,
    shared: Arc<Shared>,
    /// Where its reader gives verdicts, if it does.
    column: Option<Arc<Column>>,
    is_abandoned: bool,
}

/// What a publisher knows of a reader in another process. The reader wrote most of it, and it may
/// be false: it is for people to look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeatStatus {
    /// Packets that it says it has read.
    pub delivered: u64,
    /// Packets that it says were taken away before it read them.
    pub missed: u64,
    /// Packets published and, by its own word, not yet read; of all parts.
    pub lag_packets: u64,
    /// Segments that its pins keep from being reused, in `[0, window]`.
    pub held_segments: usize,
    /// Whether the reader has mapped its page yet.
    pub is_claimed: bool,
    /// Whether the writer lost patience with it. This one the writer knows.
    pub is_demoted: bool,
}

impl RemoteSeat {
    pub(crate) fn new(
        entry: Arc<SeatEntry>,
        start: Start,
        part: Option<Buckets>,
        shared: Arc<Shared>,
    ) -> Self {
        Self { entry, start, part, shared, column: None, is_abandoned: false }
    }

    /// The files that the other process needs for [`Reader::attach`][attach]: two that it can only
    /// read and one page to write.
    ///
    /// [attach]: crate::Reader::attach
    pub fn files(&self) -> LogFiles<'_> {
        let Held::Own { packets, control } = &self.shared.memory.held else {
            unreachable!("a publisher owns its memory");
        };
        LogFiles {
            packets: packets.file(),
            control: control.file(),
            page: self.entry.page_file(),
            seat: self.entry.index,
            window: self.entry.window,
            start: self.start,
            part: self.part,
            verdicts: self.column.as_ref().map(|column| column.file()),
        }
    }

    /// Lets its reader give verdicts, into a column that is among its [`files`](Self::files) from
    /// now on.
    ///
    /// # Errors
    /// [`AttachError::NoVerdicts`], or [`AttachError::HasGiver`] where another reader does.
    pub fn take_verdicts(&mut self) -> Result<(), AttachError> {
        if !self.shared.config.takes_verdicts {
            return Err(AttachError::NoVerdicts);
        }
        // Made before the lock is taken, as a page is.
        let column = Column::create(&self.shared)?;
        let mut giver = self.shared.lock_verdicts();
        if giver.is_some() {
            return Err(AttachError::HasGiver);
        }
        *giver = Some(Arc::clone(&column));
        self.shared.verdicts_version.fetch_add(1, Relaxed);
        self.column = Some(column);
        Ok(())
    }

    /// The worker no longer gives verdicts here.
    fn end_verdicts(&mut self) {
        if self.column.take().is_some() {
            *self.shared.lock_verdicts() = None;
            // Pairs with the Acquire in `is_changing`.
            self.shared.verdicts_version.fetch_add(1, Release);
        }
    }

    /// How long this reader, if lossless, may hold the writer up before it is demoted, in ns.
    /// Overrides the log's setting for its readers.
    pub fn set_lossless_deadline_ns(&self, deadline_ns: u64) {
        self.entry.set_deadline_ns(deadline_ns);
    }

    /// Takes the seat back from a reader that has not claimed it; false if it has. A claim that
    /// comes later fails.
    pub fn revoke(&self) -> bool {
        self.entry.page.revoke()
    }

    /// How the reader is doing.
    pub fn status(&self) -> SeatStatus {
        let control = &self.shared.memory.control;
        let [delivered, missed, next_packet] = self.entry.page.said();
        SeatStatus {
            delivered,
            missed,
            lag_packets: control.published().saturating_sub(next_packet),
            held_segments: self.entry.held_segments(),
            is_claimed: self.entry.page.is_claimed(),
            is_demoted: control.seat_state(self.entry.index).load(Relaxed) == SEAT_DEMOTED,
        }
    }

    /// Gives up watching the reader, which may live on. Its pins count for as long as the log
    /// lives, it no longer holds the writer up, and its seat is never used again.
    pub fn abandon(mut self) {
        self.entry.demote(&self.shared.memory.control);
        self.end_verdicts();
        self.is_abandoned = true;
    }
}

impl Drop for RemoteSeat {
    fn drop(&mut self) {
        self.end_verdicts();
        if !self.is_abandoned {
            self.shared.leave_seat(&self.entry);
        }
    }
}

impl fmt::Debug for RemoteSeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteSeat").field("seat", &self.entry.index).finish_non_exhaustive()
    }
}
