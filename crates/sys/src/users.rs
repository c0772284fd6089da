//! Users and groups, by number and by name.
//!
//! Source: credentials(7), getpwnam_r(3), getgrnam_r(3).

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::ptr;

/// Room for one entry of the user data base; longer ones, by groups of very many members, are not
/// found.
const ENTRY_BYTES: usize = 1 << 18;

/// The effective user of this process.
pub fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The effective group of this process.
pub fn effective_group() -> u32 {
    rustix::process::getegid().as_raw()
}

/// The number of a user, given by name or by number.
pub fn user_number(name: &str) -> Option<u32> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    let name = CString::new(name).ok()?;
    let mut room = vec![0; ENTRY_BYTES];
    let mut entry = MaybeUninit::<libc::passwd>::uninit();
    let mut found = ptr::null_mut();
    let (at, bytes) = (room.as_mut_ptr(), room.len());
    // SAFETY: the name ends with a 0; entry, room and found are live, and of the sizes told.
    unsafe { libc::getpwnam_r(name.as_ptr(), entry.as_mut_ptr(), at, bytes, &mut found) };
    // SAFETY: where it found somebody, it filled `entry` and made `found` point there.
    unsafe { found.as_ref() }.map(|entry| entry.pw_uid)
}

/// The number of a group, given by name or by number.
pub fn group_number(name: &str) -> Option<u32> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    let name = CString::new(name).ok()?;
    let mut room = vec![0; ENTRY_BYTES];
    let mut entry = MaybeUninit::<libc::group>::uninit();
    let mut found = ptr::null_mut();
    let (at, bytes) = (room.as_mut_ptr(), room.len());
    // SAFETY: the name ends with a 0; entry, room and found are live, and of the sizes told.
    unsafe { libc::getgrnam_r(name.as_ptr(), entry.as_mut_ptr(), at, bytes, &mut found) };
    // SAFETY: where it found one, it filled `entry` and made `found` point there.
    unsafe { found.as_ref() }.map(|entry| entry.gr_gid)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        assert_eq!((user_number("root"), group_number("root")), (Some(0), Some(0)));
        assert_eq!((user_number("1234"), group_number("77")), (Some(1234), Some(77)));
        for nobody in ["", "no such user", "a\0b", "-1"] {
            assert_eq!((user_number(nobody), group_number(nobody)), (None, None), "{nobody:?}");
        }
    }
}
