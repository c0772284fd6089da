//! The catalogue of a folder: what each of its captures can hold, so that most need not be opened.
//!
//! ```text
//!  FOLDER/.burstline-catalogue    magic, version | entry | entry | ...
//!  entry    size, time of change, inode of its file | packets, times | name | sketch | CRC
//!
//!  listing of the folder --> entry of this very state? --yes--> as the entry says
//!                                                      \-no---> looked through, entered anew
//! ```
//!
//! A catalogue is a hint that is checked against the folder each time. An entry counts only while
//! its checksum holds and its file is the same one, by size, time of change and inode. Entries that
//! are missing, stale or damaged are made again, and what is behind damage is missing. So a
//! catalogue that is lost costs time and nothing else.
//!
//! A recording is looked through by its trailers; its last segment has the sketch of all its flows.
//! Any other file is read once from start to end. A file that has changed within the last second
//! gets no entry, because it may change again unnoticed. Neither does a damaged or unclosed file.
//! Both kinds are opened for every question.
//!
//! A catalogue is written beside its place and moved there. One that belongs to neither the user,
//! root nor the folder's owner is not believed: it could hide packets. All numbers are
//! little-endian; an entry has 80 bytes, its name, its sketch, and the CRC32C of these.

mod entry;
mod survey;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use burstline_sys::privileges;

use super::super::place::{self, folder_of};
use super::index::Stamp;
use super::reader::CaptureReader;
use super::selection::Selector;
use super::set;
use crate::opened::{OpenedFiles, Use};
use crate::{OpenOptions, PortError, Selection};
use entry::{Content, Entry};
use survey::survey;

/// Its name; hidden, so that no program takes it for a capture.
const NAME: &str = ".burstline-catalogue";

/// The longest catalogue that is read, in bytes: 16,000 files with sketches of 64 KiB, millions
/// with small ones.
const MOST_BYTES: u64 = 1 << 30;

/// How long a file must be unchanged: longer than the clock of any file system takes to move on.
const SETTLED: Duration = Duration::from_secs(1);

/// Hears which file is looked through and how many of its bytes are; returns whether to go on.
pub(super) type Watch<'a> = dyn FnMut(&Path, u64) -> bool + Send + 'a;

/// What a file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Summary {
    pub(super) packets: u64,
    /// Of the first packet in the file, in ns since 1970.
    pub(super) first_ns: u64,
    /// Earliest and latest, in ns since 1970.
    pub(super) times_ns: [u64; 2],
    /// Of the flow hashes, kind five-tuple; empty where it says nothing.
    pub(super) sketch: Vec<u8>,
}

/// A capture, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// Where it is.
    pub path: PathBuf,
    /// `None`: it has to be opened.
    summary: Option<Summary>,
}

/// The captures that are meant by one word.
#[derive(Debug, Default)]
pub struct Captures {
    /// By name.
    pub captures: Vec<Capture>,
    /// Files that are no captures.
    pub skipped: usize,
    /// Why a catalogue could not be kept.
    pub notes: Vec<String>,
}

/// Captures, by whether they have to be opened.
#[derive(Debug, Default)]
pub struct Chosen {
    /// To be opened.
    pub paths: Vec<PathBuf>,
    /// Those that cannot hold an answer, and their packets.
    passed: Vec<PathBuf>,
    packets_passed: u64,
}

impl Capture {
    /// One that nothing is known of.
    pub(super) fn unknown(path: PathBuf) -> Self {
        Self { path, summary: None }
    }

    /// The time of its first packet, in ns since 1970; `None`: it has none. Opens it only where
    /// that is not known.
    ///
    /// # Errors
    /// As for [`CaptureReader::read_first_time_ns`].
    pub fn first_time_ns(&self) -> Result<Option<u64>, PortError> {
        match &self.summary {
            Some(summary) => Ok(Some(summary.first_ns).filter(|_| summary.packets > 0)),
            None => {
                let path = self.path.to_string_lossy();
                CaptureReader::open(&path, &OpenedFiles::default())?.read_first_time_ns()
            }
        }
    }
}

/// The captures that a path means, as for [`captures_of`](set::captures_of), with what the
/// catalogues of their folders say. Catalogues are brought up to date.
///
/// # Errors
/// As for [`captures_of`](set::captures_of).
pub fn catalogued(target: &str, watch: &mut Watch<'_>) -> Result<Captures, PortError> {
    let mut notes = Vec::new();
    let mut look = |files: Vec<PathBuf>| {
        let Some(first) = files.first() else { return Vec::new() };
        let folder = folder_of(first).to_owned();
        let mut catalogue = Catalogue::load(&folder);
        let captures = files.into_iter().filter_map(|path| catalogue.look_up(path, watch));
        let captures = captures.collect();
        if let Err(error) = catalogue.store() {
            let folder = folder.display();
            notes.push(format!("{folder}: no catalogue of it could be written: {error}"));
        }
        captures
    };
    let (captures, skipped) = set::find(target, &mut look)?;
    Ok(Captures { captures, skipped, notes })
}

/// Leaves out captures that cannot hold a packet that is wanted.
pub fn choose(captures: Vec<Capture>, selection: &Selection) -> Chosen {
    let (selector, mut chosen) = (Selector::new(selection), Chosen::default());
    for Capture { path, summary } in captures {
        match summary.filter(|summary| selector.is_choosing && !selector.wants_file(summary)) {
            Some(summary) => {
                chosen.packets_passed += summary.packets;
                chosen.passed.push(path);
            }
            None => chosen.paths.push(path),
        }
    }
    chosen
}

impl Chosen {
    /// Enters what is passed among the files that the job reads, so that no output is one of them.
    pub(super) fn enter(&self, options: &OpenOptions) -> Result<(), PortError> {
        for path in &self.passed {
            // A file that is gone meanwhile cannot be the output.
            let Ok(metadata) = fs::metadata(path) else { continue };
            options.files.enter(path, &metadata, Use::Read)?;
        }
        Ok(())
    }

    /// Packets that are passed, and a note of them.
    pub(super) fn passed(&self) -> Option<(u64, String)> {
        let (files, packets) = (self.passed.len(), self.packets_passed);
        let note = || format!("{files} files of {packets} packets passed unopened");
        (files > 0).then(|| (packets, note()))
    }
}

/// A folder's catalogue.
struct Catalogue {
    folder: PathBuf,
    entries: BTreeMap<OsString, Entry>,
    is_changed: bool,
}

impl Catalogue {
    /// What is there, as far as it is sound.
    fn load(folder: &Path) -> Self {
        let bytes = place::read_hint(&folder.join(NAME), MOST_BYTES).unwrap_or_default();
        let parsed = privileges::without_rights(|| entry::parse(&bytes));
        let (entries, is_whole) = parsed.unwrap_or_default();
        Self { folder: folder.to_owned(), entries, is_changed: !is_whole }
    }

    /// A file as the catalogue knows it; `None`: it is not a capture, or gone.
    fn look_up(&mut self, path: PathBuf, watch: &mut Watch<'_>) -> Option<Capture> {
        let metadata = fs::metadata(&path).ok()?;
        let name = path.file_name()?.to_owned();
        let known = self.entries.get(&name).filter(|entry| entry.stamp == Stamp::of(&metadata));
        let content = match known {
            Some(entry) => entry.content.clone(),
            None if !is_settled(&metadata) => match set::is_capture(&path) {
                true => Content::Doubtful,
                false => Content::Foreign,
            },
            None => {
                let Some((content, stamp)) = survey(&path, watch) else {
                    return Some(Capture::unknown(path));
                };
                if let Some(stamp) = stamp {
                    let entry = Entry { stamp, content: content.clone() };
                    self.entries.insert(name, entry);
                    self.is_changed = true;
                }
                content
            }
        };
        match content {
            Content::Foreign => None,
            Content::Doubtful => Some(Capture::unknown(path)),
            Content::Sound(summary) => Some(Capture { path, summary: Some(summary) }),
        }
    }

    /// Writes it, if it has changed, without the files that are gone.
    fn store(&mut self) -> io::Result<()> {
        let (folder, before) = (&self.folder, self.entries.len());
        self.entries.retain(|name, _| folder.join(name).exists());
        let is_same = !self.is_changed && self.entries.len() == before;
        if is_same || self.entries.is_empty() {
            return Ok(());
        }
        place::replace(&folder.join(NAME), &entry::to_bytes(&self.entries))
    }
}

fn is_settled(metadata: &Metadata) -> bool {
    let age = metadata.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
    age.is_some_and(|age| age >= SETTLED)
}
