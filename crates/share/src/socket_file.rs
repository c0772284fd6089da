//! Creates and removes the two files of a name: the lock with the epoch, and the socket.
//!
//! ```text
//! lock NAME.lock -> epoch -> bind .NAME -> owner, mode -> listen    -> rename to NAME
//!                                      by the job's user, before files  once there are logs
//! ```
//!
//! The socket has its permissions from the moment it gets its name. At any time the old or the new
//! file exists: a socket left by a killed publisher is replaced, not removed and created again.
//!
//! The *epoch* tells the publishers of a name apart, for readers that outlive one and continue with
//! the next. It is the last publisher's epoch, which is in the lock file, plus one. If something
//! deleted the lock file, counting from 1 could give two publishers one number. A reader would then
//! mistake the next publisher for the one that it has drained. So counting restarts with the
//! milliseconds since the machine started: no reader is older than that, and no name had more
//! publishers in that time. Also, without its file the lock of a living publisher does not count.
//! So the socket is called before the name is taken.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

use burstline_sys::claim::{Claim, Claimed};
use burstline_sys::clock;
use burstline_sys::inode::FileId;
use burstline_sys::late;
use burstline_sys::seqpacket::{Kind, SeqPacket};

use crate::access::Access;
use crate::error::ShareError;
use crate::places::Place;

/// The number of connections that may wait for the publisher's thread.
const BACKLOG: i32 = 128;

/// How long to try to call a publisher without a lock. A living publisher either accepts the call
/// immediately, or has a queue of callers so long that it is certainly alive.
const CALLING: Duration = Duration::from_millis(100);

/// The published name. Dropping it removes the socket's file, if it is still ours.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    id: FileId,
    pub(crate) epoch: u64,
    /// Held until the file is removed.
    _claim: Claim,
}

/// A name that was taken: its file, the listening socket, and its access rights.
pub(crate) struct Published {
    pub(crate) file: SocketFile,
    pub(crate) socket: SeqPacket,
    pub(crate) access: Access,
}

/// The configured access rights of the socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permissions {
    pub(crate) owner: Option<u32>,
    pub(crate) group: Option<u32>,
    pub(crate) mode: u32,
}

/// A place that is claimed: its socket listens under its temporary name, where nobody looks.
/// Readers ask the kernel who called listen(2), and trust that user. Dropping it removes the
/// socket.
pub(crate) struct TakenPlace {
    unfinished: Unfinished,
    file: SocketFile,
    socket: SeqPacket,
    access: Access,
}

impl TakenPlace {
    /// Claims the place, and creates a listening socket.
    pub(crate) fn at(place: &Place, permissions: Permissions) -> Result<Self, ShareError> {
        // Before there is a lock, which would stay beside a file that is not a log. And again under
        // the lock, when no other process creates a socket here.
        check_place(&place.socket)?;
        let (claim, epoch) = claim(place)?;
        check_place(&place.socket)?;
        let unfinished = Unfinished::at(&place.unfinished)?;
        let path = &unfinished.path;
        let failed = |call| move |error| ShareError::system(call, &place.socket, error);
        let Permissions { owner, group, mode } = permissions;
        // No access for others until all permissions are set: root may change the owner.
        let socket = late::bind(path, Kind::Messages, [owner, group], Some(mode));
        let socket = SeqPacket::from(socket.map_err(failed("making the socket"))?);
        let made = late::symlink_metadata(path).map_err(failed("stat"))?;
        socket.listen(BACKLOG).map_err(failed("listen"))?;
        let access = Access { own_user: late::user(), owner: made.uid(), group: made.gid(), mode };
        let id = FileId::of(&made);
        let file = SocketFile { path: place.socket.clone(), id, epoch, _claim: claim };
        Ok(Self { unfinished, file, socket, access })
    }

    /// Gives the socket its name.
    pub(crate) fn publish(self) -> Result<Published, ShareError> {
        let Self { mut unfinished, file, socket, access } = self;
        check_place(&file.path)?;
        let renamed = late::rename(&unfinished.path, &file.path);
        renamed.map_err(|error| ShareError::system("rename", &file.path, error))?;
        unfinished.is_renamed = true;
        Ok(Published { file, socket, access })
    }
}

impl SocketFile {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the name, unless it is another publisher's by now.
    fn remove(&self) -> io::Result<()> {
        let found = late::symlink_metadata(&self.path)?;
        if FileId::of(&found) == self.id { late::remove_file(&self.path) } else { Ok(()) }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // The kernel may refuse a call for a moment, as with EINTR or without memory: once more. If
        // the directory is no longer writable, a dead socket stays, which the next publisher
        // replaces.
        let _ = self.remove().or_else(|_| self.remove());
    }
}

/// The socket under its temporary name; dropping it removes it, unless it is renamed.
struct Unfinished {
    path: PathBuf,
    is_renamed: bool,
}

impl Unfinished {
    /// Frees the name: removes a file left by a killed publisher.
    fn at(path: &Path) -> Result<Self, ShareError> {
        match late::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(ShareError::system("removing", path, error))
            }
            _ => Ok(Self { path: path.to_owned(), is_renamed: false }),
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_renamed {
            let _ = late::remove_file(&self.path); // it may not exist
        }
    }
}

fn claim(place: &Place) -> Result<(Claim, u64), ShareError> {
    let failed = |call| move |error| ShareError::system(call, &place.lock, error);
    let claimed = Claim::take(&place.lock).map_err(failed("opening"))?;
    let (claim, last) = match claimed {
        Claimed::Ours(claim, content) => (claim, Line::parse(&content)),
        Claimed::Theirs(content) => {
            let pid = Line::parse(&content).pid;
            return Err(ShareError::Taken { path: place.socket.clone(), pid });
        }
    };
    let epoch = match last.epoch {
        0 => {
            check_nobody_listens(&place.socket)?;
            (clock::monotonic_ns() / 1_000_000).max(1)
        }
        last => last.wrapping_add(1).max(1),
    };
    let line = Line { epoch, pid: process::id() };
    claim.write(&line.text()).map_err(failed("writing"))?;
    Ok((claim, epoch))
}

/// Fails if a publisher still lives whose lock file was deleted.
fn check_nobody_listens(path: &Path) -> Result<(), ShareError> {
    let pid = match SeqPacket::connect(path, CALLING) {
        Ok(socket) => socket.peer().map_or(0, |peer| peer.pid),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        // No file, no listener, or no permission to call it: the lock decides.
        Err(_) => return Ok(()),
    };
    Err(ShareError::Taken { path: path.to_owned(), pid })
}

/// Checks that the path is free or has a socket, which may be replaced.
fn check_place(path: &Path) -> Result<(), ShareError> {
    match late::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            Err(ShareError::NotASocket { path: path.to_owned() })
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(ShareError::system("stat", path, error))
        }
        _ => Ok(()),
    }
}

/// The contents of the lock file: always of the same length, so that one write replaces it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Line {
    epoch: u64,
    pid: u32,
}

impl Line {
    fn text(&self) -> String {
        format!("epoch {:020} process {:010}\n", self.epoch, self.pid)
    }

    /// Unreadable contents count as never written.
    fn parse(text: &str) -> Self {
        let mut words = text.split_ascii_whitespace();
        let mut number = |name| {
            let word = words.next().is_some_and(|word| word == name).then(|| words.next())?;
            word?.parse::<u64>().ok()
        };
        let (epoch, pid) = (number("epoch").unwrap_or(0), number("process").unwrap_or(0));
        Self { epoch, pid: u32::try_from(pid).unwrap_or(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_says_who_and_which() {
        for line in [Line { epoch: 1, pid: 7 }, Line { epoch: u64::MAX, pid: u32::MAX }] {
            assert_eq!(line.text().len(), 46);
            assert_eq!(Line::parse(&line.text()), line);
        }
        for nonsense in ["", "epoch", "epoch x process 4", "\u{fffd}", "pid 1"] {
            assert_eq!(Line::parse(nonsense).epoch, 0, "{nonsense:?}");
        }
    }
}
