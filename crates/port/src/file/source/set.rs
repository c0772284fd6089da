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

mod follow;
mod listing;
mod places;
mod rest;
mod runs;
mod turns;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use burstline_log::{Burst, Scratch, Writer};
use burstline_sys::late;

use super::super::recording::RunPlace;
use super::FileSource;
use super::catalogue::Chosen;
use super::interfaces::Interfaces;
use super::reader::{CaptureReader, Growth};
use crate::opened::{Identity, identity};
use crate::{
    Address, Capabilities, Copying, Key, Lent, Loss, OpenOptions, OpenedFiles, OpenedSources,
    Places, Port, PortAccount, PortError, PortInfo, PortState, Received, Source, TimestampSource,
};

use follow::Follow;
pub use listing::captures_of;
use listing::not_found;
pub(super) use listing::{find, is_capture};
pub use places::SetPlaces;
use places::kept_open;
use runs::Runs;

/// The scheme of sets.
pub(crate) const SET: &str = "set";

/// The keys of a set's address.
pub(crate) const KEYS: &[Key] = &[Key::switch(
    "follow",
    "Whether to read files that a recorder writes and begins meanwhile, until the job is ended",
)
.or("no")];

/// How long a set without packets sleeps.
const WAIT_EVERY: Duration = Duration::from_millis(20);

/// A file still to be read, and the time of its first packet.
struct Waiting {
    first_ns: u64,
    path: PathBuf,
    identity: Identity,
    place: Option<RunPlace>,
    /// Open, if there are enough descriptors.
    file: Option<File>,
    /// Its number in the set's list of files.
    index: usize,
    /// What of it is read, if it grows.
    growth: Option<Growth>,
}

impl Waiting {
    /// The next file of its run is there.
    fn is_not_last(&mut self) {
        self.growth = self.growth.map(Growth::behind_another);
    }
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
    identity: Identity,
    /// Packets that were read before it was opened again.
    passed: u64,
    place: Option<RunPlace>,
    /// The time of its next packet, if known.
    head_ns: Option<u64>,
    /// Since when it grows without a further packet.
    silent_ns: Option<u64>,
    /// Its number in the set's list of files. Those that begin at the same time keep their order.
    order: usize,
}

/// The files of a set as a single source.
struct SetSource {
    info: PortInfo,
    options: OpenOptions,
    interfaces: Interfaces,
    /// How the files were named.
    naming: Naming,
    /// All files, in the order in which they are opened, or were found.
    files: Vec<PathBuf>,
    /// The last one comes first.
    waiting: Vec<Waiting>,
    /// Where later files come from, if they are read.
    follow: Option<Follow>,
    members: Vec<Member>,
    /// The member that lent last.
    lender: Option<usize>,
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
    if address.values(KEYS)?.switch("follow")? {
        return Ok(vec![Box::new(SetSource::open_followed(address, options)?)]);
    }
    let (paths, skipped) = captures_of(address.target())?;
    let is_folder = late::is_folder(Path::new(address.target()));
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

/// The note on a file that was removed.
fn removed(path: &Path) -> String {
    format!("{} was removed before it was read: its packets are in no count", path.display())
}

/// Reads the time of a file's first packet; 0 if it has none: it is read first, and reports why.
fn look_at(path: &Path, files: &OpenedFiles, stays_open: bool) -> Result<Waiting, PortError> {
    let fail = |error| PortError::Io { action: "open", path: path.to_owned(), error };
    let is_standard = path.as_os_str() == "-";
    let metadata = if is_standard { None } else { Some(late::metadata(path).map_err(fail)?) };
    let Some(metadata) = metadata.filter(|found| found.is_file()) else {
        return Err(fail(io::Error::other("not a regular file, but a set reads each one twice")));
    };
    let mut reader = CaptureReader::open(&path.to_string_lossy(), files)?;
    let place = reader.read_run_place()?;
    let first_ns = reader.read_first_time_ns()?.unwrap_or(0);
    let file = if stays_open { reader.share()? } else { None };
    let (path, identity) = (path.to_owned(), identity(&metadata));
    Ok(Waiting { first_ns, path, identity, place, file, index: 0, growth: None })
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
    /// Opens the files that are there, and those that follow them.
    fn open_followed(address: &Address, options: &OpenOptions) -> Result<Self, PortError> {
        let naming = Naming::ByListing;
        let mut set = Self::open(address.to_string(), &[], options, naming)?;
        let capabilities = &mut set.info.capabilities;
        (capabilities.is_finite, capabilities.can_drain) = (false, true);
        set.runs = Runs::of_followed(options.selection.is_all());
        set.follow = Some(Follow::new(address.target(), &options.files));
        set.look_for_files()?;
        if set.follow.as_ref().is_some_and(Follow::is_empty) {
            set.account.note(|| format!("{address}: nothing is there yet; waiting"));
        }
        while set.members.is_empty() && set.open_next()? {}
        Ok(set)
    }

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
        waiting.iter_mut().zip(0..).for_each(|(file, index)| file.index = index);
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
            follow: None,
            lent: 0,
            runs,
            account,
            copying: Copying::default(),
        };
        // Compile the filter now, so that an unsuitable one fails before anything is written.
        while set.members.is_empty() && set.open_next()? {}
        Ok(set)
    }

    /// Returns the state if it is no member's turn.
    fn state_without_packets(&self) -> PortState {
        let is_empty = self.members.is_empty();
        match self.follow.as_ref().is_none_or(Follow::is_over) {
            true if is_empty => PortState::Ended,
            false if is_empty || self.members.iter().any(|one| one.silent_ns.is_some()) => {
                PortState::Idle
            }
            _ => PortState::Busy,
        }
    }

    /// Returns the member whose turn it is, and the time at which its turn ends.
    fn turn(&self) -> Option<(usize, u64)> {
        let since = self.members.iter().filter_map(|member| member.silent_ns).max();
        if since.is_some_and(|since_ns| self.holds_up(since_ns)) {
            return None;
        }
        let key = |&at: &usize| (self.members[at].head_ns, self.members[at].order);
        let known = (0..self.members.len()).filter(|&at| self.members[at].head_ns.is_some());
        let first = known.min_by_key(key)?;
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
        let resting = self.follow.iter().flat_map(|follow| follow.rests.open());
        for member in self.members.iter().chain(resting) {
            account.add(member.source.account());
        }
        self.copying.add_to(&mut account);
        account
    }

    /// A set that is followed ends with what is there.
    fn finish(&mut self) -> Result<(), PortError> {
        self.end_following();
        Ok(())
    }

    fn wait(&self, timeout_ns: u64) -> Option<bool> {
        self.follow.as_ref().filter(|follow| !follow.is_over()).map(|_| {
            thread::sleep(WAIT_EVERY.min(Duration::from_nanos(timeout_ns)));
            false
        })
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
        self.look_for_files()?;
        // The packets of the last lender are released.
        if let Some(at) = self.lender.take() {
            self.members[at].head_ns = None;
        }
        let turn = if self.advance()? { self.turn() } else { None };
        let Some((at, until_ns)) = turn else {
            let state = self.state_without_packets();
            if state == PortState::Ended {
                if let Some(error) = self.follow.as_mut().and_then(Follow::take_failure) {
                    return Err(error);
                }
                self.runs.count_gaps(&mut self.account);
            }
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
