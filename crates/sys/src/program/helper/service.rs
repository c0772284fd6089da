//! The helper's side: does what threads of the job ask for.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, fchown};
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
use crate::late::open_directly;
use crate::privileges::{give_up, give_up_but_programs};
use crate::seqpacket::{Kind, SeqPacket, connected};

/// Threads for each socket: the next file is opened while others are removed.
const THREADS: usize = 3;
/// What ends or stops a job, and asks it for something.
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
/// Bits of a mode that may be asked for: no file runs as its owner or group (H2).
const MODE: u32 = 0o777;
/// The answer to a request, and what was opened for it.
type Fulfilled = io::Result<(Answer, Option<OwnedFd>)>;

/// Failed receives in a row after which the socket is given up.
const FAILURES_MAX: u32 = 1000;

/// Runs the helper until the job ends, and never returns. `name` names its confinement.
pub(super) fn serve_job(
    [socket, commands]: [SeqPacket; 2],
    options: HelperOptions,
    name: impl FnOnce() -> io::Result<()>,
) -> ! {
    let begin = || {
        leave_the_job([&socket, &commands])?;
        name()?;
        let options = Arc::new(options);
        if !options.command.is_empty() {
            start_threads("commands", commands, &options, give_up_but_programs, run_for)?;
        }
        give_up()?;
        socket.send(&[0], &[])?;
        start_threads("files", socket, &options, give_up, fulfil)
    };
    for thread in begin().into_iter().flatten() {
        // If one had panicked, the others serve on.
        let _ = thread.join();
    }
    exit(0)
}

/// Does what a request asks for. It may come with a descriptor.
type Fulfil = fn(&HelperOptions, &Request<'_>, Option<OwnedFd>) -> Fulfilled;

/// Starts threads that answer the requests of a socket, once `confine` has confined them.
fn start_threads(
    name: &str,
    socket: SeqPacket,
    options: &Arc<HelperOptions>,
    confine: fn() -> io::Result<()>,
    fulfil: Fulfil,
) -> io::Result<Vec<JoinHandle<()>>> {
    let socket = Arc::new(socket);
    let start = |_| {
        let (socket, options) = (Arc::clone(&socket), Arc::clone(options));
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            if confine().is_ok() {
                serve(&socket, &options, fulfil);
            }
        })
    };
    (0..THREADS).map(start).collect()
}

/// Closes what belongs to the job alone: else its pipes would stay open after it. Signals for the
/// group of processes are the job's; it asks for its last files after them.
fn leave_the_job(sockets: [&SeqPacket; 2]) -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    for standard in 0..3 {
        // SAFETY: no memory is passed. Nothing in this process owns the standard descriptors.
        if unsafe { libc::dup2(null.as_raw_fd(), standard) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    drop(null);
    let mut kept = sockets.map(|socket| socket.as_fd().as_raw_fd() as u32);
    kept.sort_unstable();
    let mut first = 3_u32;
    for last in kept.into_iter().chain([u32::MAX]) {
        // SAFETY: as above. Owners of these descriptors are values of the job, whose copies in this
        // process are never used or dropped: `run` does not return.
        let close = |last: u32| unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        if first < last && close(if last == u32::MAX { last } else { last - 1 }) < 0 {
            return Err(io::Error::last_os_error());
        }
        first = last.saturating_add(1);
    }
    extern "C" fn nothing(_: libc::c_int) {}
    let nothing = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    for signal in SIGNALS {
        // SAFETY: the handler does nothing. A handler, as programs would inherit that a signal is
        // ignored.
        unsafe { libc::signal(signal, nothing) };
    }
    Ok(())
}

/// Answers requests until no thread of the job can ask any more (H4).
fn serve(socket: &SeqPacket, options: &HelperOptions, fulfil: Fulfil) {
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
        let Some(back) = descriptors.next().map(SeqPacket::from) else { continue };
        let outcome = match Request::decode(&room[..bytes]) {
            Some(request) => fulfil(options, &request, descriptors.next()),
            None => Err(refused()),
        };
        let (answer, opened) = match outcome {
            Ok(done) => done,
            Err(error) => {
                let error = error.raw_os_error().unwrap_or(libc::EINVAL);
                (Answer { error, status: 0 }, None)
            }
        };
        let opened: Vec<BorrowedFd<'_>> = opened.iter().map(AsFd::as_fd).collect();
        // If it fails, the thread sees the end of its socket.
        let _ = back.send(&answer.encode(), &opened);
    }
}

fn refused() -> io::Error {
    io::Error::from_raw_os_error(libc::EPERM)
}

fn run_for(options: &HelperOptions, request: &Request<'_>, output: Option<OwnedFd>) -> Fulfilled {
    let Request::Run { path } = *request else { return Err(refused()) };
    let is_name = matches!(path.components().next_back(), Some(Component::Normal(_)));
    let parent = path.parent().filter(|_| is_name).ok_or_else(refused)?;
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    if !options.covers(&fs::canonicalize(parent)?) {
        return Err(refused());
    }
    let ended = run(&options.command, path, output.ok_or_else(refused)?)?;
    Ok((Answer { error: 0, status: ended.into_raw() }, None))
}

fn fulfil(options: &HelperOptions, request: &Request<'_>, file: Option<OwnedFd>) -> Fulfilled {
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
        Request::Own { user, group, mode } => {
            let file = File::from(file.ok_or_else(refused)?);
            let access = rustix::fs::fcntl_getfl(&file)?;
            // Descriptors to read, or with `O_PATH`, are of any file that the job may look at.
            let is_written =
                access.intersects(OFlags::WRONLY | OFlags::RDWR) && !access.contains(OFlags::PATH);
            if !is_written || !file.metadata()?.is_file() {
                return Err(refused());
            }
            if user.is_some() || group.is_some() {
                fchown(&file, user, group)?;
            }
            mode.map_or(Ok(()), |mode| file.set_permissions(Permissions::from_mode(mode & MODE)))
        }
        Request::Open { .. } | Request::Connect { .. } | Request::Run { .. } => Err(refused()),
    }
}
