//! The process that writes the log: its start, its next one, and its end.
//!
//! It starts before the first job, and the service ends if it cannot start then. Later the service
//! goes on without it, and starts another. Its standard output and standard error are the
//! service's.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use burstline_sys::seqpacket::SeqPacket;
use serde_json::Value;

use super::super::child::{Child, Launch, Told};
use super::super::journal::{Event as Entry, Journal, PATIENCE};
use super::again::Again;
use super::metrics::{LAST, how_it_ended};
use super::{Event, Supervisor};
use crate::args::LogFormat;
use crate::failure::Failure;

/// The log, and the process that writes it.
pub(super) struct Log {
    file: PathBuf,
    format: LogFormat,
    journal: Journal,
    child: Option<Child>,
    again: Again,
}

impl Log {
    /// Starts the process.
    pub(super) fn start(
        file: &Path,
        format: LogFormat,
        number: u64,
        events: &Sender<Event>,
    ) -> Result<Self, Failure> {
        let failed =
            |error| Failure::new(format!("start the process that writes the log: {error}"));
        let journal = Journal::start(format).map_err(failed)?;
        let (file, child, again) = (file.to_owned(), None, Again::new());
        let mut log = Self { file, format, journal, child, again };
        log.begin(number, events).map_err(failed)?;
        Ok(log)
    }

    fn begin(&mut self, number: u64, events: &Sender<Event>) -> io::Result<u32> {
        let [here, there] = SeqPacket::pair()?;
        let format = match self.format {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        };
        let file = self.file.to_string_lossy().into_owned();
        let words = ["run", "--journal", "--log-format", format, "--", &file];
        let launch = Launch {
            words: words.map(str::to_owned).into(),
            name: "journal",
            given: Some(there.as_fd()),
            output: Stdio::inherit(),
            errors: Stdio::inherit(),
            number,
        };
        let tell = |number, told| Event::Of { number, told };
        let mut child = Child::launch(launch, events, tell)?;
        // It has no pipes, so its end waits for nobody.
        child.printed = None;
        if let Err(error) = self.journal.begin(here, number, events, tell) {
            child.kill();
            return Err(error);
        }
        let pid = child.pid;
        self.child = Some(child);
        Ok(pid)
    }

    /// Returns when there is something to do, if ever.
    pub(super) fn due(&self) -> Option<Instant> {
        self.child.is_none().then_some(self.again.due())
    }

    pub(super) fn tell(&mut self, event: &Entry<'_>) {
        self.journal.tell(event);
    }

    /// Has what a process prints logged: see [`Journal::read`].
    pub(super) fn read(&self, child: &mut Child, job: Option<&str>) {
        if let Some(printed) = child.printed.take() {
            self.journal.read(printed, job);
        }
    }

    /// Notes the end of a process that prints.
    pub(super) fn has_ended(&self, number: u64) {
        self.journal.has_ended(number);
    }

    pub(super) fn is_of(&self, number: u64) -> bool {
        self.child.as_ref().is_some_and(|child| child.number == number)
    }
}

impl Supervisor {
    /// Starts the process again if it is due.
    pub(super) fn keep_log(&mut self) {
        if self.log.due().is_none_or(|due| Instant::now() < due) {
            return;
        }
        self.starts += 1;
        match self.log.begin(self.starts, &self.events) {
            Ok(pid) => {
                let text = format!("process {pid} writes this log");
                self.tell(None, "journal_started", &text, vec![("pid", pid.into())]);
            }
            Err(error) => {
                let delay = self.log.again.rest(Duration::ZERO).as_secs_f64();
                let text = format!(
                    "the process that writes this log cannot be started: {error}; again in {delay} \
                     s"
                );
                self.tell(None, "journal_ended", &text, vec![("after_s", delay.into())]);
            }
        }
    }

    /// Handles an event of the process that writes the log.
    pub(super) fn hear_of_log(&mut self, told: &Told) {
        let Some(child) = &self.log.child else { return };
        match told {
            Told::Broken => child.kill(),
            Told::Ended(status) => {
                let (ran, number) = (child.begun.elapsed(), child.number);
                self.log.child = None;
                self.log.journal.lose(number);
                let delay = self.log.again.rest(ran).as_secs_f64();
                let (how, ran) = (how_it_ended(status), ran.as_secs_f64());
                let text = format!(
                    "the process that writes this log ended after {ran:.1} s: {how}; lines may be \
                     missing; another starts in {delay} s"
                );
                let code = status.as_ref().ok().and_then(|status| status.code());
                let fields: Vec<(_, Value)> =
                    vec![("code", code.into()), ("ran_s", ran.into()), ("after_s", delay.into())];
                self.tell(None, "journal_ended", &text, fields);
            }
            // It says nothing else.
            Told::Serving | Told::Started => {}
        }
    }

    /// Ends the log after writing its lines, as far as the reader accepts them in time.
    pub(super) fn finish_log(&mut self) {
        if self.log.child.is_none() {
            self.starts += 1;
            let _ = self.log.begin(self.starts, &self.events); // nobody is left to hear of it
        }
        self.log.journal.finish();
        let Some(child) = self.log.child.take() else { return };
        // It waits for the reader itself.
        if !self.hears_end(child.number, PATIENCE + LAST) {
            child.kill();
            self.hears_end(child.number, LAST);
        }
    }

    /// Waits for the end of a process of the service itself, but not longer than this.
    pub(super) fn hears_end(&mut self, number: u64, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.heard.recv_timeout(left) {
                Ok(Event::Of { number: of, told: Told::Ended(_) }) if of == number => return true,
                Ok(Event::Of { number, told: told @ Told::Ended(_) }) if self.log.is_of(number) => {
                    self.hear_of_log(&told);
                }
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }
}
