//! The publisher's side of a reader in another process.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::attach::LogFiles;
use crate::buckets::Buckets;
use crate::budget::Budget;
use crate::error::AttachError;
use crate::log::{Held, Log, ReaderConfig, Shared, Start};
use crate::seat::{SEAT_DEMOTED, SeatEntry};
use crate::verdict::Column;

/// A seat of a reader in another process. Dropping it frees the seat, pins or not: only when that
/// process is gone, or has let go of the log (see the safety of [`Reader::attach`][attach]).
///
/// [attach]: crate::Reader::attach
pub struct RemoteSeat {
    entry: Arc<SeatEntry>,
    start: Start,
    part: Option<Buckets>,
    shared: Arc<Shared>,
    /// The column for its reader's verdicts, if it gives any.
    column: Option<Arc<Column>>,
    is_abandoned: bool,
}

/// The publisher's view of a reader in another process. Most of it was written by the reader and
/// may be false: it is a statistic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeatStatus {
    /// Packets that the reader claims to have read.
    pub delivered: u64,
    /// Packets that the reader claims were overwritten before it read them.
    pub missed: u64,
    /// Packets published and, according to the reader, not yet read; of all parts.
    pub lag_packets: u64,
    /// Segments that its pins keep from reuse, in `[0, window]`.
    pub held_segments: usize,
    /// Whether the reader has mapped its page yet.
    pub is_claimed: bool,
    /// Whether the writer has stopped waiting for it. The writer itself sets this.
    pub is_demoted: bool,
}

impl Log {
    /// Takes a seat for a reader in another process. Dropping the returned value frees the seat;
    /// the publisher does that when the process is gone.
    pub fn attach_remote(&self, config: ReaderConfig) -> Result<RemoteSeat, AttachError> {
        self.attach_with(config, Arc::default())
    }

    /// Like [`attach_remote`](Self::attach_remote), for a reader of `user`: any number that stands
    /// for one, such as a uid. Matters if the reader is lossless and has a deadline.
    ///
    /// The times for which all readers of a user hold up the writer add up. The sum falls by a
    /// tenth of the rest of the time. At the deadline, each reader of the user that is in the way
    /// is demoted. A user thus has at most one deadline at a stretch, and in the long run an
    /// eleventh of the time. A reader without a user has such a sum of its own.
    pub fn attach_remote_for(
        &self,
        user: u32,
        config: ReaderConfig,
    ) -> Result<RemoteSeat, AttachError> {
        self.attach_with(config, self.shared.budgets.of(user))
    }

    fn attach_with(
        &self,
        config: ReaderConfig,
        budget: Arc<Budget>,
    ) -> Result<RemoteSeat, AttachError> {
        if self.shared.is_together {
            return Err(AttachError::Together);
        }
        let entry = self.shared.take_seat(&config, false, budget)?;
        Ok(RemoteSeat::new(entry, config.start, self.part, Arc::clone(&self.shared)))
    }
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

    /// Returns the files that the other process needs for [`Reader::attach`][attach]: two read-only
    /// ones and one writable page.
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

    /// Lets its reader give verdicts, in a column that [`files`](Self::files) includes from now on.
    ///
    /// # Errors
    /// [`AttachError::NoVerdicts`], or [`AttachError::HasGiver`] if another reader gives verdicts.
    pub fn take_verdicts(&mut self) -> Result<(), AttachError> {
        if !self.shared.config.takes_verdicts {
            return Err(AttachError::NoVerdicts);
        }
        // Created before the lock is taken, like a page.
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

    fn end_verdicts(&mut self) {
        if self.column.take().is_some() {
            *self.shared.lock_verdicts() = None;
            // Pairs with the Acquire in `is_changing`.
            self.shared.verdicts_version.fetch_add(1, Release);
        }
    }

    /// Sets how long this reader, if lossless, may hold up the writer before it is demoted, in ns.
    /// Overrides the log's setting for its readers.
    pub fn set_lossless_deadline_ns(&self, deadline_ns: u64) {
        self.entry.set_deadline_ns(deadline_ns);
    }

    /// Takes back an unclaimed seat, so that a later claim fails. Returns false if the reader has
    /// claimed it.
    pub fn revoke(&self) -> bool {
        self.entry.page.revoke()
    }

    /// Returns the reader's status.
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

    /// Stops watching the reader, which may live on. Its pins stay valid as long as the log lives,
    /// it no longer holds up the writer, and its seat is never reused.
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
