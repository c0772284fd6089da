//! What can go wrong, with the numbers in it and what mends it, in one line each.

use std::io;
use std::path::{Path, PathBuf};

use burstline_log::AttachError;

use crate::refusal::Refusal;

/// Why a log could not be published, or not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShareError {
    /// The name is none.
    #[error("{name:?} is not a name for a log: {reason}; use one like tap-1, or a path with a /")]
    Name {
        /// What was given.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A socket's path has a limit.
    #[error("{}: a socket's path has at most {most} bytes: choose a shorter one", path.display())]
    PathTooLong {
        /// The path.
        path: PathBuf,
        /// The longest there can be.
        most: usize,
    },
    /// The directory for names belongs to another user, or is open to others.
    #[error(
        "{}: owner {uid}, mode {mode:04o}, and it must be user {ours}'s alone: \
         rm -r it, or set BURSTLINE_RUN", path.display()
    )]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        uid: u32,
        /// Its mode.
        mode: u32,
        /// Who we are.
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
        /// Who has it, by its own word; 0 if it has not said yet.
        pid: u32,
    },
    /// Something that must not be replaced, and is not a log, stands where the socket would.
    #[error(
        "{}: not a socket, so not a log: choose another name, or move it away",
        path.display()
    )]
    NotASocket {
        /// What stands there.
        path: PathBuf,
    },
    /// No publisher has this name now.
    #[error(
        "no log is published as {name}{}: burstline doctor logs lists those that are; \
         start one with burstline capture SOURCE --publish {name}",
        if *is_stale { " (any more: its publisher has gone)" } else { "" }
    )]
    Absent {
        /// The name.
        name: String,
        /// Whether a killed publisher's socket was found.
        is_stale: bool,
    },
    /// The socket's permissions keep us out.
    #[error(
        "{}: user {uid} may not connect to it: see ls -l on it, publish it with another owner, \
         group or mode, or use sudo", path.display()
    )]
    NotAllowed {
        /// The socket.
        path: PathBuf,
        /// Who we are.
        uid: u32,
    },
    /// The publisher said no.
    #[error("{}: the publisher refuses: {refusal}", path.display())]
    Refused {
        /// The socket.
        path: PathBuf,
        /// Why.
        refusal: Refusal,
    },
    /// The publisher says nothing.
    #[error(
        "{}: process {pid} has not answered for {waited_s} s: is it stopped? see ps {pid}",
        path.display()
    )]
    Silent {
        /// The socket.
        path: PathBuf,
        /// The publisher, 0 if that is not known.
        pid: u32,
        /// How long it was waited for.
        waited_s: u64,
    },
    /// What the publisher says is not of the protocol.
    #[error("{}: process {pid} is not a publisher of logs: {reason}", path.display())]
    Broken {
        /// The socket.
        path: PathBuf,
        /// Who listens there.
        pid: u32,
        /// What is wrong with the answer.
        reason: &'static str,
    },
    /// Its logs were to be read in place, and it is of a user who was not vouched for.
    #[error(
        "{}: published by user {uid} (process {pid}), whom user {ours} does not trust: \
         read it with trust=nobody, which copies and checks", path.display()
    )]
    NotTrusted {
        /// The socket.
        path: PathBuf,
        /// Whose it is.
        uid: u32,
        /// The publisher.
        pid: u32,
        /// Who we are.
        ours: u32,
    },
    /// What the publisher passed is no log, or one of another version.
    #[error("{}: {error}", path.display())]
    Attach {
        /// The socket.
        path: PathBuf,
        /// What is wrong.
        #[source]
        error: AttachError,
    },
    /// Any other system call that failed.
    #[error("{call} {}: {source}", path.display())]
    System {
        /// The call.
        call: &'static str,
        /// What it was about.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

impl ShareError {
    pub(crate) fn system(call: &'static str, path: &Path, source: io::Error) -> Self {
        Self::System { call, path: path.to_owned(), source }
    }
}
