//! Which files a path, a folder or a pattern names.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use burstline_sys::late;

use super::super::super::place::{folder_of, or_here};
use super::super::super::several::stripes::striped_paths;
use super::super::catalogue::Capture;
use super::super::reader::CaptureReader;
use crate::{OpenedFiles, PortError};

/// Returns the captures that a path names, and the number of other files. A path names the file
/// itself, or the captures among the regular files of a folder or a pattern, by name. A pattern has
/// `*`, `?` and `[a-z]` in the last part of its path. It may also have braces (`/disk{0..3}`), like
/// striped outputs. Hidden files and indexes are not counted.
///
/// # Errors
/// [`PortError::Io`]: a file or folder cannot be read, or there is no such file.
pub fn captures_of(target: &str) -> Result<(Vec<PathBuf>, usize), PortError> {
    let mut those_that_are = |files: Vec<PathBuf>| {
        let captures = files.into_iter().filter(|path| is_capture(path));
        captures.map(Capture::unknown).collect()
    };
    let (captures, skipped) = find(target, &mut those_that_are)?;
    Ok((captures.into_iter().map(|capture| capture.path).collect(), skipped))
}

/// As [`captures_of`]; `look` finds the captures among files of one folder.
pub(in super::super) fn find(
    target: &str,
    look: &mut dyn FnMut(Vec<PathBuf>) -> Vec<Capture>,
) -> Result<(Vec<Capture>, usize), PortError> {
    let several = striped_paths(target).unwrap_or_default();
    if several.len() > 1 {
        let (mut captures, mut skipped) = (Vec::new(), 0);
        for target in &several {
            let (more, others) = find(target, look)?;
            captures.extend(more);
            skipped += others;
        }
        return Ok((captures, skipped));
    }
    let path = Path::new(target);
    let is_file = || late::metadata(path).is_ok_and(|found| !found.is_dir());
    let found = match target == "-" || is_file() {
        true => return Ok((vec![Capture::unknown(path.to_owned())], 0)),
        false => files_of(path)?,
    };
    let all = found.len();
    let captures = look(found);
    let skipped = all - captures.len();
    match captures.is_empty() {
        true => Err(not_found(path)),
        false => Ok((captures, skipped)),
    }
}

pub(super) fn not_found(path: &Path) -> PortError {
    let is_followed = path.as_os_str().as_bytes().ends_with(b"?follow=yes");
    let why = match is_followed {
        true => "no capture file found; only a job follows a set, such as count or capture",
        false => "no capture file found",
    };
    let error = io::Error::new(io::ErrorKind::NotFound, why);
    PortError::Io { action: "open", path: path.to_owned(), error }
}

/// Returns the files that a folder or a pattern names now, by name; there may be none.
///
/// # Errors
/// [`PortError::Io`]: a folder cannot be read.
pub(super) fn files_now(target: &str) -> Result<Vec<PathBuf>, PortError> {
    let several = striped_paths(target).unwrap_or_else(|_| vec![target.to_owned()]);
    let mut files = Vec::new();
    for target in several {
        files.extend(names_of(Path::new(&target))?);
    }
    Ok(files)
}

/// Returns when the folders of [`files_now`] were changed; `None` if one of them does not say.
pub(super) fn folders_changed(target: &str) -> Option<Vec<SystemTime>> {
    let several = striped_paths(target).unwrap_or_else(|_| vec![target.to_owned()]);
    let folders = several.iter().map(|target| folder_looked_in(Path::new(target)));
    folders.map(|folder| late::metadata(folder).ok()?.modified().ok()).collect()
}

/// Returns the regular files of a folder, or those whose names match a pattern.
pub(super) fn files_of(path: &Path) -> Result<Vec<PathBuf>, PortError> {
    let files = names_of(path)?;
    if files.is_empty() { Err(not_found(path)) } else { Ok(files) }
}

/// As [`files_of`]; there may be none. What cannot be looked at may be one: opening it says why.
fn names_of(path: &Path) -> Result<Vec<PathBuf>, PortError> {
    let fail = |error: io::Error| {
        let action = if error.kind() == io::ErrorKind::NotFound { "open" } else { "list" };
        PortError::Io { action, path: path.to_owned(), error }
    };
    let (folder, pattern) = match (is_folder(path).map_err(fail)?, path.file_name()) {
        (false, Some(pattern)) => (folder_of(path), pattern.as_bytes()),
        _ => (or_here(path), &b"*"[..]),
    };
    let mut files = Vec::new();
    for name in late::names_in(folder).map_err(fail)? {
        let (path, name) = (folder.join(&name), name.as_bytes());
        let is_meant = !name.starts_with(b".") && !name.ends_with(b".bidx") && fits(pattern, name);
        let is_file = || match late::metadata(&path) {
            Err(error) => error.kind() != io::ErrorKind::NotFound,
            Ok(found) => found.is_file(),
        };
        if is_meant && is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Whether a path is a folder. Nothing is at that of a pattern.
///
/// # Errors
/// That cannot be told: it would be taken for a pattern that matches nothing.
fn is_folder(path: &Path) -> io::Result<bool> {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    match late::metadata(path) {
        Ok(found) => Ok(found.is_dir()),
        Err(error) => match error.kind() {
            NotFound | NotADirectory | InvalidFilename => Ok(false),
            _ => Err(error),
        },
    }
}

/// Returns the folder in which [`files_of`] looks.
pub(super) fn folder_looked_in(path: &Path) -> &Path {
    if is_folder(path).unwrap_or(true) { path } else { or_here(folder_of(path)) }
}

/// Whether a name matches a pattern. Cost: linear in the name for each `*`.
pub(super) fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut read, mut star) = (0, 0, None);
    while read < name.len() {
        match one_of(&pattern[at..], name[read]) {
            Some(used) => (at, read) = (at + used, read + 1),
            None if pattern.get(at) == Some(&b'*') => {
                star = Some((at, read));
                at += 1;
            }
            None => match &mut star {
                Some((place, from)) => {
                    *from += 1;
                    (at, read) = (*place + 1, *from);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|rest| *rest == b'*')
}

/// Returns how many bytes of a pattern match a byte of a name; `None` at a `*` or a mismatch.
fn one_of(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern.first()? {
        b'*' => None,
        b'?' => Some(1),
        b'[' => {
            let end = pattern.iter().skip(2).position(|&end| end == b']')? + 2;
            let (is_not, set) = match &pattern[1..end] {
                [b'!' | b'^', rest @ ..] => (true, rest),
                all => (false, all),
            };
            let mut is_in = set.contains(&byte);
            for range in set.windows(3).filter(|range| range[1] == b'-') {
                is_in |= (range[0]..=range[2]).contains(&byte);
            }
            (is_in != is_not).then_some(end + 1)
        }
        wanted => (wanted == byte).then_some(1),
    }
}

pub(in super::super) fn is_capture(path: &Path) -> bool {
    let opened = CaptureReader::open(&path.to_string_lossy(), &OpenedFiles::default());
    !matches!(opened, Err(PortError::NotACapture { .. }))
}
