//! What the names of a rotation look like: tells its files from others in their folder.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use burstline_sys::calendar::Text;

use super::FileNaming;
use super::names::{numbered, split};

/// The conversions of strftime(3) whose text can be read back, for messages.
pub(super) const READABLE: &str =
    "%Y %y %m %d %H %I %M %S %j %s %F %T %R %G %V %U %W %u %w %e %k %l %b %B %h %a %A %p";

/// The names of a rotation's files, without their folder.
pub(super) enum Look {
    /// `NAME_00001_YYYYMMDDhhmmss.ext`, from `NAME.ext`.
    Numbered(String),
    /// `NAME`, `NAME1`, `NAME2`.
    Counted(String),
    /// What strftime(3) makes of a format.
    Timed(Vec<Piece>),
}

/// A piece of a format of strftime(3).
pub(super) enum Piece {
    Is(char),
    /// A number with this many digits.
    Digits(RangeInclusive<usize>),
    /// A number of two characters, of which the first may be a space.
    Padded,
    /// The name of a month or a day, or of a half of the day.
    Word,
}

/// What words can be: the program has no other language. Of "May" there is one form.
#[rustfmt::skip]
const WORDS: [&str; 39] = [
    "January", "Jan", "February", "Feb", "March", "Mar", "April", "Apr", "May", "June", "Jun",
    "July", "Jul", "August", "Aug", "September", "Sep", "October", "Oct", "November", "Nov",
    "December", "Dec", "Sunday", "Sun", "Monday", "Mon", "Tuesday", "Tue", "Wednesday", "Wed",
    "Thursday", "Thu", "Friday", "Fri", "Saturday", "Sat", "AM", "PM",
];

impl Look {
    /// Looks at the name alone, not at its folder. `None` if names of [`FileNaming::Timed`] have a
    /// conversion that is not [`READABLE`].
    pub(super) fn of(path: &Path, naming: FileNaming) -> Option<Self> {
        let base = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match naming {
            FileNaming::Numbered => Some(Self::Numbered(base)),
            FileNaming::Counted => Some(Self::Counted(base)),
            FileNaming::Timed => pieces(&base).map(Self::Timed),
        }
    }

    /// Returns the number in a name to which no further one was added; of a time, its digits.
    fn number(&self, name: &str) -> Option<u64> {
        match self {
            Self::Numbered(base) => {
                let (stem, extension) = split(base);
                let rest = name.strip_prefix(stem)?.strip_prefix('_')?.strip_suffix(extension)?;
                let (number, time) = rest.split_once('_')?;
                number.parse().ok().filter(|_| is_number(number) && is_number(time))
            }
            Self::Counted(base) => match name.strip_prefix(base.as_str())? {
                "" => Some(0),
                number => number.parse::<u32>().ok().filter(|_| is_number(number)).map(u64::from),
            },
            Self::Timed(pieces) => time_in(pieces, name, 0),
        }
    }
}

/// The numbers in the name of a file: in its run, and the further one if the name was taken.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) number: u64,
    pub(super) attempt: u32,
}

impl Place {
    /// Reads the name of a file, if it is one of the rotation.
    pub(super) fn of(name: &str, look: &Look) -> Option<Self> {
        if let Some(number) = look.number(name) {
            return Some(Self { number, attempt: 1 });
        }
        name.match_indices('-').find_map(|(dash, _)| {
            let (before, rest) = (&name[..dash], &name[dash + 1..]);
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (attempt, after) = rest.split_at(digits);
            let (attempt, free) = (attempt.parse::<u32>().ok()?, format!("{before}{after}"));
            let is_further = attempt > 1 && numbered(&free, attempt) == name;
            let number = look.number(&free).filter(|_| is_further)?;
            Some(Self { number, attempt })
        })
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Splits a format. Source: strftime(3).
fn pieces(format: &str) -> Option<Vec<Piece>> {
    let (mut split, mut characters) = (Vec::new(), format.chars());
    while let Some(character) = characters.next() {
        if character != '%' {
            split.push(Piece::Is(character));
            continue;
        }
        match characters.next()? {
            '%' => split.push(Piece::Is('%')),
            'Y' | 'G' => split.push(Piece::Digits(4..=4)),
            'j' => split.push(Piece::Digits(3..=3)),
            'y' | 'm' | 'd' | 'H' | 'I' | 'M' | 'S' | 'V' | 'U' | 'W' => {
                split.push(Piece::Digits(2..=2));
            }
            'u' | 'w' => split.push(Piece::Digits(1..=1)),
            's' => split.push(Piece::Digits(1..=19)),
            'F' => split.extend(pieces("%Y-%m-%d")?),
            'T' => split.extend(pieces("%H:%M:%S")?),
            'R' => split.extend(pieces("%H:%M")?),
            other => split.push(match Text::of(other)? {
                Text::Padded => Piece::Padded,
                Text::Name => Piece::Word,
                Text::Word | Text::Phrase => return None,
            }),
        }
    }
    Some(split)
}

/// Returns `so_far` with the digits in `name` behind it, if the pieces can make that name.
fn time_in(pieces: &[Piece], name: &str, so_far: u64) -> Option<u64> {
    let Some((first, pieces)) = pieces.split_first() else {
        return name.is_empty().then_some(so_far);
    };
    let behind_digits = |digits: &str, name: &str| {
        let add =
            |sum: u64, digit: u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
        let sum = is_number(digits).then(|| digits.bytes().fold(so_far, add))?;
        time_in(pieces, name, sum)
    };
    match first {
        Piece::Is(character) => time_in(pieces, name.strip_prefix(*character)?, so_far),
        Piece::Digits(counts) => counts.clone().find_map(|count| {
            let (digits, name) = name.split_at_checked(count)?;
            behind_digits(digits, name)
        }),
        Piece::Padded => {
            let (digits, name) = name.split_at_checked(2)?;
            behind_digits(digits.strip_prefix(' ').unwrap_or(digits), name)
        }
        Piece::Word => {
            let mut behind = WORDS.iter().filter_map(|word| name.strip_prefix(word));
            behind.find_map(|name| time_in(pieces, name, so_far))
        }
    }
}

/// Returns the folders that a path with conversions in the names of folders can stand for, among
/// those that `names_in` lists; a folder that is not there has no names. `None` if a conversion is
/// not [`READABLE`].
pub(super) fn folders_of<E>(
    folder: &Path,
    mut names_in: impl FnMut(&Path) -> Result<Vec<String>, E>,
) -> Result<Option<Vec<PathBuf>>, E> {
    let mut found = vec![PathBuf::new()];
    for component in folder.components() {
        let text = component.as_os_str().to_string_lossy();
        if !text.contains('%') {
            found.iter_mut().for_each(|path| path.push(component));
            continue;
        }
        let Some(pieces) = pieces(&text) else { return Ok(None) };
        let mut below = Vec::new();
        for path in found {
            let names = names_in(&path)?.into_iter();
            let of_time = names.filter(|name| time_in(&pieces, name, 0).is_some());
            below.extend(of_time.map(|name| path.join(name)));
        }
        found = below;
    }
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str, path: &str, naming: FileNaming) -> Option<(u64, u32)> {
        let look = Look::of(Path::new(path), naming).unwrap();
        Place::of(name, &look).map(|place| (place.number, place.attempt))
    }

    #[test]
    fn a_name_that_was_taken_is_one_of_the_rotation() {
        let place = |name| place(name, "x.pcapng.gz", FileNaming::Numbered);
        assert_eq!(place("x_00007_20261101013000.pcapng.gz"), Some((7, 1)));
        assert_eq!(place("x_00007_20261101013000-12.pcapng.gz"), Some((7, 12)));
        for other in ["x_00007_.pcapng.gz", "x_00007_1-.pcapng.gz", "x_00007_1-b.pcapng.gz"] {
            assert_eq!(place(other), None, "{other}");
        }
        assert_eq!(place("x_00007_1-2-3.pcapng.gz"), None);
        assert_eq!(place("x_00007_1.pcapng"), None);
        assert_eq!(place("x-2.pcapng.gz"), None);
    }

    #[test]
    fn names_of_tcpdump_are_those_of_the_rotation() {
        for (name, path, wanted) in [
            ("x.pcap", "d/x.pcap", Some((0, 1))),
            ("x.pcap12", "x.pcap", Some((12, 1))),
            ("x.pcap007", "x.pcap", Some((7, 1))),
            ("x-2.pcap", "x.pcap", Some((0, 2))),
            ("x-3.pcap12", "x.pcap", Some((12, 3))),
            ("x1-2", "x", Some((1, 2))),
            ("x.pcap-2.gz1", "x.pcap.gz", Some((1, 2))),
            ("x.pcap12a", "x.pcap", None),
            ("x-1.pcap", "x.pcap", None),
            ("x.pcap99999999999", "x.pcap", None),
        ] {
            assert_eq!(place(name, path, FileNaming::Counted), wanted, "{name}");
        }
    }

    #[test]
    fn a_name_that_a_time_can_make_is_one_of_the_rotation() {
        for (name, path, wanted) in [
            ("x-1230.pcap", "x-%H%M.pcap", Some((1230, 1))),
            ("x-1230-2.pcap", "x-%H%M.pcap", Some((1230, 2))),
            ("2026-11-01 01:30:00", "%F %T", Some((20_261_101_013_000, 1))),
            ("x1700000000-3.pcap", "x%s.pcap", Some((1_700_000_000, 3))),
            ("17000000005", "%s5", Some((1_700_000_000, 1))),
            ("100%-365", "100%%-%j", Some((365, 1))),
            ("x-Nov-07.pcap", "x-%b-%d.pcap", Some((7, 1))),
            ("x-March 7-2.pcap", "x-%B%e.pcap", Some((7, 2))),
            ("x-old.pcap", "x-%b.pcap", None),
            ("x-Nov-07.pcap", "x-%e.pcap", None),
            ("x-.pcap", "x-%b.pcap", None),
            ("x-4.pcap", "x.pcap", Some((0, 4))),
            ("x-12é0.pcap", "x-%H%M.pcap", None),
            ("x-123.pcap", "x-%H%M.pcap", None),
            ("x-12300.pcap", "x-%H%M.pcap", None),
        ] {
            assert_eq!(place(name, path, FileNaming::Timed), wanted, "{name}");
        }
        for unreadable in ["x-%c.pcap", "x%", "x%-d"] {
            assert!(Look::of(Path::new(unreadable), FileNaming::Timed).is_none(), "{unreadable}");
        }
    }
    #[test]
    fn only_folders_whose_names_fit_the_format_are_found() {
        let tree = |path: &Path| {
            Ok::<_, ()>(match path.to_str() {
                Some("/r") => vec!["2026-11".to_owned(), "other".to_owned(), "2026-12".to_owned()],
                Some("/r/2026-11/d") => vec!["07".to_owned(), "7".to_owned()],
                _ => Vec::new(),
            })
        };
        let found = |path: &str| folders_of(Path::new(path), tree).unwrap();
        assert_eq!(found("/r/%Y-%m/d/%d"), Some(vec!["/r/2026-11/d/07".into()]));
        assert_eq!(found("a/b"), Some(vec!["a/b".into()]));
        assert_eq!(found("/r/%c"), None);
    }
}
