//! Gathers packets that the program writes to a file with `pcap_dump`.
//!
//! ```text
//! pcap_loop:   burst  p p p p p p     the callback calls pcap_dump for each
//!                     v v v v v v
//! gathered:    [h p|h p|h p|h p|h p|h p]  --- before it waits ---> one fwrite
//! ```
//!
//! A call of `fwrite` each for a packet's header and bytes costs more than reading the packet from
//! the log. So packets that callbacks dump are gathered while there are more packets.
//!
//! Ownership: the gathered bytes are here until the loop may wait, or there are [`MOST`] of them.
//! They go to the file earlier if the program flushes, closes or queries the dumper, or exits.
//!
//! Invariants:
//! - D1. Packets are gathered for one dumper only: the last one opened for a handle of this
//!   library. It loses this role when it is closed, or when the program gets its `FILE`, which it
//!   may then use directly. Other dumpers go to the real library.
//! - D2. Bytes are gathered only while callbacks run, and until the next burst if that is already
//!   there. So a loop that waits holds nothing back.
//! - D3. A signal handler may flush, as tcpdump's does for SIGUSR2. It may have interrupted its own
//!   thread here, and never waits for that. Its request is handled when the thread goes on.
//! - D4. One thread at a time owns the gathered bytes; a handler that interrupts it does not.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::ops::{Deref, DerefMut};
use std::sync::Once;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicUsize, compiler_fence};
use std::time::Duration;
use std::{ptr, thread};

use libc::FILE;

use crate::abi::PacketHeader;

/// The most bytes gathered, unless one packet is longer.
const MOST: usize = 128 << 10;

/// Time between two attempts to take ownership; another thread keeps it for a write at most.
const RETRY: Duration = Duration::from_micros(50);

/// A `pcap_dumper_t`: a `FILE`, in every libpcap on Linux. `pcap_dump_file` returns it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Dumper(*mut FILE);

struct Gathered {
    /// Null if there is none.
    dumper: Dumper,
    bytes: Vec<u8>,
    /// The number of calls that currently give packets to callbacks.
    giving: u32,
}

/// The only instance. By D4 only the thread that [`OWNER`] names accesses it.
struct Shared(UnsafeCell<Gathered>);

// SAFETY: D4. Its parts may move between threads: any thread may use a FILE, since each call takes
// its lock (unlocked_stdio(3)).
unsafe impl Sync for Shared {}

static GATHERED: Shared = Shared(UnsafeCell::new(Gathered {
    dumper: Dumper(ptr::null_mut()),
    bytes: Vec::new(),
    giving: 0,
}));

/// The thread that owns [`GATHERED`], by its number (`me`) or as [`ALONE`]; 0 for none. A lock that
/// tells a signal handler whether its own thread holds it. It needs no locked instruction if there
/// is only one thread, and otherwise one. A mutex needs two, a tenth of a packet's cost here.
static OWNER: AtomicUsize = AtomicUsize::new(0);

/// The number of the only thread: asking for its real number would be a call for each packet.
const ALONE: usize = 1;

/// glibc's `__libc_single_threaded`: not 0 while there is one thread. Null if the C library has
/// none. Source: glibc 2.32, sys/single_threaded.h.
static SINGLE_THREADED: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// Returns whether only signal handlers can interrupt this thread: it would first have to start
/// another thread.
fn is_alone() -> bool {
    let word = SINGLE_THREADED.load(Relaxed);
    // SAFETY: it is null, or a byte of the C library that changes only by whole stores.
    !word.is_null() && unsafe { AtomicU8::from_ptr(word) }.load(Relaxed) != 0
}

/// Whether a signal handler requested a flush while its thread was here.
static IS_FLUSH_DUE: AtomicBool = AtomicBool::new(false);

/// Ownership of [`GATHERED`] by this thread, until dropped.
struct Owned(());

impl Owned {
    fn try_take() -> Option<Self> {
        let is_taken = if is_alone() {
            // A signal handler in between restores the value.
            let is_free = OWNER.load(Relaxed) == 0;
            if is_free {
                OWNER.store(ALONE, Relaxed);
                compiler_fence(SeqCst); // a handler from here on finds it owned
            }
            is_free
        } else {
            // Acquires what the last owner released.
            OWNER.compare_exchange(0, me(), Acquire, Relaxed).is_ok()
        };
        // `then`, not `then_some`: dropping an unused value would release another's ownership.
        is_taken.then(|| Self(()))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        OWNER.store(0, Release); // pairs with the next `try_take`
        compiler_fence(SeqCst); // a handler from here on finds it free
        // The requesting handler ran on this thread, or on another one: both are right.
        if IS_FLUSH_DUE.load(Relaxed) && IS_FLUSH_DUE.swap(false, Relaxed) {
            flush();
        }
    }
}

impl Deref for Owned {
    type Target = Gathered;

    fn deref(&self) -> &Gathered {
        // SAFETY: D4; while this lives no other thread owns it, and this thread owns it once.
        unsafe { &*GATHERED.0.get() }
    }
}

impl DerefMut for Owned {
    fn deref_mut(&mut self) -> &mut Gathered {
        // SAFETY: D4; while this lives no other thread owns it, and this borrow of it is unique.
        unsafe { &mut *GATHERED.0.get() }
    }
}

/// Returns a number that no other living thread has: the address of the thread's block, so it is
/// neither 0 nor [`ALONE`].
fn me() -> usize {
    // SAFETY: any thread, and any signal handler, may call this.
    let thread = unsafe { libc::pthread_self() };
    thread as usize
}

/// Takes ownership; waits for another thread. `None` in a signal handler whose thread is the owner.
#[inline]
fn own() -> Option<Owned> {
    loop {
        if let Some(owned) = Owned::try_take() {
            return Some(owned);
        }
        let owner = OWNER.load(Relaxed);
        if owner == me() || (owner == ALONE && is_alone()) {
            return None; // only this thread stores its number
        }
        thread::sleep(RETRY);
    }
}

/// Returns the header of a packet in a file: times and lengths, 32 bits each, in the host's byte
/// order. Source: pcap-savefile(5).
fn header_bytes(header: &PacketHeader) -> [u8; 16] {
    let time = &header.time;
    let words = [time.seconds as u32, time.rest as u32, header.captured, header.length];
    let mut bytes = [0; 16];
    bytes.as_chunks_mut().0.copy_from_slice(&words.map(u32::to_ne_bytes));
    bytes
}

impl Gathered {
    /// Writes the gathered bytes to the file. After an error the file accepts no more, as with the
    /// real library: `ferror` reports that to the program.
    fn write_out(&mut self) {
        if self.bytes.is_empty() {
            return;
        }
        let Dumper(file) = self.dumper;
        // SAFETY: the dumper is open: D1, and C closes a dumper only with `pcap_dump_close`. The
        // bytes are those of the vector.
        unsafe {
            if libc::ferror(file) == 0 {
                libc::fwrite(self.bytes.as_ptr().cast::<c_void>(), 1, self.bytes.len(), file);
            }
        }
        self.bytes.clear();
    }
}

/// Gathers packets for this dumper from now on; it was opened for a handle of this library.
pub(crate) fn opened(dumper: *mut c_void) {
    static AT_EXIT: Once = Once::new();
    AT_EXIT.call_once(|| {
        // SAFETY: the function may be called at any time. If it cannot be registered, packets that
        // a callback dumped before it called exit(3) are not written.
        let _: c_int = unsafe { libc::atexit(at_exit) };
        // SAFETY: the name is a C string; the result is a variable that stays valid.
        let word = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()) };
        SINGLE_THREADED.store(word.cast(), Relaxed);
    });
    let Some(mut gathered) = own() else { return };
    gathered.write_out();
    gathered.dumper = Dumper(dumper.cast());
}

/// Called by exit(3) before it flushes files. It may have interrupted this thread as the owner;
/// another owner is waited for.
extern "C" fn at_exit() {
    if let Some(mut gathered) = own() {
        gathered.write_out();
    }
}

/// Resets the state in a child by fork(2) if the owner was another thread, which does not exist
/// here and may have left it incomplete. Else the bytes are the child's, too, as for every `FILE`.
pub(crate) fn in_child() {
    let owner = OWNER.load(Relaxed);
    if owner != 0 && owner != me() && owner != ALONE {
        // SAFETY: the owner is a thread that does not exist, so this write is the only access. The
        // old bytes are leaked: that thread may have been about to free them.
        unsafe {
            let none = Gathered { dumper: Dumper(ptr::null_mut()), bytes: Vec::new(), giving: 0 };
            GATHERED.0.get().write(none);
        }
        OWNER.store(0, Release); // like an owner's release
    }
}

/// Gathers a packet; returns false if the real library must write it.
pub(crate) fn gather(dumper: *mut c_void, header: &PacketHeader, packet: &[u8]) -> bool {
    let Some(mut gathered) = own() else { return false };
    if gathered.giving == 0 || gathered.dumper != Dumper(dumper.cast()) {
        return false;
    }
    if gathered.bytes.len() + packet.len() > MOST {
        gathered.write_out();
    }
    gathered.bytes.extend_from_slice(&header_bytes(header));
    gathered.bytes.extend_from_slice(packet);
    true
}

/// Writes everything that was dumped to the file. Returns false in a signal handler whose thread
/// may be writing the file. That thread will flush it; until then it must not be touched.
pub(crate) fn settle() -> bool {
    let Some(mut gathered) = own() else {
        IS_FLUSH_DUE.store(true, Relaxed);
        return false;
    };
    gathered.write_out();
    true
}

/// Writes everything that was dumped and flushes the file.
fn flush() {
    let Some(mut gathered) = own() else { return };
    gathered.write_out();
    let Dumper(file) = gathered.dumper;
    if !file.is_null() {
        // SAFETY: the dumper is open: D1. The file keeps an error: `ferror`.
        unsafe { libc::fflush(file) };
    }
}

/// Writes everything before the dumper is closed or its `FILE` is given away, and ends gathering.
pub(crate) fn let_go(dumper: *mut c_void) {
    // C does not allow a signal handler to close a file that its thread may be writing.
    let Some(mut gathered) = own() else { return };
    gathered.write_out();
    if gathered.dumper == Dumper(dumper.cast()) {
        gathered.dumper = Dumper(ptr::null_mut());
    }
}

/// Marks that callbacks run, until dropped.
pub(crate) struct Giving(());

impl Giving {
    /// `None` in a signal handler whose thread is inside: its callbacks' packets are not gathered.
    pub(crate) fn begin() -> Option<Self> {
        own()?.giving += 1;
        Some(Self(()))
    }
}

impl Drop for Giving {
    fn drop(&mut self) {
        let mut gathered = own().expect("who counted it was not inside");
        gathered.giving = gathered.giving.saturating_sub(1); // 0 in a child: see `in_child`
        gathered.write_out();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Timeval;

    #[test]
    fn a_header_has_times_and_lengths() {
        let time = Timeval { seconds: 1, rest: 2 };
        let bytes = header_bytes(&PacketHeader { time, captured: 3, length: 4 });
        let words = [1_u32, 2, 3, 4].map(u32::to_ne_bytes);
        assert_eq!(bytes, *words.as_flattened());
    }
}
