//! A program that receives what is injected.

use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::{Duration, Instant};
use std::{fs, thread};

use burstline_sys::usage::{self, CpuUsage};
use burstline_testbed::{Program, signal};

use super::Road;
use crate::pages::{PAGES_OF_A_START, Reservation};
use crate::programs::{self, FILE, Launch, Memory, READY_WITHIN};
use crate::record::Pages;

/// From when a contender is ready until its threads are at work.
const WARM_UP: Duration = Duration::from_millis(200);

/// Within this time every contender has ended after SIGINT, or it does not want to.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// Has a command, and all that it starts, in its own process namespace. See [`with_all`].
const WITH_ALL: &str = "unshare --pid --fork --kill-child timeout -s INT 3600";

/// How often it is looked whether it is ready.
const LOOK_AT_START: Duration = Duration::from_millis(10);

/// A running contender. Dropping it kills it.
pub struct Contender<'a> {
    /// It runs on the road's hosts.
    road: PhantomData<&'a Road>,
    command: String,
    program: Program,
    output: PathBuf,
    before: CpuUsage,
    settles_in: Duration,
}

/// A command for [`Contender::start`] whose program starts others. They get the signal that ends
/// it, by timeout(1). Whatever happens to it or to this process, the kernel kills them with the
/// first process of their namespace, which dies with its parent. Source: pid_namespaces(7), "The
/// namespace init process"; unshare(1), `--kill-child`.
pub fn with_all(command: &str) -> String {
    format!("{WITH_ALL} {command}")
}

impl<'a> Contender<'a> {
    /// Starts a program on the far host, on the cores of `cores`, with huge pages where available.
    /// Returns when it is [ready](crate::programs::Ready).
    ///
    /// # Errors
    /// It does not get so far: with what is not so yet, and what it has printed.
    pub fn start(
        road: &'a Road,
        cores: &str,
        launch: &dyn Launch,
        stop: &AtomicBool,
    ) -> Result<Self, String> {
        static OUTPUTS: AtomicU32 = AtomicU32::new(0);
        let (_pages, host) = (Reservation::take(PAGES_OF_A_START), road.host());
        let number = OUTPUTS.fetch_add(1, Relaxed); // only to differ
        let output = road.file(&format!("output-{number}"));
        let command = launch.command(Memory::now()).replace(FILE, &road.data_file());
        // Who gives up root's number loses the signal for its parent's end (prctl(2),
        // PR_SET_PDEATHSIG). Elsewhere its interface is gone by then, which ends it.
        let command = if road.stays() { with_all(&command) } else { command };
        let script = programs::script(launch, &command, cores);
        let before = usage::children();
        let program = host.start("sh", &["-c", &script, &output], &[]);
        let output = PathBuf::from(output);
        let program = program.map_err(|error| error.to_string())?;
        let settles_in = launch.settles_in();
        let mut this = Self { road: PhantomData, command, program, output, before, settles_in };
        let (began, ready) = (Instant::now(), launch.ready());
        loop {
            // Before the look: what ends by itself has said all by then.
            let is_over = this.program.ends_within(Duration::ZERO);
            let is_over = is_over.map_err(|error| error.to_string())?;
            let Some(lack) = ready.lacks(host, &this.printed()) else { break };
            // The flag carries no memory.
            if is_over || stop.load(Relaxed) || began.elapsed() > READY_WITHIN {
                let (said, command) = (this.printed(), &this.command);
                let lack = match is_over {
                    true => "it has ended".to_owned(),
                    false => format!("after {} s {lack}", began.elapsed().as_secs()),
                };
                return Err(format!("not ready: {lack}: `{command}`: {}", said.trim()));
            }
            thread::sleep(LOOK_AT_START);
        }
        // Its threads go to work a moment later.
        thread::sleep(WARM_UP);
        Ok(this)
    }

    /// What was started.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// What it has printed so far.
    pub fn printed(&self) -> String {
        let bytes = fs::read(&self.output).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Whether it has ended, or is about to be collected.
    pub fn has_ended(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process_id()));
        // Source: proc_pid_stat(5); the name in front may have brackets in it.
        stat.map_or(true, |stat| stat.rsplit(") ").next().is_none_or(|rest| rest.starts_with('Z')))
    }

    /// Its process, or that of who waits for it.
    pub fn process_id(&self) -> u32 {
        self.program.process_id()
    }

    /// Which pages it has now, with all that it has started.
    pub fn pages(&self) -> Pages {
        super::pages_of(&[self.program.process_id()])
    }

    /// Ends it as a user would, once it has had time for the last frames. Returns what it has
    /// printed and what it has cost, start and end included.
    ///
    /// # Errors
    /// What the kernel says; that it did not end within 20 s of SIGINT, and was killed.
    pub fn end(self) -> Result<(String, CpuUsage), String> {
        self.end_within(ENDS_WITHIN)
    }

    /// As [`end`](Self::end), with a limit of one's own.
    ///
    /// # Errors
    /// As there.
    pub fn end_within(mut self, limit: Duration) -> Result<(String, CpuUsage), String> {
        thread::sleep(self.settles_in);
        let interrupt = signal(self.first_process(), "-INT");
        interrupt.map_err(|error| format!("interrupt it: {error}: {}", self.printed()))?;
        if !self.program.ends_within(limit).map_err(|error| error.to_string())? {
            self.program.kill();
            let (command, seconds) = (&self.command, limit.as_secs_f64());
            let said = self.printed();
            return Err(format!(
                "`{command}` ignored SIGINT for {seconds} s and was killed: {}",
                said.trim()
            ));
        }
        let bytes = fs::read(&self.output).map_err(|error| error.to_string())?;
        let used = usage::children().since(&self.before);
        Ok((String::from_utf8_lossy(&bytes).into_owned(), used))
    }

    /// The process that gets a signal: the program, or the first process in its own namespace.
    /// unshare(1) only waits for it.
    fn first_process(&self) -> u32 {
        let own = self.program.process_id();
        let read = |file: &str| fs::read_to_string(format!("/proc/{own}/{file}"));
        let is_parent = read("comm").is_ok_and(|name| name.trim() == "unshare");
        let children = read(&format!("task/{own}/children")).unwrap_or_default();
        let first = children.split_whitespace().next().and_then(|child| child.parse().ok());
        first.filter(|_| is_parent).unwrap_or(own)
    }
}
