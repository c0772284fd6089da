//! The client's end of a connection: first the request, then only a sign that the writer lives.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use burstline_sys::late;
use burstline_sys::readiness;
use burstline_sys::seqpacket::{Credentials, SeqPacket};

use crate::error::ShareError;
use crate::message::{MESSAGE_BYTES_MAX, Reply, Request};
use crate::places;

/// How long a publisher may take to answer. A running one takes a millisecond.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection with a request in progress.
pub(crate) struct Call {
    pub(crate) path: PathBuf,
    pub(crate) peer: Credentials,
    socket: SeqPacket,
    began: Instant,
}

impl Call {
    pub(crate) fn connect(name: &str) -> Result<Self, ShareError> {
        let mut is_stale = false;
        for path in places::to_look(name)? {
            match SeqPacket::connect(&path, PATIENCE) {
                Ok(socket) => return Self::new(path, socket),
                Err(error) => match error.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {}
                    io::ErrorKind::ConnectionRefused if is_socket(&path) => is_stale = true,
                    io::ErrorKind::ConnectionRefused => {
                        return Err(ShareError::NotASocket { path });
                    }
                    io::ErrorKind::PermissionDenied => {
                        return Err(ShareError::NotAllowed { path, uid: late::user() });
                    }
                    io::ErrorKind::WouldBlock => return Err(silent(path, 0)),
                    _ => return Err(ShareError::system("connect", &path, error)),
                },
            }
        }
        Err(ShareError::Absent { name: name.to_owned(), is_stale })
    }

    fn new(path: PathBuf, socket: SeqPacket) -> Result<Self, ShareError> {
        let peer = socket.peer().map_err(|e| ShareError::system("SO_PEERCRED of", &path, e))?;
        Ok(Self { path, peer, socket, began: Instant::now() })
    }

    pub(crate) fn send(&self, request: &Request) -> Result<(), ShareError> {
        match self.socket.send(&request.encode(), &[]) {
            // If it refused before the request was sent, its answer can still be read.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(self.failed(error)),
            _ => Ok(()),
        }
    }

    pub(crate) fn receive(
        &self,
        mut files: Option<&mut Vec<OwnedFd>>,
    ) -> Result<Reply, ShareError> {
        let mut room = [0; MESSAGE_BYTES_MAX];
        if self.began.elapsed() > PATIENCE {
            return Err(silent(self.path.clone(), self.peer.pid));
        }
        let mut outcome = self.socket.receive(&mut room, files.as_deref_mut());
        // Data that the publisher did not read resets the connection; its answer can still be read.
        if outcome.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::ConnectionReset) {
            outcome = self.socket.receive(&mut room, files);
        }
        let received = outcome.map_err(|error| self.failed(error))?;
        if received.is_cut {
            return Err(self.broken(
                "its answer is too long, or this process has no descriptors left (see ulimit -n)",
            ));
        }
        if received.bytes == 0 {
            return Err(self.gone());
        }
        Reply::decode(&room[..received.bytes]).map_err(|reason| self.broken(reason))
    }

    pub(crate) fn broken(&self, reason: &'static str) -> ShareError {
        ShareError::Broken { path: self.path.clone(), pid: self.peer.pid, reason }
    }

    /// Returns the error if the publisher ended when it was called.
    fn gone(&self) -> ShareError {
        ShareError::Absent { name: self.path.to_string_lossy().into_owned(), is_stale: true }
    }

    fn failed(&self, error: io::Error) -> ShareError {
        match error.kind() {
            io::ErrorKind::ConnectionReset => self.gone(),
            io::ErrorKind::WouldBlock => silent(self.path.clone(), self.peer.pid),
            _ => ShareError::system("talking to", &self.path, error),
        }
    }

    /// Ends the conversation and keeps the connection.
    pub(crate) fn hang_on(self, epoch: u64) -> WriterLink {
        // Without it, for instance if the publisher has just ended, only the socket's end tells.
        let process = self.socket.peer_process().ok();
        let socket = Arc::new(OwnedFd::from(self.socket));
        WriterLink { path: self.path, peer: self.peer, epoch, socket, process }
    }
}

/// Returns whether the file is a socket. True if that cannot be checked.
fn is_socket(path: &Path) -> bool {
    late::metadata(path).map_or(true, |found| found.file_type().is_socket())
}

fn silent(path: PathBuf, pid: u32) -> ShareError {
    ShareError::Silent { path, pid, waited_s: PATIENCE.as_secs() }
}

/// The silent connection to a log's publisher: its closing shows that the publisher is gone. The
/// seat is free once the last clone of its socket is closed, and every
/// [`Reader`](burstline_log::Reader) of an attachment has a clone.
#[derive(Debug)]
pub struct WriterLink {
    path: PathBuf,
    peer: Credentials,
    epoch: u64,
    socket: Arc<OwnedFd>,
    process: Option<OwnedFd>,
}

impl WriterLink {
    /// Returns the path at which the publisher's socket was found.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the publisher's number within the name: a later one's is larger, usually by one.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the publisher's process; 0 if it is in another process namespace.
    pub fn pid(&self) -> u32 {
        self.peer.pid
    }

    /// Returns the publisher's user.
    pub fn uid(&self) -> u32 {
        self.peer.uid
    }

    /// Returns whether the publisher is gone, however it ended. Everything it published is then
    /// visible. If this was true *before* [`next_burst`](burstline_log::Reader::next_burst)
    /// returned `None`, and the window is not full, the log is drained.
    ///
    /// Cost: a system call. Call it when there is nothing to read.
    pub fn is_gone(&self) -> bool {
        let ends = self.descriptors();
        readiness::wait_each(&ends, 0).is_ok_and(|ready| ready.contains(&true))
    }

    /// Returns descriptors for the caller's poll(2), readable once the publisher is gone.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let process = self.process.as_ref().map(AsFd::as_fd);
        std::iter::once(self.socket.as_fd()).chain(process).collect()
    }

    /// Returns the socket for readers: see [`Reader::tie_to`](burstline_log::Reader::tie_to).
    pub fn socket(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.socket)
    }
}
