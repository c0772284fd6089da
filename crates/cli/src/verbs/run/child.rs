//! One job as a process: its start, what it says, its end.
//!
//! Three threads per job read its output, its errors and its line; each sends events to the
//! supervisor. The thread that reads the line also waits for the process. So the process is reaped
//! once, after its last line or a second later.
//!
//! The supervisor never waits for these threads. They wait for it: a reader goes on once there is
//! [`Room`] for its next line, so a job that prints without end waits at its own pipe.

use std::env;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
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
use crate::supervised::{SERVING, STARTED};

/// This program; by this name also where its file was replaced since.
const PROGRAM: &str = "/proc/self/exe";

/// Its own path, by which tools show its name, as long as it is there.
fn program() -> PathBuf {
    let path = env::current_exe().ok().filter(|path| path.is_file());
    path.unwrap_or_else(|| PROGRAM.into())
}

/// A longer line is several.
const LINE_BYTES_MAX: u64 = 4 << 20;
/// Bytes of one pipe's lines that may wait for the supervisor; more than the pipe itself holds.
const WAITING_BYTES: usize = 1 << 20;
/// How long the last lines of a process are waited for that has left its output to others.
const LAST_LINES: Duration = Duration::from_secs(1);

/// How the service has its jobs speak.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub(super) format: LogFormat,
    pub(super) has_metrics: bool,
}

/// Which start of a process it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    /// Of all the service's, from 1.
    pub(super) number: u64,
    /// Whether it is the job's first one, as it is defined now.
    pub(super) is_first: bool,
}

/// A pipe of a process, and what its lines are.
type Stream = (Option<Box<dyn Read + Send>>, fn(Line) -> Told);

/// What the supervisor learns about a process.
#[derive(Debug)]
pub(super) enum Told {
    /// A line of its output: statistics, or its report.
    Output(Line),
    /// A line of its errors.
    Message(Line),
    /// It answers at the socket that it was given.
    Serving,
    /// Its threads run.
    Started,
    /// It has ended.
    Ended(io::Result<ExitStatus>),
}

/// A process that runs, or has ended and that was not yet told.
pub(super) struct Child {
    process: Process,
    pub(super) pid: u32,
    pub(super) begun: Instant,
    /// Whether its threads run.
    pub(super) is_started: bool,
    /// Whether it answers at the socket that it was given.
    pub(super) is_serving: bool,
    /// That socket, if the service has metrics. Kept, so that nobody else gets its address.
    given: Option<TcpListener>,
    /// Which start of a process the events belong to.
    pub(super) number: u64,
}

impl Child {
    /// Starts a job; with a socket to answer at, if the service has metrics. `tell` gets what
    /// happens to it.
    pub(super) fn start<T: Send + 'static>(
        job: &Job,
        style: Style,
        start: Start,
        events: &Sender<T>,
        tell: fn(u64, Told) -> T,
    ) -> io::Result<Self> {
        let Start { number, is_first } = start;
        let words = job.words_of(is_first);
        let (line, others) = UnixStream::pair()?;
        let given = style.has_metrics.then(|| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        let given = given.transpose()?;
        rights::send_one(&line, given.as_ref().map(TcpListener::as_fd))?;
        let mut command = Command::new(program());
        command.arg0("burstline").args(&words[..1]).arg(format!("--{SUPERVISED}"));
        command.args((style.format == LogFormat::Json).then_some("--json"));
        command.args(&words[1..]);
        // A key pressed at a terminal is for the service.
        command.process_group(0).stdin(OwnedFd::from(others));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        for variable in notify::VARIABLES {
            command.env_remove(variable);
        }
        let mut child = command.spawn()?;
        // The command holds the other end of the line.
        drop(command);
        let pid = child.id();
        let watched = Process::of(&child).and_then(|process| {
            let waiter = hear(&mut child, line, &job.name, number, events, tell)?;
            Ok((process, waiter))
        });
        let (process, waiter) = match watched {
            Ok(watched) => watched,
            // Nobody could end it later, or would hear of its end.
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(error);
            }
        };
        // It is there, and takes it.
        let _ = waiter.send(child);
        let (begun, is_started, is_serving) = (Instant::now(), false, false);
        Ok(Self { process, pid, begun, is_started, is_serving, given, number })
    }

    /// Where it answers, if it does: an address that the service gave out itself.
    pub(super) fn metrics(&self) -> Option<SocketAddr> {
        let given = self.given.as_ref().filter(|_| self.is_serving)?;
        given.local_addr().ok()
    }

    /// Has it end by itself, with its report; asked again after a second, without.
    pub(super) fn end(&self) {
        // One that has ended already is on its way here.
        let _ = self.process.ask(Request::End);
    }

    /// Ends it.
    pub(super) fn kill(&self) {
        let _ = self.process.ask(Request::Kill);
    }
}

/// Starts the threads that hear of a process: its output, its errors, its line, its end. The last
/// one waits for the process once it is handed over.
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
                // A job says nothing else; what somebody else says is not understood.
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

/// Waits for a process, and then until both readers have ended.
fn wait(mut child: ChildProcess, all_read: &mpsc::Receiver<()>) -> io::Result<ExitStatus> {
    let status = child.wait();
    // Disconnected where they have.
    let _ = all_read.recv_timeout(LAST_LINES);
    status
}

/// Reads lines, each as soon as there is room for it.
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
        // Empty lines take room, too: less than 10,000 have it.
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
