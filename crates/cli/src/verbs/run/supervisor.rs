//! The supervisor: one thread that starts jobs, processes their events, and ends them.

mod again;
mod log;
mod metrics;

use std::collections::HashSet;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

use super::child::{Child, Start, Style, Told};
use super::journal::Event as Entry;
use super::notify::Notify;
use super::policy::{Missing, Next};
use super::site::{Job, Site};
use super::slot::{STATES, Slot, State, Successor};
use crate::args::RunArgs;
use crate::failure::{FAILED, Failure};
use crate::process::heard::Heard;
use log::Log;
use metrics::{Answering, how_it_ended};

/// Interval between checks for missing ports.
const LOOK: Duration = Duration::from_millis(250);
/// How long a process may take to end after the second request.
const URGED: Duration = Duration::from_secs(5);
/// Maximum time to wait when nothing is due.
const LONG: Duration = Duration::from_secs(3600);

/// An event for the supervisor.
enum Event {
    Signal(i32),
    Of { number: u64, told: Told },
}

/// All jobs of a file.
pub(super) struct Supervisor {
    path: PathBuf,
    style: Style,
    log: Log,
    /// The process that answers at the service's `--metrics`.
    answering: Option<Answering>,
    notify: Notify,
    slots: Vec<Slot>,
    events: Sender<Event>,
    heard: Receiver<Event>,
    /// Number of processes started so far.
    starts: u64,
    is_stopping: bool,
    /// If the service manager waits until all is settled: the word for the log.
    awaits_ready: Option<&'static str>,
}

impl Supervisor {
    /// Installs signal handlers; no job starts yet.
    pub(super) fn new(args: &RunArgs, site: Site) -> Result<Self, Failure> {
        let (events, heard) = mpsc::channel();
        let signals = Heard::new([SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2])?;
        let to = events.clone();
        let listener = thread::Builder::new().name("signals".to_owned()).spawn(move || {
            signals.listen(|signal| {
                // By default SIGUSR2 would end the service.
                if signal != SIGUSR2 {
                    let _ = to.send(Event::Signal(signal)); // fails only when the service ends
                }
            })
        });
        listener.map_err(|error| Failure::new(format!("start the thread `signals`: {error}")))?;
        let (format, answering) = (args.log_format, Answering::bind(args)?);
        let starts = 1;
        let mut log = Log::start(&args.file, format, starts, &events)?;
        if let Some(answering) = &answering {
            let text = answering.words()?;
            log.tell(&Entry { job: None, name: "metrics", text: &text, fields: vec![] });
        }
        Ok(Self {
            path: args.file.clone(),
            style: Style { format, has_metrics: args.metrics.is_some() },
            log,
            answering,
            notify: Notify::from_environment(),
            slots: site.jobs.into_iter().map(Slot::new).collect(),
            events,
            heard,
            starts,
            is_stopping: false,
            awaits_ready: Some("ready"),
        })
    }

    /// Runs until every job is over.
    pub(super) fn run(mut self) -> Result<ExitCode, Failure> {
        let (jobs, pid) = (self.slots.len(), std::process::id());
        let text = format!("{}: {}, process {pid}", self.path.display(), jobs_text(jobs));
        self.tell(None, "starting", &text, vec![("jobs", jobs.into()), ("pid", pid.into())]);
        loop {
            self.keep_log();
            self.start_what_is_due();
            self.urge_what_is_late();
            self.report_state();
            self.answer();
            if self.slots.iter().all(Slot::is_over) {
                break;
            }
            let patience = self.patience();
            match self.heard.recv_timeout(patience) {
                Ok(event) => self.hear(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("it has a sender itself"),
            }
        }
        let is_failed = |slot: &&Slot| matches!(slot.state, State::Over { has_failed: true });
        let failed = self.slots.iter().filter(is_failed).count();
        let text = match failed {
            0 => "every job has ended well".to_owned(),
            _ => format!("{failed} of {} failed", jobs_text(self.slots.len())),
        };
        self.end_answering();
        self.tell(None, "stopped", &text, vec![("failed", failed.into())]);
        self.finish_log();
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
    }

    fn tell(
        &mut self,
        job: Option<&str>,
        name: &'static str,
        text: &str,
        fields: Vec<(&'static str, Value)>,
    ) {
        self.log.tell(&Entry { job, name, text, fields });
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::Signal(SIGHUP) if !self.is_stopping => self.reload(),
            Event::Signal(SIGHUP) => {}
            Event::Signal(SIGUSR1) => {
                let text = status(&self.slots);
                self.tell(None, "status", &text, vec![]);
            }
            Event::Signal(_) if self.is_stopping => {
                self.slots.iter_mut().filter_map(Slot::child).for_each(|child| child.end());
            }
            Event::Signal(_) => self.stop(),
            Event::Of { number, told } => {
                let is_of = |slot: &mut Slot| slot.child().is_some_and(|c| c.number == number);
                match self.slots.iter_mut().position(is_of) {
                    Some(index) => self.hear_of(index, told),
                    None if self.log.is_of(number) => self.hear_of_log(&told),
                    None => self.hear_of_metrics(number, told),
                }
            }
        }
    }

    fn hear_of(&mut self, index: usize, told: Told) {
        let name = self.slots[index].job.name.clone();
        match told {
            Told::Started => {
                if let Some(child) = self.slots[index].child() {
                    child.is_started = true;
                }
                self.tell(Some(&name), "running", "its threads run", vec![]);
            }
            Told::Serving => {
                if let Some(child) = self.slots[index].child() {
                    child.is_serving = true;
                }
            }
            Told::Ended(status) => self.ended(index, &status),
            // Its connection has no such word.
            Told::Broken => {}
        }
    }

    /// Starts each job that is due and whose ports exist.
    fn start_what_is_due(&mut self) {
        let now = Instant::now();
        for index in 0..self.slots.len() {
            if matches!(self.slots[index].state, State::Resting { until } if until <= now) {
                self.slots[index].state = State::Waiting { told: None };
            }
            if !matches!(self.slots[index].state, State::Waiting { .. }) {
                continue;
            }
            let awaited = self.awaited(index);
            let slot = &mut self.slots[index];
            let State::Waiting { told } = &mut slot.state else { continue };
            match awaited {
                None => self.start(index),
                Some(what) if told.as_ref() == Some(&what) => {}
                Some(what) => {
                    *told = Some(what.clone());
                    let name = slot.job.name.clone();
                    let fields = vec![("for", what.as_str().into())];
                    self.tell(Some(&name), "waiting", &format!("waits for {what}"), fields);
                }
            }
        }
    }

    /// Returns what a job waits for, if anything.
    fn awaited(&self, index: usize) -> Option<String> {
        let job = &self.slots[index].job;
        let waits = job.policy.missing == Missing::Wait;
        self.claimed(index).or_else(|| job.awaited(waits))
    }

    /// Returns the wait for a resource that another job's process holds: the end of `job tap`.
    fn claimed(&self, index: usize) -> Option<String> {
        let job = &self.slots[index].job;
        let others = self.slots.iter().enumerate().filter(|(other, _)| *other != index);
        let runs = |slot: &Slot| matches!(slot.state, State::Running(_) | State::Ending { .. });
        let mut having = others.map(|(_, slot)| slot).filter(|slot| runs(slot));
        having.find_map(|slot| {
            let claim = job.common_claim(&slot.job)?;
            Some(format!("the end of job {}, which uses {claim}", slot.job.name))
        })
    }

    fn start(&mut self, index: usize) {
        self.starts += 1;
        let (number, style) = (self.starts, self.style);
        let tell = |number, told| Event::Of { number, told };
        let slot = &mut self.slots[index];
        slot.starts += 1;
        let is_first = slot.starts == 1;
        let start = Start { number, is_first };
        let name = slot.job.name.clone();
        match Child::start(&slot.job, style, start, &self.events, tell) {
            Ok(child) => {
                let pid = child.pid;
                let command = slot.job.command_text(is_first);
                slot.state = State::Running(child);
                let fields = vec![("pid", pid.into()), ("command", command.into())];
                self.tell(Some(&name), "started", &format!("started, process {pid}"), fields);
                if let Some(child) = self.slots[index].child() {
                    self.log.read(child, Some(&name));
                }
            }
            Err(error) => {
                self.tell(Some(&name), "message", &format!("cannot be started: {error}"), vec![]);
                self.go_on(index, false, Duration::ZERO);
            }
        }
    }

    /// Handles the end of a process.
    fn ended(&mut self, index: usize, status: &io::Result<ExitStatus>) {
        let slot = &mut self.slots[index];
        let name = slot.job.name.clone();
        let Some(child) = slot.child() else { return };
        let (number, ran, was_started) = (child.number, child.begun.elapsed(), child.is_started);
        let is_success = status.as_ref().is_ok_and(ExitStatus::success);
        let how = how_it_ended(status);
        let code = status.as_ref().ok().and_then(ExitStatus::code);
        let signal = status.as_ref().ok().and_then(ExitStatus::signal);
        let seconds = ran.as_secs_f64();
        let fields = vec![("code", code.into()), ("ran_s", seconds.into())];
        self.tell(Some(&name), "ended", &format!("ended after {seconds:.1} s: {how}"), fields);
        self.log.has_ended(number);
        let slot = &mut self.slots[index];
        if !matches!(slot.state, State::Ending { .. }) {
            self.go_on(index, is_success, ran);
            return;
        }
        match std::mem::replace(&mut slot.successor, Successor::Nobody) {
            // The process was ended before it handled signals, so before it had done anything.
            Successor::Nobody if !was_started && signal == Some(SIGTERM) => {
                slot.state = State::Over { has_failed: false };
            }
            Successor::Nobody => slot.state = State::Over { has_failed: !is_success },
            Successor::Job(job) => *slot = slot.followed_by(*job),
            Successor::Removed => drop(self.slots.remove(index)),
        }
    }

    /// Applies the policy after a job ended on its own.
    fn go_on(&mut self, index: usize, is_success: bool, ran: Duration) {
        let slot = &mut self.slots[index];
        let name = slot.job.name.clone();
        let next = slot.failures.next(&slot.job.policy, is_success, ran);
        match next {
            Next::After(delay) => {
                slot.state = State::Resting { until: Instant::now() + delay };
                let seconds = delay.as_secs_f64();
                let fields = vec![("after_s", seconds.into())];
                self.tell(Some(&name), "restarting", &format!("restarts in {seconds} s"), fields);
            }
            Next::Rest => slot.state = State::Over { has_failed: !is_success },
            Next::GiveUp => {
                slot.state = State::Over { has_failed: true };
                let limit = slot.job.policy.limit;
                let text = format!("given up after {limit} restarts in a row");
                self.tell(Some(&name), "given_up", &text, vec![("restarts", limit.into())]);
            }
        }
    }

    /// Reads the file again and applies the changes.
    fn reload(&mut self) {
        self.notify.reloading();
        let site = match Site::read(&self.path) {
            Ok(site) => site,
            Err(faults) => {
                let path = self.path.display().to_string();
                for fault in faults {
                    self.tell(None, "fault", &format!("{path}:{fault}"), vec![]);
                }
                let text = "nothing has changed: the file has errors";
                self.tell(None, "reload_failed", text, vec![]);
                if self.awaits_ready.is_none() {
                    self.notify.ready();
                }
                return;
            }
        };
        self.awaits_ready = Some("reloaded");
        let names: HashSet<&str> = site.jobs.iter().map(|job| job.name.as_str()).collect();
        for index in (0..self.slots.len()).rev() {
            if !names.contains(self.slots[index].job.name.as_str()) {
                self.replace(index, Successor::Removed);
            }
        }
        for job in site.jobs {
            match self.slots.iter().position(|slot| slot.job.name == job.name) {
                None => self.slots.push(Slot::new(job)),
                Some(index) => self.change(index, job),
            }
        }
    }

    /// Applies a job's new definition.
    fn change(&mut self, index: usize, job: Job) {
        let slot = &mut self.slots[index];
        let is_same = slot.target().is_some_and(|known| known.runs_as(&job));
        match (&slot.state, is_same) {
            (State::Ending { .. }, _) => slot.successor = Successor::Job(Box::new(job)),
            // A job that had failed gets another chance.
            (State::Over { has_failed: true }, _) => *slot = slot.followed_by(job),
            // Only the policy changed: the process continues, and a pending delay stays.
            (_, true) => slot.job = job,
            (State::Running(_), false) => self.replace(index, Successor::Job(Box::new(job))),
            (_, false) => *slot = Slot::new(job),
        }
    }

    /// Ends a job's process so that its successor can follow.
    fn replace(&mut self, index: usize, successor: Successor) {
        let slot = &mut self.slots[index];
        match slot.child() {
            Some(_) => {
                slot.successor = successor;
                end(slot);
            }
            None => match successor {
                Successor::Removed => drop(self.slots.remove(index)),
                Successor::Job(job) => *slot = Slot::new(*job),
                Successor::Nobody => slot.state = State::Over { has_failed: false },
            },
        }
    }

    /// Ends all jobs.
    fn stop(&mut self) {
        self.is_stopping = true;
        self.awaits_ready = None;
        self.notify.stopping();
        self.tell(None, "stopping", "ending every job", vec![]);
        for slot in &mut self.slots {
            slot.successor = Successor::Nobody;
            match &slot.state {
                State::Over { .. } => {}
                State::Running(_) | State::Ending { .. } => end(slot),
                // It was not running.
                _ => slot.state = State::Over { has_failed: false },
            }
        }
    }

    /// Asks late jobs to end again, then kills them.
    fn urge_what_is_late(&mut self) {
        let now = Instant::now();
        let mut late = Vec::new();
        for slot in &mut self.slots {
            let State::Ending { child, due, was_urged } = &mut slot.state else { continue };
            if now < *due {
                continue;
            }
            match *was_urged {
                false => child.end(),
                true => child.kill(),
            }
            late.push((slot.job.name.clone(), *was_urged));
            (*was_urged, *due) = (true, now + URGED);
        }
        for (name, was_urged) in late {
            let text = match was_urged {
                false => "still running: asked again to end",
                true => "did not end: killed",
            };
            self.tell(Some(&name), "late", text, vec![]);
        }
    }

    /// Reports changes to the service manager.
    fn report_state(&mut self) {
        if self.awaits_ready.is_some() && self.slots.iter().all(Slot::is_settled) {
            self.notify.ready();
            let word = self.awaits_ready.take().unwrap_or_default();
            let text = format!("{word}: {}", status(&self.slots));
            self.tell(None, word, &text, vec![]);
        }
        let text = status(&self.slots);
        self.notify.status(&text);
    }

    /// Returns how long nothing is due.
    fn patience(&mut self) -> Duration {
        let now = Instant::now();
        let mut due = self.notify.live(now).unwrap_or(now + LONG);
        due = due.min(self.log.due().unwrap_or(due));
        due = due.min(self.answering.as_ref().and_then(Answering::due).unwrap_or(due));
        for slot in &self.slots {
            due = due.min(match &slot.state {
                State::Waiting { .. } => now + LOOK,
                State::Ending { due, .. } => *due,
                State::Resting { until } => *until,
                State::Running(_) | State::Over { .. } => now + LONG,
            });
        }
        due.saturating_duration_since(now)
    }
}

/// Asks a job's process to end.
fn end(slot: &mut Slot) {
    let due = Instant::now() + slot.job.policy.stop_timeout;
    let over = State::Over { has_failed: false };
    slot.state = match std::mem::replace(&mut slot.state, over) {
        State::Running(child) => {
            child.end();
            State::Ending { child, due, was_urged: false }
        }
        other => other,
    };
}

/// Formats `3 jobs: 2 running, 1 waiting (tap: log tap)`.
fn status(slots: &[Slot]) -> String {
    let mut parts = Vec::new();
    for (word, is_so) in STATES {
        let names: Vec<_> = slots.iter().filter(|slot| is_so(&slot.state)).collect();
        if !names.is_empty() {
            let all: Vec<&str> = names.iter().map(|slot| slot.job.name.as_str()).collect();
            parts.push(format!("{} {word} ({})", names.len(), all.join(", ")));
        }
    }
    format!("{}: {}", jobs_text(slots.len()), parts.join(", "))
}

fn jobs_text(jobs: usize) -> String {
    if jobs == 1 { "1 job".to_owned() } else { format!("{jobs} jobs") }
}
