//! Local time, for file names, and what conversions of strftime(3) can make of it.
//!
//! Source: localtime_r(3), strftime(3), tzset(3).

use std::ffi::CString;
use std::mem::MaybeUninit;

unsafe extern "C" {
    /// Reads the time zone from `TZ` or `/etc/localtime`. POSIX `localtime_r` need not do so.
    /// Source: POSIX.1-2017, tzset.
    safe fn tzset();
}

/// What the text of a conversion of strftime(3) has beside digits and signs. The program has no
/// other language than English.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// The name of a day, a month or a half of the day, as in a list of them.
    Name,
    /// Another word: a half of the day in small letters, or a time zone.
    Word,
    /// A number of two characters, of which the first may be a space.
    Padded,
    /// Words and spaces.
    Phrase,
}

/// The conversions whose text has more than digits and signs.
const TEXTS: [(char, Text); 14] = [
    ('a', Text::Name),
    ('A', Text::Name),
    ('b', Text::Name),
    ('B', Text::Name),
    ('h', Text::Name),
    ('p', Text::Name),
    ('P', Text::Word),
    ('Z', Text::Word),
    ('e', Text::Padded),
    ('k', Text::Padded),
    ('l', Text::Padded),
    ('c', Text::Phrase),
    ('r', Text::Phrase),
    ('+', Text::Phrase),
];

impl Text {
    /// Returns what a conversion makes, by its letter. `None` if that is digits and signs only, or
    /// if there is no such conversion.
    pub fn of(conversion: char) -> Option<Self> {
        TEXTS.iter().find(|(known, _)| *known == conversion).map(|(_, text)| *text)
    }

    /// Returns what the conversions in a format make. Flags, widths and modifiers are passed over;
    /// the flag `_` pads with spaces.
    pub fn in_format(format: &str) -> impl Iterator<Item = Self> {
        let mut letters = format.chars();
        let conversions = std::iter::from_fn(move || {
            letters.find(|one| *one == '%')?;
            let mut is_padded = false;
            let mut is_before = |one: &char| {
                is_padded |= *one == '_';
                "_-^#EO".contains(*one) || one.is_ascii_digit()
            };
            let conversion = letters.by_ref().find(|one| !is_before(one))?;
            Some([is_padded.then_some(Self::Padded), Self::of(conversion)])
        });
        conversions.flatten().flatten()
    }

    /// Whether it may have letters.
    pub fn has_letters(self) -> bool {
        self != Self::Padded
    }

    /// Whether it may have spaces.
    pub fn has_spaces(self) -> bool {
        matches!(self, Self::Padded | Self::Phrase)
    }
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
    #[test]
    fn texts_have_no_more_than_the_table_says() {
        // Mornings and evenings of days of one digit and two, in all months.
        let times: Vec<u64> = (0..400).map(|number| 1_700_000_000 + number * 80_000).collect();
        for letter in ('a'..='z').chain('A'..='Z') {
            let format = format!("%{letter}");
            let texts = times.iter().map(|time| format_local(*time, &format).unwrap_or_default());
            let all = texts.collect::<String>();
            if all.starts_with('%') {
                continue; // no conversion
            }
            let has = |is: fn(Text) -> bool| Text::in_format(&format).any(is);
            let has_letters = all.contains(|one: char| one.is_ascii_alphabetic());
            assert!(has(Text::has_letters) || !has_letters, "{format}: {all}");
            assert!(has(Text::has_spaces) || !all.contains(' '), "{format}: {all}");
        }
    }

    #[test]
    fn a_conversion_is_found_behind_flags_and_not_in_other_text() {
        let of = |format: &str| Text::in_format(format).collect::<Vec<_>>();
        assert_eq!(of("%Y/x-%e-%b.pcap"), [Text::Padded, Text::Name]);
        assert_eq!(of("100%%a abc %H%_d%^10B%EZ"), [Text::Padded, Text::Name, Text::Word]);
        assert!(of("%").is_empty());
    }
}
