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
//! out of order. The silent one rests until it grows again ([`rest`](super::rest)).
//!
//! A file is known by its identity, so one that is renamed is read once. When the job ends, or the
//! files can be listed no more, the set ends with what is there.

use std::collections::{HashMap, HashSet};
use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use burstline_sys::{clock, late, limits};

use super::super::reader::{Begin, CaptureReader};
use super::listing::{files_now, folders_changed};
use super::places::kept_open;
use super::rest::Rests;
use super::{RunPlace, SetSource, Waiting, removed};
use crate::opened::{Identity, identity};
use crate::{OpenedFiles, PortError};

/// How often names are listed.
const LOOK_EVERY_NS: u64 = 100_000_000;
/// A folder may be changed again within this time, and still have the same time.
const SETTLED: Duration = Duration::from_secs(2);
/// How long a file that grows holds the others up, without a packet.
const HELD_UP_NS: u64 = 2_000_000_000;

/// As long as a file has been looked at fewer times, it may only have begun.
const NEW_LOOKS: u32 = 3;

/// A file of another program that has not changed for this long is whole, if it has no rows of
/// packets.
const STILL: Duration = Duration::from_secs(3);
/// What is longer and no capture does not become one.
const BEGINNING_BYTES: u64 = 1 << 20;

/// The later files of a set.
pub(super) struct Follow {
    /// What names them.
    target: String,
    /// The files that the job writes: they are not read.
    written: OpenedFiles,
    /// The files of the last listing.
    known: HashMap<PathBuf, Identity>,
    /// All files that were found. Without its time of birth, only those that are there.
    met: HashSet<Identity>,
    /// Files of which nothing can be read yet.
    pending: Vec<Pending>,
    /// Files that were read, and may grow.
    pub(super) rests: Rests,
    /// For each run, the packets before its newest file.
    newest: HashMap<u64, u64>,
    looked_ns: Option<u64>,
    /// When the folders were changed, by the last listing.
    changed: Option<Vec<SystemTime>>,
    /// Whether no further file is looked for.
    is_over: bool,
    /// Files that are no captures.
    skipped: u64,
    /// Why the files can be listed no more.
    failure: Option<PortError>,
}

/// A file of which nothing can be read yet.
struct Pending {
    path: PathBuf,
    identity: Identity,
    place: Option<RunPlace>,
    /// Open, if there are enough descriptors.
    file: Option<File>,
    looks: u32,
    /// Whether its recorder had it locked.
    was_locked: bool,
    /// Its size when it was looked at last.
    bytes: Option<u64>,
}

impl Pending {
    fn of(path: PathBuf, identity: Identity) -> Self {
        let (place, file, bytes) = (None, None, None);
        Self { path, identity, place, file, looks: 0, was_locked: false, bytes }
    }

    /// Whether it has not changed for a while, and not since the last look.
    fn is_still(&mut self, metadata: &Metadata) -> bool {
        let bytes = metadata.len();
        let is_same = self.bytes.replace(bytes).is_none_or(|before| before == bytes);
        is_same && age(metadata) >= STILL
    }
}

/// Returns how long ago a file was changed.
pub(super) fn age(metadata: &Metadata) -> Duration {
    let changed = metadata.modified().ok();
    changed.and_then(|at| at.elapsed().ok()).unwrap_or_default()
}

/// What a listing has found.
#[derive(Default)]
struct Listed {
    /// Files that have other names now.
    renamed: HashMap<Identity, PathBuf>,
    /// Why files cannot be looked at.
    notes: Vec<String>,
}

impl Follow {
    pub(super) fn new(target: &str, written: &OpenedFiles) -> Self {
        written.keep_written();
        Self {
            target: target.to_owned(),
            written: written.clone(),
            known: HashMap::new(),
            met: HashSet::new(),
            pending: Vec::new(),
            rests: Rests::default(),
            newest: HashMap::new(),
            looked_ns: None,
            changed: None,
            is_over: false,
            skipped: 0,
            failure: None,
        }
    }

    /// Whether no file will be added.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether nothing is there.
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Returns why the files could be listed no more, once.
    pub(super) fn take_failure(&mut self) -> Option<PortError> {
        self.failure.take()
    }

    /// Whether the next file of the same run was found.
    pub(super) fn has_successor(&self, place: Option<RunPlace>) -> bool {
        let newest = |place: RunPlace| self.newest.get(&place.run).copied();
        place.is_some_and(|place| newest(place) > Some(place.packets_before))
    }

    /// Notes the place of a file.
    fn have_met(&mut self, place: Option<RunPlace>) {
        if let Some(RunPlace { run, packets_before }) = place {
            let newest = self.newest.entry(run).or_default();
            *newest = packets_before.max(*newest);
        }
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
    fn list(&mut self) -> Result<Listed, PortError> {
        let mut listed = Listed::default();
        let changed = folders_changed(&self.target);
        let is_settled = |at: &SystemTime| at.elapsed().is_ok_and(|since| since > SETTLED);
        let all_settled = changed.as_ref().is_some_and(|all| all.iter().all(is_settled));
        if all_settled && changed == self.changed {
            return Ok(listed);
        }
        let (mut known, mut found) = (HashMap::new(), Vec::new());
        for path in files_now(&self.target)? {
            let metadata = match late::metadata(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => {
                    let unknown = (0, 0, None);
                    if self.known.get(&path) != Some(&unknown) {
                        listed.notes.push(unreadable(&path, &error));
                    }
                    known.insert(path, unknown);
                    continue;
                }
                Ok(metadata) => metadata,
            };
            let identity = identity(&metadata);
            if self.known.get(&path) != Some(&identity) {
                // Without its time of birth, it may be another file of the same number.
                match self.met.insert(identity) || identity.2.is_none() {
                    true => found.push(Pending::of(path.clone(), identity)),
                    false => _ = listed.renamed.insert(identity, path.clone()),
                }
            }
            known.insert(path, identity);
        }
        self.changed = changed;
        self.known = known;
        self.pending.extend(found);
        let renamed = |file: &mut Pending| rename(&listed.renamed, &file.identity, &mut file.path);
        self.pending.iter_mut().for_each(renamed);
        self.rests.rename(&listed.renamed);
        Ok(listed)
    }
}

/// The note on a file that cannot be read.
fn unreadable(path: &Path, error: &std::io::Error) -> String {
    format!("{} cannot be read: its packets are in no count: {error}", path.display())
}

/// Gives a file its new name, if it has one.
pub(super) fn rename(renamed: &HashMap<Identity, PathBuf>, of: &Identity, path: &mut PathBuf) {
    if let Some(new) = renamed.get(of) {
        new.clone_into(path);
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
    /// Looks for further files of a set that is followed, if it is time. If they can be listed no
    /// more, the set ends with what is there, and then with that error.
    pub(super) fn look_for_files(&mut self) -> Result<(), PortError> {
        let Some(mut follow) = self.follow.take() else { return Ok(()) };
        let now_ns = clock::monotonic_ns();
        let is_due = follow.looked_ns.is_none_or(|looked_ns| now_ns - looked_ns >= LOOK_EVERY_NS);
        let is_first = follow.looked_ns.is_none();
        let looked = match is_due && !follow.is_over {
            true => self.look_now(&mut follow),
            false => Ok(()),
        };
        self.follow = Some(follow);
        match looked {
            Err(error) if !is_first => {
                self.end_following();
                if let Some(follow) = &mut self.follow {
                    follow.failure = Some(error);
                }
                self.account.is_damaged = true;
                Ok(())
            }
            looked => looked,
        }
    }

    /// Ends the set with what its files have now.
    pub(super) fn end_following(&mut self) {
        let Some(mut follow) = self.follow.take() else { return };
        if !follow.is_over {
            follow.is_over = true;
            follow.failure = self.look_now(&mut follow).err();
            self.members.iter_mut().for_each(|member| member.source.reader.read_to_end());
            self.waiting.iter_mut().for_each(|file| file.growth = None);
            if let Some(note) = follow.skipped() {
                self.account.note(|| note);
            }
        }
        self.follow = Some(follow);
    }

    fn look_now(&mut self, follow: &mut Follow) -> Result<(), PortError> {
        follow.looked_ns = Some(clock::monotonic_ns());
        let listed = follow.list();
        if let Ok(Listed { renamed, notes }) = &listed {
            let waiting = self.waiting.iter_mut();
            waiting.for_each(|file| rename(renamed, &file.identity, &mut file.path));
            notes.iter().for_each(|note| self.account.note(|| note.clone()));
        }
        let (mut begun, mut later) = (Vec::new(), Vec::new());
        for mut file in std::mem::take(&mut follow.pending) {
            let met = self.meet(follow, &mut file);
            follow.have_met(file.place);
            match met {
                Ok(Some(found)) => begun.push(found),
                Ok(None) if follow.is_over => {}
                Ok(None) => later.push(file),
                Err(PortError::NotACapture { .. }) => follow.skipped += 1,
                Err(PortError::SameFile { .. }) => {}
                Err(error) if super::is_missing(&error) => {
                    self.account.note(|| removed(&file.path));
                }
                // There may be descriptors later.
                Err(PortError::Io { error, .. })
                    if limits::is_out_of_descriptors(&error) && !follow.is_over =>
                {
                    later.push(file);
                }
                Err(PortError::Io { error, .. }) => {
                    self.account.note(|| unreadable(&file.path, &error));
                }
                Err(error) => self.account.note(|| error.to_string()),
            }
        }
        follow.pending = later;
        // Those that begin at the same time are in the order of their numbers.
        begun.sort_by_key(|file| (file.first_ns, file.place.map(|place| place.packets_before)));
        begun.into_iter().for_each(|file| self.enter(file));
        for member in &mut self.members {
            if follow.has_successor(member.place) {
                member.source.reader.is_not_last();
            }
        }
        let former = self.waiting.iter_mut().filter(|file| follow.has_successor(file.place));
        former.for_each(Waiting::is_not_last);
        self.wake(follow);
        listed.map(drop)
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
        let is_still = file.is_still(&metadata);
        let is_locked = burstline_sys::locked::is_locked(&opened);
        file.was_locked |= is_locked;
        let is_finished = follow.is_over || file.was_locked && !is_locked;
        match probe(opened, file, follow, is_finished, is_still) {
            // Its recorder has only begun.
            Err(PortError::NotACapture { .. })
                if is_locked || !is_finished && !is_still && metadata.len() < BEGINNING_BYTES =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
            Ok((Begin::Later, _)) if !follow.is_over => Ok(None),
            Ok((Begin::Growing(_), None)) => Ok(None),
            Ok((begin, first_ns)) => {
                let growth = match begin {
                    Begin::Growing(growth) => Some(growth),
                    Begin::Whole | Begin::Later => None,
                };
                let (first_ns, identity) = (first_ns.unwrap_or(0), identity(&metadata));
                let (place, file, index) = (file.place, file.file.take(), 0);
                Ok(Some(Waiting { first_ns, path, identity, place, file, index, growth }))
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
    opened: File,
    file: &mut Pending,
    follow: &Follow,
    is_finished: bool,
    is_still: bool,
) -> Result<(Begin, Option<u64>), PortError> {
    let mut reader = CaptureReader::of_file(opened, &file.path, None)?;
    file.place = reader.read_run_place()?;
    let is_finished = is_finished || follow.has_successor(file.place);
    let begin = reader.begin(is_finished, is_still)?;
    let first_ns = match begin {
        Begin::Later if !follow.is_over => None,
        _ => reader.read_first_time_ns()?,
    };
    Ok((begin, first_ns))
}
