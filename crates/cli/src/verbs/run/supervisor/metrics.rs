//! The process that answers for the service: its start, and its next one.
//!
//! ```text
//!   supervisor ──starts──► burstline run --answers: user nobody, no rights
//!       │ keeps                 │ answers at
//!       └──────► listener ◄─────┘
//! ```
//!
//! Others may end that process: any process of its user can. So the service keeps the socket where
//! scrapers connect, and starts another process, which takes the waiting connections. Jobs notice
//! nothing.

use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use burstline_sys::seqpacket::SeqPacket;

use super::super::board::{self, Board};
use super::super::child::{Child, Launch, Told};
use super::again::Again;
use super::{Event, Supervisor};
use crate::args::RunArgs;
use crate::failure::Failure;
use crate::serving::{Server, listen};

/// How long to wait for the end of a process that was killed.
pub(super) const LAST: Duration = Duration::from_secs(1);

/// The process, and what stays when it ends.
pub(super) struct Answering {
    file: PathBuf,
    listener: TcpListener,
    board: Board,
    child: Option<Child>,
    again: Again,
}

impl Answering {
    /// Opens the address of `--metrics`, if there is one.
    pub(super) fn bind(args: &RunArgs) -> Result<Option<Self>, Failure> {
        let Some(address) = args.metrics else { return Ok(None) };
        let (file, listener) = (args.file.clone(), listen("--metrics", address)?);
        let (board, child, again) = (Board::default(), None, Again::new());
        Ok(Some(Self { file, listener, board, child, again }))
    }

    /// Returns the line that announces its address.
    pub(super) fn words(&self) -> io::Result<String> {
        Ok(Server::of_metrics(self.listener.try_clone()?).words().join(", "))
    }

    /// Returns when there is something to do, if ever.
    pub(super) fn due(&self) -> Option<Instant> {
        self.child.is_none().then_some(self.again.due())
    }

    fn start(&mut self, number: u64, events: &Sender<Event>) -> io::Result<u32> {
        let [here, there] = SeqPacket::pair()?;
        board::begin(&here, &self.listener)?;
        let file = self.file.to_string_lossy().into_owned();
        let launch = Launch {
            words: ["run", "--answers", "--", &file].map(str::to_owned).into(),
            name: "metrics",
            given: Some(there.as_fd()),
            output: Stdio::null(),
            errors: Stdio::piped(),
            number,
        };
        let tell = |number, told| Event::Of { number, told };
        let child = Child::launch(launch, events, tell)?;
        let board = self.board.clone();
        // It ends with the process. If it does not start, the process sees its end, and ends.
        thread::Builder::new().name("tell metrics".to_owned()).spawn(move || {
            let _ = board.answer(&here);
        })?;
        let pid = child.pid;
        self.child = Some(child);
        Ok(pid)
    }

    /// Notes an end after this time, and returns the delay before the next start.
    fn rest(&mut self, ran: Duration) -> Duration {
        self.child = None;
        self.again.rest(ran)
    }
}

impl Supervisor {
    /// Shows the state of all jobs, and starts the process if it is due.
    pub(super) fn answer(&mut self) {
        let Some(answering) = &mut self.answering else { return };
        answering.board.put(self.slots.iter().map(super::Slot::now).collect());
        if answering.due().is_none_or(|due| Instant::now() < due) {
            return;
        }
        self.starts += 1;
        match answering.start(self.starts, &self.events) {
            Ok(pid) => {
                let text = format!("process {pid} answers, without rights");
                self.tell(None, "metrics_started", &text, vec![("pid", pid.into())]);
                let answering = self.answering.as_mut();
                if let Some(child) = answering.and_then(|answering| answering.child.as_mut()) {
                    self.log.read(child, None);
                }
            }
            Err(error) => {
                let delay = answering.rest(Duration::ZERO).as_secs_f64();
                let text = format!("cannot be started: {error}; again in {delay} s");
                self.tell(None, "metrics_ended", &text, vec![("after_s", delay.into())]);
            }
        }
    }

    /// Handles an event that is not of a job.
    pub(super) fn hear_of_metrics(&mut self, number: u64, told: Told) {
        let Some(answering) = &mut self.answering else { return };
        let Some(child) = answering.child.as_ref().filter(|child| child.number == number) else {
            return;
        };
        match told {
            Told::Ended(status) => {
                let ran = child.begun.elapsed();
                let delay = answering.rest(ran).as_secs_f64();
                let (how, ran) = (how_it_ended(&status), ran.as_secs_f64());
                let text = format!(
                    "the process that answers ended after {ran:.1} s: {how}; another starts in \
                     {delay} s"
                );
                let code = status.ok().and_then(|status| status.code());
                let fields =
                    vec![("code", code.into()), ("ran_s", ran.into()), ("after_s", delay.into())];
                self.tell(None, "metrics_ended", &text, fields);
                self.log.has_ended(number);
            }
            // It says nothing else.
            Told::Broken | Told::Serving | Told::Started => {}
        }
    }

    /// Ends the process, and waits for it a moment: where no process collects orphans, it would
    /// stay as a dead one.
    pub(super) fn end_answering(&mut self) {
        let Some(child) = self.answering.take().and_then(|answering| answering.child) else {
            return;
        };
        child.kill();
        self.hears_end(child.number, LAST);
    }
}

/// Describes the end of a process.
pub(super) fn how_it_ended(status: &io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    }
}
