//! The program of `../../../rivals-dpdk/balance_live.c`: its own process, as for every live
//! contender.

use std::ffi::{CString, c_char, c_int};

unsafe extern "C" {
    fn rival_balance_main(count: c_int, arguments: *mut *mut c_char) -> c_int;
}

/// Runs it to its end, which SIGINT is. EAL's arguments, `--`, its own; what it is called comes
/// first. Returns its exit code.
///
/// # Errors
/// An argument has a zero byte.
pub fn balance(arguments: &[String]) -> Result<u8, String> {
    let strings = arguments.iter().map(|argument| CString::new(argument.as_str()));
    let strings: Vec<CString> =
        strings.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    // EAL moves its arguments about and keeps some: they stay as long as the process.
    let mut pointers: Vec<*mut c_char> = strings.into_iter().map(CString::into_raw).collect();
    let count = pointers.len() as c_int;
    pointers.push(std::ptr::null_mut());
    // SAFETY: `count` strings and a null behind them, as main() has them, all of which live as long
    // as the process; nobody else in it has called EAL.
    let code = unsafe { rival_balance_main(count, pointers.leak().as_mut_ptr()) };
    Ok(u8::try_from(code).unwrap_or(1))
}
