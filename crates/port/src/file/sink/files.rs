//! The files of a sink: opens them in sequence, limits them, and hands them on to be synced.

mod space;
mod whereabouts;

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use burstline_log::Burst;
use burstline_sys::clock;
use burstline_sys::direct::Creation;
use burstline_sys::inode::FileId;
use burstline_sys::late;
use burstline_sys::temporary::random_number;

use super::super::layout::{Layout, Target};
use super::super::output::{Stop, end_job};
use super::super::recording::{
    Attempts, Closed, Filled, Flush, Made, Mark, Names, OutputOptions, Rotation, Rules, Safe,
    Unsafe, Whereabouts, comment, comment_in_run, removed,
};
use super::{Body, Described, FileSink};
use crate::opened::OpenedFiles;
use crate::{InterfaceTotals, Loss, OpenOptions, PortError, PortTable};

/// Files written in sequence.
struct Rotating {
    rotation: Rotation,
    rules: Rules,
    names: Names,
    attempts: Attempts,
    /// The number that all files of this run have.
    run: u64,
    /// Closed files of this run that still exist, oldest first.
    made: VecDeque<Made>,
    /// Files started.
    begun: u64,
}

/// State shared by the files of a sink.
pub(super) struct Files {
    options: OutputOptions,
    opened: OpenedFiles,
    stop: Stop,
    /// The open file, or the last one.
    path: PathBuf,
    current: Option<Made>,
    rotating: Option<Rotating>,
    safe: Option<Safe>,
    /// How far the open file was written at the last report.
    told: Mark,
    /// The open file, to see whether it is still at its path. `None` for standard output.
    held: Option<File>,
    is_named: bool,
    /// The open file was removed: a failure that nobody has asked for yet.
    gone: Option<Unsafe>,
    /// The open file, to check its file system, if space must be left there.
    space: Option<File>,
    /// Size of the open file at the next check.
    next_look: u64,
    /// The cause of loss for packets from now on.
    refuses: Option<Loss>,
    /// The error, if the loss is a failure.
    last_word: Option<PortError>,
}

impl Files {
    /// Opens the output; the first of several files is opened with its first packet.
    pub(super) fn open(
        target: &str,
        layout: &Layout,
        options: &OpenOptions,
    ) -> Result<(Self, Body), PortError> {
        let output = options.output.clone();
        let mut files = Self {
            opened: options.files.clone(),
            stop: options.stop.clone(),
            path: layout.path.clone(),
            current: None,
            rotating: None,
            safe: None,
            told: Mark::default(),
            held: None,
            is_named: target != "-",
            gone: None,
            space: None,
            next_look: 0,
            refuses: None,
            last_word: None,
            options: output,
        };
        if let Some(rotation) = files.options.rotation {
            files.rotating = Some(files.rotate(target, layout, rotation)?);
            files.safe = Some(files.start_safe(rotation.ring_files.is_some())?);
            return Ok((files, Body::Unopened));
        }
        let opened = match target {
            "-" => layout.open_standard(&files.opened, &files.stop)?,
            _ => {
                let path = Path::new(target);
                layout.open(path, &files.options.creation, &files.opened, &files.stop)?
            }
        };
        files.begin(&opened).map_err(|error| files.failed("create", error))?;
        Ok((files, Body::Opened(opened)))
    }

    /// Checks that there can be several files.
    fn rotate(
        &self,
        target: &str,
        layout: &Layout,
        rotation: Rotation,
    ) -> Result<Rotating, PortError> {
        let is_special = late::metadata(&self.path).is_ok_and(|found| !found.is_file());
        if target == "-" || is_special {
            let what = "only regular files can be rotated, and this is not one";
            return Err(self.failed("rotate", io::Error::other(what)));
        }
        let segment_bytes = layout.has_places().then_some(layout.segment_bytes as u64);
        let rules = Rules::new(&rotation, segment_bytes);
        let mut names = Names::new(Path::new(target), &rotation);
        if self.options.resumed.is_some() {
            names.go_on()?;
        }
        let (attempts, made) = (Attempts::default(), VecDeque::new());
        let run = random_number();
        Ok(Rotating { rotation, rules, names, attempts, run, made, begun: 0 })
    }

    fn start_safe(&self, removes: bool) -> Result<Safe, PortError> {
        Safe::start(&self.options, removes)
            .map_err(|error| self.failed("start a thread for", error))
    }

    fn failed(&self, action: &'static str, error: io::Error) -> PortError {
        PortError::Io { action, path: self.path.clone(), error }
    }

    /// Registers an opened file.
    fn begin(&mut self, target: &Target) -> io::Result<()> {
        (self.told, self.next_look) = (Mark::default(), 0);
        let Some(file) = target.share()? else { return Ok(()) };
        let metadata = file.metadata()?;
        let (path, id) = (self.path.clone(), FileId::of(&metadata));
        self.current = Some(Made { path, id, bytes: 0 });
        self.held = self.is_named.then(|| file.try_clone()).transpose()?;
        if self.options.least_free_bytes > 0 {
            self.space = Some(file.try_clone()?);
        }
        let has_chores = !self.options.on_close.is_empty() || self.options.flush.is_some();
        if self.safe.is_none() && has_chores {
            self.safe = Some(Safe::start(&self.options, false)?);
        }
        if let Some(safe) = &self.safe {
            safe.open(file, &self.path, self.is_named);
        }
        Ok(())
    }

    /// Opens the next file, whose first packet has this timestamp.
    fn open_next(&mut self, layout: &Layout, time_ns: u64) -> io::Result<Target> {
        let Some(rotating) = &mut self.rotating else { return Err(io::ErrorKind::Other.into()) };
        rotating.begun += 1;
        let name = rotating.names.next(time_ns).to_string_lossy().into_owned();
        let creation = Creation { is_new: true, ..self.options.creation };
        // Who may read the files may read and search their folders, less the umask.
        let readers = creation.mode.unwrap_or(0) & 0o044;
        let folder_mode = 0o700 | readers | readers >> 2;
        let target = loop {
            self.path = rotating.attempts.next(&name);
            let open = || layout.open(&self.path, &creation, &self.opened, &self.stop);
            let mut opened = open();
            if is_missing(&opened) && rotating.names.make_folders(&self.path, folder_mode)? {
                opened = open();
            }
            match opened {
                Ok(target) => break target,
                Err(PortError::Io { error, .. }) => match error.kind() {
                    io::ErrorKind::AlreadyExists => {}
                    _ => return Err(error),
                },
                Err(error) => return Err(io::Error::other(error)),
            }
        };
        self.begin(&target)?;
        self.trim_ring();
        Ok(target)
    }

    /// Hands on a file that gets no more packets.
    pub(super) fn close(&mut self, output: Box<dyn Send>, written: Mark) {
        if let (Some(rotating), Some(made)) = (&mut self.rotating, &self.current) {
            self.opened.leave(made.id);
            let found = self.space.as_ref().and_then(|file| file.metadata().ok());
            let bytes = found.map_or(0, |found| found.len());
            rotating.made.push_back(Made { bytes, ..made.clone() });
        }
        (self.current, self.held, self.space) = (None, None, None);
        if let Some(safe) = &self.safe {
            safe.close(Closed { output, written });
        }
    }

    /// Whether the open file is the last one allowed.
    pub(super) fn is_last(&self) -> bool {
        self.rotating.as_ref().is_some_and(|rotating| {
            rotating.rotation.most_files.is_some_and(|most| rotating.begun >= most)
        })
    }

    /// Ends the job: the last file is full.
    pub(super) fn stop(&mut self) {
        self.refuses = Some(Loss::AfterLastFile);
        end_job(&self.stop);
    }

    /// Returns the cause of loss for packets from now on, if the file takes no more.
    pub(super) fn refuses(&self) -> Option<Loss> {
        self.refuses
    }

    /// Returns the error once, if the loss is a failure.
    pub(super) fn take_last_word(&mut self) -> Option<PortError> {
        self.last_word.take()
    }

    /// Returns the open file, if it is a regular one.
    pub(super) fn current(&self) -> Option<&Made> {
        self.current.as_ref()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns when written data is synced.
    pub(super) fn flush(&self) -> Option<Flush> {
        self.options.flush
    }

    /// Whether files are synced.
    pub(super) fn syncs(&self) -> bool {
        self.options.flush.is_some()
    }

    /// Reports that the open file is written up to this mark.
    pub(super) fn wrote(&mut self, written: &Mark) {
        if *written != self.told {
            self.told = written.clone();
            self.safe.iter().for_each(|safe| safe.wrote(written.clone()));
        }
    }

    /// Waits until the open file is synced, and returns up to which mark.
    pub(super) fn sync(&self, written: &Mark) -> Mark {
        match &self.safe {
            Some(safe) if self.syncs() => {
                safe.wrote(written.clone());
                safe.sync()
            }
            _ => written.clone(),
        }
    }

    /// Returns a sync that failed, or a file that was removed, once.
    pub(super) fn failed_sync(&mut self) -> Option<Unsafe> {
        self.safe.as_ref().and_then(Safe::failure).or_else(|| self.gone.take())
    }

    /// Whether files are limited by time.
    pub(super) fn is_timed(&self) -> bool {
        self.rotating.as_ref().is_some_and(|rotating| rotating.rules.is_timed())
    }

    /// Whether the time of the open file, which has packets, is over.
    pub(super) fn is_over_at(&self, now_ns: u64) -> bool {
        self.rotating.as_ref().is_some_and(|rotating| rotating.rules.is_over_at(now_ns))
    }
}

fn is_missing(opened: &Result<Target, PortError>) -> bool {
    let Err(PortError::Io { error, .. }) = opened else { return false };
    error.kind() == io::ErrorKind::NotFound
}

impl FileSink {
    /// Returns how many packets at the start of a burst fit into the current file, which is opened
    /// if necessary. 0 if no more files are allowed.
    pub(super) fn room(&mut self, burst: &Burst<'_>) -> io::Result<usize> {
        if self.files.rotating.is_none() && self.files.space.is_none() {
            return Ok(burst.len());
        }
        loop {
            if let Body::Unopened = self.body {
                let time_ns = burst.packets().next().map_or(0, |first| first.time_ns());
                self.body = Body::Opened(self.files.open_next(&self.layout, time_ns)?);
            }
            let bytes = self.bytes();
            let pending = match &self.body {
                Body::Segmented(body) => body.pending(),
                _ => self.layout.segment_bytes as u64,
            };
            self.files.look_at_space(bytes, pending);
            if self.files.refuses.is_some() {
                return Ok(0);
            }
            let Some(rotating) = &mut self.files.rotating else { return Ok(burst.len()) };
            match rotating.rules.room(burst, Filled { packets: self.accepted, bytes }) {
                0 if self.files.is_last() => self.files.stop(),
                0 => self.end_file()?,
                room => return Ok(room),
            }
        }
    }

    /// Returns the comment of the next file's section. It says how many packets of the recording
    /// are in the files before; a recording of one file needs none.
    pub(super) fn take_comment(&mut self) -> String {
        let before = self.first_packet + self.accepted_before;
        let (resumed, run) = (self.resumed.take(), self.files.rotating.as_ref());
        if resumed.is_none() && run.is_none() {
            return String::new();
        }
        let comment = comment(before, resumed.as_ref().map_or("", |old| old.comment.as_str()));
        match run {
            Some(rotating) => comment_in_run(&comment, rotating.run),
            None => comment,
        }
    }

    /// Returns the size of the open file if it ended here.
    fn bytes(&self) -> u64 {
        match &self.body {
            Body::Segmented(body) => body.bytes(),
            Body::Plain(body) => body.bytes() + body.closing_bytes(self.undescribed()),
            _ => 0,
        }
    }

    /// Returns how many interfaces of the job the closing counts will describe.
    fn undescribed(&self) -> u64 {
        let is_not =
            |of: &&InterfaceTotals| self.described[usize::from(of.port)] == Described::NotYet;
        self.totals.iter().filter(is_not).count() as u64
    }

    /// Writes the closing counts and all buffered packets, and hands the file on: another one will
    /// be opened.
    pub(super) fn end_file(&mut self) -> io::Result<()> {
        self.end_body()?;
        if self.is_removed() {
            // The error itself is with the failed sync, which is looked at first.
            return Err(removed());
        }
        self.hand_on(true);
        Ok(())
    }

    /// Whether the open file, which gets no more packets, was removed. If it was moved, a note says
    /// so.
    fn is_removed(&mut self) -> bool {
        let found = self.files.look_at_place();
        if found == Whereabouts::Moved {
            let path = self.files.path().display();
            self.account.note(|| {
                format!("{path} was moved while it was written: its packets are where it is now")
            });
        }
        found == Whereabouts::Removed
    }

    /// Writes the closing counts and all buffered packets.
    fn end_body(&mut self) -> io::Result<()> {
        if let Body::Segmented(body) = &mut self.body {
            body.close();
        }
        self.write_statistics()?;
        let has_segments = match &mut self.body {
            Body::Segmented(body) => body.end()?,
            Body::Plain(body) => {
                body.end()?;
                false
            }
            _ => false,
        };
        if has_segments {
            self.cut_segments()?;
        }
        self.tell_written();
        Ok(())
    }

    /// Truncates the file behind the plain pcapng that replaces its segments. That is synced first,
    /// so that a power cut leaves the old contents, or the same packets before them.
    fn cut_segments(&mut self) -> io::Result<()> {
        let written = self.written();
        if self.files.sync(&written) != written {
            // The error itself is with the failed sync, which is looked at first.
            return Err(io::Error::other("a sync failed"));
        }
        match &mut self.body {
            Body::Segmented(body) => body.cut_plain(),
            _ => Ok(()),
        }
    }

    /// Hands on a complete file. `follows` says that another one will be opened.
    fn hand_on(&mut self, follows: bool) {
        let written = self.written();
        let next = if follows { Body::Unopened } else { Body::Closed };
        let output: Box<dyn Send> = match std::mem::replace(&mut self.body, next) {
            Body::Segmented(body) => {
                let (output, queue) = body.into_parts();
                self.queue = queue;
                output
            }
            body => Box::new(body),
        };
        self.files.close(output, written);
        self.accepted_before += std::mem::take(&mut self.accepted);
        self.described = [Described::NotYet; PortTable::MAX_ENTRIES];
        let interfaces = std::mem::take(&mut self.interfaces);
        self.count_closed(&interfaces);
        self.written = Mark::default();
        self.under_way.clear();
    }

    /// Ends the last file, and waits until all files are safe.
    pub(super) fn finish_all(&mut self) -> Result<(), PortError> {
        let outcome = self.finish_last();
        if let Some(safe) = &mut self.files.safe {
            let notes = safe.end();
            notes.into_iter().for_each(|note| self.account.note(|| note));
        }
        let failed = self.files.failed_sync();
        self.files.safe = None;
        match failed {
            Some(failed) => Err(self.fail_sync(failed)),
            None => outcome,
        }
    }

    /// Ends the last file. It is synced before it is handed on: if a sync fails, the file is
    /// truncated to its safe part, which requires an open file.
    fn finish_last(&mut self) -> Result<(), PortError> {
        if let Body::Failed(_) = &self.body {
            self.close_failed();
            self.note_uncounted_losses();
        }
        let is_over = match &self.body {
            Body::Closed | Body::Failed(_) => true,
            // The clock may have ended the last file before the job has counted all losses.
            Body::Unopened => self.accepted_before > 0 && !self.has_uncounted_losses(),
            _ => false,
        };
        if is_over {
            return Ok(());
        }
        let lost = self.lost.clone();
        if let Err(error) = self.end_last() {
            let failure = self.fail(error);
            // Packets lost only now are in the closing counts, too.
            for totals in &mut self.totals {
                let [now, before] = [&self.lost, &lost].map(|lost| lost.tally_of(totals.port));
                totals.lost += now.packets - before.packets;
            }
            self.close_failed();
            self.note_uncounted_losses();
            return Err(failure);
        }
        let written = self.written();
        self.files.sync(&written);
        // If it was, the look at syncs has the error.
        self.is_removed();
        self.look_at_syncs()?;
        self.hand_on(false);
        Ok(())
    }

    fn end_last(&mut self) -> io::Result<()> {
        if let Body::Unopened = self.body {
            let now_ns = clock::realtime_ns();
            self.body = Body::Opened(self.files.open_next(&self.layout, now_ns)?);
        }
        if let Body::Opened(_) = self.body {
            // A file without a packet is a valid file.
            self.describe(0)?;
        }
        self.count_gaps();
        self.end_body()
    }
}
