//! Processes that open files for threads that have given up their rights.
//!
//! The threads of a job become a user who owns nothing, and may open nothing by its path. Yet some
//! jobs make and remove files while packets come: a rotation, the next publisher of a name, a file
//! for each hour. Others read files, which is done once all rights are gone. They ask a helper,
//! which is forked from the job before other threads start. It keeps the job's user, gives up all
//! capabilities, and does what its [`Grant`]s cover.
//!
//! ```text
//!   thread of the job ── request, one end of a socket pair ──► a thread of the helper
//!          ▲                                                     open, rename, remove, connect
//!          └──────────── error number, or a descriptor ◄─────────────┘
//!                    ── the same for the user's command ─────► a thread of another process
//! ```
//!
//! Each request has its own socket for the answer, so several threads ask at once: removing a large
//! file does not hold up the next one. The user's command for closed files has a process of its
//! own, because programs need more than a helper for files. A job that opens ports while packets
//! come has a helper that keeps what ports take; see [`Door`].
//!
//! Invariants:
//! - H1: a helper reads requests of its job and, with a [`Door`], of users; and no content of files
//!   but programs for the kernel. It copies each request and checks it before use. It takes a job's
//!   requests from threads of the job alone, by their credentials.
//! - H2: it walks from granted folders, and leaves none of them (openat2). There it opens files of
//!   the job's names only. It makes no file that runs as its owner, and sets mode and owner of
//!   files that the job has open for writing. It connects to listed sockets, and makes sockets
//!   where users have asked for one. A list of calls confines it and, without a door, Landlock.
//! - H3: a thread asks the helper exactly if its user is another than the helper's. Of a job whose
//!   user is named, it asks only for what is granted.
//! - H4: a helper ends with its job, even if the job is killed. What the job asks for blocks it no
//!   longer than a file system or the user's command takes. A client has some seconds.
//! - H5: the process has no thread that holds a lock when a helper is forked. The program has one
//!   thread then.
//!
//! Callers use [`late`](crate::late), which asks if there is a helper.

mod grants;
pub mod launcher;
mod ports;
mod programs;
mod request;
mod service;

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::OnceLock;
use std::time::Duration;

use crate::direct::is_own_descriptor;
use crate::privileges::Confinement;
use crate::seqpacket::{Kind, SeqPacket};
use crate::users;
pub use grants::{Grant, GrantKind};
pub(crate) use ports::set_option_directly;
pub use ports::{Client, Clients, Door, Extension, Loader, Porter, bytes_to_pass};
pub(crate) use programs::run;
use request::{Answer, Done, Request};
use service::Process;

/// What a job may ask of its helper.
#[derive(Clone, Debug, Default)]
pub struct HelperOptions {
    /// Files and folders that it opens.
    pub grants: Vec<Grant>,
    /// Paths of sockets that it connects to.
    pub sockets: Vec<PathBuf>,
    /// Folders in which it connects to sockets of some names.
    pub names: Option<Names>,
    /// Whether it writes in folders of other users and connects to their sockets, as root may.
    pub has_files_of_others: bool,
    /// The program for closed files and its arguments; `{}` stands for the path. If it is empty,
    /// the helper starts no program.
    pub command: Vec<String>,
    /// What names of these files may contain besides letters, digits and `._-+:`. The command may
    /// give the name to a shell.
    pub name_characters: String,
    /// Lets users of a running job allow it more. Then the helper keeps what ports take.
    pub porter: Option<Porter>,
    /// Loads programs for such ports.
    pub loader: Option<Loader>,
    /// Whether files and sockets of the job get owners and modes that its user named: of any user.
    pub gives_files: bool,
    /// Whether the job does in its own name what no grant covers.
    pub is_partial: bool,
}

/// Sockets that a job connects to and that are not there yet.
#[derive(Clone, Debug)]
pub struct Names {
    /// Where they are; a [`Grant`] to read covers each folder.
    pub folders: Vec<PathBuf>,
    /// Whether a socket of this name is one of them.
    pub is_name: fn(&OsStr) -> bool,
}

impl Names {
    /// Whether the path is that of such a socket.
    fn have(&self, path: &Path) -> bool {
        let is_folder = |folder: &PathBuf| path.parent() == Some(folder);
        self.folders.iter().any(is_folder) && path.file_name().is_some_and(self.is_name)
    }
}

impl HelperOptions {
    /// Whether the job reads files later. Then the helper also reads those of other users, as root
    /// may.
    fn reads(&self) -> bool {
        self.grants.iter().any(|grant| grant.kind == GrantKind::Read)
    }
}

/// `FUSE_SUPER_MAGIC`. Source: include/uapi/linux/magic.h.
const FUSE: i64 = 0x6573_5546;

static HELPER: OnceLock<Helper> = OnceLock::new();

/// How to reach the helpers of this process.
pub(crate) struct Helper {
    files: Process,
    /// Runs the user's command.
    commands: Option<Process>,
    /// The user in whose name they work.
    user: u32,
    /// What the job asks for, if it does the rest in its own name.
    only: Option<Vec<Grant>>,
}

/// Starts the helper of this process, which then is confined as `confine` says. Call it before
/// other threads start, and before a confinement is named.
///
/// # Errors
/// Errors from the kernel: no process can be started, or the new one could not be confined.
///
/// Cost: some milliseconds, once.
pub fn start(
    options: HelperOptions,
    confine: impl FnOnce() -> io::Result<Confinement>,
) -> io::Result<()> {
    for grant in options.grants.iter().filter(|grant| grant.kind == GrantKind::Write) {
        let kind = rustix::fs::statfs(&grant.path).map_or(0, |found| found.f_type);
        if kind as i64 == FUSE {
            let path = grant.path.display();
            let what = format!("{path} is a FUSE file system, which may serve one user only");
            return Err(io::Error::other(what));
        }
    }
    let commands = match options.command.is_empty() {
        true => None,
        false => Some(Process::for_commands(options.clone())?),
    };
    let only = options.is_partial.then(|| options.grants.clone());
    let files = Process::for_files(options, confine)?;
    let helper = Helper { files, commands, user: users::effective_user(), only };
    assert!(HELPER.set(helper).is_ok(), "a process has one helper");
    Ok(())
}

/// Ends the helpers of this process, if it has any, and waits for them. Without that a dead process
/// would stay wherever no process collects orphans, as in some containers.
pub fn end() {
    if let Some(helper) = HELPER.get() {
        helper.files.end();
        helper.commands.iter().for_each(Process::end);
    }
    launcher::end();
}

/// Returns whether this process has a helper. If so, the helper runs the command for closed files.
pub fn is_started() -> bool {
    HELPER.get().is_some()
}

/// Returns the user of the helper, if this process has one.
pub(crate) fn user() -> Option<u32> {
    HELPER.get().map(|helper| helper.user)
}

/// Returns the helper if the calling thread needs it for a path (H3). A descriptor of this process,
/// such as `/dev/stdout`, is another one's in the helper. Cost: a system call if there is a helper.
pub(crate) fn needed(path: &Path) -> Option<&'static Helper> {
    needed_for_descriptors().filter(|helper| helper.is_for(path) && !is_own_descriptor(path))
}

/// The same for what has no path.
pub(crate) fn needed_for_descriptors() -> Option<&'static Helper> {
    HELPER.get().filter(|helper| users::effective_user() != helper.user)
}

/// Returns whether the calling thread needs a helper for what takes rights.
pub fn is_needed() -> bool {
    needed_for_descriptors().is_some()
}

/// Loads a program for the kernel, or something that it takes, if the calling thread needs a helper
/// for that: by the helper's [`Loader`]. `None` if it does not.
///
/// # Errors
/// Errors of the loader, or of the kernel.
pub fn load(what: &[u8], files: &[BorrowedFd<'_>]) -> Option<io::Result<OwnedFd>> {
    needed_for_descriptors().map(|helper| helper.load(what, files))
}

/// Has the helper serve a listening socket by its [`Porter`], if the calling thread needs a helper.
/// `None` if it does not.
///
/// # Errors
/// Errors from the kernel; `PermissionDenied` if the helper has no porter.
pub fn serve(listener: BorrowedFd<'_>) -> io::Result<Option<Clients>> {
    needed_for_descriptors().map(|helper| helper.serve(listener)).transpose()
}

impl Helper {
    /// Whether the job asks for this path.
    fn is_for(&self, path: &Path) -> bool {
        self.only.as_ref().is_none_or(|grants| grants.iter().any(|grant| grant.covers(path)))
    }

    /// Opens a path, with flags and mode of open(2).
    pub(crate) fn open(&self, path: &Path, flags: i32, mode: u32) -> io::Result<OwnedFd> {
        self.ask_for_one(&Request::Open { path, flags, mode })
    }

    /// Finds what is at a path: a descriptor that neither reads nor writes.
    pub(crate) fn find(&self, path: &Path, follows_links: bool) -> io::Result<OwnedFd> {
        self.ask_for_one(&Request::Find { path, follows_links })
    }

    /// Removes a file.
    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        self.ask(&Request::Remove { path }, None)
    }

    /// Renames a file.
    pub(crate) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.ask(&Request::Rename { from, to }, None)
    }

    /// Makes a folder.
    pub(crate) fn make_folder(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.ask(&Request::MakeFolder { path, mode }, None)
    }

    /// Sets owner, group and mode of a file that is open for writing. What is `None` stays.
    pub(crate) fn set_owner_and_mode(
        &self,
        file: BorrowedFd<'_>,
        [user, group]: [Option<u32>; 2],
        mode: Option<u32>,
    ) -> io::Result<()> {
        self.ask(&Request::SetOwnerAndMode { user, group, mode }, Some(file))
    }

    /// Runs the helper's own command for a file, with its output in `output`.
    pub(crate) fn run(&self, path: &Path, output: BorrowedFd<'_>) -> io::Result<ExitStatus> {
        let commands = self.commands.as_ref().ok_or_else(ended)?;
        let done = ask(&commands.socket, &Request::Run { path }, &[output])?;
        Ok(ExitStatus::from_raw(done.status))
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

    /// Makes a socket at a path; see [`late::bind`](crate::late::bind).
    pub(crate) fn bind(
        &self,
        path: &Path,
        kind: Kind,
        [user, group]: [Option<u32>; 2],
        mode: Option<u32>,
    ) -> io::Result<OwnedFd> {
        self.ask_for_one(&Request::Bind { path, kind, mode, user, group })
    }

    /// Opens a socket for packets.
    pub(crate) fn raw_socket(&self, family: i32) -> io::Result<OwnedFd> {
        self.ask_for_one(&Request::RawSocket { family })
    }

    /// Opens a queue of a tap device.
    pub(crate) fn tap_queue(&self, name: &str, flags: u32) -> io::Result<OwnedFd> {
        self.ask_for_one(&Request::TapQueue { name: Path::new(name), flags })
    }

    /// Changes a setting of an interface.
    pub(crate) fn set_interface(&self, name: &str, setting: u32, value: u32) -> io::Result<()> {
        self.ask(&Request::SetInterface { name: Path::new(name), setting, value }, None)
    }

    /// Sets an integer option of level `SOL_SOCKET`.
    pub(crate) fn set_option(
        &self,
        socket: BorrowedFd<'_>,
        name: i32,
        value: i32,
    ) -> io::Result<()> {
        self.ask(&Request::SetOption { name, value }, Some(socket))
    }

    /// Has its [`Loader`] load something.
    pub(crate) fn load(&self, what: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<OwnedFd> {
        let request = Request::Load { what: path_of(what) };
        ask(&self.files.socket, &request, files)?.opened.ok_or_else(ended)
    }

    /// Has its [`Porter`] serve a listening socket.
    pub(crate) fn serve(&self, listener: BorrowedFd<'_>) -> io::Result<Clients> {
        // Not the socket for the answer: a client may be there before that is sent.
        let [here, there] = SeqPacket::pair()?;
        ask(&self.files.socket, &Request::Serve, &[listener, there.as_fd()])?;
        Ok(Clients::new(here))
    }

    fn ask_for_one(&self, request: &Request<'_>) -> io::Result<OwnedFd> {
        ask(&self.files.socket, request, &[])?.opened.ok_or_else(ended)
    }

    fn ask(&self, request: &Request<'_>, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
        ask(&self.files.socket, request, file.as_slice()).map(drop)
    }
}

/// Sends a request to a helper, and waits for the answer.
fn ask(socket: &SeqPacket, request: &Request<'_>, files: &[BorrowedFd<'_>]) -> io::Result<Done> {
    let [here, there] = SeqPacket::pair()?;
    let (message, descriptors) = (request.encode()?, [&[there.as_fd()], files].concat());
    let send = || socket.send(&message, &descriptors);
    send().or_else(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Err(ended()),
        // The kernel may lack memory for a moment. A name that nobody removes would stay.
        _ => send(),
    })?;
    // From here only the helper has it, so its end is seen.
    drop(there);
    let (mut room, mut opened) = (Answer::default().encode(), Vec::new());
    let received = here.receive(&mut room, Some(&mut opened))?;
    if received.bytes != room.len() {
        return Err(ended());
    }
    match Answer::decode(room) {
        Answer { error: 0, status } => Ok(Done { status, opened: opened.pop() }),
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
