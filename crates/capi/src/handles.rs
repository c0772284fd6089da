//! What a `burstline_reader *` stands for: a table, because a pointer from C proves nothing.
//!
//! Numbers of readers and tickets of bursts come from one counter (2^64 do not run out). None is
//! used twice, so a closed reader or released burst is never mistaken for another.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};

use burstline_log::VerdictGiver;
use burstline_share::Held;

use crate::border::{self, Fault};
use crate::reading::Reading;
use crate::types::{BurstView, Reader, Status};

/// The readers that are open, by number.
static OPEN: RwLock<BTreeMap<usize, Arc<Handle>>> = RwLock::new(BTreeMap::new());
/// The number given last.
static LAST: Mutex<u64> = Mutex::new(0);

/// One open reader.
pub(crate) struct Handle {
    /// One thread's at a time; poisoned by a panic.
    reading: Mutex<Reading>,
    /// What C holds (B3). Apart from `reading`, so that any thread may release at any time.
    lent: Mutex<Lent>,
    /// What went wrong last.
    text: Mutex<String>,
}

#[derive(Default)]
struct Lent {
    /// By ticket, ascending.
    bursts: VecDeque<(u64, LentBurst)>,
    is_closed: bool,
}

/// A burst that C holds, and where verdicts on it go.
struct LentBurst {
    held: Held,
    verdicts: Option<Arc<VerdictGiver>>,
}

/// Locks, also after a panic: every change leaves the value whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn not_held() -> Fault {
    let text = "this burst is not held: it was released, or comes from another reader";
    Fault::new(Status::ErrorNotHeld, text)
}

/// A number that nobody has.
pub(crate) fn another() -> u64 {
    let mut last = lock(&LAST);
    *last += 1;
    *last
}

/// Puts a reader into the table.
pub(crate) fn add(reading: Reading) -> *mut Reader {
    let handle =
        Handle { reading: Mutex::new(reading), lent: Mutex::default(), text: Mutex::default() };
    let number = another() as usize;
    OPEN.write().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::new(handle));
    std::ptr::without_provenance_mut(number)
}

/// The reader that a pointer stands for.
pub(crate) fn find(reader: *const Reader) -> Result<Arc<Handle>, Fault> {
    if reader.is_null() {
        return Err(Fault::argument("the reader is NULL"));
    }
    let open = OPEN.read().unwrap_or_else(PoisonError::into_inner);
    open.get(&reader.addr()).cloned().ok_or_else(Fault::closed)
}

/// Takes a reader out of the table, and everything back that C holds of it.
pub(crate) fn close(reader: *mut Reader) -> Result<(), Fault> {
    let handle = find(reader)?;
    let removed = OPEN.write().unwrap_or_else(PoisonError::into_inner).remove(&reader.addr());
    let mut lent = lock(&handle.lent);
    lent.is_closed = true;
    let bursts = std::mem::take(&mut lent.bursts);
    drop((lent, bursts));
    // If two threads close one reader, the second one gets an error.
    removed.map(drop).ok_or_else(Fault::closed)
}

/// Does something with a reader. What goes wrong is kept as its text, or as the thread's where it
/// is none.
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
    /// The reader, for this thread.
    pub(crate) fn reading(&self) -> Result<MutexGuard<'_, Reading>, Fault> {
        self.reading.try_lock().map_err(|error| match error {
            TryLockError::Poisoned(_) => Fault::broken(),
            TryLockError::WouldBlock => {
                Fault::new(Status::ErrorBusy, "another thread is in a call with this reader")
            }
        })
    }

    /// What went wrong last with this reader.
    pub(crate) fn text(&self) -> String {
        if self.reading.is_poisoned() {
            return Fault::broken().text;
        }
        lock(&self.text).clone()
    }

    /// Keeps a burst until it is released, and describes it.
    pub(crate) fn lend(
        &self,
        held: Held,
        log: u32,
        epoch: u64,
        verdicts: Option<Arc<VerdictGiver>>,
    ) -> Result<BurstView, Fault> {
        let mut lent = lock(&self.lent);
        if lent.is_closed {
            // Another thread has closed the reader meanwhile, and would not take this one back.
            return Err(Fault::closed());
        }
        // Under the lock: tickets in the list ascend.
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

    /// Lets go of a burst.
    pub(crate) fn release(&self, ticket: u64) -> Result<(), Fault> {
        let mut lent = lock(&self.lent);
        let found = lent.bursts.binary_search_by_key(&ticket, |&(ticket, _)| ticket);
        let burst = found.ok().and_then(|index| lent.bursts.remove(index));
        drop(lent); // before the burst, which may be the last one of its writer's memory
        burst.map(drop).ok_or_else(not_held)
    }

    /// Gives verdicts on packets `[from, from + count)` of a burst that C holds.
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

    /// Whether another thread has closed it meanwhile.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.lent).is_closed
    }

    /// How many bursts C holds.
    pub(crate) fn held(&self) -> usize {
        lock(&self.lent).bursts.len()
    }
}
