//! A process of the service: its start, its output and its end. It runs a job, or answers for the
//! service.
//!
//! A thread per process reads its connection and waits for it; it sends events to the supervisor.
//! What the process prints is read elsewhere: see [`journal`](super::journal). Its end is an event
//! after its last line has been read, or a second later.
//!
//! Of a connection at most [`WORDS_MOST`] words of a fixed length are read, and compared. So no job
//! gives the service anything to parse, or more events than it has room for.

use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child as ChildProcess, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use burstline_sys::process::{Process, Request};
use burstline_sys::rights;

use super::journal::Pipes;
use super::notify;
use super::site::Job;
use crate::args::{LogFormat, SUPERVISED};
use crate::paths::own_program;
use crate::supervised::{SERVING, STARTED};

/// A job says each word once.
const WORDS_MOST: usize = 2;
/// The bytes of a word, and of the end of its line.
const WORD_BYTES: usize = STARTED.len() + 1;
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
    /// Its standard output, and its standard error.
    pub(super) output: Stdio,
    pub(super) errors: Stdio,
    /// Number among all starts of the service, from 1.
    pub(super) number: u64,
}

/// What a process prints, until somebody reads it.
pub(super) struct Printed {
    /// The start that it belongs to.
    pub(super) number: u64,
    pub(super) pipes: Pipes,
    /// Dropped when the pipes have ended: the end of the process waits for that, but not long.
    pub(super) is_read: Sender<()>,
}

/// An event of a process.
#[derive(Debug)]
pub(super) enum Told {
    /// The job answers on its listener.
    Serving,
    /// The job's threads run.
    Started,
    /// The process that writes the log can be heard no longer.
    Broken,
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
    /// What it prints, until that is given to the journal.
    pub(super) printed: Option<Printed>,
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
            errors: Stdio::piped(),
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
        let Launch { words, name, given, output, errors, number } = launch;
        let (line, others) = UnixStream::pair()?;
        rights::send_one(&line, given)?;
        let mut command = Command::new(own_program());
        command.arg0("burstline").args(words);
        // Keys pressed at a terminal are for the service only.
        command.process_group(0).stdin(OwnedFd::from(others));
        command.stdout(output).stderr(errors);
        for variable in notify::VARIABLES {
            command.env_remove(variable);
        }
        let mut child = command.spawn()?;
        // Close our copy of the other end of the connection.
        drop(command);
        let pid = child.id();
        let output = child.stdout.take().map(OwnedFd::from);
        let errors = child.stderr.take().map(OwnedFd::from);
        let pipes: Pipes = output.into_iter().chain(errors).collect();
        let (is_read, all_read) = mpsc::channel();
        let watched = Process::of(&child).and_then(|process| {
            let waiter = hear(line, all_read, name, number, events, tell)?;
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
        let printed = Some(Printed { number, pipes, is_read });
        let (begun, is_started, is_serving, given) = (Instant::now(), false, false, None);
        Ok(Self { process, pid, begun, is_started, is_serving, given, printed, number })
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

/// Starts the thread that reads a process's connection. It waits for the process once it is handed
/// over.
fn hear<T: Send + 'static>(
    mut line: UnixStream,
    all_read: Receiver<()>,
    job: &str,
    number: u64,
    events: &Sender<T>,
    tell: fn(u64, Told) -> T,
) -> io::Result<Sender<ChildProcess>> {
    let events = events.clone();
    // This fails only when the service ends.
    let send = move |told| drop(events.send(tell(number, told)));
    let (hand_over, handed) = mpsc::channel();
    thread::Builder::new().name(format!("wait {job}")).spawn(move || {
        hear_words(&mut line, &send);
        if let Ok(child) = handed.recv() {
            let ended = wait(child, &all_read);
            send(Told::Ended(ended));
        }
        // The process sees the end of the service by it.
        drop(line);
    })?;
    Ok(hand_over)
}

/// Reads the words of a job, and nothing after anything else.
fn hear_words(line: &mut impl Read, send: impl Fn(Told)) {
    let mut word = [0; WORD_BYTES];
    for _ in 0..WORDS_MOST {
        if line.read_exact(&mut word).is_err() {
            return;
        }
        match word.strip_suffix(b"\n") {
            Some(said) if said == SERVING.as_bytes() => send(Told::Serving),
            Some(said) if said == STARTED.as_bytes() => send(Told::Started),
            _ => return,
        }
    }
}

/// Waits for a process, then until its last line has been read.
fn wait(mut child: ChildProcess, all_read: &Receiver<()>) -> io::Result<ExitStatus> {
    let status = child.wait();
    // Disconnects when the pipes have ended.
    let _ = all_read.recv_timeout(LAST_LINES);
    status
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn two_words_of_a_job_are_heard_and_nothing_else_is_read() {
        assert_eq!(SERVING.len(), STARTED.len());
        let heard = |said: &str| {
            let (told, mut rest) = (RefCell::new(Vec::new()), said.as_bytes());
            hear_words(&mut rest, |word| told.borrow_mut().push(format!("{word:?}")));
            (told.into_inner().join(" "), rest.len())
        };
        assert_eq!(heard("started\n"), ("Started".to_owned(), 0));
        assert_eq!(heard("serving\nstarted\n"), ("Serving Started".to_owned(), 0));
        let endless = "started\n".repeat(1000);
        assert_eq!(heard(&endless), ("Started Started".to_owned(), 998 * WORD_BYTES));
        let other = "x".repeat(1000);
        assert_eq!(heard(&other), (String::new(), 1000 - WORD_BYTES));
    }
}
