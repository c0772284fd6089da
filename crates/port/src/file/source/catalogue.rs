//! The catalogue of a folder: summaries of its captures, so that most need not be opened.
//!
//! ```text
//!  FOLDER/.burstline-catalogue    magic, version | entry | entry | ...
//!  entry    size, times, inode of its file | packets, their times | name | sketch | CRC
//!
//!  listing of the folder --> entry of this very state? --yes--> summary of the entry
//!                                                      \-no---> file is read, entry added
//! ```
//!
//! A catalogue is a hint that is verified against the folder each time. An entry counts only while
//! its checksum is correct and its file is the same one: by size, inode, and the times of the last
//! modification and the last change, of which nobody but the kernel sets the latter.
//! Entries that are missing, stale or damaged are rebuilt; all entries after a damaged one count as
//! missing. So a lost catalogue costs only time.
//!
//! A recording is summarised from its trailers; its last segment has the sketch of all its flows.
//! Any other file is read once completely. A file that has changed within the last three seconds
//! gets no entry, because it may change again unnoticed. Neither does a damaged or unclosed file.
//! Both kinds are opened for every query.
//!
//! A catalogue is written to a temporary file and renamed. One owned by neither the user, root nor
//! the folder's owner is not trusted: it could hide packets. All numbers are little-endian; an
//! entry has 96 bytes, its name, its sketch, and the CRC32C of these.

mod entry;
mod survey;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use burstline_sys::late;
use burstline_sys::privileges;
use burstline_wire::hash::HashKind;

use super::super::place::{self, folder_of};
use super::index::Stamp;
use super::reader::CaptureReader;
use super::selection::Selector;
use super::set;
use crate::opened::{OpenedFiles, Use};
use crate::{OpenOptions, PortError, Selection};
use entry::{Content, Entry};
use survey::survey;

/// The name of a catalogue; hidden, so that no program mistakes it for a capture.
pub const CATALOGUE: &str = ".burstline-catalogue";

/// The maximum size of a catalogue, in bytes: 16,000 files with sketches of 64 KiB, millions with
/// small ones.
const MOST_BYTES: u64 = 1 << 30;

/// How long a file must be unchanged: longer than the timestamp granularity of any file system. FAT
/// counts in two seconds.
const SETTLED: Duration = Duration::from_secs(3);

/// Gets the file being read and how many of its bytes are read; returns whether to continue.
pub(super) type Watch<'a> = dyn FnMut(&Path, u64) -> bool + Send + 'a;

/// The contents of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Summary {
    pub(super) packets: u64,
    /// Time of the first packet in the file, in ns since 1970.
    pub(super) first_ns: u64,
    /// Earliest and latest, in ns since 1970.
    pub(super) times_ns: [u64; 2],
    /// Sketch of the flow hashes, kind five-tuple; empty if unknown.
    pub(super) sketch: Vec<u8>,
}

/// A capture, and its summary if known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// Its path.
    pub path: PathBuf,
    /// `None` if it must be opened.
    summary: Option<Summary>,
}

/// The captures that a path or pattern names.
#[derive(Debug, Default)]
pub struct Captures {
    /// By name.
    pub captures: Vec<Capture>,
    /// Files that are not captures.
    pub skipped: usize,
    /// Why catalogues could not be saved.
    pub notes: Vec<String>,
}

/// Captures, divided by whether they must be opened.
#[derive(Debug, Default)]
pub struct Chosen {
    /// Captures to open.
    pub paths: Vec<PathBuf>,
    /// Captures without wanted packets, and the packets in them.
    passed: Vec<PathBuf>,
    packets_passed: u64,
}

impl Capture {
    /// A capture without a summary.
    pub(super) fn unknown(path: PathBuf) -> Self {
        Self { path, summary: None }
    }

    /// Returns the time of its first packet, in ns since 1970; `None` if it has none. Opens the
    /// capture only if the time is unknown.
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

/// Returns the captures that a path names, as for [`captures_of`](set::captures_of), with summaries
/// from their folders' catalogues. Updates the catalogues.
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
            notes.push(format!("{folder}: its catalogue could not be written: {error}"));
        }
        captures
    };
    let (captures, skipped) = set::find(target, &mut look)?;
    Ok(Captures { captures, skipped, notes })
}

/// Leaves out captures that cannot contain a wanted packet, if a flow is that of outermost packets.
pub fn choose(captures: Vec<Capture>, selection: &Selection) -> Chosen {
    let (selector, mut chosen) = (Selector::new(selection, HashKind::FiveTuple), Chosen::default());
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
    /// Registers skipped files as read by the job, so that no output overwrites them.
    pub(super) fn enter(&self, options: &OpenOptions) -> Result<(), PortError> {
        for path in &self.passed {
            // A file that has been removed meanwhile cannot be the output.
            let Ok(metadata) = late::metadata(path) else { continue };
            options.files.enter(path, &metadata, Use::Read)?;
        }
        Ok(())
    }

    /// Returns whether files were skipped.
    pub fn has_passed(&self) -> bool {
        !self.passed.is_empty()
    }

    /// Returns the number of skipped packets, and a note on them.
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
    /// Loads the valid part of an existing catalogue.
    fn load(folder: &Path) -> Self {
        let bytes = place::read_hint(&folder.join(CATALOGUE), MOST_BYTES).unwrap_or_default();
        let parsed = privileges::without_rights(|| entry::parse(&bytes));
        let (entries, is_whole) = parsed.unwrap_or_default();
        Self { folder: folder.to_owned(), entries, is_changed: !is_whole }
    }

    /// Looks up a file, and reads it if necessary; `None` if it is missing or not a capture.
    fn look_up(&mut self, path: PathBuf, watch: &mut Watch<'_>) -> Option<Capture> {
        let metadata = late::metadata(&path).ok()?;
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

    /// Saves it, if it has changed, without the removed files.
    fn store(&mut self) -> io::Result<()> {
        let (folder, before) = (&self.folder, self.entries.len());
        self.entries.retain(|name, _| folder.join(name).exists());
        let is_same = !self.is_changed && self.entries.len() == before;
        if is_same || self.entries.is_empty() {
            return Ok(());
        }
        place::replace(&folder.join(CATALOGUE), &entry::to_bytes(&self.entries))
    }
}

fn is_settled(metadata: &Metadata) -> bool {
    metadata.modified().is_ok_and(|modified| is_past(modified, SystemTime::now()))
}

/// Whether no later write of a file can have the time of this one.
fn is_past(modified: SystemTime, now: SystemTime) -> bool {
    now.duration_since(modified).is_ok_and(|age| age >= SETTLED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_not_settled_before_its_time_is_over_on_fat() {
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        // A write until then may get the same time.
        assert!(!is_past(modified, modified + Duration::from_secs(2)));
        assert!(is_past(modified, modified + Duration::from_secs(3)));
        assert!(!is_past(modified, modified - Duration::from_secs(9)), "the clock was set back");
    }
}
