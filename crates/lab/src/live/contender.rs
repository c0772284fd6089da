//! A program that receives injected frames.

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

/// Time from when a contender is ready until its threads work.
const WARM_UP: Duration = Duration::from_millis(200);

/// Time limit for a contender to end after SIGINT.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// Runs a command and its descendants in a separate process namespace. See [`with_all`].
const WITH_ALL: &str = "unshare --pid --fork --kill-child timeout -s INT 3600";

/// Interval of the checks whether it is ready.
const LOOK_AT_START: Duration = Duration::from_millis(10);

/// A running contender. Dropping it kills it.
pub struct Contender<'a> {
    /// Borrows the road, on whose hosts it runs.
    road: PhantomData<&'a Road>,
    command: String,
    program: Program,
    output: PathBuf,
    before: CpuUsage,
    settles_in: Duration,
}

/// Wraps a command for [`Contender::start`] whose program starts others. timeout(1) passes them the
/// signal that ends it. If it or this process dies, the kernel kills them with the first process of
/// their namespace, which dies with its parent. Source: pid_namespaces(7), "The namespace init
/// process"; unshare(1), `--kill-child`.
pub fn with_all(command: &str) -> String {
    format!("{WITH_ALL} {command}")
}

/// Returns whether a process has ended, even if not yet waited for. Source: proc_pid_stat(5).
pub(crate) fn has_ended(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name before the state may contain brackets.
    stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with('Z'))
}

impl<'a> Contender<'a> {
    /// Starts a program on the far host, on the cores in `cores`, with huge pages if available.
    /// Returns when it is [ready](crate::programs::Ready).
    ///
    /// # Errors
    /// If it does not get ready: the missing condition and its output so far.
    pub fn start(
        road: &'a Road,
        cores: &str,
        launch: &dyn Launch,
        stop: &AtomicBool,
    ) -> Result<Self, String> {
        static OUTPUTS: AtomicU32 = AtomicU32::new(0);
        let (_pages, host) = (Reservation::take(PAGES_OF_A_START), road.host());
        let number = OUTPUTS.fetch_add(1, Relaxed); // Relaxed: only to make names differ
        let output = road.file(&format!("output-{number}"));
        let command = launch.command(Memory::now()).replace(FILE, &road.data_file());
        // A program that drops root loses the parent-death signal (prctl(2), PR_SET_PDEATHSIG).
        // On other roads the removal of its interface ends it.
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
            // Check this before the output: if the program has ended, its output is complete.
            let is_over = this.program.ends_within(Duration::ZERO);
            let is_over = is_over.map_err(|error| error.to_string())?;
            let Some(lack) = ready.lacks(host, &this.printed()) else { break };
            // Relaxed: no other data depends on the flag.
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
        // Its threads start to work a moment later.
        thread::sleep(WARM_UP);
        Ok(this)
    }

    /// Returns the command that was started.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// Returns its output so far.
    pub fn printed(&self) -> String {
        let bytes = fs::read(&self.output).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns whether it has ended, including as a zombie.
    pub fn has_ended(&self) -> bool {
        has_ended(self.process_id())
    }

    /// Returns its process, or the one that waits for it.
    pub fn process_id(&self) -> u32 {
        self.program.process_id()
    }

    /// Returns its present pages, including those of its descendants.
    pub fn pages(&self) -> Pages {
        super::pages_of([self.program.process_id()])
    }

    /// Ends it as a user would, after it has had time for the last frames. Returns its output and
    /// its CPU usage, including start and end.
    ///
    /// # Errors
    /// Errors of the kernel; or it did not end within 20 s of SIGINT and was killed.
    pub fn end(self) -> Result<(String, CpuUsage), String> {
        self.end_within(ENDS_WITHIN)
    }

    /// Like [`end`](Self::end), with the given time limit.
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

    /// Returns the process to signal: the program, or the first process in its namespace, because
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
