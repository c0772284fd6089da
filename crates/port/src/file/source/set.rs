//! `set:` ports: the files of a folder or a pattern, in order of time, as a single port.
//!
//! ```text
//!  a.pcapng  |-----------|                   read: a
//!  b.pcapng               |--------|               a, then b
//!  c.pcapng                    |----------|        b and c in turns, by time, then c
//!            first packet of each: read on opening
//! ```
//!
//! A file is decoded from the time of its first packet to its end. All are opened at the start,
//! while the job has its privileges, as far as the limit on descriptors allows. Further files are
//! opened when their time comes. In a rotation each file begins where the previous one ends, so its
//! files are read in sequence, without a copy. Files that overlap are merged in runs: the packets
//! of one file before the next packet of another. A file of a listing that another program has
//! removed meanwhile, such as the oldest of a ring, is passed over with a note. Within a file
//! packets keep their order, whatever their times. Interfaces of the same name and link type are
//! the same, unless they are named after their files.

mod places;
mod runs;

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use burstline_log::{Burst, Scratch, Writer};
use burstline_sys::late;

use super::super::place::{folder_of, or_here};
use super::super::recording::RunPlace;
use super::super::several::stripes::striped_paths;
use super::FileSource;
use super::catalogue::{Capture, Chosen};
use super::interfaces::Interfaces;
use super::lending::Head;
use super::reader::CaptureReader;
use crate::{
    Address, Capabilities, Copying, Lent, Loss, OpenOptions, OpenedFiles, OpenedSources, Places,
    Port, PortAccount, PortError, PortInfo, PortState, Received, Source, TimestampSource,
};

pub use places::SetPlaces;
use places::kept_open;
use runs::Runs;

/// The scheme of sets.
pub(crate) const SET: &str = "set";

/// A file still to be read, and the time of its first packet.
struct Waiting {
    first_ns: u64,
    path: PathBuf,
    place: Option<RunPlace>,
    /// Open, if there are enough descriptors.
    file: Option<File>,
}

/// How the files of a set were named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Naming {
    /// Each by itself: one that is missing is an error.
    EachByItself,
    /// By a listing of their folder: one may be removed before it is opened.
    ByListing,
    /// All files of their folder.
    ByFolder,
}

/// An open file.
struct Member {
    source: FileSource,
    path: PathBuf,
    place: Option<RunPlace>,
    /// The time of its next packet, if known.
    head_ns: Option<u64>,
    /// Files that begin at the same time keep the order of their names.
    order: usize,
}

/// The files of a set as a single source.
struct SetSource {
    info: PortInfo,
    options: OpenOptions,
    interfaces: Interfaces,
    /// How the files were named.
    naming: Naming,
    /// All files, in the order in which they are opened.
    files: Vec<PathBuf>,
    /// The last one comes first.
    waiting: Vec<Waiting>,
    members: Vec<Member>,
    /// The member that lent last.
    lender: Option<usize>,
    /// Files opened so far.
    opened: usize,
    /// Packets lent.
    lent: u64,
    /// Which packets are missing between files.
    runs: Runs,
    /// Account of closed files, and of the set itself.
    account: PortAccount,
    copying: Copying,
}

/// Opens the files that an address names.
pub(crate) fn open_sources(address: &Address, options: &OpenOptions) -> OpenedSources {
    address.values(&[])?;
    let (paths, skipped) = captures_of(address.target())?;
    let is_folder = Path::new(address.target()).is_dir();
    let naming = if is_folder { Naming::ByFolder } else { Naming::ByListing };
    let mut set = SetSource::open(address.to_string(), &paths, options, naming)?;
    if skipped > 0 {
        set.account.note(|| format!("{address}: skipped files that are not captures: {skipped}"));
    }
    Ok(vec![Box::new(set)])
}

/// Opens files as a single port with this name.
///
/// # Errors
/// As for each of the files.
pub fn open_set(
    name: &str,
    paths: &[PathBuf],
    options: &OpenOptions,
) -> Result<Box<dyn Source>, PortError> {
    let set = SetSource::open(name.to_owned(), paths, options, Naming::EachByItself)?;
    Ok(Box::new(set))
}

/// Opens the captures that may have wanted packets as a single port with this name. The packets of
/// the others count as filtered. A note names each that was removed since it was found.
///
/// # Errors
/// As for each of the files; [`PortError::SameFile`] also for a file that is not opened.
pub fn open_chosen(
    name: &str,
    chosen: &Chosen,
    options: &OpenOptions,
) -> Result<Box<dyn Source>, PortError> {
    chosen.enter(options)?;
    let naming = Naming::ByListing;
    let mut set = SetSource::open(name.to_owned(), &chosen.paths, options, naming)?;
    if let Some((packets, note)) = chosen.passed() {
        set.account.offered += packets;
        set.account.lost.add(Loss::Filtered, packets);
        set.account.note(|| note);
    }
    Ok(Box::new(set))
}

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
pub(super) fn find(
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

/// The note on a file that was removed.
fn removed(path: &Path) -> String {
    format!("{} was removed before it was read: its packets are in no count", path.display())
}

fn not_found(path: &Path) -> PortError {
    let error = io::Error::new(io::ErrorKind::NotFound, "no capture file found");
    PortError::Io { action: "open", path: path.to_owned(), error }
}

/// Returns the regular files of a folder, or those whose names match a pattern.
fn files_of(path: &Path) -> Result<Vec<PathBuf>, PortError> {
    let fail = |error| PortError::Io { action: "open", path: path.to_owned(), error };
    let (folder, pattern) = match (late::is_folder(path), path.file_name()) {
        (false, Some(pattern)) => (folder_of(path), pattern.as_bytes()),
        _ => (or_here(path), &b"*"[..]),
    };
    let mut files = Vec::new();
    for name in late::names_in(folder).map_err(fail)? {
        let (path, name) = (folder.join(&name), name.as_bytes());
        let is_meant = !name.starts_with(b".") && !name.ends_with(b".bidx") && fits(pattern, name);
        if is_meant && late::is_file(&path) {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() { Err(not_found(path)) } else { Ok(files) }
}

/// Whether a name matches a pattern. Cost: linear in the name for each `*`.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
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

pub(super) fn is_capture(path: &Path) -> bool {
    let opened = CaptureReader::open(&path.to_string_lossy(), &OpenedFiles::default());
    !matches!(opened, Err(PortError::NotACapture { .. }))
}

/// Reads the time of a file's first packet; 0 if it has none: it is read first, and reports why.
fn look_at(path: &Path, files: &OpenedFiles, stays_open: bool) -> Result<Waiting, PortError> {
    let fail = |error| PortError::Io { action: "open", path: path.to_owned(), error };
    let is_standard = path.as_os_str() == "-";
    if is_standard || !late::metadata(path).map_err(fail)?.is_file() {
        return Err(fail(io::Error::other("not a regular file, but a set reads each one twice")));
    }
    let mut reader = CaptureReader::open(&path.to_string_lossy(), files)?;
    let place = reader.read_run_place()?;
    let first_ns = reader.read_first_time_ns()?.unwrap_or(0);
    let file = if stays_open { reader.share()? } else { None };
    Ok(Waiting { first_ns, path: path.to_owned(), place, file })
}

/// Whether a file could not be opened because nothing has its name.
fn is_missing(error: &PortError) -> bool {
    matches!(error, PortError::Io { error, .. } if error.kind() == io::ErrorKind::NotFound)
}

/// Returns the properties of a file or a set as a port.
pub(super) fn info_of(name: String) -> PortInfo {
    let capabilities = Capabilities {
        can_wait: true,
        is_finite: true,
        tells_gaps: true,
        ..Capabilities::default()
    };
    PortInfo { name, capabilities, timestamps: TimestampSource::File }
}

impl SetSource {
    fn open(
        name: String,
        paths: &[PathBuf],
        options: &OpenOptions,
        naming: Naming,
    ) -> Result<Self, PortError> {
        let (mut waiting, mut account) = (Vec::new(), PortAccount::default());
        let most = kept_open(paths.len());
        for path in paths {
            match look_at(path, &options.files, waiting.len() < most) {
                Err(error) if naming != Naming::EachByItself && is_missing(&error) => {
                    account.note(|| removed(path));
                }
                looked => waiting.push(looked?),
            }
        }
        if let (true, Some(last)) = (waiting.is_empty(), paths.last()) {
            return Err(not_found(last));
        }
        let is_whole = naming == Naming::ByFolder && waiting.len() == paths.len();
        let runs = Runs::new(is_whole && options.selection.is_all());
        // A stable sort: files with the same first time keep the order of their names.
        waiting.sort_by_key(|file| file.first_ns);
        let files = waiting.iter().map(|file| file.path.clone()).collect();
        waiting.reverse();
        let mut set = Self {
            files,
            info: info_of(name),
            // The files are already registered.
            options: OpenOptions { files: OpenedFiles::default(), ..options.clone() },
            interfaces: Interfaces::of_set(&options.table).named_after_files(options.names_files),
            naming,
            waiting,
            members: Vec::new(),
            lender: None,
            opened: 0,
            lent: 0,
            runs,
            account,
            copying: Copying::default(),
        };
        // Compile the filter now, so that an unsuitable one fails before anything is written.
        while set.members.is_empty() && set.open_next()? {}
        Ok(set)
    }

    /// Prepares the next packet: opens files whose time has come, and closes those that are over.
    /// False if a member must be asked again.
    fn advance(&mut self) -> Result<bool, PortError> {
        loop {
            let mut at = 0;
            while let Some(member) = self.members.get_mut(at) {
                if member.head_ns.is_none() {
                    match member.source.head()? {
                        Head::At(time_ns) => member.head_ns = Some(time_ns),
                        Head::Unknown => return Ok(false),
                        Head::Over => {
                            let over = self.members.swap_remove(at);
                            self.close(over);
                            continue;
                        }
                    }
                }
                at += 1;
            }
            if !self.open_next()? {
                return Ok(true);
            }
        }
    }

    /// Opens the next file if its time has come, or passes it over if it was removed. False if it
    /// is not due.
    fn open_next(&mut self) -> Result<bool, PortError> {
        let earliest = self.members.iter().filter_map(|member| member.head_ns).min();
        let is_due = |file: &mut Waiting| earliest.is_none_or(|head_ns| file.first_ns <= head_ns);
        let Some(file) = self.waiting.pop_if(is_due) else { return Ok(false) };
        let target = file.path.to_string_lossy();
        let (options, interfaces) = (&self.options, self.interfaces.clone());
        let reader = match file.file {
            Some(opened) => CaptureReader::of_file(opened, &file.path)?,
            None => match CaptureReader::open(&target, &options.files) {
                Err(error) if self.naming != Naming::EachByItself && is_missing(&error) => {
                    self.account.note(|| removed(&file.path));
                    self.runs = Runs::default();
                    return Ok(true);
                }
                opened => opened?,
            },
        };
        let source = FileSource::of(reader, target.to_string(), options, interfaces)?;
        let (path, place) = (file.path.clone(), file.place);
        self.members.push(Member { source, path, place, head_ns: None, order: self.opened });
        self.opened += 1;
        Ok(true)
    }

    fn close(&mut self, mut member: Member) {
        let failed = member.source.finish();
        debug_assert!(failed.is_ok(), "a file that is read has no end to write");
        let account = member.source.account();
        self.runs.have_read(member.path, member.place, account.offered);
        self.account.add(account);
    }

    /// Returns the member whose turn it is, and the time at which its turn ends.
    fn turn(&self) -> Option<(usize, u64)> {
        let key = |&at: &usize| (self.members[at].head_ns, self.members[at].order);
        let first = (0..self.members.len()).min_by_key(key)?;
        let others = (0..self.members.len()).filter(|&at| at != first);
        let other_ns = others.filter_map(|at| self.members[at].head_ns).min();
        let other_ns = other_ns.unwrap_or(u64::MAX);
        let next_ns = self.waiting.last().map_or(u64::MAX, |file| file.first_ns);
        Some((first, other_ns.min(next_ns)))
    }
}

impl Port for SetSource {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn account(&self) -> PortAccount {
        let mut account = self.account.clone();
        for member in &self.members {
            account.add(member.source.account());
        }
        self.copying.add_to(&mut account);
        account
    }
}

impl Source for SetSource {
    fn files(&self) -> Vec<PathBuf> {
        self.files.clone()
    }

    /// Lends a run of one file. Cost: a scan of the heads of the open files per run.
    fn lend<'a>(
        &'a mut self,
        scratch: &'a mut Scratch,
        budget: u64,
    ) -> Result<Lent<'a>, PortError> {
        // The packets of the last lender are released.
        if let Some(at) = self.lender.take() {
            self.members[at].head_ns = None;
        }
        let turn = if self.advance()? { self.turn() } else { None };
        let Some((at, until_ns)) = turn else {
            let is_over = self.members.is_empty();
            if is_over {
                self.runs.count_gaps(&mut self.account);
            }
            let state = if is_over { PortState::Ended } else { PortState::Busy };
            scratch.clear();
            return Ok(Lent::new(scratch.burst(&[], self.lent), state));
        };
        self.lender = Some(at);
        let Member { source, order, .. } = &mut self.members[at];
        let lent = source.lend_until(scratch, budget, until_ns)?;
        let state = if budget == 0 { PortState::Blocked } else { PortState::Busy };
        let burst = lent.burst.numbered(self.lent);
        self.lent += burst.len() as u64;
        let places = lent.places.map(|places| Places { file: Some(*order), ..places });
        Ok(Lent { burst, state, places })
    }

    fn receive(&mut self, writer: &mut Writer, budget: u64) -> Result<Received, PortError> {
        Copying::receive(self, |set| &mut set.copying, writer, budget)
    }

    fn lent<'a>(&'a self, scratch: &'a mut Scratch) -> Option<Burst<'a>> {
        match self.lender {
            Some(at) => self.members[at].source.lent(scratch),
            None => Some(scratch.burst(&[], 0)),
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
