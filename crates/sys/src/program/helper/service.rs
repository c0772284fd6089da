//! A helper's process, and its side of the requests.
//!
//! ```text
//!   job ── fork ──► main thread: confines itself, waits for the job's end, and exits
//!                     └─► 3 threads: one request after the other
//! ```

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::process::ExitStatusExt;
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use rustix::io::retry_on_intr;
use rustix::net::sockopt::set_socket_passcred;
use rustix::net::{SendFlags, Shutdown, shutdown};
use rustix::process::{Pid, PidfdFlags, WaitOptions, getpid, getppid, pidfd_open, waitpid};

use super::HelperOptions;
use super::grants::{Grants, MODE, link_to, refused};
use super::ports::{Allowed, Door, Loader, Porter, Shared, set_socket_option};
use super::programs::run;
use super::request::{Answer, Done, REQUEST_BYTES_MAX, Request};
use crate::late::set_directly;
use crate::privileges::{
    Confinement, give_up, give_up_but_files, give_up_but_ports, give_up_but_programs,
    give_up_but_reading, name_confinement,
};
use crate::rights;
use crate::seqpacket::{DESCRIPTORS_MAX, Kind, SeqPacket, connected};

/// Threads of a helper: the next file is opened while others are removed.
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
/// Failed receives in a row after which a thread gives up.
const FAILURES_MAX: u32 = 1000;
/// The longest time that a connection may take.
const CONNECTING: Duration = Duration::from_secs(10);
/// How long a job waits for the end of its helper.
const ENDING: Duration = Duration::from_secs(2);

/// A request as it came.
pub(super) struct Asked<'a> {
    pub(super) request: Request<'a>,
    /// The files that came with it.
    files: Vec<OwnedFd>,
}

impl Asked<'_> {
    /// Takes the first of its files.
    pub(super) fn file(&mut self) -> io::Result<OwnedFd> {
        if self.files.is_empty() { Err(refused()) } else { Ok(self.files.remove(0)) }
    }
}

/// Does what a request asks for.
pub(super) type Work = Box<dyn Fn(Asked<'_>) -> io::Result<Done> + Send + Sync>;

/// A helper's process, as the job has it.
pub(super) struct Process {
    pub(super) socket: SeqPacket,
    process: Pid,
}

impl Process {
    /// Starts the helper for files.
    pub(super) fn for_files(
        options: HelperOptions,
        confine: impl FnOnce() -> io::Result<Confinement>,
    ) -> io::Result<Self> {
        let begin = || {
            assert!(name_confinement(confine()?), "no confinement before the helper's");
            match options.porter {
                Some(_) => give_up_but_ports()?,
                None if options.has_files_of_others => give_up_but_files(options.gives_files)?,
                None if options.reads() => give_up_but_reading(options.gives_files)?,
                None => give_up()?,
            }
            Grants::try_out()?;
            let (porter, loader) = (options.porter, options.loader);
            let allowed = Shared::new(options);
            let ports = Ports { porter, loader, is_served: AtomicBool::new(false) };
            let work = move |asked: Asked<'_>| do_for_files(&allowed, &ports, asked);
            Ok(Box::new(work) as Work)
        };
        Self::fork(begin, || {})
    }

    /// Starts the helper for the user's command.
    pub(super) fn for_commands(options: HelperOptions) -> io::Result<Self> {
        let begin = || {
            let grants = Grants::new(options.grants.clone());
            assert!(name_confinement(Confinement::default()), "no confinement before the helper's");
            give_up_but_programs()?;
            let work = move |asked: Asked<'_>| run_command(&grants, &options, asked);
            Ok(Box::new(work) as Work)
        };
        Self::fork(begin, || {})
    }

    /// Forks a helper that makes its `Work` and confines itself by `begin`. It calls `leave` when
    /// the job has ended.
    pub(super) fn fork(
        begin: impl FnOnce() -> io::Result<Work>,
        leave: impl FnMut() + Send + 'static,
    ) -> io::Result<Self> {
        let [ours, theirs] = SeqPacket::pair()?;
        // Set before the job may send: each request has its sender's process.
        set_socket_passcred(&theirs, true)?;
        let job = getpid();
        // SAFETY: the call copies this thread alone. No other thread holds a lock now (H5), and
        // libc frees its own in the new process, which never returns from here.
        let process = match unsafe { libc::fork() } {
            -1 => return Err(io::Error::last_os_error()),
            0 => serve_job(theirs, job, begin, leave),
            process => Pid::from_raw(process).expect("a new process has a number"),
        };
        drop(theirs);
        let this = Self { socket: ours, process };
        this.wait_until_ready().inspect_err(|_| this.end())?;
        Ok(this)
    }

    fn wait_until_ready(&self) -> io::Result<()> {
        let mut error = 0_i32.to_ne_bytes();
        if self.socket.receive(&mut error, None)?.bytes != error.len() {
            return Err(io::Error::other("it ended before it was ready"));
        }
        match i32::from_ne_bytes(error) {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Ends it and waits for it, for 2 s at most: a file system may hold it up.
    pub(super) fn end(&self) {
        // It fails only if the helper has already ended.
        let _ = shutdown(&self.socket, Shutdown::Both);
        let began = Instant::now();
        let is_running = || {
            let ended = retry_on_intr(|| waitpid(Some(self.process), WaitOptions::NOHANG));
            ended.is_ok_and(|ended| ended.is_none())
        };
        while is_running() && began.elapsed() < ENDING {
            thread::sleep(Duration::from_micros(200));
        }
    }
}

/// Runs a helper until the job ends, and never returns. The job hears 0, or the number of the error
/// that kept the helper from starting.
#[expect(clippy::disallowed_methods, reason = "what the job owns has copies here: they stay")]
fn serve_job(
    socket: SeqPacket,
    job: Pid,
    begin: impl FnOnce() -> io::Result<Work>,
    leave: impl FnMut() + Send + 'static,
) -> ! {
    let (socket, leave) = (Arc::new(socket), Arc::new(Mutex::new(leave)));
    let begun = leave_the_job(&socket, job).and_then(|process| {
        let work = Arc::new(begin()?);
        for _ in 0..THREADS {
            let (socket, work, leave) =
                (Arc::clone(&socket), Arc::clone(&work), Arc::clone(&leave));
            thread::Builder::new().name("helper".to_owned()).spawn(move || {
                serve(&socket, job, &work);
                end(&leave) // without this thread the job would wait for ever
            })?;
        }
        Ok(process)
    });
    let error = begun.as_ref().err().map_or(0, number_of);
    // A job that does not hear of it has to see the end of the socket.
    let is_told = socket.send(&error.to_ne_bytes(), &[]).is_ok();
    if let (Ok(job), true) = (begun, is_told) {
        let ends = [PollFd::new(&job, PollFlags::IN), PollFd::new(&*socket, PollFlags::empty())];
        // A kernel without memory is asked again: the job still needs its helper.
        while poll(&mut ends.clone(), None).is_err() {
            thread::sleep(Duration::from_millis(10));
        }
        end(&leave)
    }
    exit(0) // what the job owns stays: it goes on without a helper
}

/// Ends a helper's process. The first thread calls `leave`, and the others wait for the end.
#[expect(clippy::disallowed_methods, reason = "what the job owns has copies here: they stay")]
fn end(leave: &Mutex<impl FnMut()>) -> ! {
    let mut leave = leave.lock().unwrap_or_else(PoisonError::into_inner);
    leave();
    exit(0)
}

/// Closes all descriptors but the socket: else a pipe of the job would stay open after it. Survives
/// signals to the job's group, because the job asks for its last files after them. Returns the
/// job's process.
fn leave_the_job(socket: &SeqPacket, job: Pid) -> io::Result<OwnedFd> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    for standard in 0..3 {
        // SAFETY: the call takes two numbers. Nothing in this process owns the standard
        // descriptors.
        if unsafe { libc::dup2(null.as_raw_fd(), standard) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    drop(null);
    let kept = socket.as_fd().as_raw_fd() as u32;
    for (first, last) in [(3, kept - 1), (kept + 1, u32::MAX)] {
        // SAFETY: the call takes three numbers and touches no memory. The closed descriptors belong
        // to values of the job. This process has copies of these values, and neither uses nor
        // drops them: `serve_job` does not return.
        if first <= last && unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    extern "C" fn nothing(_: libc::c_int) {}
    let nothing = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    for signal in SIGNALS {
        // SAFETY: the handler does nothing, so it may interrupt any code. It is not SIG_IGN, which
        // a program would inherit.
        unsafe { libc::signal(signal, nothing) };
    }
    let process = pidfd_open(job, PidfdFlags::empty())?;
    // Only then it is certainly the job's.
    if getppid() == Some(job) { Ok(process) } else { Err(io::ErrorKind::NotFound.into()) }
}

/// Answers requests until no thread of the job can ask any more, or receiving fails for good.
fn serve(socket: &SeqPacket, job: Pid, work: &Work) {
    let (mut room, mut failures) = ([0; REQUEST_BYTES_MAX], 0);
    while failures < FAILURES_MAX {
        let mut descriptors = Vec::new();
        let bytes = match receive(socket, job, &mut room, &mut descriptors) {
            Ok(Received::End) => return,
            Ok(Received::Request(bytes)) => bytes,
            Ok(Received::Other) => continue,
            Err(_) => {
                failures += 1;
                continue;
            }
        };
        failures = 0;
        let mut descriptors = descriptors.into_iter();
        let Some(asker) = descriptors.next() else { continue };
        let outcome = match Request::decode(&room[..bytes]) {
            Some(request) => work(Asked { request, files: descriptors.collect() }),
            None => Err(refused()),
        };
        let (error, done) = match outcome {
            Ok(done) => (0, done),
            Err(error) => (number_of(&error), Done::default()),
        };
        let answer = Answer { error, status: done.status }.encode();
        let opened: Vec<BorrowedFd<'_>> = done.opened.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let flags = SendFlags::DONTWAIT; // there is room for one message
        let mut send = || rights::send_with(flags, &asker, &answer, &opened, &mut space);
        // The kernel may lack memory for a moment. If both fail, the thread sees the end of its
        // socket.
        let _ = send().or_else(|_| send());
    }
}

enum Received {
    /// Bytes of a request of the job.
    Request(usize),
    /// A message that was cut, is empty, or that another process sent: the job may have given its
    /// socket away.
    Other,
    /// The job has closed the other end.
    End,
}

fn receive(
    socket: &SeqPacket,
    job: Pid,
    room: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<Received> {
    let mut space =
        [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX), ScmCredentials(1))];
    let message = rights::receive_with_sender(socket, room, &mut space, descriptors)?;
    Ok(match (message.sender, message.received) {
        // An empty message has a sender, too.
        (None, rights::Received { bytes: 0, .. }) => Received::End,
        (Some(sender), rights::Received { bytes, is_cut: false }) if sender == job && bytes > 0 => {
            Received::Request(bytes)
        }
        _ => Received::Other,
    })
}

fn number_of(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EINVAL)
}

fn run_command(grants: &Grants, options: &HelperOptions, mut asked: Asked<'_>) -> io::Result<Done> {
    let Request::Run { path } = asked.request else { return Err(refused()) };
    grants.check_written(path, &options.name_characters)?;
    let ended = run(&options.command, path, asked.file()?)?;
    Ok(Done { status: ended.into_raw(), opened: None })
}

/// What a helper has for ports.
struct Ports {
    porter: Option<Porter>,
    loader: Option<Loader>,
    /// Whether the porter has its listener. It guards no memory.
    is_served: AtomicBool,
}

fn do_for_files(allowed: &Shared, ports: &Ports, mut asked: Asked<'_>) -> io::Result<Done> {
    let now = allowed.now();
    let grants = &now.grants;
    let opened = match asked.request {
        Request::Open { path, flags, mode } => grants.open_file(path, flags, mode)?,
        Request::Find { path, follows_links } => grants.find(path, follows_links)?.into(),
        Request::Connect { path, kind, timeout } => {
            // The job may not choose what it connects to.
            let is_listed = now.has_socket(path);
            let socket = if is_listed { grants.find(path, false)? } else { return Err(refused()) };
            connect(&socket, kind, timeout)?
        }
        Request::Bind { path, kind, mode, user, group } => {
            now.check_name(path)?;
            grants.bind(path, kind, [user, group], mode)?
        }
        Request::RawSocket { family } => now.raw_socket(family)?,
        Request::TapQueue { name, flags } => now.tap_queue(name, flags)?,
        Request::Load { what } => now.load(ports.loader, what, asked.files)?,
        Request::Serve => {
            let porter = ports.porter.ok_or_else(refused)?;
            let (listener, job) = (asked.file()?, asked.file()?);
            // A later listener would be one of the job's own choice.
            if ports.is_served.swap(true, Relaxed) {
                return Err(refused());
            }
            Door::serve(porter, listener, job, allowed)?;
            return Ok(Done::default());
        }
        _ => return change(&now, asked).map(|()| Done::default()),
    };
    Ok(Done { status: 0, opened: Some(opened) })
}

fn change(now: &Allowed, mut asked: Asked<'_>) -> io::Result<()> {
    let grants = &now.grants;
    match asked.request {
        Request::Remove { path } => grants.remove(path),
        Request::Rename { from, to } => grants.rename(from, to),
        Request::MakeFolder { path, mode } => grants.make_folder(path, mode),
        Request::SetOwnerAndMode { user, group, mode } => {
            set_owner_and_mode(asked.file()?, [user, group], mode)
        }
        Request::SetInterface { name, setting, value } => now.set_interface(name, setting, value),
        Request::SetOption { name, value } => set_socket_option(&asked.file()?, name, value),
        _ => Err(refused()),
    }
}

/// Connects to the socket that was found: its path may lead elsewhere by now.
fn connect(socket: &File, kind: Kind, timeout: Option<Duration>) -> io::Result<OwnedFd> {
    if !socket.metadata()?.file_type().is_socket() {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    let timeout = timeout.map(|timeout| timeout.min(CONNECTING));
    connected(&link_to(socket), kind, timeout)
}

fn set_owner_and_mode(
    file: OwnedFd,
    owners: [Option<u32>; 2],
    mode: Option<u32>,
) -> io::Result<()> {
    let file = File::from(file);
    let flags = rustix::fs::fcntl_getfl(&file)?;
    let access = flags.intersection(OFlags::RWMODE);
    // Descriptors to read, with `O_PATH` or of access mode 3 are of any file.
    let is_written = [OFlags::WRONLY, OFlags::RDWR].contains(&access);
    match is_written && !flags.contains(OFlags::PATH) && file.metadata()?.is_file() {
        true => set_directly(&file, owners, mode.map(|mode| mode & MODE)),
        false => Err(refused()),
    }
}
