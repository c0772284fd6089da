//! Giving up what is not needed any more.
//!
//! A capture needs its rights to open sockets, lock memory and get its scheduling class. After
//! that it reads packets that anybody on the network may have made, and needs none of them.
//!
//! Capabilities belong to a thread, not to the process: each thread of a job gives up its own, and
//! a thread that is started later begins with its starter's. What stays is what the user's number
//! allows: root without capabilities still owns root's files, but passes no permission check that
//! another user would not pass. Where root is to become somebody else ([`name_successor`]), each
//! thread does so as well at that moment: the numbers of a user and of groups belong to a thread,
//! too, and it is libc that sets them for all at a time.
//!
//! Source: capabilities(7), credentials(7), prctl(2), `PR_SET_NO_NEW_PRIVS` and `PR_CAP_AMBIENT`.

use std::io;
use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::thread;

use rustix::process::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, set_capabilities,
    set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use crate::machine::capability;
use crate::users::Account;

/// Whom threads become when they give up their capabilities.
static SUCCESSOR: OnceLock<Account> = OnceLock::new();

/// From now on a thread that gives up its capabilities becomes this user, with their groups. To be
/// said once, before threads give up theirs. False: somebody was named before, and stays.
pub fn name_successor(account: Account) -> bool {
    SUCCESSOR.set(account).is_ok()
}

/// The calling thread's effective capabilities, a bit for each by its number; 0 is none.
///
/// # Errors
/// What the kernel says, which only a filter of system calls can make it.
pub fn effective() -> io::Result<u64> {
    Ok(capabilities(None)?.effective.bits())
}

/// Empties the calling thread's effective, permitted, inheritable and ambient capabilities, and
/// forbids it to get any back by starting a program (`no_new_privs`). There is no way back. The
/// thread also becomes the [successor](name_successor), if one was named.
///
/// # Errors
/// What the kernel says: giving up is always allowed, but a filter of system calls may differ. To
/// become another user takes `CAP_SETUID` and `CAP_SETGID`.
pub fn drop_all_capabilities() -> io::Result<()> {
    if let Some(account) = SUCCESSOR.get() {
        become_user(account)?;
    }
    clear_ambient_capability_set()?;
    let nothing = CapabilitySet::empty();
    let sets = CapabilitySets { effective: nothing, permitted: nothing, inheritable: nothing };
    set_capabilities(None, sets)?;
    set_no_new_privs(true)?;
    Ok(())
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

/// Does `work` without capabilities: on another thread, if the calling one has any. For reading
/// what others may have made before the job's threads have given up theirs.
///
/// # Errors
/// What the kernel says: the rights could not be given up, and nothing was done.
pub fn without_capabilities<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    if effective()? == 0 {
        return Ok(work());
    }
    let work = || drop_all_capabilities().map(|()| work());
    thread::scope(|scope| scope.spawn(work).join().unwrap_or_else(|panic| resume_unwind(panic)))
}

/// As [`drop_all_capabilities`], but for what opening ports takes ([`capability::ALL`]), as far as
/// the thread has it.
///
/// # Errors
/// As for [`drop_all_capabilities`].
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
            drop_all_capabilities().unwrap();
            assert_eq!(effective().unwrap(), 0);
            for field in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
                assert_eq!(status(field), "0000000000000000", "{field}");
            }
            assert_eq!(status("NoNewPrivs"), "1");
            // Twice is no harm.
            drop_all_capabilities().unwrap();
            // A right that is asked for: a network of one's own takes CAP_SYS_ADMIN.
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
        assert_eq!(without_capabilities(|| effective().unwrap()).unwrap(), 0);
        assert_eq!(effective().unwrap(), before);
    }
}
