//! Errors of publishing and reading, each in one line with its numbers and a remedy.

use std::io;
use std::path::{Path, PathBuf};

use burstline_log::AttachError;

use crate::refusal::Refusal;

/// The reason why a log could not be published or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShareError {
    /// The name is invalid.
    #[error("{name:?} is not a name for a log: {reason}; use one like tap-1, or a path with a /")]
    Name {
        /// The given name.
        name: String,
        /// The reason.
        reason: &'static str,
    },
    /// The socket's path is too long.
    #[error("{}: a socket's path has at most {most} bytes: choose a shorter one", path.display())]
    PathTooLong {
        /// The path.
        path: PathBuf,
        /// The largest length.
        most: usize,
    },
    /// The directory for names belongs to another user, or is open to others.
    #[error(
        "{}: owner {uid}, mode {mode:04o}; it must be accessible to user {ours} only: \
         remove it (rm -r), or set BURSTLINE_RUN", path.display()
    )]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        uid: u32,
        /// Its mode.
        mode: u32,
        /// This process's user.
        ours: u32,
    },
    /// Another process publishes this name.
    #[error(
        "{}: published by {} already: choose another name, or end {}", path.display(),
        match pid { 0 => "another process".into(), pid => format!("process {pid}") },
        match pid { 0 => "it".into(), pid => format!("it (kill {pid})") }
    )]
    Taken {
        /// The socket.
        path: PathBuf,
        /// The publisher, as the lock file says; 0 if it is not known yet.
        pid: u32,
    },
    /// A file that must not be replaced, because it is not a socket, is at the socket's path.
    #[error(
        "{}: not a socket, so not a log: choose another name, or move it away",
        path.display()
    )]
    NotASocket {
        /// The path of the file.
        path: PathBuf,
    },
    /// No publisher has this name now.
    #[error(
        "no log is published as {name}{}: burstline doctor logs lists those that are; \
         start one with burstline capture SOURCE --publish {name}",
        if *is_stale { " (its publisher has stopped)" } else { "" }
    )]
    Absent {
        /// The name.
        name: String,
        /// Whether a killed publisher's socket was found.
        is_stale: bool,
    },
    /// The socket's permissions do not admit this user.
    #[error(
        "{}: user {uid} may not connect to it: see ls -l on it, publish it with another owner, \
         group or mode, or use sudo", path.display()
    )]
    NotAllowed {
        /// The socket.
        path: PathBuf,
        /// This process's user.
        uid: u32,
    },
    /// The publisher refused the request.
    #[error("{}: the publisher refuses: {refusal}", path.display())]
    Refused {
        /// The socket.
        path: PathBuf,
        /// The reason.
        refusal: Refusal,
    },
    /// The publisher does not answer.
    #[error(
        "{}: process {pid} has not answered for {waited_s} s: is it stopped? see ps {pid}",
        path.display()
    )]
    Silent {
        /// The socket.
        path: PathBuf,
        /// The publisher; 0 if unknown.
        pid: u32,
        /// How long this process waited.
        waited_s: u64,
    },
    /// The answer does not conform to the protocol.
    #[error("{}: process {pid} is not a publisher of logs: {reason}", path.display())]
    Broken {
        /// The socket.
        path: PathBuf,
        /// The process that listens there.
        pid: u32,
        /// The fault of the answer.
        reason: &'static str,
    },
    /// The log was to be read in place, but its publisher is a user whom the caller does not trust.
    #[error(
        "{}: published by user {uid} (process {pid}), whom user {ours} does not trust: \
         read it with trust=nobody, which copies and checks", path.display()
    )]
    NotTrusted {
        /// The socket.
        path: PathBuf,
        /// The publisher's user.
        uid: u32,
        /// The publisher's process.
        pid: u32,
        /// This process's user.
        ours: u32,
    },
    /// The publisher passed no log, or one of another version.
    #[error("{}: {error}", path.display())]
    Attach {
        /// The socket.
        path: PathBuf,
        /// The reason.
        #[source]
        error: AttachError,
    },
    /// Any other failed system call.
    #[error("{call} {}: {source}", path.display())]
    System {
        /// The call.
        call: &'static str,
        /// The path it was called for.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

impl ShareError {
    pub(crate) fn system(call: &'static str, path: &Path, source: io::Error) -> Self {
        Self::System { call, path: path.to_owned(), source }
    }
}
