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
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// Set if a library starts threads.
static EXPECTED: OnceLock<()> = OnceLock::new();

/// How long a thread may take to handle a signal.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// `_LINUX_CAPABILITY_VERSION_3`, with two words for each set.
const VERSION_3: u32 = 0x2008_0522;
/// Numbers of capabilities that two words have room for.
const CAPABILITIES: libc::c_ulong = 64;

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
    if EXPECTED.get().is_none() || with_capabilities()?.is_empty() {
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
    let (began, mut told) = (Instant::now(), Vec::new());
    loop {
        let threads = with_capabilities()?;
        if threads.is_empty() {
            return Ok(());
        }
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
    }
}

/// Returns the threads that have capabilities, without the main one.
fn with_capabilities() -> io::Result<Vec<libc::pid_t>> {
    let mut threads = Vec::new();
    for entry in fs::read_dir("/proc/self/task")? {
        // A thread may end meanwhile.
        let Ok(status) = fs::read_to_string(entry?.path().join("status")) else { continue };
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default().trim().to_owned()
        };
        let has = |set| u64::from_str_radix(&field(set), 16).is_ok_and(|bits| bits != 0);
        if field("Pid:") != field("Tgid:") && ["CapEff:", "CapPrm:", "CapInh:"].into_iter().any(has)
        {
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
}
