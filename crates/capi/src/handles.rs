//! The table behind `burstline_reader *`: a pointer from C proves nothing, so it is only a key.
//!
//! Numbers of readers and tickets of bursts come from one 64-bit counter, which does not run out.
//! No number is reused, so a closed reader or released burst is never mistaken for another.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};

use burstline_log::VerdictGiver;
use burstline_share::Held;

use crate::border::{self, Fault};
use crate::reading::Reading;
use crate::types::{BurstView, Reader, Status};

/// The open readers by number.
static OPEN: RwLock<BTreeMap<usize, Arc<Handle>>> = RwLock::new(BTreeMap::new());
/// The last number handed out.
static LAST: Mutex<u64> = Mutex::new(0);

pub(crate) struct Handle {
    /// Used by one thread at a time; poisoned by a panic.
    reading: Mutex<Reading>,
    /// The bursts that C holds (B3). Not in `reading`, so that any thread may release anytime.
    lent: Mutex<Lent>,
    /// The last error.
    text: Mutex<String>,
}

#[derive(Default)]
struct Lent {
    /// By ticket, in ascending order.
    bursts: VecDeque<(u64, LentBurst)>,
    is_closed: bool,
}

/// A burst held by C, and where verdicts on it are sent.
struct LentBurst {
    held: Held,
    verdicts: Option<Arc<VerdictGiver>>,
}

/// Locks, even after a panic: every change leaves the value consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn not_held() -> Fault {
    let text = "this burst is not held: it was released, or comes from another reader";
    Fault::new(Status::ErrorNotHeld, text)
}

/// Returns a number that was never used.
pub(crate) fn another() -> u64 {
    let mut last = lock(&LAST);
    *last += 1;
    *last
}

pub(crate) fn add(reading: Reading) -> *mut Reader {
    let handle =
        Handle { reading: Mutex::new(reading), lent: Mutex::default(), text: Mutex::default() };
    let number = another() as usize;
    OPEN.write().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::new(handle));
    std::ptr::without_provenance_mut(number)
}

/// Returns the reader that a pointer stands for.
pub(crate) fn find(reader: *const Reader) -> Result<Arc<Handle>, Fault> {
    if reader.is_null() {
        return Err(Fault::argument("the reader is NULL"));
    }
    let open = OPEN.read().unwrap_or_else(PoisonError::into_inner);
    open.get(&reader.addr()).cloned().ok_or_else(Fault::closed)
}

/// Removes a reader from the table, and releases all of its bursts that C holds.
pub(crate) fn close(reader: *mut Reader) -> Result<(), Fault> {
    let handle = find(reader)?;
    let removed = OPEN.write().unwrap_or_else(PoisonError::into_inner).remove(&reader.addr());
    let mut lent = lock(&handle.lent);
    lent.is_closed = true;
    let bursts = std::mem::take(&mut lent.bursts);
    drop((lent, bursts));
    // If two threads close a reader, the second one gets an error.
    removed.map(drop).ok_or_else(Fault::closed)
}

/// Runs `body` with a reader. An error is stored as the reader's text, or as the thread's if there
/// is no reader.
pub(crate) fn with(
    reader: *const Reader,
    body: impl FnOnce(&Handle) -> Result<Status, Fault>,
) -> Status {
    let (handle, outcome) = match find(reader) {
        Ok(handle) => {
            let outcome = body(&handle);
            (Some(handle), outcome)
        }
        Err(fault) => (None, Err(fault)),
    };
    outcome.unwrap_or_else(|Fault { status, text }| {
        match handle {
            Some(handle) if !handle.is_closed() => *lock(&handle.text) = text,
            _ => border::remember(text),
        }
        status
    })
}

impl Handle {
    /// Locks the reader for this thread.
    pub(crate) fn reading(&self) -> Result<MutexGuard<'_, Reading>, Fault> {
        self.reading.try_lock().map_err(|error| match error {
            TryLockError::Poisoned(_) => Fault::broken(),
            TryLockError::WouldBlock => {
                Fault::new(Status::ErrorBusy, "another thread is in a call with this reader")
            }
        })
    }

    /// Returns this reader's last error.
    pub(crate) fn text(&self) -> String {
        if self.reading.is_poisoned() {
            return Fault::broken().text;
        }
        lock(&self.text).clone()
    }

    /// Stores a burst until it is released, and returns its view.
    pub(crate) fn lend(
        &self,
        held: Held,
        log: u32,
        epoch: u64,
        verdicts: Option<Arc<VerdictGiver>>,
    ) -> Result<BurstView, Fault> {
        let mut lent = lock(&self.lent);
        if lent.is_closed {
            // Another thread has closed the reader, and would not release this burst.
            return Err(Fault::closed());
        }
        // Under the lock, so that the list stays sorted by ticket.
        let ticket = another();
        let burst = held.burst();
        let view = BurstView {
            base: burst.start().as_ptr(),
            worklist: burst.worklist().as_ptr().cast(),
            bytes: burst.extent() as u64,
            count: burst.len() as u32,
            log,
            base_time_ns: burst.base_time_ns(),
            first_packet: burst.first_packet(),
            epoch,
            ticket,
        };
        lent.bursts.push_back((ticket, LentBurst { held, verdicts }));
        Ok(view)
    }

    pub(crate) fn release(&self, ticket: u64) -> Result<(), Fault> {
        let mut lent = lock(&self.lent);
        let found = lent.bursts.binary_search_by_key(&ticket, |&(ticket, _)| ticket);
        let burst = found.ok().and_then(|index| lent.bursts.remove(index));
        drop(lent); // before the burst, which may hold the last reference to its writer's memory
        burst.map(drop).ok_or_else(not_held)
    }

    /// Gives verdicts on packets `[from, from + count)` of a held burst.
    pub(crate) fn give(
        &self,
        ticket: u64,
        from: u32,
        count: u32,
        mut give: impl FnMut(&VerdictGiver, u64) -> Result<Status, Fault>,
    ) -> Result<Status, Fault> {
        let lent = lock(&self.lent);
        let found = lent.bursts.binary_search_by_key(&ticket, |&(ticket, _)| ticket);
        let Ok(index) = found else { return Err(not_held()) };
        let LentBurst { held, verdicts } = &lent.bursts[index].1;
        let Some(verdicts) = verdicts else {
            let text = "the reader gives no verdicts: set options.verdicts to BURSTLINE_VERDICTS";
            return Err(Fault::argument(text.to_owned()));
        };
        let burst = held.burst();
        let (end, packets) = (u64::from(from) + u64::from(count), burst.len());
        if count == 0 || end > packets as u64 {
            let text = format!("packets [{from}, {end}) of a burst of {packets}");
            return Err(Fault::argument(text));
        }
        let first = burst.first_packet();
        for at in u64::from(from)..end {
            match give(verdicts, first + at)? {
                Status::Ok => {}
                other => return Ok(other),
            }
        }
        Ok(Status::Ok)
    }

    /// Returns whether another thread has closed the reader in the meantime.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.lent).is_closed
    }

    /// Returns the number of bursts held by C.
    pub(crate) fn held(&self) -> usize {
        lock(&self.lent).bursts.len()
    }
}
