//! The rights of threads that a library started.
//!
//! User, capabilities, filters and rulesets belong to a thread, and only the thread itself can give
//! them up. A library's thread runs code of ours in one case: when it handles a signal. glibc
//! changes the user of all threads in the same way.
//!
//! ```text
//!   job: threads with rights ──tgkill──► each gives up its own ──► the job lists them again
//! ```
//!
//! Source: capset(2), nptl(7), signal-safety(7).

use std::fs;
use std::io;
use std::mem::zeroed;
use std::path::Path;
use std::ptr;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::folder;

use super::{CONFINEMENT, Held, empty_bounding_set, give_up};

/// Set if a library starts threads.
static EXPECTED: OnceLock<()> = OnceLock::new();
/// Threads of ours that start programs, and so keep more than a library's.
static STARTERS: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// How long a thread may take to handle a signal.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// Says that a library starts threads, whose rights [`drop_of_libraries`] drops.
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

/// Runs `work` without the signal that would make this thread give up its rights meanwhile: its own
/// calls after that would not be in the list.
pub(super) fn undisturbed<T>(work: impl FnOnce() -> T) -> T {
    let Some(signal) = library_signal() else { return work() };
    // SAFETY: zeros are a valid set of signals.
    let (mut one, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { (zeroed(), zeroed()) };
    // SAFETY: both sets are whole, and the calls change the mask of this thread only.
    unsafe {
        libc::sigaddset(&raw mut one, signal);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const one, &raw mut before);
    }
    let done = work();
    // SAFETY: the first call filled `before`, or it is empty, as for a thread of ours.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut()) };
    done
}

fn starters() -> MutexGuard<'static, Vec<u32>> {
    STARTERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Leaves the calling thread alone: it has given up what it does not need to start programs.
pub(super) fn leave_alone() {
    starters().push(rustix::thread::gettid().as_raw_nonzero().get() as u32);
}

/// If a library starts threads: each thread of this process but the main one gives up what
/// [`give_up`] does: its user, capabilities, bounding set, files and calls. Threads that they start
/// later have no more. A thread of [`give_up_but_programs`](super::give_up_but_programs) stays as
/// it is.
///
/// # Errors
/// Errors from the kernel, and a thread that does not handle a signal within 5 s.
pub fn drop_of_libraries() -> io::Result<()> {
    if EXPECTED.get().is_none() {
        return Ok(());
    }
    let (began, mut told) = (Instant::now(), Vec::new());
    let mut threads = with_rights()?;
    if threads.is_empty() {
        return Ok(());
    }
    // SAFETY: zeros are a valid `sigaction`: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { zeroed() };
    action.sa_sigaction = give_up_own as *const () as usize;
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
        threads = with_rights()?;
    }
    Ok(())
}

/// Returns the threads that have rights to give up, without the main one.
fn with_rights() -> io::Result<Vec<u32>> {
    let mut threads = Vec::new();
    let tasks = Path::new("/proc/self/task");
    for name in folder::names(tasks)? {
        // A thread may end meanwhile.
        let Ok(status) = fs::read_to_string(tasks.join(&name).join("status")) else { continue };
        let thread = name.to_str().and_then(|name| name.parse::<u32>().ok());
        let thread = thread.filter(|&thread| thread != std::process::id());
        threads.extend(thread.filter(|_| !has_given_up(&Held::of(&status))));
    }
    let starters = starters();
    threads.retain(|thread| !starters.contains(thread));
    Ok(threads)
}

/// Returns whether a thread has no more than the [`Confinement`](super::Confinement) keeps. The
/// kernel does not show rulesets: a thread enters its own before the filter.
fn has_given_up(held: &Held) -> bool {
    let Some(confinement) = CONFINEMENT.get() else { return held.capabilities == 0 };
    let has_user = confinement.user.as_ref().is_none_or(|account| account.user == held.user);
    let has_calls = confinement.calls.is_none() || held.is_filtered;
    held.capabilities == 0 && held.has_no_new_privileges && has_user && has_calls
}

/// Runs in a thread of the library, between any two of its instructions. It makes system calls
/// only, without locks and allocations.
extern "C" fn give_up_own(_signal: libc::c_int) {
    // SAFETY: this thread's own word, which the interrupted code may be about to read.
    let errno = unsafe { *libc::__errno_location() };
    empty_bounding_set();
    // The list of threads says whether it worked.
    let _ = give_up();
    // SAFETY: this thread's own word gets the value that it had.
    unsafe { *libc::__errno_location() = errno };
}
