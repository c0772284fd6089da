//! A process that opens files for threads that have given up their rights.
//!
//! The threads of a job become a user who owns nothing, and may open nothing by its path. Yet some
//! jobs make and remove files while packets come: a rotation, the next publisher of a name, a file
//! for each hour. They ask this process. It is forked from the job before other threads start. It
//! keeps the job's user, gives up all capabilities, and may open only the folders of these files
//! and make only listed calls. Threads for the user's command are free of folders and list.
//!
//! ```text
//!   thread of the job ── request, one end of a socket pair ──► thread of the helper
//!          ▲                                                     open, rename, remove, connect
//!          └──────────── error number, or a descriptor ◄─────────────┘
//! ```
//!
//! Each request has its own socket for the answer, so several threads ask at once: removing a large
//! file does not hold up the next one. Other threads of the helper run the user's command for
//! closed files, on a socket of their own.
//!
//! Invariants:
//! - H1: the helper reads requests, and no content of files. It copies each request and checks it
//!   before use.
//! - H2: what the helper's threads for files may not do, it does for nobody. It sets mode and owner
//!   only of files that were opened for writing, and never setuid or setgid. Landlock covers
//!   neither sockets nor programs: for these the helper compares folders itself.
//! - H3: a thread asks the helper exactly if its user is another than the helper's.
//! - H4: only the job has the other ends of the sockets. So the helper ends with the job, even if
//!   the job is killed.
//! - H5: the process has no thread that holds a lock when the helper is forked. The program has one
//!   thread then.
//!
//! Callers use [`late`](crate::late), which asks if there is a helper.

mod programs;
mod request;
mod service;

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::io::retry_on_intr;
use rustix::net::{Shutdown, shutdown};
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::privileges::{self, Confinement};
use crate::seqpacket::{Kind, SeqPacket};
use crate::users;
pub(crate) use programs::run;
use request::{Answer, Request};

/// What a helper does that no ruleset of Landlock covers.
#[derive(Clone, Debug, Default)]
pub struct HelperOptions {
    /// It connects to sockets, and runs the command for files, below these folders only.
    pub folders: Vec<PathBuf>,
    /// The program for closed files and its arguments; `{}` stands for the path. If it is empty,
    /// the helper starts no program.
    pub command: Vec<String>,
}

impl HelperOptions {
    /// Whether a folder is one of these or below one.
    fn covers(&self, folder: &Path) -> bool {
        let mut folders = self.folders.iter().filter_map(|folder| fs::canonicalize(folder).ok());
        folders.any(|covered| folder.starts_with(covered))
    }
}

static HELPER: OnceLock<Helper> = OnceLock::new();

/// How to reach the helper of this process.
pub(crate) struct Helper {
    socket: SeqPacket,
    /// Where commands are asked for.
    commands: SeqPacket,
    process: Pid,
    /// The user in whose name it opens files.
    user: u32,
}

/// Starts the helper of this process, which then is confined as `confine` says. Call it before
/// other threads start, and before [`privileges::name_confinement`].
///
/// # Errors
/// Errors from the kernel: no process can be started, or the new one could not be confined.
///
/// Cost: about 1 ms, once.
pub fn start(
    options: HelperOptions,
    confine: impl FnOnce() -> io::Result<Confinement>,
) -> io::Result<()> {
    let [ours, theirs] = SeqPacket::pair()?;
    let [commands, their_commands] = SeqPacket::pair()?;
    // SAFETY: the call copies this thread alone. No other thread holds a lock now (H5), and libc
    // frees its own in the new process, which never returns from here.
    let process = match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error()),
        0 => {
            let name = || {
                let is_first = privileges::name_confinement(confine()?);
                assert!(is_first, "no confinement before the helper's");
                Ok(())
            };
            service::serve_job([theirs, their_commands], options, name)
        }
        process => process,
    };
    drop((theirs, their_commands));
    let process = Pid::from_raw(process).expect("a new process has a number");
    let mut error = 0_i32.to_ne_bytes();
    if ours.receive(&mut error, None)?.bytes != error.len() {
        return Err(io::Error::other("it ended before it was ready"));
    }
    match i32::from_ne_bytes(error) {
        0 => {}
        error => return Err(io::Error::from_raw_os_error(error)),
    }
    let helper = Helper { socket: ours, commands, process, user: users::effective_user() };
    assert!(HELPER.set(helper).is_ok(), "a process has one helper");
    Ok(())
}

/// Ends the helper of this process, if it has one, and waits for it. Without that a dead process
/// would stay wherever no process collects orphans, as in some containers.
pub fn end() {
    if let Some(helper) = HELPER.get() {
        // Either fails only if the helper has already ended.
        let _ = shutdown(&helper.socket, Shutdown::Both);
        let _ = shutdown(&helper.commands, Shutdown::Both);
        let _ = retry_on_intr(|| waitpid(Some(helper.process), WaitOptions::empty()));
    }
}

/// Returns whether this process has a helper. If so, the helper runs the command for closed files.
pub fn is_started() -> bool {
    HELPER.get().is_some()
}

/// Returns the user of the helper, if this process has one.
pub(crate) fn user() -> Option<u32> {
    HELPER.get().map(|helper| helper.user)
}

/// Returns the helper if the calling thread needs it (H3). Cost: a system call if there is one.
pub(crate) fn needed() -> Option<&'static Helper> {
    HELPER.get().filter(|helper| users::effective_user() != helper.user)
}

impl Helper {
    /// Opens a path, with flags and mode of open(2).
    pub(crate) fn open(&self, path: &Path, flags: i32, mode: u32) -> io::Result<OwnedFd> {
        self.ask_for_one(&Request::Open { path, flags, mode })
    }

    /// Removes a file.
    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        self.ask(&Request::Remove { path }, None).map(drop)
    }

    /// Renames a file.
    pub(crate) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.ask(&Request::Rename { from, to }, None).map(drop)
    }

    /// Makes a folder.
    pub(crate) fn make_folder(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.ask(&Request::MakeFolder { path, mode }, None).map(drop)
    }

    /// Sets owner, group and mode of a file that is open for writing. What is `None` stays.
    pub(crate) fn set_owner_and_mode(
        &self,
        file: BorrowedFd<'_>,
        [user, group]: [Option<u32>; 2],
        mode: Option<u32>,
    ) -> io::Result<()> {
        self.ask(&Request::SetOwnerAndMode { user, group, mode }, Some(file)).map(drop)
    }

    /// Runs the helper's own command for a file, with its output in `output`.
    pub(crate) fn run(&self, path: &Path, output: BorrowedFd<'_>) -> io::Result<ExitStatus> {
        let (answer, _) = ask(&self.commands, &Request::Run { path }, Some(output))?;
        Ok(ExitStatus::from_raw(answer.status))
    }

    /// Connects to the socket at a path; see [`late::connect`](crate::late::connect).
    pub(crate) fn connect(
        &self,
        path: &Path,
        kind: Kind,
        timeout: Option<Duration>,
    ) -> io::Result<OwnedFd> {
        self.ask_for_one(&Request::Connect { path, kind, timeout })
    }

    fn ask_for_one(&self, request: &Request<'_>) -> io::Result<OwnedFd> {
        self.ask(request, None)?.ok_or_else(ended)
    }

    fn ask(
        &self,
        request: &Request<'_>,
        file: Option<BorrowedFd<'_>>,
    ) -> io::Result<Option<OwnedFd>> {
        ask(&self.socket, request, file).map(|(_, opened)| opened)
    }
}

/// Sends a request to one of the helper's sockets, and waits for the answer.
fn ask(
    socket: &SeqPacket,
    request: &Request<'_>,
    file: Option<BorrowedFd<'_>>,
) -> io::Result<(Answer, Option<OwnedFd>)> {
    let [here, there] = SeqPacket::pair()?;
    let descriptors: Vec<_> = [there.as_fd()].into_iter().chain(file).collect();
    socket.send(&request.encode()?, &descriptors).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => ended(),
        _ => error,
    })?;
    // From here only the helper has it, so its end is seen.
    drop(there);
    let (mut room, mut opened) = (Answer::default().encode(), Vec::new());
    let received = here.receive(&mut room, Some(&mut opened))?;
    if received.bytes != room.len() {
        return Err(ended());
    }
    match Answer::decode(room) {
        answer @ Answer { error: 0, .. } => Ok((answer, opened.pop())),
        Answer { error, .. } => Err(io::Error::from_raw_os_error(error)),
    }
}

fn ended() -> io::Error {
    io::Error::other("the process that opens files for this job has ended")
}

/// Returns the path of bytes.
fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
