//! The thread that syncs files while another one fills them.
//!
//! ```text
//!   recorder --wrote(mark)--> | open file: written, synced | --fdatasync--> synced = mark before
//!            --close(file)--> | closed files, in order     | --fdatasync, close, chores-->
//! ```
//!
//! A disk that takes a second to write out its cache blocks only this thread. The recorder checks
//! for failures once per burst, with a lock that is never held for long.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use burstline_sys::direct::is_own_descriptor;
use burstline_sys::inode::FileId;
use burstline_sys::{late, privileges};

use super::super::place::folder_of;
use super::chores::{Chore, Chores, Made};
use super::whereabouts::{Whereabouts, removed};
use super::{Flush, OutputOptions};
use crate::Tally;

/// How far a file is written or synced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Mark {
    pub(in super::super) packets: u64,
    pub(in super::super) bytes: u64,
    /// The packets by interface. Shared, because marks are copied often.
    pub(in super::super) by_port: Arc<[PortTally]>,
}

/// Packets of one interface of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct PortTally {
    pub(in super::super) port: u8,
    pub(in super::super) tally: Tally,
}

impl Mark {
    /// The packets up to here that are not in `earlier`, a mark of the same file.
    pub(in super::super) fn since(&self, earlier: &Self) -> Vec<PortTally> {
        let before = |port: u8| earlier.by_port.iter().find(|of| of.port == port);
        let left = self.by_port.iter().map(|&PortTally { port, tally }| {
            let before = before(port).map(|of| of.tally).unwrap_or_default();
            PortTally { port, tally: tally.without(&before) }
        });
        left.filter(|of| of.tally.packets > 0).collect()
    }
}

/// A file that gets no more packets.
pub(in super::super) struct Closed {
    /// Closes the file when dropped.
    pub(in super::super) output: Box<dyn Send>,
    pub(in super::super) written: Mark,
}

/// A sync that failed.
#[derive(Debug)]
pub(in super::super) struct Unsafe {
    pub(in super::super) path: PathBuf,
    pub(in super::super) error: io::Error,
    /// How far the file was synced before.
    pub(in super::super) synced: Mark,
    /// Written but unsynced packets of the closed files that failed so far.
    pub(in super::super) lost: Vec<PortTally>,
}

/// The thread's handle of a file.
struct Handle {
    file: Arc<File>,
    folder: Option<File>,
    path: PathBuf,
    /// Whether the path is that of a file, and not a name for standard output.
    is_named: bool,
    synced: Mark,
    /// Whether it was written, or cut, since the last sync.
    is_touched: bool,
    /// A sync has failed: another one would prove nothing.
    is_broken: bool,
}

/// The open file.
struct OpenFile {
    handle: Handle,
    written: Mark,
    /// When the first unsynced write happened.
    unsynced_since: Option<Instant>,
}

#[derive(Default)]
struct State {
    open: Option<OpenFile>,
    closed: VecDeque<(Handle, Closed)>,
    /// Files to remove.
    unwanted: Vec<Made>,
    /// Whether to sync the open file immediately.
    is_wanted: bool,
    /// Whether a sync, or closing a file, is in progress.
    is_working: bool,
    is_over: bool,
    failed: Option<Unsafe>,
    notes: Vec<String>,
    /// Bytes of files to remove that still exist.
    freeing: u64,
}

#[derive(Default)]
struct Shared {
    flush: Option<Flush>,
    state: Mutex<State>,
    changed: Condvar,
}

/// Syncs the files of one output.
pub(in super::super) struct Safe {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Safe {
    /// Starts the threads. `removes` says whether files will be removed.
    pub(in super::super) fn start(options: &OutputOptions, removes: bool) -> io::Result<Self> {
        let shared = Arc::new(Shared { flush: options.flush, ..Shared::default() });
        let chores = match removes || !options.on_close.is_empty() {
            true => {
                let (hears, counts) = (Arc::clone(&shared), Arc::clone(&shared));
                let tell = move |what| hears.lock().notes.push(what);
                let is_removed = move |bytes: u64| counts.lock().freeing -= bytes;
                Some(Chores::start(options, tell, is_removed)?)
            }
            false => None,
        };
        let own = Arc::clone(&shared);
        let thread = thread::Builder::new().name("sync".to_owned()).spawn(move || {
            // If privileges cannot be dropped, the job reports it.
            let _ = privileges::give_up();
            own.run(chores.as_ref());
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Registers a new open file. `is_named` says that `path` is that of a file, and not a name for
    /// standard output.
    pub(in super::super) fn open(&self, file: File, path: &Path, is_named: bool) {
        let folder = folder_of(path);
        // Nothing is made in a folder for standard output, or another open file.
        let is_made = is_named && !is_own_descriptor(path);
        let opened = is_made.then(|| late::open_folder(folder)).transpose();
        let mut state = self.shared.lock();
        if let (Err(error), Some(_)) = (&opened, self.shared.flush) {
            let folder = folder.display();
            let what =
                format!("{folder} is not synced: {error}: a power cut may take its new files");
            state.notes.push(what);
        }
        let (file, path, folder) = (Arc::new(file), path.to_owned(), opened.ok().flatten());
        let (synced, is_touched, is_broken) = (Mark::default(), false, false);
        let handle = Handle { file, folder, path, is_named, synced, is_touched, is_broken };
        state.open = Some(OpenFile { handle, written: Mark::default(), unsynced_since: None });
    }

    /// Reports that the open file is written up to here. Cost: a lock, and a wake-up if a sync is
    /// due or must be scheduled.
    pub(in super::super) fn wrote(&self, written: Mark) {
        let mut state = self.shared.lock();
        let is_working = state.is_working;
        let Some(open) = &mut state.open else { return };
        open.written = written;
        let is_first = open.unsynced_since.is_none();
        open.unsynced_since.get_or_insert_with(Instant::now);
        let is_due = open.due(self.shared.flush, false).is_some_and(|left| left.is_zero());
        if is_first || is_due && !is_working {
            self.shared.changed.notify_all();
        }
    }

    /// Ends the open file: it is synced and closed, and its chores are run.
    pub(in super::super) fn close(&self, closed: Closed) {
        let mut state = self.shared.lock();
        if let Some(mut open) = state.open.take() {
            open.handle.is_touched = open.unsynced_since.is_some();
            state.closed.push_back((open.handle, closed));
            self.shared.changed.notify_all();
        }
    }

    /// Returns the bytes of files that are to be removed and still exist.
    pub(in super::super) fn freeing(&self) -> u64 {
        self.shared.lock().freeing
    }

    /// Returns the first failed sync, once. Cost: a lock.
    pub(in super::super) fn failure(&self) -> Option<Unsafe> {
        self.shared.lock().failed.take()
    }

    /// Requests the removal of a file that is already closed.
    pub(in super::super) fn remove(&self, made: Made) {
        let mut state = self.shared.lock();
        state.freeing += made.bytes;
        state.unwanted.push(made);
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Waits until the open file is synced up to its last write. Returns how far it is synced then.
    pub(in super::super) fn sync(&self) -> Mark {
        let mut state = self.shared.lock();
        state.is_wanted = true;
        self.shared.changed.notify_all();
        while state.is_wanted || state.is_working {
            state = self.shared.wait(state, None);
        }
        state.open.as_ref().map_or(Mark::default(), |open| open.handle.synced.clone())
    }

    /// Waits until everything is done, and returns the notes.
    pub(in super::super) fn end(&mut self) -> Vec<String> {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It does not panic; if it did, files are not safe, and the message is printed.
            let _ = thread.join();
        }
        std::mem::take(&mut self.shared.lock().notes)
    }
}

impl Drop for Safe {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        most: Option<Duration>,
    ) -> MutexGuard<'a, State> {
        match most {
            Some(most) => {
                let waited = self.changed.wait_timeout(state, most);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Runs due work, until all is done.
    fn run(&self, chores: Option<&Chores>) {
        let mut state = self.lock();
        loop {
            if let Some((handle, closed)) = state.closed.pop_front() {
                state = self.close(state, handle, closed, chores);
                continue;
            }
            for made in state.unwanted.drain(..) {
                chores.into_iter().for_each(|chores| chores.give(Chore::Remove(made.clone())));
            }
            let due = state.open.as_ref().and_then(|open| open.due(self.flush, state.is_wanted));
            match due {
                Some(left) if left.is_zero() => state = self.sync_open(state, sync),
                _ if state.is_wanted => {
                    state.is_wanted = false;
                    self.changed.notify_all();
                }
                _ if state.is_over => return,
                left => state = self.wait(state, left),
            }
        }
    }

    /// Runs `work` with the lock released.
    fn aside<'a, T>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        work: impl FnOnce() -> T,
    ) -> (MutexGuard<'a, State>, T) {
        state.is_working = true;
        drop(state);
        let outcome = work();
        let mut state = self.lock();
        state.is_working = false;
        self.changed.notify_all();
        (state, outcome)
    }

    /// Syncs the open file up to its current mark.
    fn sync_open<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        sync: impl FnOnce(&File, Option<&File>) -> io::Result<()>,
    ) -> MutexGuard<'a, State> {
        // A request during this sync concerns writes up to that moment.
        state.is_wanted = false;
        let Some(open) = &mut state.open else { return state };
        let (mark, file) = (open.written.clone(), Arc::clone(&open.handle.file));
        let folder = open.handle.folder.take();
        let path = open.handle.is_named.then(|| open.handle.path.clone());
        open.unsynced_since = None;
        let (mut state, (outcome, found)) = self.aside(state, || {
            let outcome = sync(&file, folder.as_ref());
            let of = |path: PathBuf| Whereabouts::of(&file, &path);
            (outcome, path.map_or(Whereabouts::InPlace, of))
        });
        let is_it = |handle: &Handle| Arc::ptr_eq(&handle.file, &file);
        // The file may have been closed meanwhile; then its later writes are synced once more.
        let closed = state.closed.iter_mut().map(|(handle, _)| handle).find(|one| is_it(one));
        // A file that was removed when it was complete has lost no packets.
        let is_lost = found == Whereabouts::Removed && closed.is_none();
        let handle = match closed {
            Some(handle) => handle,
            None => match &mut state.open {
                Some(open) if is_it(&open.handle) => &mut open.handle,
                _ => return state,
            },
        };
        let outcome = match is_lost {
            true => {
                handle.synced = Mark::default();
                Err(removed())
            }
            false => outcome,
        };
        match outcome {
            Ok(()) => handle.synced = mark,
            Err(error) => {
                handle.is_broken = true;
                let failed = handle.failed(error, Vec::new());
                state.fail(failed);
            }
        }
        state
    }

    /// Syncs and closes a file that gets no more packets.
    fn close<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        handle: Handle,
        closed: Closed,
        chores: Option<&Chores>,
    ) -> MutexGuard<'a, State> {
        let Closed { output, written } = closed;
        let path = handle.path.clone();
        let (mut state, (failed, id)) = self.aside(state, || {
            let outcome = match self.flush {
                Some(_) if handle.is_broken => Err(io::Error::other("an earlier sync failed")),
                // The last file is synced before it is closed.
                Some(_)
                    if handle.synced == written
                        && handle.folder.is_none()
                        && !handle.is_touched =>
                {
                    Ok(())
                }
                Some(_) => sync(&handle.file, handle.folder.as_ref()),
                None => Ok(()),
            };
            let lost = || written.since(&handle.synced);
            let failed = outcome.err().map(|error| handle.failed(error, lost()));
            let id = handle.id();
            drop((handle, output));
            (failed, id)
        });
        failed.into_iter().for_each(|failed| state.fail(failed));
        if let Some(chores) = chores {
            chores.give(Chore::Closed { path, id });
        }
        state
    }
}

impl State {
    /// Keeps the first failure, and sums the losses of all.
    fn fail(&mut self, failed: Unsafe) {
        match &mut self.failed {
            None => self.failed = Some(failed),
            Some(first) => first.lost.extend(failed.lost),
        }
    }
}

impl Handle {
    /// Returns the file's identity, if its path is one.
    fn id(&self) -> Option<FileId> {
        let metadata = self.file.metadata().ok().filter(|_| self.is_named);
        metadata.map(|metadata| FileId::of(&metadata))
    }

    /// Describes a failed sync of this file.
    fn failed(&self, error: io::Error, lost: Vec<PortTally>) -> Unsafe {
        Unsafe { path: self.path.clone(), error, synced: self.synced.clone(), lost }
    }
}

impl OpenFile {
    /// Returns the time until its sync is due; `None` if it is synced.
    fn due(&self, flush: Option<Flush>, is_wanted: bool) -> Option<Duration> {
        let since = self.unsynced_since.filter(|_| !self.handle.is_broken)?;
        if is_wanted {
            return Some(Duration::ZERO);
        }
        let flush = flush?;
        let bytes = self.written.bytes.saturating_sub(self.handle.synced.bytes);
        if flush.bytes.is_some_and(|most| bytes >= most) {
            return Some(Duration::ZERO);
        }
        let after = Duration::from_nanos(flush.after_ns.unwrap_or(u64::MAX));
        Some(after.saturating_sub(since.elapsed()))
    }
}

fn sync(file: &File, folder: Option<&File>) -> io::Result<()> {
    file.sync_data()?;
    match folder.map_or(Ok(()), File::sync_all) {
        // This file system cannot sync folders.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        outcome => outcome,
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_wish_that_comes_during_a_sync_gets_its_own() {
        let shared = Shared::default();
        let file = Arc::new(File::open("/dev/null").unwrap());
        let (path, synced) = (PathBuf::from("x"), Mark::default());
        let is_named = false;
        let handle = Handle {
            file,
            folder: None,
            path,
            is_named,
            synced,
            is_touched: false,
            is_broken: false,
        };
        let written = Mark { packets: 3, ..Mark::default() };
        let mut state = shared.lock();
        state.open = Some(OpenFile { handle, written, unsynced_since: Some(Instant::now()) });
        state.is_wanted = true;
        let synced = |state: &State| state.open.as_ref().unwrap().handle.synced.packets;
        let state = shared.sync_open(state, |_, _| {
            let mut state = shared.lock();
            let open = state.open.as_mut().unwrap();
            (open.written.packets, open.unsynced_since) = (5, Some(Instant::now()));
            state.is_wanted = true;
            Ok(())
        });
        assert_eq!((synced(&state), state.is_wanted), (3, true));
        let state = shared.sync_open(state, |_, _| Ok(()));
        assert_eq!((synced(&state), state.is_wanted), (5, false));
    }

    #[test]
    fn each_file_that_cannot_be_synced_adds_its_packets() {
        let mut safe = Safe::start(&OutputOptions::default(), false).unwrap();
        let packets = |packets| {
            let tally = Tally { packets, bytes: 10 * packets, wire_bytes: 11 * packets };
            Mark { packets, bytes: 100, by_port: [PortTally { port: 7, tally }].into() }
        };
        let close = |written| {
            safe.close(Closed { output: Box::new(()), written });
        };
        // fdatasync(2) fails on it.
        let open = || safe.open(File::open("/dev/null").unwrap(), Path::new("x"), false);
        for written in [packets(3), packets(4)] {
            open();
            safe.wrote(written.clone());
            close(written);
        }
        // A file whose sync failed before it was closed, and that got packets since.
        open();
        safe.wrote(packets(5));
        assert_eq!(safe.sync(), Mark::default());
        close(packets(6));
        safe.end();
        let lost = safe.failure().map(|failed| failed.lost).unwrap_or_default();
        assert_eq!(lost.iter().map(|of| of.tally.packets).collect::<Vec<_>>(), [3, 4, 6]);
        assert!(lost.iter().all(|of| of.port == 7 && of.tally.bytes == 10 * of.tally.packets));
        assert!(safe.failure().is_none());
    }
}
