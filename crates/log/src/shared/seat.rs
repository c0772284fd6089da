//! A reader's seat at a log: its page, its window of pins, its policy.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock};

use burstline_sys::memory::{Mapping, Region};

use crate::budget::Budget;
use crate::control::{ControlView, MAX_WINDOW};
use crate::log::Shared;
use crate::page::{PAGE_BYTES, PageView};
use crate::protocol::{self, ReaderPage};
use crate::reuse::{Seat, Standing};

pub(crate) const SEAT_FREE: u32 = 0;
const SEAT_LOSSY: u32 = 1;
const SEAT_LOSSLESS: u32 = 2;
pub(crate) const SEAT_DEMOTED: u32 = 3;

/// Whether the writer waits for a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The writer does not wait; packets that the reader missed are counted exactly.
    Lossy,
    /// The writer waits, up to the deadline, if there is one.
    Lossless,
}

impl Policy {
    pub(crate) fn code(self) -> u32 {
        match self {
            Self::Lossy => SEAT_LOSSY,
            Self::Lossless => SEAT_LOSSLESS,
        }
    }
}

/// The publisher's record of a seat.
pub(crate) struct SeatEntry {
    pub(crate) index: usize,
    /// Whether its reader is in this process.
    pub(crate) is_own: bool,
    pub(crate) window: usize,
    pub(crate) page: PageView,
    policy: AtomicU32,
    /// How long this reader may hold up the writer, in ns; [`LOGS_OWN`] selects the log's setting.
    deadline_ns: AtomicU64,
    budget: Arc<Budget>,
    standing: Standing,
    region: Region,
}

const LOGS_OWN: u64 = u64::MAX;

impl SeatEntry {
    /// `region` is a new one of `PAGE_BYTES`. The seat's index is set when it is listed.
    pub(crate) fn new(
        is_own: bool,
        window: usize,
        policy: Policy,
        budget: Arc<Budget>,
        region: Region,
    ) -> Self {
        assert!(region.bytes() >= PAGE_BYTES, "a page of {} bytes", region.bytes());
        // SAFETY: the region is a zeroed page, checked above, and lives as long as this entry,
        // which outlives all uses of the view.
        let page = unsafe { PageView::over(region.as_ptr()) };
        let (policy, deadline_ns) = (AtomicU32::new(policy.code()), AtomicU64::new(LOGS_OWN));
        let (index, standing) = (0, Standing::default());
        Self { index, is_own, window, page, policy, deadline_ns, budget, standing, region }
    }

    pub(crate) fn page_file(&self) -> BorrowedFd<'_> {
        self.region.file()
    }

    /// Returns how long the writer waits for it, in ns; `None` for the log's setting.
    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        Some(self.deadline_ns.load(Relaxed)).filter(|&ns| ns != LOGS_OWN) // orders no memory
    }

    pub(crate) fn set_deadline_ns(&self, deadline_ns: u64) {
        self.deadline_ns.store(deadline_ns.min(LOGS_OWN - 1), Relaxed); // orders no memory
    }

    /// Returns what its user has spent of the time for holding up the writer.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Returns how many segments its pins seem to name; the reader may write anything there.
    pub(crate) fn held_segments(&self) -> usize {
        let pins = (0..self.window).map(|slot| self.page.pin(slot).load(Relaxed));
        pins.filter(|&pin| pin != 0).count()
    }

    /// Stops waiting for this reader, and sets its visible state accordingly.
    pub(crate) fn demote(&self, control: &ControlView) {
        self.policy.store(SEAT_DEMOTED, Relaxed); // a flag, orders no memory
        control.seat_state(self.index).store(SEAT_DEMOTED, Relaxed); // a flag, orders no memory
    }
}

impl Seat for Arc<SeatEntry> {
    type Page = PageView;

    fn page(&self) -> &PageView {
        &self.page
    }

    fn window(&self) -> usize {
        self.window
    }

    fn is_lossless(&self) -> bool {
        self.policy.load(Relaxed) == SEAT_LOSSLESS
    }

    fn standing(&self) -> &Standing {
        &self.standing
    }
}

/// The reader's end of a seat, held by the reader and by every burst it holds. Dropping the last
/// reference frees the seat.
pub(crate) struct SeatHandle {
    pub(crate) page: PageView,
    pub(crate) window: usize,
    pub(crate) index: usize,
    /// The number of values in this process that use each pin; 0 if the pin is free.
    holds: [AtomicU32; MAX_WINDOW],
    kept: Kept,
    tie: OnceLock<Arc<OwnedFd>>,
}

enum Kept {
    Own { entry: Arc<SeatEntry>, shared: Arc<Shared> },
    Attached { _page: Mapping },
}

impl SeatHandle {
    pub(crate) fn own(entry: Arc<SeatEntry>, shared: Arc<Shared>) -> Arc<Self> {
        let (page, window, index) = (entry.page, entry.window, entry.index);
        let kept = Kept::Own { entry, shared };
        let (holds, tie) = Default::default();
        Arc::new(Self { page, window, index, holds, kept, tie })
    }

    pub(crate) fn attached(page: Mapping, window: usize, index: usize) -> Arc<Self> {
        // SAFETY: the mapping has at least a page, checked when it was attached, and is kept here.
        let view = unsafe { PageView::over(page.as_ptr()) };
        let kept = Kept::Attached { _page: page };
        let (holds, tie) = Default::default();
        Arc::new(Self { page: view, window, index, holds, kept, tie })
    }

    /// Keeps `socket` open while the seat is used; only the first socket is kept.
    pub(crate) fn tie_to(&self, socket: Arc<OwnedFd>) {
        self.tie.get_or_init(|| socket);
    }

    /// Returns a pin that this process does not use.
    pub(crate) fn free_slot(&self) -> Option<usize> {
        // Pairs with the AcqRel in `drop_hold`: the last holder has cleared the pin.
        (0..self.window).find(|&slot| self.holds[slot].load(Acquire) == 0)
    }

    /// Adds a user of pin `slot`.
    pub(crate) fn add_hold(&self, slot: usize) {
        self.holds[slot].fetch_add(1, Relaxed); // the caller owns a hold, or the free slot
    }

    /// Removes a user of pin `slot`; the last one clears the pin.
    pub(crate) fn drop_hold(&self, slot: usize) {
        let holds = &self.holds[slot];
        // Two threads may drop holds of one slot at the same time. The last one clears the pin
        // before the slot counts as free; otherwise it could clear the pin of the next use.
        let mut seen = holds.load(Acquire);
        loop {
            if seen == 1 {
                protocol::release(&self.page, slot);
            }
            match holds.compare_exchange(seen, seen - 1, AcqRel, Acquire) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }
}

impl Drop for SeatHandle {
    fn drop(&mut self) {
        if let Kept::Own { entry, shared } = &self.kept {
            shared.leave_seat(entry);
        }
    }
}
