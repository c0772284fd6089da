//! The process that starts programs for a job whose threads have given up their rights.
//!
//! ```text
//!   job ── the number of a command, two outputs, one end of a socket pair ──► launcher
//!    ▲                                                                          │ starts it
//!    └── how it ended, by the socket; if the job closes it, the program is killed ──┘
//! ```
//!
//! The launcher knows all commands from its start, and a request has only a number. Each is started
//! once: whoever takes over the job starts nothing else, and nothing again. The launcher reads
//! nothing that the programs write. Programs have its user and no capabilities. They have no
//! ruleset and no list of calls, because programs need more. That user is the starter's, or one
//! who is named.
//!
//! The launcher removes a folder for what the programs write or read when the job has ended, also
//! by SIGKILL. For that it has a process group of its own, and keeps the capability for files of
//! other users, which programs do not inherit.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::net::{Shutdown, shutdown};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal, setpgid};

use super::grants::refused;
use super::request::{Answer, Done, Request};
use super::service::{Asked, Process, Work};
use super::{ask, ended};
use crate::privileges::{Confinement, give_up_but_files, give_up_but_files_as, name_confinement};
use crate::seqpacket::SeqPacket;
use crate::users::Account;

static LAUNCHER: OnceLock<Launcher> = OnceLock::new();

struct Launcher {
    process: Process,
    commands: Commands,
}

/// Commands of which each is taken once.
#[derive(Clone, Default)]
struct Commands(Arc<Mutex<Vec<Option<Vec<OsString>>>>>);

impl Commands {
    fn new(commands: Vec<Vec<OsString>>) -> Self {
        Self(Arc::new(Mutex::new(commands.into_iter().map(Some).collect())))
    }

    fn left(&self) -> MutexGuard<'_, Vec<Option<Vec<OsString>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, number: usize) -> io::Result<Vec<OsString>> {
        self.left().get_mut(number).and_then(Option::take).ok_or_else(refused)
    }

    /// Returns the number of a command, and takes it.
    fn take_equal(&self, command: &[OsString]) -> io::Result<u32> {
        let mut left = self.left();
        let is_equal = |one: &Option<Vec<OsString>>| one.as_deref() == Some(command);
        let number = left.iter().position(is_equal).ok_or_else(refused)?;
        left[number] = None;
        Ok(number as u32)
    }
}

/// Starts the launcher of this process: it starts these commands, programs with their arguments,
/// each once. When the job has ended it removes `folder`, if there is one, with all that is in it.
/// It becomes `user` if one is named, to whom the folder belongs then. Programs may fail if they
/// cannot read their home, so that is the root folder then.
/// Call it before other threads start, and before a confinement is named.
///
/// # Errors
/// Errors from the kernel: no process can be started, or become that user.
///
/// Cost: some milliseconds, once.
pub fn start(
    commands: Vec<Vec<OsString>>,
    folder: Option<PathBuf>,
    user: Option<Account>,
) -> io::Result<()> {
    let running = Running::default();
    let (known, started) = (Commands::new(commands.clone()), running.clone());
    let begin = || -> io::Result<_> {
        assert!(name_confinement(Confinement::default()), "no confinement before the launcher's");
        // Who kills the job's group does not kill the launcher.
        setpgid(None, None)?;
        let home = user.is_some().then_some("/");
        match user {
            Some(user) => give_up_but_files_as(&user)?,
            None => give_up_but_files(false)?,
        }
        let work = move |asked: Asked<'_>| launch(&known, home, &started, asked);
        Ok(Box::new(work) as Work)
    };
    let leave = move || {
        running.kill();
        // An error means that it is gone already.
        folder.iter().for_each(|folder| drop(fs::remove_dir_all(folder)));
    };
    let process = Process::fork(begin, leave)?;
    let launcher = Launcher { process, commands: Commands::new(commands) };
    assert!(LAUNCHER.set(launcher).is_ok(), "a process has one launcher");
    Ok(())
}

/// Ends the launcher of this process, if it has one, and waits for it.
pub(super) fn end() {
    LAUNCHER.get().iter().for_each(|launcher| launcher.process.end());
}

/// A program that runs beside the job.
#[derive(Debug)]
pub struct Program {
    how: How,
    status: Option<ExitStatus>,
}

#[derive(Debug)]
enum How {
    /// This process started it.
    Child(Child),
    /// The launcher did.
    Launched(SeqPacket),
}

impl Program {
    /// Starts a program with its arguments, without input: by the launcher, if there is one.
    ///
    /// # Errors
    /// Errors from the kernel: `NotFound`; `PermissionDenied` if the launcher does not know the
    /// command.
    pub fn start(command: &[OsString], output: OwnedFd, errors: OwnedFd) -> io::Result<Self> {
        let how = match LAUNCHER.get() {
            Some(launcher) => How::Launched(launcher.launch(command, &output, &errors)?),
            None => How::Child(started(command, None, output, errors)?),
        };
        Ok(Self { how, status: None })
    }

    /// Returns how it ended, or `None` if it still runs.
    ///
    /// # Errors
    /// Errors from the kernel; the launcher has ended.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = match &mut self.how {
                How::Child(child) => child.try_wait()?,
                How::Launched(socket) => said_by(socket)?,
            };
        }
        Ok(self.status)
    }

    /// Kills it, if it still runs.
    pub fn kill(&mut self) {
        match &mut self.how {
            How::Child(child) => {
                // It may have ended already; then both calls do nothing.
                let _ = child.kill();
                let _ = child.wait();
            }
            How::Launched(socket) => drop(shutdown(socket, Shutdown::Both)),
        }
    }
}

/// Returns the status that the launcher has sent, if it has.
fn said_by(socket: &SeqPacket) -> io::Result<Option<ExitStatus>> {
    let mut ends = [PollFd::new(socket, PollFlags::IN)];
    if retry_on_intr(|| poll(&mut ends, Some(&Timespec::default())))? == 0 {
        return Ok(None);
    }
    let mut room = Answer::default().encode();
    match socket.receive(&mut room, None)?.bytes == room.len() {
        true => Ok(Some(ExitStatus::from_raw(Answer::decode(room).status))),
        false => Err(ended()),
    }
}

impl Launcher {
    fn launch(
        &self,
        command: &[OsString],
        output: &OwnedFd,
        errors: &OwnedFd,
    ) -> io::Result<SeqPacket> {
        let number = self.commands.take_equal(command)?;
        let [here, there] = SeqPacket::pair()?;
        let request = Request::Launch { number };
        ask(&self.process.socket, &request, &[output.as_fd(), errors.as_fd(), there.as_fd()])?;
        Ok(here)
    }
}

fn started(
    command: &[OsString],
    home: Option<&str>,
    output: OwnedFd,
    errors: OwnedFd,
) -> io::Result<Child> {
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.envs(home.map(|home| ("HOME", home)));
    command.args(arguments).stdin(Stdio::null()).stdout(output).stderr(errors).spawn()
}

/// The programs of a launcher that have not ended.
#[derive(Clone, Default)]
struct Running(Arc<Mutex<Vec<Arc<OwnedFd>>>>);

impl Running {
    fn programs(&self) -> MutexGuard<'_, Vec<Arc<OwnedFd>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kill(&self) {
        for program in self.programs().iter() {
            let _ = pidfd_send_signal(program, Signal::KILL); // it may have ended
        }
    }
}

/// In the launcher: starts the command of a request, and a thread that waits for its end.
fn launch(
    commands: &Commands,
    home: Option<&str>,
    running: &Running,
    mut asked: Asked<'_>,
) -> io::Result<Done> {
    let Request::Launch { number } = asked.request else { return Err(refused()) };
    let command = commands.take(number as usize)?;
    let (output, errors, job) = (asked.file()?, asked.file()?, asked.file()?);
    // The lock is held until it is known, so that none is left when the launcher ends.
    let mut programs = running.programs();
    let mut child = started(&command, home, output, errors)?;
    let process = match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
        Ok(process) => Arc::new(process),
        Err(error) => {
            child.kill()?;
            child.wait()?;
            return Err(error.into());
        }
    };
    programs.push(Arc::clone(&process));
    drop(programs);
    let running = running.clone();
    thread::Builder::new().name("program".to_owned()).spawn(move || {
        watch(child, &process, job.into());
        running.programs().retain(|one| !Arc::ptr_eq(one, &process));
    })?;
    Ok(Done::default())
}

/// Waits until the program ends, or the job no longer waits for it.
fn watch(mut child: Child, process: &OwnedFd, job: SeqPacket) {
    let mut ends = [PollFd::new(process, PollFlags::IN), PollFd::new(&job, PollFlags::empty())];
    let polled = retry_on_intr(|| poll(&mut ends, None));
    if polled.is_err() || !ends[0].revents().contains(PollFlags::IN) {
        let _ = child.kill(); // it may have ended already
    }
    if let Ok(status) = child.wait() {
        let answer = Answer { error: 0, status: status.into_raw() };
        let _ = job.send(&answer.encode(), &[]); // the job may be gone
    }
}
