//! Runs the program of `../../../rivals-dpdk/balance_live.c` as a separate process, as for every
//! live contender.

use std::ffi::{CString, c_char, c_int};

unsafe extern "C" {
    fn rival_balance_main(count: c_int, arguments: *mut *mut c_char) -> c_int;
}

/// Runs it until SIGINT. The arguments are the program name, EAL's arguments, `--`, and its own.
/// Returns its exit code.
///
/// # Errors
/// If an argument has a zero byte.
pub fn balance(arguments: &[String]) -> Result<u8, String> {
    let strings = arguments.iter().map(|argument| CString::new(argument.as_str()));
    let strings: Vec<CString> =
        strings.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    // EAL reorders its arguments and keeps some, so they stay for the life of the process.
    let mut pointers: Vec<*mut c_char> = strings.into_iter().map(CString::into_raw).collect();
    let count = pointers.len() as c_int;
    pointers.push(std::ptr::null_mut());
    // SAFETY: `count` strings followed by a null pointer, as for main(). All live as long as the
    // process, and no other code in it has called EAL.
    let code = unsafe { rival_balance_main(count, pointers.leak().as_mut_ptr()) };
    Ok(u8::try_from(code).unwrap_or(1))
}
