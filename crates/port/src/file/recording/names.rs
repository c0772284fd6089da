//! Names of files.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use burstline_sys::calendar::format_local;
use burstline_sys::late;

use super::super::CaptureReader;
use super::super::place::{folder_of, or_here};
use super::look::{Look, Place, READABLE, folders_of};
use super::{FileNaming, Rotation};
use crate::PortError;
use crate::opened::OpenedFiles;

/// Numbers from here on are not gone on with: those behind them could soon not be read back.
const GO_ON_BELOW: u64 = 1 << 31;

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

    /// Goes on behind the numbers of the files that are there, if names are
    /// [`FileNaming::Counted`]. Others may begin again: a name that is taken gets a further number.
    pub(in super::super) fn go_on(&mut self) -> Result<(), PortError> {
        if self.naming == FileNaming::Counted {
            let files = found(&self.path, self.naming)?;
            let numbers = files.iter().map(|file| file.place.number);
            let ours = numbers.filter(|number| *number < GO_ON_BELOW);
            self.named = ours.map(|number| number + 1).max().unwrap_or(0);
        }
        Ok(())
    }

    /// Makes the folders of a file that are named after its time. Returns whether there are any.
    pub(in super::super) fn make_folders(&self, path: &Path, mode: u32) -> io::Result<bool> {
        let is_of_times = has_folders_of_times(&self.path, self.naming);
        if is_of_times {
            make_folders(path, steady_folder(&self.path), mode)?;
        }
        Ok(is_of_times)
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

/// Returns the deepest folder of a path above which, and in whose name, there is no conversion of
/// strftime(3). All files of the path are in it, or below it.
pub fn steady_folder(path: &Path) -> &Path {
    let is_steady = |folder: &&Path| !folder.as_os_str().as_encoded_bytes().contains(&b'%');
    or_here(folder_of(path).ancestors().find(is_steady).unwrap_or(Path::new("")))
}

/// Whether folders of a path are named after the time.
fn has_folders_of_times(path: &Path, naming: FileNaming) -> bool {
    naming == FileNaming::Timed && steady_folder(path) != folder_of(path)
}

/// Makes the missing folders of `path` below `steady`, and syncs each into the one above it.
fn make_folders(path: &Path, steady: &Path, mode: u32) -> io::Result<()> {
    let is_below = |folder: &&Path| *folder != steady && !folder.as_os_str().is_empty();
    let folders: Vec<_> = folder_of(path).ancestors().take_while(is_below).collect();
    for folder in folders.into_iter().rev() {
        match late::create_folder(folder, mode) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            made => made?,
        }
        // Some file systems cannot sync folders; then there is nothing to do.
        let _ = late::open_folder(folder_of(folder)).and_then(|above| above.sync_all());
    }
    Ok(())
}

/// The paths to try for a file, until one is free.
#[derive(Debug, Default)]
pub(in super::super) struct Attempts {
    name: String,
    /// The last number that was tried.
    number: u32,
}

impl Attempts {
    /// Returns the next path to try. Files in a row with one name go on where the last one was, and
    /// do not try the paths before it. So none takes the path of a file that was moved meanwhile.
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

/// Returns the files of a rotation with [`FileNaming::Numbered`] names, as [`rotated_as`] does.
///
/// # Errors
/// [`PortError::Io`]: the folder cannot be read.
pub fn rotated(path: &Path) -> Result<Vec<PathBuf>, PortError> {
    rotated_as(path, FileNaming::Numbered)
}

/// Returns the files of a rotation with such names, with or without a further number: the newest is
/// the last.
///
/// They are in the order in which they were last written, and then in that of their numbers. The
/// time in a name is that of a packet, and local: it falls back with each end of summer time. If
/// the clock was set back, files are from the future. Then the packets before a file, which its
/// comment has, decide whether it is newer than the others.
///
/// Cost: opens no file unless one is from the future.
///
/// # Errors
/// [`PortError::Io`]: the folder cannot be read, or names of [`FileNaming::Timed`] have conversions
/// that cannot be read back.
pub fn rotated_as(path: &Path, naming: FileNaming) -> Result<Vec<PathBuf>, PortError> {
    let mut found = found(path, naming)?;
    found.sort_unstable();
    let now = SystemTime::now();
    let future_at = found.partition_point(|file| file.written <= now);
    let (past, future) = found.split_at(future_at);
    if !past.is_empty() && !future.is_empty() && newest_packets(past) > newest_packets(future) {
        found.rotate_left(future_at);
    }
    Ok(found.into_iter().map(|file| file.path).collect())
}

/// Returns the numbers that follow a word in names, in the folders in which files of a rotation can
/// be.
pub(in super::super) fn numbers_behind(
    word: &str,
    path: &Path,
    naming: FileNaming,
) -> Result<BTreeSet<u16>, PortError> {
    let mut numbers = BTreeSet::new();
    for folder in folders(path, naming)? {
        for name in names_below(&folder)? {
            let behind = name.split(word).skip(1);
            let digits =
                behind.filter_map(|text| text.split(|one: char| !one.is_ascii_digit()).next());
            numbers.extend(digits.filter_map(|digits| digits.parse::<u16>().ok()));
        }
    }
    Ok(numbers)
}

/// Checks that [`rotated_as`] can tell the files of such a name from others.
///
/// # Errors
/// [`PortError::Io`]: names of [`FileNaming::Timed`] have conversions that cannot be read back.
pub fn check_rotated(path: &Path, naming: FileNaming) -> Result<(), PortError> {
    look_of(path, naming)?;
    folders(path, naming).map(drop)
}

/// A file of a rotation; the order of the fields is that of the files.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rotated {
    written: SystemTime,
    place: Place,
    path: PathBuf,
}

/// Returns the files of a rotation in any order.
fn found(path: &Path, naming: FileNaming) -> Result<Vec<Rotated>, PortError> {
    let look = look_of(path, naming)?;
    let names_of = if has_folders_of_times(path, naming) { names_below } else { names_in };
    let mut found = Vec::new();
    for folder in folders(path, naming)? {
        for name in names_of(&folder)? {
            let Some(place) = Place::of(&name, &look) else { continue };
            let path = folder.join(name);
            let fail = |error| PortError::Io { action: "read", path: path.clone(), error };
            match late::metadata(&path) {
                Ok(metadata) if metadata.is_file() => {
                    let written = metadata.modified().map_err(fail)?;
                    found.push(Rotated { written, place, path });
                }
                // A folder or a pipe whose name happens to fit.
                Ok(_) => {}
                // Another program has moved it in the meantime.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(fail(error)),
            }
        }
    }
    Ok(found)
}

/// Returns the folders in which files of a rotation can be: several if times name them.
fn folders(path: &Path, naming: FileNaming) -> Result<Vec<PathBuf>, PortError> {
    let folder = path.parent().unwrap_or(Path::new(""));
    match naming {
        FileNaming::Timed => folders_of(folder, names_below)?.ok_or_else(|| unreadable(path)),
        FileNaming::Numbered | FileNaming::Counted => Ok(vec![folder.to_owned()]),
    }
}

fn names_in(folder: &Path) -> Result<Vec<String>, PortError> {
    let folder = or_here(folder);
    let names = late::names_in(folder);
    let names = names.map_err(|error| PortError::Io { action: "read", path: folder.into(), error });
    Ok(names?.into_iter().filter_map(|name| name.into_string().ok()).collect())
}

/// As [`names_in`]: what is no folder, not there, or not ours to read, has no names.
fn names_below(folder: &Path) -> Result<Vec<String>, PortError> {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    match names_in(folder) {
        Err(PortError::Io { error, .. })
            if matches!(error.kind(), NotFound | NotADirectory | PermissionDenied) =>
        {
            Ok(Vec::new())
        }
        names => names,
    }
}

fn look_of(path: &Path, naming: FileNaming) -> Result<Look, PortError> {
    Look::of(path, naming).ok_or_else(|| unreadable(path))
}

#[cold]
fn unreadable(path: &Path) -> PortError {
    let error =
        io::Error::new(io::ErrorKind::InvalidInput, format!("only {READABLE} can be read back"));
    PortError::Io { action: "find the files of", path: path.to_owned(), error }
}

/// Returns the packets before the newest of these files that says so.
fn newest_packets(files: &[Rotated]) -> Option<u64> {
    files.iter().rev().find_map(|file| {
        let path = file.path.to_string_lossy();
        let mut reader = CaptureReader::open(&path, &OpenedFiles::default()).ok()?;
        reader.read_packets_before().ok()?
    })
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
pub(super) fn split(path: &str) -> (&str, &str) {
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
    use std::fs;

    #[cfg(not(miri))]
    use burstline_sys::temporary::TemporaryFolder;

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
    fn a_folder_named_after_the_time_is_below_one_that_is_not() {
        for (path, folder) in [
            ("r/%H/x%S.pcapng", "r"),
            ("/disk/r/y%Y/%m/x.pcapng", "/disk/r"),
            ("r/d/x%S.pcapng", "r/d"),
            ("%H/x.pcapng", "."),
            ("x%S.pcapng", "."),
            ("/%H/x.pcapng", "/"),
        ] {
            assert_eq!(steady_folder(Path::new(path)), Path::new(folder), "{path}");
        }
    }

    #[test]
    fn a_name_is_tried_once() {
        let mut attempts = Attempts::default();
        let tried = ["x.pcap", "x.pcap", "y", "y", "x.pcap"].map(|name| attempts.next(name));
        assert_eq!(tried, ["x.pcap", "x-2.pcap", "y", "y-2", "x.pcap"].map(PathBuf::from));
    }

    #[test]
    #[cfg(not(miri))]
    fn numbers_go_on_where_they_can_be_read_back() {
        let folder = TemporaryFolder::create("burstline-names-").unwrap();
        let named = |name: &str| folder.path().join(name);
        for name in ["x", "x7", "x4294967295"] {
            fs::write(named(name), "").unwrap();
        }
        let rotation = Rotation { naming: FileNaming::Counted, ..Rotation::default() };
        let mut names = Names::new(&named("x"), &rotation);
        names.go_on().unwrap();
        assert_eq!(names.next(0), named("x8"));
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
