//! The helper's side: does what threads of the job ask for.
//!
//! ```text
//!   commands ─► 3 threads: the user's command    no capabilities
//!   files    ─► 3 threads: open, rename, ...     no capabilities; folders, and a list of calls
//! ```

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Component, Path, PathBuf};
use std::process::exit;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::fs::OFlags;

use super::HelperOptions;
use super::programs::run;
use super::request::{Answer, REQUEST_BYTES_MAX, Request};
use crate::inode::folder_of;
use crate::late::{open_directly, set_directly};
use crate::privileges::{give_up, give_up_but_programs};
use crate::seqpacket::{Kind, SeqPacket, connected};

/// Threads for each socket: the next file is opened while others are removed.
const THREADS: usize = 3;
/// Signals to the job's process group. They are meant for the job, which still needs its helper
/// afterwards.
const SIGNALS: [libc::c_int; 8] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGTSTP,
];
/// The bits of a mode that the helper sets: not setuid, setgid or sticky (H2).
const MODE: u32 = 0o777;
/// Failed receives in a row after which a thread gives up.
const FAILURES_MAX: u32 = 1000;

/// The answer to a request, and what was opened for it.
type Outcome = io::Result<(Answer, Option<OwnedFd>)>;
/// Does what a request asks for. It may come with a descriptor.
type Work = fn(&HelperOptions, &Request<'_>, Option<OwnedFd>) -> Outcome;

/// Runs the helper until the job ends, and never returns. The job hears 0, or the number of the
/// error that kept the helper from starting.
#[expect(clippy::disallowed_methods, reason = "what the job owns has copies here: they stay")]
pub(super) fn serve_job(
    [socket, commands]: [SeqPacket; 2],
    options: HelperOptions,
    name_confinement: impl FnOnce() -> io::Result<()>,
) -> ! {
    let socket = Arc::new(socket);
    let begin = || {
        leave_the_job([&socket, &commands])?;
        name_confinement()?;
        let options = Arc::new(options);
        if !options.command.is_empty() {
            let commands = Arc::new(commands);
            start_threads("commands", &commands, &options, give_up_but_programs, run_command)?;
        }
        give_up()?;
        start_threads("files", &socket, &options, give_up, do_for_files)
    };
    let begun = begin();
    let error = begun.as_ref().err().map_or(0, number_of);
    // If this fails, the job has ended.
    let _ = socket.send(&error.to_ne_bytes(), &[]);
    for thread in begun.into_iter().flatten() {
        // If one had panicked, the others serve on.
        let _ = thread.join();
    }
    exit(0)
}

/// Starts threads that answer the requests of a socket, once `confine` has confined them. Threads
/// for files inherit the confinement of the one that starts them; for them it changes nothing.
fn start_threads(
    name: &str,
    socket: &Arc<SeqPacket>,
    options: &Arc<HelperOptions>,
    confine: fn() -> io::Result<()>,
    work: Work,
) -> io::Result<Vec<JoinHandle<()>>> {
    let start = |_| {
        let (socket, options) = (Arc::clone(socket), Arc::clone(options));
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            if confine().is_ok() {
                serve(&socket, &options, work);
            }
        })
    };
    (0..THREADS).map(start).collect()
}

/// Closes all descriptors but the sockets: else a pipe of the job would stay open after it.
/// Survives signals to the job's group, because the job asks for its last files after them.
fn leave_the_job(sockets: [&SeqPacket; 2]) -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    for standard in 0..3 {
        // SAFETY: the call takes two numbers. Nothing in this process owns the standard
        // descriptors.
        if unsafe { libc::dup2(null.as_raw_fd(), standard) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    drop(null);
    let mut kept = sockets.map(|socket| socket.as_fd().as_raw_fd() as u32);
    kept.sort_unstable();
    let mut first = 3_u32;
    for last in kept.into_iter().chain([u32::MAX]) {
        // SAFETY: the call takes three numbers and touches no memory. The closed descriptors belong
        // to values of the job. This process has copies of these values, and neither uses nor
        // drops them: `serve_job` does not return.
        let close = |last: u32| unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        if first < last && close(if last == u32::MAX { last } else { last - 1 }) < 0 {
            return Err(io::Error::last_os_error());
        }
        first = last.saturating_add(1);
    }
    extern "C" fn nothing(_: libc::c_int) {}
    let nothing = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    for signal in SIGNALS {
        // SAFETY: the handler does nothing, so it may interrupt any code. It is not SIG_IGN, which
        // a program would inherit.
        unsafe { libc::signal(signal, nothing) };
    }
    Ok(())
}

/// Answers requests until no thread of the job can ask any more (H4).
fn serve(socket: &SeqPacket, options: &HelperOptions, work: Work) {
    let (mut room, mut failures) = ([0; REQUEST_BYTES_MAX], 0);
    while failures < FAILURES_MAX {
        let mut descriptors = Vec::new();
        let bytes = match socket.receive(&mut room, Some(&mut descriptors)) {
            Ok(received) if received.bytes == 0 => return,
            Ok(received) if received.is_cut => continue,
            Ok(received) => received.bytes,
            Err(_) => {
                failures += 1;
                continue;
            }
        };
        failures = 0;
        let mut descriptors = descriptors.into_iter();
        let Some(asker) = descriptors.next().map(SeqPacket::from) else { continue };
        let outcome = match Request::decode(&room[..bytes]) {
            Some(request) => work(options, &request, descriptors.next()),
            None => Err(refused()),
        };
        let (answer, opened) = match outcome {
            Ok(done) => done,
            Err(error) => (Answer { error: number_of(&error), status: 0 }, None),
        };
        let opened: Vec<BorrowedFd<'_>> = opened.iter().map(AsFd::as_fd).collect();
        // If it fails, the thread sees the end of its socket.
        let _ = asker.send(&answer.encode(), &opened);
    }
}

fn number_of(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EINVAL)
}

fn refused() -> io::Error {
    io::Error::from_raw_os_error(libc::EPERM)
}

fn run_command(options: &HelperOptions, request: &Request<'_>, output: Option<OwnedFd>) -> Outcome {
    let Request::Run { path } = *request else { return Err(refused()) };
    let is_name = matches!(path.components().next_back(), Some(Component::Normal(_)));
    if !is_name || !options.covers(&fs::canonicalize(folder_of(path))?) {
        return Err(refused());
    }
    let ended = run(&options.command, path, output.ok_or_else(refused)?)?;
    Ok((Answer { error: 0, status: ended.into_raw() }, None))
}

fn do_for_files(options: &HelperOptions, request: &Request<'_>, file: Option<OwnedFd>) -> Outcome {
    let opened = match *request {
        Request::Open { path, flags, mode } => Some(open_directly(path, flags, mode & MODE)?),
        Request::Connect { path, kind, timeout } => Some(connect(options, path, kind, timeout)?),
        _ => {
            change(request, file)?;
            None
        }
    };
    Ok((Answer::default(), opened))
}

/// Connects to a socket of the job's folders. Through its inode: the path may lead elsewhere a
/// moment later.
fn connect(
    options: &HelperOptions,
    path: &Path,
    kind: Kind,
    timeout: Option<Duration>,
) -> io::Result<OwnedFd> {
    let socket = open_directly(path, libc::O_PATH | libc::O_NOFOLLOW, 0)?;
    let link = PathBuf::from(format!("/proc/self/fd/{}", socket.as_raw_fd()));
    let found = fs::read_link(&link)?;
    match found.parent().is_some_and(|folder| options.covers(folder)) {
        true => connected(&link, kind, timeout),
        false => Err(io::Error::from_raw_os_error(libc::EACCES)),
    }
}

fn change(request: &Request<'_>, file: Option<OwnedFd>) -> io::Result<()> {
    match *request {
        Request::Remove { path } => fs::remove_file(path),
        Request::Rename { from, to } => fs::rename(from, to),
        Request::MakeFolder { path, mode } => DirBuilder::new().mode(mode & MODE).create(path),
        Request::SetOwnerAndMode { user, group, mode } => {
            let file = File::from(file.ok_or_else(refused)?);
            let access = rustix::fs::fcntl_getfl(&file)?;
            // Descriptors to read, or with `O_PATH`, are of any file that the job may look at.
            let is_written =
                access.intersects(OFlags::WRONLY | OFlags::RDWR) && !access.contains(OFlags::PATH);
            if !is_written || !file.metadata()?.is_file() {
                return Err(refused());
            }
            set_directly(&file, [user, group], mode.map(|mode| mode & MODE))
        }
        Request::Open { .. } | Request::Connect { .. } | Request::Run { .. } => Err(refused()),
    }
}
