//! Times of the day where this machine is, for names of files.
//!
//! Source: localtime_r(3), strftime(3), tzset(3).

use std::ffi::CString;
use std::mem::MaybeUninit;

unsafe extern "C" {
    /// Reads the time zone from `TZ` or `/etc/localtime`; POSIX lets `localtime_r` do without.
    /// Source: POSIX.1-2017, tzset.
    safe fn tzset();
}

/// The most bytes of a formatted time.
const MOST_BYTES: usize = 4096;

/// Replaces each conversion like `%H` in `template` by that part of the local time of `seconds`
/// since 1970, as strftime(3) does. `None`: the outcome is empty or above 4 KiB, or the template
/// has a NUL.
pub fn format_local(seconds: u64, template: &str) -> Option<String> {
    let template = CString::new(template).ok()?;
    let seconds = seconds.try_into().ok()?;
    let mut time = MaybeUninit::<libc::tm>::uninit();
    tzset();
    // SAFETY: both point to live places of their types; the call fills in the second.
    let filled = unsafe { libc::localtime_r(&raw const seconds, time.as_mut_ptr()) };
    // SAFETY: where the call returns a pointer, it is to `time`, which it has filled in.
    let time = unsafe { filled.as_ref() }?;
    let mut text = vec![0_u8; MOST_BYTES];
    // SAFETY: the template ends with a NUL, `time` is filled in, and the room has that many bytes.
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
