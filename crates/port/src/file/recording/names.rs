//! Names of files.

use std::fs;
use std::path::{Path, PathBuf};

use burstline_sys::calendar::format_local;

use super::super::place::folder_of;
use super::{FileNaming, Rotation};
use crate::PortError;

/// Generates names for the files of a run, in sequence.
#[derive(Debug)]
pub(in super::super) struct Names {
    path: PathBuf,
    naming: FileNaming,
    ring_files: Option<u64>,
    /// Names generated so far.
    named: u64,
}

impl Names {
    pub(in super::super) fn new(path: &Path, rotation: &Rotation) -> Self {
        let Rotation { naming, ring_files, .. } = *rotation;
        Self { path: path.to_owned(), naming, ring_files, named: 0 }
    }

    /// Returns the name of the next file, whose first packet has this time in ns since 1970.
    pub(in super::super) fn next(&mut self, time_ns: u64) -> PathBuf {
        self.named += 1;
        let seconds = time_ns / 1_000_000_000;
        let path = self.path.to_string_lossy();
        match self.naming {
            FileNaming::Numbered => {
                let (stem, extension) = split(&path);
                let time = format_local(seconds, "%Y%m%d%H%M%S").unwrap_or_default();
                format!("{stem}_{:05}_{time}{extension}", self.named).into()
            }
            FileNaming::Counted => match (self.named, self.ring_files) {
                (number, Some(files)) => {
                    let width = (files.max(1) - 1).to_string().len();
                    format!("{path}{:0width$}", number - 1).into()
                }
                (1, None) => self.path.clone(),
                (number, None) => format!("{path}{}", number - 1).into(),
            },
            FileNaming::Timed => match format_local(seconds, &path) {
                Some(name) => name.into(),
                None => self.path.clone(),
            },
        }
    }
}

/// The paths to try for a file, until one is free.
#[derive(Debug, Default)]
pub(in super::super) struct Attempts {
    name: String,
    /// The last number that was tried.
    number: u32,
}

impl Attempts {
    /// Returns the next path to try. Files of one name go on where the last one was: those before
    /// it are not tried again. So no name is used twice in a run, even if its file was moved.
    pub(in super::super) fn next(&mut self, name: &str) -> PathBuf {
        if self.name != name {
            (self.name, self.number) = (name.to_owned(), 0);
        }
        self.number += 1;
        numbered(name, self.number).into()
    }
}

/// Returns the newest file of a rotation, as listed by [`rotated`], or `None`.
///
/// # Errors
/// [`PortError::Io`]: the folder cannot be read.
pub fn newest_numbered(path: &Path) -> Result<Option<PathBuf>, PortError> {
    Ok(rotated(path)?.pop())
}

/// Returns the files of a rotation with [`FileNaming::Numbered`] names, by time, and those of the
/// same time by number: the newest is the last.
///
/// # Errors
/// [`PortError::Io`]: the folder cannot be read.
pub fn rotated(path: &Path) -> Result<Vec<PathBuf>, PortError> {
    let folder = folder_of(path);
    let fail = |error| PortError::Io { action: "read", path: folder.to_owned(), error };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (stem, extension) = split(&name);
    let place = |name: &str| {
        let rest = name.strip_prefix(stem)?.strip_prefix('_')?.strip_suffix(extension)?;
        let (number, time) = rest.split_once('_')?;
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let is_ours = is_digits(number) && is_digits(time) && !time.is_empty();
        Some((time.to_owned(), number.parse::<u64>().ok()?)).filter(|_| is_ours)
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let place = place(&entry.file_name().to_string_lossy());
        found.extend(place.map(|place| (place, entry.path())));
    }
    found.sort_unstable();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Returns the name of file number `number`, from 1. The number precedes the extension; for a
/// compressed file, both extensions.
pub fn numbered(path: &str, number: u32) -> String {
    if number == 1 {
        return path.to_owned();
    }
    with_suffix(path, &format!("-{number}"))
}

/// Adds a suffix to the name of a path, in the position of [`numbered`]'s number.
pub(in super::super) fn with_suffix(path: &str, suffix: &str) -> String {
    let (stem, extension) = split(path);
    format!("{stem}{suffix}{extension}")
}

/// Splits off the extension of a path, together with the extension of a compression.
fn split(path: &str) -> (&str, &str) {
    let name_at = path.rfind('/').map_or(0, |slash| slash + 1);
    // A dot at the start of a name is not an extension.
    let name = &path[name_at..];
    let dot_of = |name: &str| name.rfind('.').filter(|&dot| dot > 0);
    let compressed = [".gz", ".zst"].iter().find_map(|end| name.strip_suffix(end));
    let dot = compressed.and_then(dot_of).or(dot_of(name));
    path.split_at(name_at + dot.unwrap_or(name.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_stands_before_the_extension() {
        assert_eq!(numbered("a.b/x.pcapng", 1), "a.b/x.pcapng");
        assert_eq!(numbered("a.b/x.pcapng", 2), "a.b/x-2.pcapng");
        assert_eq!(numbered("a.b/x", 3), "a.b/x-3");
        assert_eq!(numbered(".hidden", 2), ".hidden-2");
        assert_eq!(numbered("x.tar.gz", 10), "x-10.tar.gz");
        assert_eq!(numbered("a.b/x.zst", 2), "a.b/x-2.zst");
    }

    #[test]
    fn a_name_is_tried_once() {
        let mut attempts = Attempts::default();
        let tried = ["x.pcap", "x.pcap", "y", "y", "x.pcap"].map(|name| attempts.next(name));
        assert_eq!(tried, ["x.pcap", "x-2.pcap", "y", "y-2", "x.pcap"].map(PathBuf::from));
    }

    #[test]
    fn names_are_those_of_dumpcap_and_tcpdump() {
        let names = |path: &str, naming, ring_files| {
            let rotation = Rotation { naming, ring_files, ..Rotation::default() };
            let mut names = Names::new(Path::new(path), &rotation);
            [0, 1, 2].map(|second| names.next(second * 1_000_000_000).display().to_string())
        };
        let local = |second, format: &str| format_local(second, format).unwrap();
        let numbered = names("a.b/x.pcapng.gz", FileNaming::Numbered, Some(2));
        assert_eq!(numbered[1], local(1, "a.b/x_00002_%Y%m%d%H%M%S.pcapng.gz"));
        assert_eq!(names("x", FileNaming::Counted, None), ["x", "x1", "x2"]);
        assert_eq!(names("x", FileNaming::Counted, Some(2)), ["x0", "x1", "x2"]);
        assert_eq!(names("x", FileNaming::Counted, Some(11)), ["x00", "x01", "x02"]);
        let timed = names("%H/x-%S", FileNaming::Timed, None);
        assert_eq!(timed[2], local(2, "%H/x-%S"));
    }
}
