//! A system call by its number, for tests of filters.

use std::io;

/// Makes a call whose arguments are no pointers to our memory.
pub(crate) fn call(number: libc::c_long, arguments: [libc::c_long; 3]) -> io::Result<libc::c_long> {
    let [a, b, c] = arguments;
    // SAFETY: no argument is a pointer to our memory: each is 0, a small number, or an unmapped
    // page.
    let answer = unsafe { libc::syscall(number, a, b, c, 0, 0, 0) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}
