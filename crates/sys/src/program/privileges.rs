//! Gives up rights that are no longer needed.
//!
//! A capture needs its rights to open sockets, lock memory and get its scheduling class. After that
//! it reads packets that anyone on the network may have sent, and needs none of these rights.
//!
//! ```text
//!   Confinement: set once, while everything may still be opened
//!        │
//!   give_up: not dumpable ─► bounding set ─► user, groups ─► capabilities ─► no_new_privs
//!            ─► Landlock: files to open ─► seccomp: calls to make
//! ```
//!
//! All of these belong to a thread, not to the process. Each thread of a job gives up its own
//! rights, and a new thread inherits those of its starter. A program that sets no confinement, such
//! as a user of the library, gives up only its capabilities. Threads that a library started do it
//! in a signal's handler.
//!
//! Invariants:
//! - P1: there is no way back. A thread that has entered the filter cannot change its user, and a
//!   filter of its own could not add anything.
//! - P2: a step that the kernel refuses is an error, and the thread must not read data of others.
//!   Only the bounding set may stay: without `CAP_SETPCAP` it cannot be emptied, and with
//!   `no_new_privs` it grants nothing.
//! - P3: after [`give_up_everywhere`] no thread of the process has rights, and none will.
//!
//! Source: capabilities(7), credentials(7), prctl(2), `PR_SET_NO_NEW_PRIVS` and `PR_CAP_AMBIENT`.

mod calls;
mod held;
mod landlock;
mod library;

use std::io;
use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{DumpableBehavior, Gid, Uid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities, set_no_new_privs,
    set_thread_res_gid, set_thread_res_uid,
};

use crate::machine::capability;
use crate::users::{self, Account};
pub use calls::{CallFilter, LateFiles, Need, Refusal};
pub use held::Held;
pub use landlock::{Access, Ruleset, version as landlock_version};
pub use library::{drop_of_libraries, expect_library_threads, library_signal};

/// What threads of this process keep when they give up their rights.
#[derive(Debug, Default)]
pub struct Confinement {
    /// The user they become; `None` keeps theirs.
    pub user: Option<Account>,
    /// The files they may still open; `None` for all files of their user.
    pub files: Option<Ruleset>,
    /// The system calls they may still make; `None` for all.
    pub calls: Option<CallFilter>,
}

static CONFINEMENT: OnceLock<Confinement> = OnceLock::new();

/// Sets what a thread keeps when it gives up its rights. Call it once, before threads give up
/// theirs. Returns false if another confinement was set before; that one stays.
pub fn name_confinement(confinement: Confinement) -> bool {
    CONFINEMENT.set(confinement).is_ok()
}

/// Returns the calling thread's effective capabilities, a bit for each by its number; 0 for none.
///
/// # Errors
/// Errors from the kernel, which only a seccomp filter can cause.
pub fn effective() -> io::Result<u64> {
    Ok(capabilities(None)?.effective.bits())
}

/// Returns whether the calling thread has a capability to open or to give away files of others.
///
/// # Errors
/// As [`effective`].
pub fn has_rights_to_files() -> io::Result<bool> {
    // Source: capabilities(7).
    let files = CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::DAC_READ_SEARCH
        | CapabilitySet::FOWNER
        | CapabilitySet::FSETID;
    Ok(capabilities(None)?.effective.intersects(files))
}

/// Returns whether the calling thread has entered a list of calls. Cost: a system call.
pub(crate) fn is_filtered() -> bool {
    calls::is_entered()
}

/// Gives up the calling thread's rights: all capabilities, and everything that the [`Confinement`]
/// does not keep. The thread cannot regain any by starting a program (`no_new_privs`). There is no
/// way back. It makes system calls only, without locks and allocations: see [`drop_of_libraries`].
///
/// # Errors
/// Errors from the kernel: giving up is always allowed, unless a seccomp filter forbids it.
/// Becoming another user needs `CAP_SETUID` and `CAP_SETGID`.
pub fn give_up() -> io::Result<()> {
    library::undisturbed(give_up_all)
}

fn give_up_all() -> io::Result<()> {
    if calls::is_entered() {
        return Ok(());
    }
    CONFINEMENT.get().map_or_else(|| drop_capabilities(None), give_up_as)
}

/// Like [`give_up`], for a thread that keeps what `confinement` says, whatever the process's own
/// says. Use it to try one confinement after another, each on a thread of its own.
///
/// # Errors
/// As for [`give_up`].
pub fn give_up_as(confinement: &Confinement) -> io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    empty_bounding_set();
    drop_capabilities(confinement.user.as_ref())?;
    confinement.files.as_ref().map_or(Ok(()), Ruleset::enter)?;
    confinement.calls.as_ref().map_or(Ok(()), CallFilter::enter)
}

/// Restricts the calling thread further, to calls that are also in this list. It has given up its
/// rights before, by a list that allows this.
///
/// # Errors
/// Errors from the kernel, such as too many filters.
pub fn narrow(calls: &CallFilter) -> io::Result<()> {
    calls.enter()
}

/// Like [`give_up`], for a thread that starts programs chosen by the user: it may still open and
/// call everything that its user may.
///
/// # Errors
/// As for [`give_up`].
pub fn give_up_but_programs() -> io::Result<()> {
    let Some(confinement) = CONFINEMENT.get() else { return drop_capabilities(None) };
    library::leave_alone();
    library::undisturbed(|| {
        empty_bounding_set();
        drop_capabilities(confinement.user.as_ref())
    })
}

/// Like [`give_up`], for a helper that opens sockets of interfaces: it keeps its user, and what
/// sockets, programs and tap devices take.
///
/// # Errors
/// As for [`give_up`].
pub(crate) fn give_up_but_ports() -> io::Result<()> {
    // Before Linux 5.8 programs take CAP_SYS_ADMIN.
    let has_bpf = capabilities(None)?.permitted.contains(CapabilitySet::BPF);
    let for_programs = if has_bpf { CapabilitySet::BPF } else { CapabilitySet::SYS_ADMIN };
    give_up_but(CapabilitySet::NET_RAW | CapabilitySet::NET_ADMIN | for_programs)
}

/// Like [`give_up`], for a helper that opens files to read: it keeps its user, and the right
/// to read files of other users. If it `gives_files`, also the rights to give them away.
///
/// # Errors
/// As for [`give_up`].
pub(crate) fn give_up_but_reading(gives_files: bool) -> io::Result<()> {
    give_up_but(CapabilitySet::DAC_READ_SEARCH | to_give(gives_files))
}

/// Like [`give_up`], for a helper that writes in folders of other users or connects to their
/// sockets: it keeps its user, and the rights to files that root has. If it `gives_files`, also the
/// rights to give them away.
///
/// # Errors
/// As for [`give_up`].
pub(crate) fn give_up_but_files(gives_files: bool) -> io::Result<()> {
    give_up_but(CapabilitySet::DAC_OVERRIDE | to_give(gives_files))
}

/// What it takes to set owner and mode of files of any user.
fn to_give(gives_files: bool) -> CapabilitySet {
    let rights = CapabilitySet::CHOWN | CapabilitySet::FOWNER;
    if gives_files { rights } else { CapabilitySet::empty() }
}

/// The same for a helper that becomes this user.
///
/// # Errors
/// As for [`give_up`].
pub(crate) fn give_up_but_files_as(user: &Account) -> io::Result<()> {
    empty_bounding_set(); // this takes a capability
    // Otherwise the kernel takes all capabilities from who becomes another user.
    set_keep_capabilities(true)?;
    become_user(user)?;
    set_keep_capabilities(false)?;
    give_up_but_files(false)
}

fn give_up_but(kept: CapabilitySet) -> io::Result<()> {
    let Confinement { files, calls, .. } = CONFINEMENT.get().expect("a helper's confinement");
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    empty_bounding_set();
    keep_capabilities(kept)?;
    files.as_ref().map_or(Ok(()), Ruleset::enter)?;
    calls.as_ref().map_or(Ok(()), CallFilter::enter)
}

/// Makes the calling thread this user, if one is given, and drops all capabilities.
fn drop_capabilities(user: Option<&Account>) -> io::Result<()> {
    user.map_or(Ok(()), become_user)?;
    keep_capabilities(CapabilitySet::empty())
}

/// Drops all capabilities but these.
fn keep_capabilities(kept: CapabilitySet) -> io::Result<()> {
    let kept = capabilities(None)?.permitted.intersection(kept);
    clear_ambient_capability_set()?;
    let inheritable = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable })?;
    set_no_new_privs(true)?;
    Ok(())
}

/// Removes all capabilities known to the kernel from the bounding set, if permitted (P2).
fn empty_bounding_set() {
    let known = CapabilitySet::all().iter();
    for capability in known {
        let _ = remove_capability_from_bounding_set(capability);
    }
}

/// Gives the calling thread the ids of this account, unless it has them. Without allocations: see
/// [`library`].
fn become_user(account: &Account) -> io::Result<()> {
    use rustix::process::{getegid, geteuid, getgid, getuid};
    let (user, group) = (Uid::from_raw(account.user), Gid::from_raw(account.group));
    if [getuid(), geteuid()] == [user; 2] && [getgid(), getegid()] == [group; 2] {
        return Ok(());
    }
    let (count, groups) = (account.groups.len(), account.groups.as_ptr());
    // SAFETY: the kernel reads `count` numbers of 4 bytes, its `gid_t`, and changes this thread.
    if unsafe { libc::syscall(libc::SYS_setgroups, count, groups) } < 0 {
        return Err(io::Error::last_os_error());
    }
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)?;
    Ok(())
}

/// How long other threads may take to give up their rights.
const GIVING_UP: Duration = Duration::from_secs(10);

/// Gives up the calling thread's rights, and waits until each thread of this process has given up
/// its own. Call it before the first byte of data of others is read.
///
/// # Errors
/// As for [`give_up`]; `TimedOut` if a thread keeps its rights. Without `/proc` only the calling
/// thread's own are known.
pub fn give_up_everywhere() -> io::Result<()> {
    give_up()?;
    drop_of_libraries()?;
    let is_filtered = CONFINEMENT.get().is_some_and(|confinement| confinement.calls.is_some());
    let user = users::effective_user();
    let has_rights = |held: &Held| {
        held.user != user
            || held.capabilities != 0
            || !held.has_no_new_privileges
            || is_filtered && !held.is_filtered
    };
    let began = Instant::now();
    while held::of_all_threads()?.iter().any(has_rights) {
        if began.elapsed() > GIVING_UP {
            let what = "a thread of this process keeps its rights";
            return Err(io::Error::new(io::ErrorKind::TimedOut, what));
        }
        thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}

/// Tests on another thread whether a thread of this process may become this user.
pub fn can_become(account: &Account) -> bool {
    may_become(account).unwrap_or(false)
}

/// The same, but an error is no answer: whoever takes it for a no keeps rights that it should not.
///
/// # Errors
/// Errors from the kernel that are no refusal, such as a lack of memory.
pub fn may_become(account: &Account) -> io::Result<bool> {
    let tried = aside(|| become_user(account))?;
    let is_refusal = |error: &io::Error| {
        // No capability; or a user namespace does not map the user.
        matches!(error.raw_os_error(), Some(libc::EPERM | libc::EINVAL))
    };
    match tried {
        Err(error) if is_refusal(&error) => Ok(false),
        tried => tried.map(|()| true),
    }
}

/// Returns whether this thread is root and lacks the capabilities to become another user.
///
/// # Errors
/// Errors from the kernel, which only a seccomp filter can cause.
pub fn is_root_for_good() -> io::Result<bool> {
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
    Ok(users::effective_user() == 0 && !capabilities(None)?.effective.contains(needed))
}

/// Runs `work` without rights: on another thread, if the calling one has any. Use it to read data
/// of others before the job's threads have given up their rights.
///
/// # Errors
/// Errors from the kernel: the rights could not be given up, and `work` did not run.
pub fn without_rights<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let is_confined = match CONFINEMENT.get() {
        Some(confinement) if confinement.calls.is_some() => calls::is_entered(),
        Some(confinement) if confinement.files.is_some() => false,
        _ => effective()? == 0,
    };
    if is_confined {
        return Ok(work());
    }
    aside(|| give_up().map(|()| work()))?
}

/// Runs `work` on another thread, and waits for it. An error means that no thread could start.
fn aside<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, work)?;
        Ok(thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// Like [`give_up`], but keeps the capabilities for opening ports ([`capability::ALL`]), as far as
/// the thread has them.
///
/// # Errors
/// As for [`give_up`].
pub fn keep_what_ports_take() -> io::Result<()> {
    let kept = capability::ALL.iter().fold(0, |kept, one| kept | 1 << one.number);
    keep_capabilities(CapabilitySet::from_bits_retain(kept))
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    fn status(field: &str) -> String {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("no {field}")).trim().to_owned()
    }

    #[test]
    fn a_thread_that_gives_up_its_rights_has_none_and_the_others_keep_theirs() {
        let before = effective().unwrap();
        std::thread::spawn(|| {
            give_up().unwrap();
            assert_eq!(effective().unwrap(), 0);
            for field in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
                assert_eq!(status(field), "0000000000000000", "{field}");
            }
            assert_eq!(status("NoNewPrivs"), "1");
            // A second call does no harm.
            give_up().unwrap();
            // A new network namespace needs a right: CAP_SYS_ADMIN.
            let refused = crate::namespace::enter_new_network().unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        })
        .join()
        .unwrap();
        std::thread::spawn(move || {
            keep_what_ports_take().unwrap();
            let all = capability::ALL.iter().fold(0, |all, one| all | 1 << one.number);
            assert_eq!(effective().unwrap(), before & all);
        })
        .join()
        .unwrap();
        assert_eq!(effective().unwrap(), before);
        assert_eq!(format!("{before:016x}"), status("CapEff"));
    }

    #[test]
    fn work_without_capabilities_leaves_the_caller_its_own() {
        let before = effective().unwrap();
        assert_eq!(without_rights(|| effective().unwrap()).unwrap(), 0);
        assert_eq!(effective().unwrap(), before);
    }

    #[test]
    fn who_has_the_uid_and_another_gid_gets_the_accounts_gid() {
        use io::ErrorKind::{InvalidInput, PermissionDenied};
        let root = crate::users::account("root").unwrap();
        let other = Gid::from_raw(1);
        let outcome = aside(|| -> io::Result<String> {
            set_thread_res_gid(other, other, other)?;
            become_user(&root)?;
            Ok(status("Gid"))
        });
        match outcome.unwrap() {
            Ok(gids) => assert_eq!(gids, "0\t0\t0\t0"),
            // In a user namespace the other gid may be unknown.
            Err(error) if matches!(error.kind(), PermissionDenied | InvalidInput) => {
                burstline_skip::skip("needs root");
            }
            Err(error) => panic!("{error}"),
        }
    }
}
