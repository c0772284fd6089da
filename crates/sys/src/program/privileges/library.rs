//! The capabilities of threads that a library started.
//!
//! Capabilities belong to a thread, and only the thread itself can drop them. A library's thread
//! runs code of ours in one case: when it handles a signal. glibc changes the user of all threads
//! in the same way.
//!
//! ```text
//!   job: a list of threads ──tgkill──► thread of the library: capset, prctl ──► counted
//! ```
//!
//! Source: capset(2), nptl(7), signal-safety(7).

use std::fs;
use std::io;
use std::mem::zeroed;
use std::ptr;
use std::sync::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// What the names of the library's threads begin with.
static PREFIXES: OnceLock<&'static [&'static str]> = OnceLock::new();

/// Threads that have handled the signal. Release, after the drop; partner: the Acquire load of
/// `drop_of_libraries`.
static DROPPED: AtomicUsize = AtomicUsize::new(0);

/// How long a thread may take to handle a signal.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// `_LINUX_CAPABILITY_VERSION_3`, with two words for each set.
const VERSION_3: u32 = 0x2008_0522;
/// Numbers of capabilities that two words have room for.
const CAPABILITIES: libc::c_ulong = 64;

/// Sets the names of threads whose capabilities [`drop_of_libraries`] drops: what they begin with.
pub fn name_library_threads(prefixes: &'static [&'static str]) {
    let _ = PREFIXES.set(prefixes);
}

/// Returns the signal by which [`drop_of_libraries`] reaches threads, which they must not block.
/// `None` without named threads.
pub fn library_signal() -> Option<libc::c_int> {
    PREFIXES.get().map(|_| signal())
}

/// The number depends on how many signals libc takes for itself.
fn signal() -> libc::c_int {
    libc::SIGRTMIN() + 3
}

/// Drops all capabilities of the named threads of this process, also from their bounding sets. They
/// keep their user, and may call everything. Threads that they start later have none either.
///
/// # Errors
/// Errors from the kernel, and a thread that does not handle a signal within 5 s.
pub fn drop_of_libraries() -> io::Result<()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let Some(prefixes) = PREFIXES.get() else { return Ok(()) };
    let _lock = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let threads = with_capabilities(prefixes)?;
    if threads.is_empty() {
        return Ok(());
    }
    // SAFETY: zeros are a valid `sigaction`: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { zeroed() };
    action.sa_sigaction = drop_own as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the structure is whole, and the handler makes only calls that are safe in one.
    if unsafe { libc::sigaction(signal(), &raw const action, ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let begun = DROPPED.load(Ordering::Relaxed);
    let process = std::process::id();
    let reached = threads.iter().filter(|&&thread| {
        // SAFETY: the call reads no memory; the thread is one of this process.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal()) == 0 }
    });
    let reached = reached.count();
    let mut waited = Duration::ZERO;
    while DROPPED.load(Ordering::Acquire) - begun < reached && waited < PATIENCE {
        thread::sleep(LOOK_EVERY);
        waited += LOOK_EVERY;
    }
    // The handler stays: without it, a thread that is late would end the process.
    match with_capabilities(prefixes)?.len() {
        0 => Ok(()),
        left => Err(io::Error::other(format!("{left} threads of a library keep theirs"))),
    }
}

/// Returns the threads with such names that have capabilities.
fn with_capabilities(prefixes: &[&str]) -> io::Result<Vec<libc::pid_t>> {
    let mut threads = Vec::new();
    for entry in fs::read_dir("/proc/self/task")? {
        // A thread may end meanwhile.
        let Ok(status) = fs::read_to_string(entry?.path().join("status")) else { continue };
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default().trim().to_owned()
        };
        let is_named = prefixes.iter().any(|prefix| field("Name:").starts_with(prefix));
        let has = |set| u64::from_str_radix(&field(set), 16).is_ok_and(|bits| bits != 0);
        if is_named && ["CapEff:", "CapPrm:", "CapInh:", "CapBnd:"].into_iter().any(has) {
            threads.extend(field("Pid:").parse::<libc::pid_t>());
        }
    }
    Ok(threads)
}

/// Runs in a thread of the library, between any two of its instructions.
extern "C" fn drop_own(_signal: libc::c_int) {
    let mut header = [VERSION_3, 0];
    let nothing = [0_u32; 6];
    // SAFETY: the arrays have the sizes of version 3, whose header the kernel may write. Only
    // `errno` is written otherwise, and put back. The calls take no lock of this process.
    unsafe {
        let errno = *libc::__errno_location();
        for capability in 0..CAPABILITIES {
            libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
        }
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::syscall(libc::SYS_capset, header.as_mut_ptr(), nothing.as_ptr());
        *libc::__errno_location() = errno;
    }
    DROPPED.fetch_add(1, Ordering::Release);
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::privileges::effective;

    #[test]
    fn a_thread_that_only_waits_loses_its_capabilities_and_others_keep_theirs() {
        if effective().unwrap() == 0 {
            return burstline_skip::skip("needs root");
        }
        name_library_threads(&["library-"]);
        let (ask, asked) = mpsc::channel();
        let named = thread::Builder::new().name("library-one".to_owned());
        let (say, named_itself) = mpsc::channel();
        let waiting = named.spawn(move || {
            say.send(()).unwrap();
            asked.recv().map(|()| effective().unwrap())
        });
        let waiting = waiting.unwrap();
        named_itself.recv().unwrap();
        drop_of_libraries().unwrap();
        ask.send(()).unwrap();
        assert_eq!(waiting.join().unwrap(), Ok(0));
        assert_ne!(effective().unwrap(), 0);
        // There is no one left.
        drop_of_libraries().unwrap();
    }
}
