//! Opens the files of a set when their time comes, and closes them when they are over.

use burstline_sys::{clock, late};

use super::super::FileSource;
use super::super::lending::Head;
use super::super::reader::CaptureReader;
use super::follow::{age, precedes};
use super::{Member, Naming, Runs, SetSource, Waiting, is_missing, removed};
use crate::{OpenedFiles, Port, PortError};

/// Opens a file that was looked at, and registers it.
fn open_late(file: &Waiting, files: &OpenedFiles) -> Result<CaptureReader, PortError> {
    let path = &file.path;
    let Some(growth) = file.growth else {
        return CaptureReader::open(&path.to_string_lossy(), files);
    };
    let opened = late::open(path);
    let fail = |error| PortError::Io { action: "open", path: path.clone(), error };
    CaptureReader::of_file(opened.map_err(fail)?, path, Some(growth))
}

/// Whether a file of the same run is in front of this one, and waits for its recorder.
fn follows_silent(members: &[Member], file: &Waiting) -> bool {
    let mut silent = members.iter().filter(|member| member.silent_ns.is_some());
    silent.any(|member| precedes(member.place, file.place))
}

/// Returns since when a file has been silent that has nothing further now. Another program's file
/// may have been silent for long when it is read.
fn silent_since(reader: &CaptureReader) -> u64 {
    let metadata = reader.input().metadata().filter(|_| reader.is_of_another_program());
    let silent = metadata.map_or(0, |metadata| age(&metadata).as_nanos() as u64);
    clock::monotonic_ns().saturating_sub(silent)
}

impl SetSource {
    /// Prepares the next packet: opens files whose time has come, and closes those that are over.
    /// False if a member must be asked again.
    pub(super) fn advance(&mut self) -> Result<bool, PortError> {
        loop {
            let mut at = 0;
            while at < self.members.len() {
                if self.members[at].head_ns.is_some() {
                    at += 1;
                    continue;
                }
                match self.members[at].source.head() {
                    Ok(Head::At(time_ns)) => {
                        let member = &mut self.members[at];
                        (member.head_ns, member.silent_ns) = (Some(time_ns), None);
                        at += 1;
                    }
                    Ok(Head::Silent) => at += usize::from(self.stays_silent(at)),
                    Ok(Head::Unknown) => return Ok(false),
                    Ok(Head::Over) => {
                        let over = self.members.swap_remove(at);
                        self.close(over);
                    }
                    Err(error) if self.follow.is_none() => return Err(error),
                    Err(error) => {
                        let broken = self.members.swap_remove(at);
                        self.retire(broken);
                        self.say_damaged(format!("what follows is in no count: {error}"));
                    }
                }
            }
            let since = self.members.iter().filter_map(|member| member.silent_ns).max();
            if since.is_some_and(|since_ns| self.holds_up(since_ns)) || !self.open_next()? {
                return Ok(true);
            }
        }
    }

    /// Whether a member that has nothing further is not to be asked again now. Another program's
    /// file that is silent for long gives its last whole record, and then rests.
    fn stays_silent(&mut self, at: usize) -> bool {
        let member = &mut self.members[at];
        let reader = &mut member.source.reader;
        let since_ns = *member.silent_ns.get_or_insert_with(|| silent_since(reader));
        let is_held = self.follow.as_ref().is_none_or(|follow| follow.holds_up(since_ns));
        if is_held || !reader.is_of_another_program() {
            return true;
        }
        if !reader.be_still(true) {
            self.rest(at);
        }
        false
    }

    /// Whether a file that has been silent since then is waited for.
    pub(super) fn holds_up(&self, since_ns: u64) -> bool {
        self.follow.as_ref().is_some_and(|follow| follow.holds_up(since_ns))
    }

    /// Opens the next file if its time has come, or passes it over if it was removed. False if it
    /// is not due.
    pub(super) fn open_next(&mut self) -> Result<bool, PortError> {
        let earliest = self.members.iter().filter_map(|member| member.head_ns).min();
        let is_due = |file: &mut Waiting| {
            earliest.is_none_or(|head_ns| file.first_ns <= head_ns)
                && !follows_silent(&self.members, file)
                && !self
                    .follow
                    .as_ref()
                    .is_some_and(|follow| follow.is_behind_pending(file.place, &file.path))
        };
        let Some(mut file) = self.waiting.pop_if(is_due) else { return Ok(false) };
        match self.open_member(&mut file) {
            Ok(member) => self.members.push(member),
            Err(error) if self.naming != Naming::EachByItself && is_missing(&error) => {
                self.account.note(|| removed(&file.path));
                if self.follow.is_none() {
                    self.runs = Runs::default();
                }
            }
            Err(error) if self.follow.is_none() => return Err(error),
            // An unsuitable filter fails before anything is written.
            Err(error) if self.lent == 0 && !matches!(error, PortError::Io { .. }) => {
                return Err(error);
            }
            Err(error) => self.say_damaged(format!("what it has is in no count: {error}")),
        }
        Ok(true)
    }

    fn open_member(&self, file: &mut Waiting) -> Result<Member, PortError> {
        let (options, interfaces) = (&self.options, self.interfaces.clone());
        let reader = match file.file.take() {
            Some(opened) => CaptureReader::of_file(opened, &file.path, file.growth)?,
            None => open_late(file, &options.files)?,
        };
        let (path, place, identity) = (file.path.clone(), file.place, file.identity);
        let name = path.to_string_lossy().to_string();
        let source = FileSource::of(reader, name, options, interfaces)?;
        let (head_ns, silent_ns, order) = (None, None, file.index);
        let passed = 0;
        Ok(Member { source, path, identity, passed, place, head_ns, silent_ns, order })
    }

    /// Closes a file that is over. If its set is followed, its size is looked at from now on.
    pub(super) fn close(&mut self, member: Member) {
        if let Some(follow) = self.follow.as_mut().filter(|follow| !follow.is_over()) {
            follow.rests.close(&member);
        }
        self.retire(member);
    }

    /// Closes a file for good.
    pub(super) fn retire(&mut self, mut member: Member) {
        let failed = member.source.finish();
        debug_assert!(failed.is_ok(), "a file that is read has no end to write");
        let account = member.source.account();
        self.runs.have_read(member.path, member.place, account.offered);
        self.account.add(account);
    }
}
