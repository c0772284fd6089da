//! Handles SIGBUS for mapped files of a peer. The peer may truncate such a file; a load from it
//! then raises SIGBUS, which ends a process. The handler replaces the whole mapping with zeros.
//!
//! ```text
//!   load --> SIGBUS --> is the address in a range of the table?  yes: map zeros there, mark, retry
//!                                                                no: the earlier handler
//! ```
//!
//! The peer chooses the length of a mapping, and a sparse file costs it nothing. So no memory is
//! reserved for the zeros. If a limit forbids so many pages, only the accessed page is replaced.
//!
//! The table has a fixed size and uses only atomics, because a signal handler must not take a lock.
//!
//! # Invariants
//! - G1. A range is in the table from before its first access until after its last one.
//! - G2. The handler calls only mmap(2) and the previous handler.

use std::mem::zeroed;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};

use libc::{c_int, c_void, sigaction, siginfo_t};

/// The most mappings at a time, over all peers: a peer has up to 8 regions, or 32 with memif.
const RANGES: usize = 2048;
/// The start of a range that is being filled in.
const RESERVED: usize = 1;

struct Range {
    /// 0 if the row is free.
    start: AtomicUsize,
    end: AtomicUsize,
    /// The page size of the file: only whole pages of the mapping can be replaced.
    page: AtomicUsize,
    has_fired: AtomicBool,
}

static TABLE: [Range; RANGES] = [const {
    Range {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        page: AtomicUsize::new(0),
        has_fired: AtomicBool::new(false),
    }
}; RANGES];

static BEFORE: OnceLock<sigaction> = OnceLock::new();

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Guard {
    row: usize,
}

impl Guard {
    /// Adds a mapping of whole pages. The error is the maximum number of mappings.
    pub(crate) fn watch(start: usize, bytes: usize, page: usize) -> Result<Self, usize> {
        BEFORE.get_or_init(install);
        for (row, range) in TABLE.iter().enumerate() {
            // A row is taken once: the exchange decides, and orders no other memory.
            if range.start.compare_exchange(0, RESERVED, Relaxed, Relaxed).is_ok() {
                range.has_fired.store(false, Relaxed);
                range.page.store(page, Relaxed);
                // Pairs with the Acquire in `Range::place`: who sees this end sees RESERVED, too.
                range.end.store(start + bytes, Release);
                // Pairs with the Acquire in `Range::place`: the rest is visible before start.
                range.start.store(start, Release);
                return Ok(Self { row });
            }
        }
        Err(RANGES)
    }

    /// Returns whether the mapping was replaced by zeros.
    pub(crate) fn has_fired(&self) -> bool {
        TABLE[self.row].has_fired.load(Relaxed) // a statistic, also checked by the next poll
    }

    /// Removes the mapping from the table. Nothing may access it any more.
    pub(crate) fn end(&self) {
        // Pairs with the exchange in `watch`; nothing else depends on it.
        TABLE[self.row].start.store(0, Release);
    }
}

fn install() -> sigaction {
    // SAFETY: both are plain structures of C; zeros are valid, and sigaction(2) reads and fills
    // them. The handler keeps to G2, which is safe in a signal handler.
    unsafe {
        let mut ours: sigaction = zeroed();
        let mut before: sigaction = zeroed();
        ours.sa_sigaction = handle as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        libc::sigaction(libc::SIGBUS, &ours, &mut before);
        before
    }
}

impl Range {
    /// Returns the mapping, if it contains an address.
    fn place(&self, address: usize) -> Option<Place> {
        // Pairs with the Release in `watch`.
        let start = self.start.load(Acquire);
        // Pairs with the Release in `watch`.
        let end = self.end.load(Acquire);
        let page = self.page.load(Relaxed);
        // If another thread reuses the row in the meantime, the end does not belong to this start.
        let is_one = self.start.load(Relaxed) == start;
        let is_inside = start > RESERVED && (start..end).contains(&address);
        (is_one && is_inside).then(|| Place { start, bytes: end - start, page })
    }
}

/// A range of addresses that is replaced by zeros.
struct Place {
    start: usize,
    bytes: usize,
    page: usize,
}

impl Place {
    fn page_of(&self, address: usize) -> Self {
        let start = address - (address - self.start) % self.page;
        Self { start, bytes: self.page, page: self.page }
    }

    /// Maps zeros there. Returns false if the kernel refuses.
    fn replace(&self) -> bool {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // SAFETY: by G1 the place is in a mapping of a live `PeerMemory`, which is accessed only by
        // copies and atomics; zeros are as valid as anything a peer may write.
        let place =
            unsafe { libc::mmap(self.start as *mut c_void, self.bytes, protection, flags, -1, 0) };
        place != libc::MAP_FAILED
    }
}

extern "C" fn handle(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid structure to a handler with SA_SIGINFO.
    let address = unsafe { (*info).si_addr() } as usize;
    for range in &TABLE {
        if let Some(place) = range.place(address)
            && (place.replace() || place.page_of(address).replace())
        {
            range.has_fired.store(true, Relaxed);
            return;
        }
    }
    pass_on(signal, info, context);
}

/// Calls the previous handler; if there is none, the process ends as it would have without ours.
fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    if let Some(before) = BEFORE.get()
        && before.sa_flags & libc::SA_SIGINFO != 0
        && before.sa_sigaction > libc::SIG_IGN
    {
        // SAFETY: with SA_SIGINFO the value is a function of this type, as sigaction(2) says.
        let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
            unsafe { std::mem::transmute(before.sa_sigaction) };
        handler(signal, info, context);
        return;
    }
    // SAFETY: setting a signal to its default is allowed in a handler; the fault is then repeated.
    unsafe {
        let mut default: sigaction = zeroed();
        default.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(signal, &default, ptr::null_mut());
    }
}
