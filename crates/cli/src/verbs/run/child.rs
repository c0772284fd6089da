//! A process of the service: its start, its output and its end. It runs a job, or answers for the
//! service.
//!
//! Three threads per job read its output, its errors and its connection; each sends events to the
//! supervisor. The thread that reads the connection also waits for the process. So the process is
//! reaped once, after its last line or a second later.
//!
//! The supervisor never waits for these threads, but they wait for it. A reader continues only when
//! there is [`Room`] for its next line, so a job that prints without end blocks on its own pipe.

use std::io::{self, BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child as ChildProcess, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use burstline_sys::process::{Process, Request};
use burstline_sys::rights;

use super::notify;
use super::room::{Line, Room};
use super::site::Job;
use crate::args::{LogFormat, SUPERVISED};
use crate::paths::own_program;
use crate::supervised::{SERVING, STARTED};

/// A longer line is split.
const LINE_BYTES_MAX: u64 = 4 << 20;
/// Maximum bytes of a pipe's lines that wait for the supervisor; more than the pipe itself holds.
const WAITING_BYTES: usize = 1 << 20;
/// How long to wait for the last lines of a process whose output is still open in others.
const LAST_LINES: Duration = Duration::from_secs(1);

/// How the jobs write their messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub(super) format: LogFormat,
    pub(super) has_metrics: bool,
}

/// One start of a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    /// Number among all starts of the service, from 1.
    pub(super) number: u64,
    /// Whether it is the first start of the job's current definition.
    pub(super) is_first: bool,
}

/// How a process of this program is started.
pub(super) struct Launch<'a> {
    /// Its arguments.
    pub(super) words: Vec<String>,
    /// What its threads here are called.
    pub(super) name: &'a str,
    /// The socket that it gets: see [`supervised`](crate::supervised).
    pub(super) given: Option<BorrowedFd<'a>>,
    /// Its standard output.
    pub(super) output: Stdio,
    /// Number among all starts of the service, from 1.
    pub(super) number: u64,
}

/// A pipe of a process, and the event for its lines.
type Stream = (Option<Box<dyn Read + Send>>, fn(Line) -> Told);

/// An event of a process.
#[derive(Debug)]
pub(super) enum Told {
    /// A line of its output: statistics, or its report.
    Output(Line),
    /// A line of its standard error.
    Message(Line),
    /// The job answers on its listener.
    Serving,
    /// The job's threads run.
    Started,
    /// The process has ended.
    Ended(io::Result<ExitStatus>),
}

/// A process that runs, or whose end has not been reported yet.
pub(super) struct Child {
    process: Process,
    pub(super) pid: u32,
    pub(super) begun: Instant,
    /// Whether the job's threads run.
    pub(super) is_started: bool,
    /// Whether the job answers on its listener.
    pub(super) is_serving: bool,
    /// The job's listener, if the service has metrics. Kept open to reserve its address.
    given: Option<TcpListener>,
    /// The start that the process's events belong to.
    pub(super) number: u64,
}

impl Child {
    /// Starts a job, with a listener if the service has metrics. `tell` receives its events.
    pub(super) fn start<T: Send + 'static>(
        job: &Job,
        style: Style,
        start: Start,
        events: &Sender<T>,
        tell: fn(u64, Told) -> T,
    ) -> io::Result<Self> {
        let mut words = job.words_of(start.is_first);
        let flags = (style.format == LogFormat::Json).then(|| "--json".to_owned());
        words.splice(1..1, [format!("--{SUPERVISED}")].into_iter().chain(flags));
        let given = style.has_metrics.then(|| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        let given = given.transpose()?;
        let launch = Launch {
            words,
            name: &job.name,
            given: given.as_ref().map(TcpListener::as_fd),
            output: Stdio::piped(),
            number: start.number,
        };
        let child = Self::launch(launch, events, tell)?;
        Ok(Self { given, ..child })
    }

    /// Starts a process of this program. `tell` receives its events.
    pub(super) fn launch<T: Send + 'static>(
        launch: Launch<'_>,
        events: &Sender<T>,
        tell: fn(u64, Told) -> T,
    ) -> io::Result<Self> {
        let Launch { words, name, given, output, number } = launch;
        let (line, others) = UnixStream::pair()?;
        rights::send_one(&line, given)?;
        let mut command = Command::new(own_program());
        command.arg0("burstline").args(words);
        // Keys pressed at a terminal are for the service only.
        command.process_group(0).stdin(OwnedFd::from(others));
        command.stdout(output).stderr(Stdio::piped());
        for variable in notify::VARIABLES {
            command.env_remove(variable);
        }
        let mut child = command.spawn()?;
        // Close our copy of the other end of the connection.
        drop(command);
        let pid = child.id();
        let watched = Process::of(&child).and_then(|process| {
            let waiter = hear(&mut child, line, name, number, events, tell)?;
            Ok((process, waiter))
        });
        let (process, waiter) = match watched {
            Ok(watched) => watched,
            // Without it the process could not be ended, nor its end be noticed.
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(error);
            }
        };
        // The thread waits for this and takes it.
        let _ = waiter.send(child);
        let (begun, is_started, is_serving, given) = (Instant::now(), false, false, None);
        Ok(Self { process, pid, begun, is_started, is_serving, given, number })
    }

    /// Returns the address where the job answers, if it does. The service created its listener.
    pub(super) fn metrics(&self) -> Option<SocketAddr> {
        let given = self.given.as_ref().filter(|_| self.is_serving)?;
        given.local_addr().ok()
    }

    /// Asks the process to end with a report, or without if asked again after a second.
    pub(super) fn end(&self) {
        // A process that has already ended reports that itself.
        let _ = self.process.ask(Request::End);
    }

    pub(super) fn kill(&self) {
        let _ = self.process.ask(Request::Kill);
    }
}

/// Starts the threads that read a process's output, errors and connection. The last one waits for
/// the process once it is handed over.
fn hear<T: Send + 'static>(
    child: &mut ChildProcess,
    line: UnixStream,
    job: &str,
    number: u64,
    events: &Sender<T>,
    tell: fn(u64, Told) -> T,
) -> io::Result<Sender<ChildProcess>> {
    let (is_read, all_read) = mpsc::channel::<()>();
    let send = move |events: &Sender<T>, told| drop(events.send(tell(number, told)));
    let streams: [Stream; 2] = [
        (child.stdout.take().map(|pipe| Box::new(pipe) as _), Told::Output),
        (child.stderr.take().map(|pipe| Box::new(pipe) as _), Told::Message),
    ];
    for (pipe, told) in streams {
        let (Some(pipe), events, is_read) = (pipe, events.clone(), is_read.clone()) else {
            continue;
        };
        thread::Builder::new().name(format!("read {}", job)).spawn(move || {
            read_lines(pipe, |line| send(&events, told(line)));
            drop(is_read);
        })?;
    }
    drop(is_read);
    let events = events.clone();
    let (hand_over, handed) = mpsc::channel();
    thread::Builder::new().name(format!("wait {}", job)).spawn(move || {
        for_each_line(line, |line| {
            match line.as_str() {
                SERVING => send(&events, Told::Serving),
                STARTED => send(&events, Told::Started),
                // A job sends nothing else; ignore lines from anyone else.
                _ => {}
            }
        });
        if let Ok(child) = handed.recv() {
            let ended = wait(child, &all_read);
            send(&events, Told::Ended(ended));
        }
    })?;
    Ok(hand_over)
}

/// Waits for a process, then until both readers have ended.
fn wait(mut child: ChildProcess, all_read: &mpsc::Receiver<()>) -> io::Result<ExitStatus> {
    let status = child.wait();
    // Disconnects when both have ended.
    let _ = all_read.recv_timeout(LAST_LINES);
    status
}

/// Reads lines; each waits until there is room for it.
fn read_lines(pipe: impl Read, mut tell: impl FnMut(Line)) {
    let room = Room::new(WAITING_BYTES);
    for_each_line(pipe, |text| tell(room.wait_for(text)));
}

fn for_each_line(pipe: impl Read, mut tell: impl FnMut(String)) {
    let mut lines = BufReader::new(pipe);
    let mut line = Vec::new();
    loop {
        line.clear();
        match lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(_) => tell(String::from_utf8_lossy(line.trim_ascii_end()).into_owned()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn a_job_that_prints_without_end_waits_for_the_supervisor() {
        // Empty lines take room, too: fewer than 10,000 fit.
        let (lines, most) = (100_000, 10_000);
        let told = Arc::new(AtomicUsize::new(0));
        let (events, heard) = mpsc::channel();
        let reader = thread::spawn({
            let told = Arc::clone(&told);
            move || {
                read_lines(io::repeat(b'\n').take(lines as u64), |line| {
                    told.fetch_add(1, Relaxed); // only a count, here and below
                    events.send(line).unwrap();
                });
            }
        });
        while told.load(Relaxed) == 0 {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(100));
        let mut taken = 0;
        for line in heard {
            let waiting = told.load(Relaxed) - taken;
            assert!(waiting <= most, "{waiting} lines wait");
            assert_eq!(line.text(), "");
            taken += 1;
        }
        reader.join().unwrap();
        assert_eq!(taken, lines);
    }
}
