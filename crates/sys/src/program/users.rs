//! Users and groups, by number and by name.
//!
//! Source: credentials(7), getpwnam_r(3), getgrnam_r(3), getgrouplist(3).

use std::ffi::{CStr, CString, c_int};
use std::mem::MaybeUninit;
use std::ptr;

/// Room for one entry of the user database. A longer one, such as a group with very many members,
/// is not found.
const ENTRY_BYTES: usize = 1 << 18;

/// Returns the effective user of this process.
pub fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns the effective group of this process.
pub fn effective_group() -> u32 {
    rustix::process::getegid().as_raw()
}

/// Returns the uid of a user, given by name or by number.
pub fn user_number(name: &str) -> Option<u32> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    account(name).map(|account| account.user)
}

/// The user and groups that a login gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The name.
    pub name: String,
    /// The uid.
    pub user: u32,
    /// The primary group.
    pub group: u32,
    /// All groups, at most [`GROUPS_MAX`].
    pub groups: Vec<u32>,
}

impl Account {
    /// Returns the user that owns nothing. Source: include/linux/highuid.h, the overflow uid, where
    /// no account has the name.
    pub fn nobody() -> Self {
        let unknown = || Self { name: "nobody".into(), user: 65534, group: 65534, groups: vec![] };
        account("nobody").unwrap_or_else(unknown)
    }
}

/// The maximum number of groups of a process. Source: NGROUPS_MAX in include/uapi/linux/limits.h.
pub const GROUPS_MAX: usize = 65_536;

/// Returns the account of this name.
pub fn account(name: &str) -> Option<Account> {
    let c_name = CString::new(name).ok()?;
    let mut room = vec![0; ENTRY_BYTES];
    let mut entry = MaybeUninit::<libc::passwd>::uninit();
    let mut found = ptr::null_mut();
    let (at, bytes) = (room.as_mut_ptr(), room.len());
    // SAFETY: the name ends with a 0; entry, buffer and result are live, and have the given sizes.
    unsafe { libc::getpwnam_r(c_name.as_ptr(), entry.as_mut_ptr(), at, bytes, &mut found) };
    // SAFETY: if the user was found, the call filled `entry` and made `found` point there.
    let (user, group) = unsafe { found.as_ref() }.map(|entry| (entry.pw_uid, entry.pw_gid))?;
    let groups = groups_of(&c_name, group)?;
    Some(Account { name: name.to_owned(), user, group, groups })
}

/// Returns all groups of a user, and `None` if they cannot be read.
fn groups_of(name: &CStr, primary: u32) -> Option<Vec<u32>> {
    let mut groups = Vec::new();
    loop {
        let mut count = c_int::try_from(groups.len()).ok()?;
        let at = groups.as_mut_ptr();
        // SAFETY: the name ends with a 0, and there is room for `count` numbers.
        let outcome = unsafe { libc::getgrouplist(name.as_ptr(), primary, at, &raw mut count) };
        let found = usize::try_from(count).ok()?;
        // If there was too little room, the call says how much it needs.
        match outcome {
            0.. => {
                groups.truncate(found);
                return Some(groups);
            }
            _ if (groups.len() + 1..=GROUPS_MAX).contains(&found) => groups.resize(found, 0),
            _ => return None,
        }
    }
}

/// Returns the gid of a group, given by name or by number.
pub fn group_number(name: &str) -> Option<u32> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    let name = CString::new(name).ok()?;
    let mut room = vec![0; ENTRY_BYTES];
    let mut entry = MaybeUninit::<libc::group>::uninit();
    let mut found = ptr::null_mut();
    let (at, bytes) = (room.as_mut_ptr(), room.len());
    // SAFETY: the name ends with a 0; entry, buffer and result are live, and have the given sizes.
    unsafe { libc::getgrnam_r(name.as_ptr(), entry.as_mut_ptr(), at, bytes, &mut found) };
    // SAFETY: if the group was found, the call filled `entry` and made `found` point there.
    unsafe { found.as_ref() }.map(|entry| entry.gr_gid)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        assert_eq!((user_number("root"), group_number("root")), (Some(0), Some(0)));
        assert_eq!((user_number("1234"), group_number("77")), (Some(1234), Some(77)));
        let root = account("root").unwrap();
        assert_eq!((root.user, root.group, root.groups.contains(&0)), (0, 0, true));
        assert_eq!(account("no such user"), None);
        for nobody in ["", "no such user", "a\0b", "-1"] {
            assert_eq!((user_number(nobody), group_number(nobody)), (None, None), "{nobody:?}");
        }
    }
}
