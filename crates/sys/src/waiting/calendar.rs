//! Local time, for file names.
//!
//! Source: localtime_r(3), strftime(3), tzset(3).

use std::ffi::CString;
use std::mem::MaybeUninit;

unsafe extern "C" {
    /// Reads the time zone from `TZ` or `/etc/localtime`. POSIX `localtime_r` need not do so.
    /// Source: POSIX.1-2017, tzset.
    safe fn tzset();
}

/// The maximum length of a formatted time, in bytes.
const MOST_BYTES: usize = 4096;

/// Formats the local time of `seconds` since 1970: replaces each conversion like `%H` in
/// `template`, as strftime(3) does. `None` if the result is empty or above 4 KiB, or if the
/// template contains a NUL.
pub fn format_local(seconds: u64, template: &str) -> Option<String> {
    let template = CString::new(template).ok()?;
    let seconds = seconds.try_into().ok()?;
    let mut time = MaybeUninit::<libc::tm>::uninit();
    tzset();
    // SAFETY: both point to live values of their types; the call fills in the second.
    let filled = unsafe { libc::localtime_r(&raw const seconds, time.as_mut_ptr()) };
    // SAFETY: a returned pointer refers to `time`, which the call has filled in.
    let time = unsafe { filled.as_ref() }?;
    let mut text = vec![0_u8; MOST_BYTES];
    // SAFETY: the template ends with a NUL, `time` is filled in, and the buffer is that long.
    let bytes = unsafe {
        libc::strftime(
            text.as_mut_ptr().cast(),
            MOST_BYTES,
            template.as_ptr(),
            std::ptr::from_ref(time),
        )
    };
    text.truncate(bytes);
    String::from_utf8(text).ok().filter(|text| !text.is_empty())
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn it_is_what_date_says() {
        for seconds in [0, 86_399, 1_700_000_000, 4_102_444_800] {
            let at = format!("@{seconds}");
            let date =
                Command::new("date").args(["-d", &at, "+x_%Y%m%d%H%M%S_%j"]).output().unwrap();
            let date = String::from_utf8(date.stdout).unwrap();
            assert_eq!(format_local(seconds, "x_%Y%m%d%H%M%S_%j").as_deref(), Some(date.trim()));
        }
        assert_eq!(format_local(0, ""), None);
        assert_eq!(format_local(0, "a\0b"), None);
        assert_eq!(format_local(0, &"%c".repeat(4096)), None);
        assert_eq!(format_local(0, "100%%"), Some("100%".to_owned()));
    }
}
