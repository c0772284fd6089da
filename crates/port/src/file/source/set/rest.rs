//! Files of a set that is followed which were read, and may still grow.
//!
//! ```text
//!  member, silent for 2 s  -->  rests, open  -->  rests, closed        the longest rest first
//!        ^                          |                  |
//!        |--- has grown ------------|                  |
//!        |--- has grown: read again, its packets passed
//! ```
//!
//! Another program locks nothing, so a newer file does not tell that it has finished an older one.
//! A file that rests holds no other up. Its size tells whether it has grown.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::PathBuf;

use burstline_sys::late;

use super::super::FileSource;
use super::super::reader::{CaptureReader, Growth};
use super::follow::{Follow, rename};
use super::{Member, RunPlace, SetSource};
use crate::PortError;
use crate::opened::{Identity, identity};

/// As many files rest open.
const OPEN: usize = 64;
/// Closed files that a look asks for their sizes.
const ASKED: usize = 64;

/// The files that rest. The one that rests longest comes first.
#[derive(Default)]
pub(super) struct Rests {
    open: VecDeque<Member>,
    closed: VecDeque<Closed>,
}

/// A file that was read as far as it went, and closed.
struct Closed {
    path: PathBuf,
    identity: Identity,
    order: usize,
    /// Its bytes then.
    bytes: u64,
    /// Packets read; `None` if it cannot be read on.
    packets: Option<u64>,
    /// Whether its last bytes are no whole record.
    has_rest: bool,
}

impl Rests {
    /// Gives files their new names.
    pub(super) fn rename(&mut self, renamed: &HashMap<Identity, PathBuf>) {
        if renamed.is_empty() {
            return;
        }
        self.open.iter_mut().for_each(|file| rename(renamed, &file.identity, &mut file.path));
        self.closed.iter_mut().for_each(|file| rename(renamed, &file.identity, &mut file.path));
    }

    /// Returns those that are open.
    pub(super) fn open(&self) -> impl Iterator<Item = &Member> {
        self.open.iter()
    }

    /// Lets a member rest. Returns the one to be closed for it.
    fn add(&mut self, member: Member) -> Option<Member> {
        self.open.push_back(member);
        if self.open.len() > OPEN { self.open.pop_front() } else { None }
    }

    /// Keeps in mind what was read of a file that is closed now.
    pub(super) fn close(&mut self, member: &Member) {
        let Member { source, path, identity, order, .. } = member;
        let reader = &source.reader;
        let in_a_row = reader.bytes_in_a_row();
        let Some(bytes) = in_a_row.or_else(|| reader.file_bytes()) else { return };
        self.closed.push_back(Closed {
            path: path.clone(),
            identity: *identity,
            order: *order,
            bytes,
            packets: in_a_row.map(|_| member.packets()),
            has_rest: !source.is_over && reader.has_rest(),
        });
    }

    /// Takes the open ones that go on: those that have grown, and whose next one is there.
    fn take_awake(&mut self, goes_on: impl Fn(&Member) -> bool) -> Vec<Member> {
        let (awake, open) = std::mem::take(&mut self.open).into_iter().partition(goes_on);
        self.open = open;
        Vec::from_iter::<VecDeque<_>>(awake)
    }
}

impl Member {
    /// Returns the packets that were read of it.
    fn packets(&self) -> u64 {
        let FileSource { decoded, selector, .. } = &self.source;
        self.passed + decoded + selector.packets_passed
    }

    fn has_grown(&self) -> bool {
        let reader = &self.source.reader;
        reader.file_bytes() != reader.bytes_in_a_row()
    }
}

impl SetSource {
    /// Lets a member rest that has been silent for long.
    pub(super) fn rest(&mut self, at: usize) {
        let member = self.members.swap_remove(at);
        let most = self.follow.as_mut().and_then(|follow| follow.rests.add(member));
        if let Some(longest) = most {
            self.close(longest);
        }
    }

    /// Goes on with files that have grown; at the end also with what may have a rest.
    pub(super) fn wake(&mut self, follow: &mut Follow) {
        let is_over = follow.is_over();
        let mut rests = std::mem::take(&mut follow.rests);
        let goes_on = |file: &Member| {
            let is_done = follow.has_successor(file.place);
            is_done || file.has_grown() || is_over && file.source.reader.has_rest()
        };
        for mut member in rests.take_awake(goes_on) {
            let reader = &mut member.source.reader;
            reader.be_still(false);
            if follow.has_successor(member.place) {
                reader.is_not_last();
            }
            if reader.file_bytes() < reader.bytes_in_a_row() {
                let path = member.path.display();
                let note = format!("{path} was cut off or written over: the rest is not read");
                self.say_damaged(note);
                self.retire(member);
                continue;
            }
            (member.head_ns, member.silent_ns) = (None, None);
            self.members.push(member);
        }
        let asked = if is_over { rests.closed.len() } else { ASKED.min(rests.closed.len()) };
        for closed in rests.closed.drain(..asked).collect::<Vec<_>>() {
            match late::metadata(&closed.path) {
                Ok(now) if identity(&now) != closed.identity => {}
                Ok(now) if now.len() > closed.bytes || is_over && closed.has_rest => {
                    self.go_on(&closed);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                _ => rests.closed.push_back(closed),
            }
        }
        follow.rests = rests;
    }

    /// Goes on with a closed file that has grown, or says that it cannot.
    fn go_on(&mut self, closed: &Closed) {
        let path = closed.path.display();
        match self.open_again(closed) {
            Ok(Some(member)) => self.members.push(member),
            Ok(None) => {
                let why = "has grown since it was read: what was added is in no count";
                self.say_damaged(format!("{path} {why}"));
            }
            Err(error) => {
                self.say_damaged(format!("{path} has grown, and cannot be read on: {error}"));
            }
        }
    }

    /// Opens a closed file behind the packets that were read. `None` if it is not what it was.
    fn open_again(&self, closed: &Closed) -> Result<Option<Member>, PortError> {
        let Some(passed) = closed.packets else { return Ok(None) };
        let path = closed.path.clone();
        let fail = |error| PortError::Io { action: "open", path: path.clone(), error };
        let file = late::open(&path).map_err(fail)?;
        if identity(&file.metadata().map_err(fail)?) != closed.identity {
            return Ok(None);
        }
        let mut reader = CaptureReader::of_file(file, &path, Some(Growth::without_lock()))?;
        if !reader.pass_packets(passed)? {
            return Ok(None);
        }
        let (name, interfaces) = (path.to_string_lossy().to_string(), self.interfaces.clone());
        let source = FileSource::of(reader, name, &self.options, interfaces)?;
        let (identity, order, place) = (closed.identity, closed.order, None::<RunPlace>);
        let (head_ns, silent_ns) = (None, None);
        Ok(Some(Member { source, path, identity, passed, place, head_ns, silent_ns, order }))
    }

    /// Notes that packets may be missing.
    pub(super) fn say_damaged(&mut self, note: String) {
        self.account.is_damaged = true;
        self.account.note(|| note);
    }
}
