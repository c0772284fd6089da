//! Goes on to files that recorders write while a set is read.
//!
//! ```text
//!  listed      a       a b     b c     c d           a ring of two files
//!  read        a a     a b     b b c   c c d
//! ```
//!
//! Ten times a second the names are listed again, if a folder has changed. A new file is opened as
//! soon as there are descriptors for it, so a ring may remove it before its turn. It waits for its
//! turn once the time of its first packet is known and what is there stays:
//! [`CaptureReader::begin`]. Two files of one run of a recorder are read in sequence. Other files
//! go on if one that grows has been silent for two seconds: then packets of different files may be
//! out of order.
//!
//! When the job ends, the set ends with what is there.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use burstline_sys::{clock, late};

use super::super::reader::{Begin, CaptureReader};
use super::listing::{files_now, folders_changed};
use super::places::kept_open;
use super::{RunPlace, SetSource, Waiting, removed};
use crate::{OpenedFiles, PortError};

/// How often names are listed.
const LOOK_EVERY_NS: u64 = 100_000_000;
/// A folder may be changed again within this time, and still have the same time.
const SETTLED: Duration = Duration::from_secs(2);
/// How long a file that grows holds the others up, without a packet.
const HELD_UP_NS: u64 = 2_000_000_000;

/// As long as a file has been looked at fewer times, it may only have begun.
const NEW_LOOKS: u32 = 3;

/// What tells a file from another one of its name, which a ring may use again.
type Identity = (u64, u64, Option<SystemTime>);

/// The later files of a set.
pub(super) struct Follow {
    /// What names them.
    target: String,
    /// The files that the job writes: they are not read.
    written: OpenedFiles,
    known: HashMap<PathBuf, Identity>,
    /// Files of which nothing can be read yet, the newest first.
    pending: Vec<Pending>,
    /// The files of the last listing; the last one was changed last.
    by_time: Vec<PathBuf>,
    looked_ns: Option<u64>,
    /// When the folders were changed, by the last listing.
    changed: Option<Vec<SystemTime>>,
    /// Whether no further file is looked for.
    is_over: bool,
    /// Files that are no captures, as far as is known.
    unsure: HashSet<PathBuf>,
    /// Those that are none.
    skipped: u64,
}

/// A file of which nothing can be read yet.
struct Pending {
    path: PathBuf,
    place: Option<RunPlace>,
    /// Open, if there are enough descriptors.
    file: Option<File>,
    looks: u32,
    /// Whether it is a capture, which nobody knows of an empty file.
    is_capture: bool,
}

impl Pending {
    fn of(path: PathBuf) -> Self {
        Self { path, place: None, file: None, looks: 0, is_capture: false }
    }
}

impl Follow {
    pub(super) fn new(target: &str, written: &OpenedFiles) -> Self {
        Self {
            target: target.to_owned(),
            written: written.clone(),
            known: HashMap::new(),
            pending: Vec::new(),
            by_time: Vec::new(),
            looked_ns: None,
            changed: None,
            is_over: false,
            unsure: HashSet::new(),
            skipped: 0,
        }
    }

    /// Whether no file will be added.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether a file of the same run, in front of this one, is still to come. One that was empty
    /// when it was found may be such a file, if its name says so.
    pub(super) fn is_behind_pending(&self, place: Option<RunPlace>, path: &Path) -> bool {
        self.pending.iter().any(|file| {
            let is_new = file.place.is_none() && file.looks < NEW_LOOKS;
            precedes(file.place, place) || is_new && place.is_some() && *file.path < *path
        })
    }

    /// Whether a file that has been silent since then still holds others up.
    pub(super) fn holds_up(&self, since_ns: u64) -> bool {
        !self.is_over && clock::monotonic_ns() - since_ns < HELD_UP_NS
    }

    /// Returns a note on the files that were no captures.
    pub(super) fn skipped(&self) -> Option<String> {
        let (target, skipped) = (&self.target, self.skipped);
        let note = || format!("set:{target}: skipped files that are not captures: {skipped}");
        (skipped > 0).then(note)
    }

    /// Adds the files that are new since the last listing.
    fn list(&mut self) -> Result<(), PortError> {
        let fail = |path: &Path| {
            let path = path.to_owned();
            |error| PortError::Io { action: "look at", path, error }
        };
        let changed = folders_changed(&self.target);
        let is_settled = |at: &SystemTime| at.elapsed().is_ok_and(|since| since > SETTLED);
        let all_settled = changed.as_ref().is_some_and(|all| all.iter().all(is_settled));
        if all_settled && changed == self.changed {
            return Ok(());
        }
        self.changed = changed;
        let (mut listed, mut by_time, mut found) = (HashMap::new(), Vec::new(), Vec::new());
        for path in files_now(&self.target)? {
            let metadata = match late::metadata(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                metadata => metadata.map_err(fail(&path))?,
            };
            let identity = (metadata.dev(), metadata.ino(), metadata.created().ok());
            by_time.push((metadata.modified().ok(), path.clone()));
            if self.known.get(&path) != Some(&identity) {
                self.unsure.insert(path.clone());
                found.push(path.clone());
            }
            listed.insert(path, identity);
        }
        self.known = listed;
        self.unsure.retain(|path| self.known.contains_key(path));
        by_time.sort();
        self.by_time = by_time.into_iter().map(|(_, path)| path).collect();
        let new = found.into_iter().map(Pending::of);
        self.pending.extend(new);
        // The newest first: what is no capture does not make another file a former one.
        let place = |file: &Pending| self.by_time.iter().position(|path| *path == file.path);
        self.pending.sort_by_cached_key(|file| Reverse(place(file)));
        Ok(())
    }

    /// Whether nothing that is known to be a capture was changed later than this file, when the
    /// names were listed last.
    fn is_last(&self, path: &Path) -> bool {
        let is_known = |other: &&PathBuf| *other == path || !self.unsure.contains(*other);
        self.by_time.iter().rfind(is_known).is_some_and(|last| last == path)
    }
}

/// Whether a file is in front of another one of the same run.
pub(super) fn precedes(this: Option<RunPlace>, that: Option<RunPlace>) -> bool {
    let both = this.zip(that);
    both.is_some_and(|(this, that)| {
        this.run == that.run && this.packets_before < that.packets_before
    })
}

impl SetSource {
    /// Looks for further files of a set that is followed, if it is time.
    pub(super) fn look_for_files(&mut self) -> Result<(), PortError> {
        let Some(mut follow) = self.follow.take() else { return Ok(()) };
        let now_ns = clock::monotonic_ns();
        let is_due = follow.looked_ns.is_none_or(|looked_ns| now_ns - looked_ns >= LOOK_EVERY_NS);
        let looked = match is_due && !follow.is_over {
            true => self.look_now(&mut follow),
            false => Ok(()),
        };
        self.follow = Some(follow);
        looked
    }

    /// Ends the set with what its files have now.
    pub(super) fn end_following(&mut self) -> Result<(), PortError> {
        let Some(mut follow) = self.follow.take().filter(|follow| !follow.is_over) else {
            return Ok(());
        };
        follow.is_over = true;
        let looked = self.look_now(&mut follow);
        self.members.iter_mut().for_each(|member| member.source.reader.read_to_end());
        self.waiting.iter_mut().for_each(|file| file.growth = None);
        if let Some(note) = follow.skipped() {
            self.account.note(|| note);
        }
        self.follow = Some(follow);
        looked
    }

    fn look_now(&mut self, follow: &mut Follow) -> Result<(), PortError> {
        follow.looked_ns = Some(clock::monotonic_ns());
        follow.list()?;
        let (mut begun, mut later) = (Vec::new(), Vec::new());
        for mut file in std::mem::take(&mut follow.pending) {
            match self.meet(follow, &mut file) {
                Ok(found) => {
                    if file.is_capture {
                        follow.unsure.remove(&file.path);
                    }
                    match found {
                        Some(found) => begun.push(found),
                        None if follow.is_over => {}
                        None => later.push(file),
                    }
                }
                Err(PortError::NotACapture { .. }) => follow.skipped += 1,
                Err(PortError::SameFile { .. }) => {}
                Err(error) if super::is_missing(&error) => {
                    self.account.note(|| removed(&file.path));
                }
                Err(error) => {
                    follow.pending.push(file);
                    return Err(error);
                }
            }
        }
        follow.pending = later;
        // Those that begin at the same time are in the order of their numbers.
        begun.sort_by_key(|file| (file.first_ns, file.place.map(|place| place.packets_before)));
        begun.into_iter().for_each(|file| self.enter(file));
        for member in &mut self.members {
            if !follow.is_last(&member.path) {
                member.source.reader.is_not_last();
            }
        }
        let former = self.waiting.iter_mut().filter(|file| !follow.is_last(&file.path));
        former.for_each(Waiting::is_not_last);
        Ok(())
    }

    /// Looks into a new file. Returns `None` if nothing of it can be read yet.
    fn meet(&self, follow: &Follow, file: &mut Pending) -> Result<Option<Waiting>, PortError> {
        let path = file.path.clone();
        file.looks += 1;
        let fail = |error| PortError::Io { action: "open", path: path.clone(), error };
        let opened = match file.file.take() {
            Some(opened) => opened,
            None => late::open(&path).map_err(fail)?,
        };
        let metadata = opened.metadata().map_err(fail)?;
        follow.written.check_unwritten(&path, &metadata)?;
        let stays_open = self.waiting.len() + follow.pending.len() < kept_open(usize::MAX);
        if stays_open {
            file.file = Some(opened.try_clone().map_err(fail)?);
        }
        // A recorder has not locked a file that is empty: looking would hinder it.
        if metadata.len() == 0 {
            return Ok(None);
        }
        let is_last = !follow.is_over && follow.is_last(&path);
        let probed = probe(&path, opened, [is_last, follow.is_over], &mut file.place);
        file.is_capture |= probed.is_ok();
        match probed {
            // Its recorder has only begun.
            Err(PortError::NotACapture { .. }) if is_growing(&metadata, file, is_last) => Ok(None),
            Err(error) => Err(error),
            Ok((Begin::Later, _)) if !follow.is_over => Ok(None),
            Ok((Begin::Growing(_), None)) => Ok(None),
            Ok((begin, first_ns)) => {
                let growth = match begin {
                    Begin::Growing(growth) => Some(growth),
                    Begin::Whole | Begin::Later => None,
                };
                let first_ns = first_ns.unwrap_or(0);
                let (place, file, index) = (file.place, file.file.take(), 0);
                Ok(Some(Waiting { first_ns, path, place, file, index, growth }))
            }
        }
    }

    /// Adds a file to those that wait for their turn.
    fn enter(&mut self, mut file: Waiting) {
        file.index = self.files.len();
        self.files.push(file.path.clone());
        let at = self.waiting.partition_point(|other| other.first_ns > file.first_ns);
        self.waiting.insert(at, file);
    }
}

/// Reads whether a file can be read, its place in its run, and the time of its first packet.
fn probe(
    path: &Path,
    opened: File,
    [is_last, is_over]: [bool; 2],
    place: &mut Option<RunPlace>,
) -> Result<(Begin, Option<u64>), PortError> {
    let mut reader = CaptureReader::of_file(opened, path, None)?;
    *place = reader.read_run_place()?;
    let begin = reader.begin(is_last)?;
    let first_ns = match begin {
        Begin::Later if !is_over => None,
        _ => reader.read_first_time_ns()?,
    };
    Ok((begin, first_ns))
}

/// Whether what is no capture yet may become one.
fn is_growing(metadata: &Metadata, file: &Pending, is_last: bool) -> bool {
    let is_locked = file.file.as_ref().is_some_and(burstline_sys::locked::is_locked);
    is_locked || is_last && metadata.len() < 24
}
