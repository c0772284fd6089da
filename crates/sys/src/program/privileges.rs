//! Giving up what is not needed any more.
//!
//! A capture needs its rights to open sockets, lock memory and get its scheduling class. After that
//! it reads packets that anyone on the network may have made, and needs none of these rights.
//!
//! ```text
//!   Confinement: named once, while all may be opened
//!        │
//!   give_up: not dumpable ─► bounding set ─► user, groups ─► capabilities ─► no_new_privs
//!            ─► Landlock: what may be opened ─► seccomp: what may be called
//! ```
//!
//! All of these belong to a thread, not to the process. Each thread of a job gives up its own, and
//! a thread that starts later begins with its starter's. A program that names no confinement, as
//! one that uses the library, gives up its capabilities only.
//!
//! Invariants:
//! - P1: there is no way back. A thread that has entered the filter cannot change its user, and
//!   has nothing that a filter of its own could add.
//! - P2: a step that the kernel refuses is an error, and the thread must not read what others
//!   made. Only the bounding set may stay: without `CAP_SETPCAP` it cannot be emptied, and with
//!   `no_new_privs` it gives nothing.
//!
//! Source: capabilities(7), credentials(7), prctl(2), `PR_SET_NO_NEW_PRIVS` and `PR_CAP_AMBIENT`.

mod calls;
mod held;
mod landlock;

use std::io;
use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::thread;

use rustix::process::{DumpableBehavior, Gid, Uid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

use crate::machine::capability;
use crate::users::Account;
pub use calls::{CallFilter, Need, Refusal};
pub use held::Held;
pub use landlock::{Access, Ruleset, version as landlock_version};

/// What threads of this process keep when they give up their rights.
#[derive(Debug, Default)]
pub struct Confinement {
    /// The user they become; `None`: they keep theirs.
    pub user: Option<Account>,
    /// What they may still open; `None`: what their user may.
    pub files: Option<Ruleset>,
    /// What they may still call; `None`: everything.
    pub calls: Option<CallFilter>,
}

static CONFINEMENT: OnceLock<Confinement> = OnceLock::new();

/// From now on a thread that gives up its rights keeps no more than this. To be said once, before
/// threads give up theirs. False: another one was named before, and stays.
pub fn name_confinement(confinement: Confinement) -> bool {
    CONFINEMENT.set(confinement).is_ok()
}

/// The calling thread's effective capabilities, a bit for each by its number; 0 is none.
///
/// # Errors
/// What the kernel says, which only a filter of system calls can make it.
pub fn effective() -> io::Result<u64> {
    Ok(capabilities(None)?.effective.bits())
}

/// The calling thread gives up its rights: all capabilities, and what the [`Confinement`] does not
/// keep. It cannot get any back by starting a program (`no_new_privs`). There is no way back.
///
/// # Errors
/// What the kernel says: giving up is always allowed, but a filter of system calls may differ. To
/// become another user takes `CAP_SETUID` and `CAP_SETGID`.
pub fn give_up() -> io::Result<()> {
    if calls::is_entered() {
        return Ok(());
    }
    let Some(confinement) = CONFINEMENT.get() else { return drop_capabilities(None) };
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    empty_bounding_set();
    drop_capabilities(confinement.user.as_ref())?;
    confinement.files.as_ref().map_or(Ok(()), Ruleset::enter)?;
    confinement.calls.as_ref().map_or(Ok(()), CallFilter::enter)
}

/// As [`give_up`], for a thread that starts programs which the user has named: it opens and calls
/// what its user may.
///
/// # Errors
/// As for [`give_up`].
pub fn give_up_but_programs() -> io::Result<()> {
    let Some(confinement) = CONFINEMENT.get() else { return drop_capabilities(None) };
    empty_bounding_set();
    drop_capabilities(confinement.user.as_ref())
}

/// The calling thread becomes this user, if one is named, and has no capability.
fn drop_capabilities(user: Option<&Account>) -> io::Result<()> {
    user.map_or(Ok(()), become_user)?;
    clear_ambient_capability_set()?;
    let nothing = CapabilitySet::empty();
    let sets = CapabilitySets { effective: nothing, permitted: nothing, inheritable: nothing };
    set_capabilities(None, sets)?;
    set_no_new_privs(true)?;
    Ok(())
}

/// Takes from the bounding set all that the kernel knows of, where the thread may do that (P2).
fn empty_bounding_set() {
    let known = CapabilitySet::all().iter();
    for capability in known {
        let _ = remove_capability_from_bounding_set(capability);
    }
}

/// The calling thread gets the numbers of this account, unless it has them.
fn become_user(account: &Account) -> io::Result<()> {
    let user = Uid::from_raw(account.user);
    if rustix::process::getuid() == user && rustix::process::geteuid() == user {
        return Ok(());
    }
    let group = Gid::from_raw(account.group);
    let groups: Vec<_> = account.groups.iter().map(|&group| Gid::from_raw(group)).collect();
    set_thread_groups(&groups)?;
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)?;
    Ok(())
}

/// Whether a thread of this process may become this user. It is tried, on another thread.
pub fn can_become(account: &Account) -> bool {
    aside(|| become_user(account)).is_ok_and(|outcome| outcome.is_ok())
}

/// Does `work` without rights: on another thread, if the calling one has any. For reading what
/// others may have made before the job's threads have given up theirs.
///
/// # Errors
/// What the kernel says: the rights could not be given up, and nothing was done.
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

/// Does `work` on another thread, and waits for it. An error: no other thread is available.
fn aside<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, work)?;
        Ok(thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// As [`give_up`], but for what opening ports takes ([`capability::ALL`]), as far as
/// the thread has it.
///
/// # Errors
/// As for [`give_up`].
pub fn keep_what_ports_take() -> io::Result<()> {
    let kept = capability::ALL.iter().fold(0, |kept, one| kept | 1 << one.number);
    let kept = capabilities(None)?.permitted.intersection(CapabilitySet::from_bits_retain(kept));
    clear_ambient_capability_set()?;
    let inheritable = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable })?;
    set_no_new_privs(true)?;
    Ok(())
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
            // Twice is no harm.
            give_up().unwrap();
            // This needs a right: a new network namespace takes CAP_SYS_ADMIN.
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
}
