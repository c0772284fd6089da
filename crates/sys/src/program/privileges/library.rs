//! The capabilities of threads that a library started.
//!
//! Capabilities belong to a thread, and only the thread itself can drop them. A library's thread
//! runs code of ours in one case: when it handles a signal. glibc changes the user of all threads
//! in the same way.
//!
//! ```text
//!   job: threads with capabilities ──tgkill──► each drops its own ──► the job lists them again
//! ```
//!
//! Source: capset(2), nptl(7), signal-safety(7).

use std::fs;
use std::io;
use std::mem::zeroed;
use std::ptr;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use super::{Held, drop_capabilities, empty_bounding_set};

/// Set if a library starts threads.
static EXPECTED: OnceLock<()> = OnceLock::new();

/// How long a thread may take to handle a signal.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// Says that a library starts threads, whose capabilities [`drop_of_libraries`] drops.
pub fn expect_library_threads() {
    let _ = EXPECTED.set(());
}

/// Returns the signal by which [`drop_of_libraries`] reaches threads, which they must not block.
/// `None` if no library starts threads.
pub fn library_signal() -> Option<libc::c_int> {
    EXPECTED.get().map(|()| signal())
}

/// The number depends on how many signals libc takes for itself.
fn signal() -> libc::c_int {
    libc::SIGRTMIN() + 3
}

/// If a library starts threads: drops all capabilities of each thread of this process but the main
/// one, and empties its bounding set where that is permitted. They keep their user, and may call
/// everything. Threads that they start later have none either.
///
/// # Errors
/// Errors from the kernel, and a thread that does not handle a signal within 5 s.
pub fn drop_of_libraries() -> io::Result<()> {
    if EXPECTED.get().is_none() {
        return Ok(());
    }
    let (began, mut told) = (Instant::now(), Vec::new());
    let mut threads = with_capabilities()?;
    if threads.is_empty() {
        return Ok(());
    }
    // SAFETY: zeros are a valid `sigaction`: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { zeroed() };
    action.sa_sigaction = drop_own as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    // The handler stays: without it, a thread that is late would end the process.
    // SAFETY: the structure is whole, and the handler makes only calls that are safe in one.
    if unsafe { libc::sigaction(signal(), &raw const action, ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    while !threads.is_empty() {
        if began.elapsed() > PATIENCE {
            let left = threads.len();
            return Err(io::Error::other(format!("{left} threads of a library keep theirs")));
        }
        for thread in threads {
            if !told.contains(&thread) {
                // SAFETY: the call reads no memory. If the thread has ended, it fails.
                unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), thread, signal()) };
                told.push(thread);
            }
        }
        thread::sleep(LOOK_EVERY);
        threads = with_capabilities()?;
    }
    Ok(())
}

/// Returns the threads that have capabilities, without the main one.
fn with_capabilities() -> io::Result<Vec<u32>> {
    let mut threads = Vec::new();
    for entry in fs::read_dir("/proc/self/task")? {
        let entry = entry?;
        // A thread may end meanwhile.
        let Ok(status) = fs::read_to_string(entry.path().join("status")) else { continue };
        let thread = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let thread = thread.filter(|&thread| thread != std::process::id());
        threads.extend(thread.filter(|_| Held::of(&status).capabilities != 0));
    }
    Ok(threads)
}

/// Runs in a thread of the library, between any two of its instructions. It makes system calls
/// only, without locks and allocations.
extern "C" fn drop_own(_signal: libc::c_int) {
    // SAFETY: this thread's own word, which the interrupted code may be about to read.
    let errno = unsafe { *libc::__errno_location() };
    empty_bounding_set();
    // The list of threads says whether it worked.
    let _ = drop_capabilities(None);
    // SAFETY: this thread's own word gets the value that it had.
    unsafe { *libc::__errno_location() = errno };
}
