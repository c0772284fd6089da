//! Packets on their way into a file that the program writes by `pcap_dump`.
//!
//! ```text
//! pcap_loop:   burst  p p p p p p     the callback calls pcap_dump for each
//!                     v v v v v v
//! gathered:    [h p|h p|h p|h p|h p|h p]  --- before it waits ---> one fwrite
//! ```
//!
//! To write a packet's header and bytes by a call of `fwrite` each costs more than to read the
//! packet from the log. So what callbacks dump is gathered while there are more packets.
//!
//! Who owns what when: the gathered bytes are here until the loop may wait, or there are [`MOST`]
//! of them. They go to the file before that if the program flushes, closes or looks at the dumper,
//! or exits.
//!
//! Invariants:
//! - D1. Only one dumper is gathered for: the last one that was opened for a handle of ours. It
//!   leaves this role when it is closed, or when the program gets its `FILE`, which it may then use
//!   beside us. Any other goes to the real library.
//! - D2. Bytes are gathered only while callbacks run, and until the next burst where that is there
//!   already. So a loop that waits holds nothing back.
//! - D3. A signal's handler may flush: tcpdump's does at SIGUSR2. It may have interrupted its own
//!   thread here, and never waits for that. What it asks for is done when the thread goes on.
//! - D4. One thread at a time has what was gathered, and has it once: not in a handler, too.

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

/// Bytes that are gathered at most, unless one packet is longer.
const MOST: usize = 128 << 10;

/// Between two tries to have what another thread has. It keeps it for a write at most.
const RETRY: Duration = Duration::from_micros(50);

/// A `pcap_dumper_t`: a `FILE`, in every libpcap on Linux. `pcap_dump_file` returns it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Dumper(*mut FILE);

struct Gathered {
    /// Null: there is none.
    dumper: Dumper,
    bytes: Vec<u8>,
    /// How many calls give packets to callbacks.
    giving: u32,
}

/// The only one. By D4 only the thread that [`OWNER`] names looks at it.
struct Shared(UnsafeCell<Gathered>);

// SAFETY: D4. Its parts may go from thread to thread: any one may use a FILE, each call takes its
// lock (unlocked_stdio(3)).
unsafe impl Sync for Shared {}

static GATHERED: Shared = Shared(UnsafeCell::new(Gathered {
    dumper: Dumper(ptr::null_mut()),
    bytes: Vec::new(),
    giving: 0,
}));

/// The thread that has [`GATHERED`], by its number (`me`) or as [`ALONE`]; 0: none. This is a lock
/// that says to a handler whether its own thread has it. It costs no locked instruction where there
/// is but one thread, and else one; a mutex has two, a tenth of what a packet costs here.
static OWNER: AtomicUsize = AtomicUsize::new(0);

/// What an only thread calls itself: to ask for its number is a call for each packet.
const ALONE: usize = 1;

/// glibc's `__libc_single_threaded`: not 0 while there is one thread. Null: the C library has none.
/// Source: glibc 2.32, sys/single_threaded.h.
static SINGLE_THREADED: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// Whether nobody but handlers can come between two instructions of this thread: it would have to
/// start another one first.
fn is_alone() -> bool {
    let word = SINGLE_THREADED.load(Relaxed);
    // SAFETY: it is null, or a byte of the C library's that only changes by whole stores.
    !word.is_null() && unsafe { AtomicU8::from_ptr(word) }.load(Relaxed) != 0
}

/// A handler wanted a flush while its thread was here.
static IS_FLUSH_DUE: AtomicBool = AtomicBool::new(false);

/// [`GATHERED`], which is this thread's until this goes.
struct Owned(());

impl Owned {
    fn try_take() -> Option<Self> {
        let is_taken = if is_alone() {
            // A handler that comes between leaves it as it was.
            let is_free = OWNER.load(Relaxed) == 0;
            if is_free {
                OWNER.store(ALONE, Relaxed);
                compiler_fence(SeqCst); // a handler from here on finds it taken
            }
            is_free
        } else {
            // Acquires what the last owner released when it let go.
            OWNER.compare_exchange(0, me(), Acquire, Relaxed).is_ok()
        };
        // Only `then`: a value that is made and dropped would let go of what another has.
        is_taken.then(|| Self(()))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        OWNER.store(0, Release); // for who takes it next, in `try_take`
        compiler_fence(SeqCst); // a handler from here on finds it free
        // The handler that asked ran on this thread, or this does it for another: both are right.
        if IS_FLUSH_DUE.load(Relaxed) && IS_FLUSH_DUE.swap(false, Relaxed) {
            flush();
        }
    }
}

impl Deref for Owned {
    type Target = Gathered;

    fn deref(&self) -> &Gathered {
        // SAFETY: D4; as long as this lives no other thread owns it, and this one has it once.
        unsafe { &*GATHERED.0.get() }
    }
}

impl DerefMut for Owned {
    fn deref_mut(&mut self) -> &mut Gathered {
        // SAFETY: D4: while this lives no other thread owns it, and this borrow of it is unique.
        unsafe { &mut *GATHERED.0.get() }
    }
}

/// No other thread that lives has this number: the address of the thread's block, so it is neither
/// 0 nor [`ALONE`].
fn me() -> usize {
    // SAFETY: any thread, and any handler, may ask who it is.
    let thread = unsafe { libc::pthread_self() };
    thread as usize
}

/// Takes it, waiting for another thread's end of it. `None`: this is a handler whose thread has it.
#[inline]
fn own() -> Option<Owned> {
    loop {
        if let Some(owned) = Owned::try_take() {
            return Some(owned);
        }
        let owner = OWNER.load(Relaxed);
        if owner == me() || (owner == ALONE && is_alone()) {
            return None; // nobody but this thread writes its name
        }
        thread::sleep(RETRY);
    }
}

/// What stands in front of a packet in a file: times and lengths, 32 bits each, as the host has
/// them. Source: pcap-savefile(5).
fn header_bytes(header: &PacketHeader) -> [u8; 16] {
    let time = &header.time;
    let words = [time.seconds as u32, time.rest as u32, header.captured, header.length];
    let mut bytes = [0; 16];
    bytes.as_chunks_mut().0.copy_from_slice(&words.map(u32::to_ne_bytes));
    bytes
}

impl Gathered {
    /// Gives the gathered bytes to the file. One that an error has stopped takes no more, as in the
    /// real library: `ferror` says so to the program.
    fn write_out(&mut self) {
        if self.bytes.is_empty() {
            return;
        }
        let Dumper(file) = self.dumper;
        // SAFETY: the dumper is open: D1, and C closes a dumper by `pcap_dump_close` only. The
        // bytes are those of the vector.
        unsafe {
            if libc::ferror(file) == 0 {
                libc::fwrite(self.bytes.as_ptr().cast::<c_void>(), 1, self.bytes.len(), file);
            }
        }
        self.bytes.clear();
    }
}

/// From here on packets are gathered for this dumper, which was opened for a handle of ours.
pub(crate) fn opened(dumper: *mut c_void) {
    static AT_EXIT: Once = Once::new();
    AT_EXIT.call_once(|| {
        // SAFETY: the function may be called at any time. Where there is no room for it, what a
        // callback dumped before it called exit(3) is not written.
        let _: c_int = unsafe { libc::atexit(at_exit) };
        // SAFETY: the name is a C string; what is found is a variable that stays.
        let word = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()) };
        SINGLE_THREADED.store(word.cast(), Relaxed);
    });
    let Some(mut gathered) = own() else { return };
    gathered.write_out();
    gathered.dumper = Dumper(dumper.cast());
}

/// exit(3) flushes files after it has called this. It may have interrupted this thread, which has
/// it; another thread that has it is waited for.
extern "C" fn at_exit() {
    if let Some(mut gathered) = own() {
        gathered.write_out();
    }
}

/// A child by fork(2): threads of the parent are not there, and what one of them had is not whole.
/// Else the bytes are the child's too, as are those of every `FILE`.
pub(crate) fn in_child() {
    let owner = OWNER.load(Relaxed);
    if owner != 0 && owner != me() && owner != ALONE {
        // SAFETY: nobody has it but a thread that does not exist, so this write is the only access.
        // The bytes that were there are leaked: that thread may have been about to free them.
        unsafe {
            let none = Gathered { dumper: Dumper(ptr::null_mut()), bytes: Vec::new(), giving: 0 };
            GATHERED.0.get().write(none);
        }
        OWNER.store(0, Release); // as when its owner lets go
    }
}

/// Gathers a packet; false: the real library is to write it.
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

/// Makes sure that the file has all that was dumped. False: this is a handler whose thread may be
/// writing the file. It will flush it when it goes on; nobody may touch it before.
pub(crate) fn settle() -> bool {
    let Some(mut gathered) = own() else {
        IS_FLUSH_DUE.store(true, Relaxed);
        return false;
    };
    gathered.write_out();
    true
}

/// The same, and the kernel is to have it.
fn flush() {
    let Some(mut gathered) = own() else { return };
    gathered.write_out();
    let Dumper(file) = gathered.dumper;
    if !file.is_null() {
        // SAFETY: the dumper is open: D1. An error stays with the file: `ferror`.
        unsafe { libc::fflush(file) };
    }
}

/// The same, before the dumper is closed or its `FILE` is given away: nothing more is gathered.
pub(crate) fn let_go(dumper: *mut c_void) {
    // C lets no handler close a file that its thread may be writing.
    let Some(mut gathered) = own() else { return };
    gathered.write_out();
    if gathered.dumper == Dumper(dumper.cast()) {
        gathered.dumper = Dumper(ptr::null_mut());
    }
}

/// Callbacks run, until this goes.
pub(crate) struct Giving(());

impl Giving {
    /// `None`: this is a handler whose thread is inside. What its callbacks dump is not gathered.
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
