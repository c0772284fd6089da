//! Handles the signals of this process.
//!
//! ```text
//!  SIGINT, SIGTERM, SIGHUP   the first ends the job in order; one that comes a second or more
//!                            after it ends the process immediately: timeout(1) sends two in quick
//!                            succession. A line says so, unless a job's report is being printed,
//!                            and whether a part of another report has been
//!  SIGUSR1                   statistics on standard error; triggers the flight recorder
//!  SIGUSR2                   nothing
//!  SIGXFSZ                   nothing: exceeding `ulimit -f` is an error of the write
//! ```
//!
//! SIGHUP is left alone if nohup(1) has it ignored. Handlers only read and set flags, so the
//! arrival time of a signal counts, not the time of its processing. A separate thread does the
//! slower work; it has no capabilities and reads no packets.
//!
//! Invariant I1: that thread never writes to standard error, where it might wait for a reader. So
//! it always receives the first signal and the second; for the last line it waits a moment only.

use std::fs;
use std::mem;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use burstline_sys::privileges;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::flag;
use signal_hook::low_level;

use super::heard::Heard;
use crate::failure::{Failure, complain};

/// Signals within this time after the first count as the same signal.
const MOMENT: Duration = Duration::from_secs(1);

/// How long the process waits for standard error before a second signal ends it: longer than a busy
/// machine keeps a thread from its core.
const LAST_LINE: Duration = Duration::from_millis(500);

/// Installs the handlers above, and returns the flag that the first signal to end a job sets.
///
/// `is_quiet`: no message is printed for that signal.
pub(crate) fn stop_flag(is_quiet: bool) -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    let ending: Vec<i32> = [SIGINT, SIGTERM].into_iter().chain(hangup).collect();
    let has_come = Arc::new(AtomicBool::new(false));
    for &signal in &ending {
        // Register the flag first: from then on no signal is lost.
        caught(signal, flag::register(signal, Arc::clone(&stop)))?;
        caught(signal, flag::register(signal, Arc::clone(&has_come)))?;
    }
    // An empty handler is enough: a write beyond the limit fails with EFBIG and is counted. An
    // ignored signal would stay ignored in programs that we start.
    for signal in [SIGUSR2, SIGXFSZ] {
        caught(signal, flag::register(signal, Arc::new(AtomicBool::new(false))))?;
    }
    let heard = Heard::new(ending.into_iter().chain([SIGUSR1]))?;
    let (ready, is_ready) = mpsc::channel::<()>();
    let listener = thread::Builder::new().name("signals".to_owned()).spawn(move || {
        // Dropping privileges fails only under a system call filter. Then the job's own threads
        // report the same error.
        let _ = privileges::give_up();
        drop(ready);
        listen(heard, &has_come, is_quiet);
    });
    listener.map_err(|error| Failure::new(format!("start the thread `signals`: {error}")))?;
    // This returns when the other end is dropped: from then on the thread has no privileges.
    let _ = is_ready.recv();
    Ok(stop)
}

/// Returns a flag that each SIGUSR1 sets.
pub(crate) fn trigger_flag() -> Result<Arc<AtomicBool>, Failure> {
    let trigger = Arc::new(AtomicBool::new(false));
    caught(SIGUSR1, flag::register(SIGUSR1, Arc::clone(&trigger)))?;
    Ok(trigger)
}

fn caught<T>(signal: i32, registered: std::io::Result<T>) -> Result<(), Failure> {
    let registered = registered.map(drop);
    registered.map_err(|error| Failure::new(format!("catch signal {signal}: {error}")))
}

/// Processes signals until the process ends. Handlers set `has_come` for those that end it.
fn listen(heard: Heard, has_come: &Arc<AtomicBool>, is_quiet: bool) -> ! {
    let is_armed = Arc::new(AtomicBool::new(false));
    let mut timer: Option<Timer> = None;
    heard.listen(|signal| {
        if signal == SIGUSR1 {
            answer();
        } else if let Some(timer) = &timer {
            // Pairs with the Release in `arm`: signals that came before are forgotten.
            if is_armed.load(Acquire) && has_come.load(Relaxed) {
                abandon(signal, timer);
            }
        } else {
            timer = Some(arm(Arc::clone(has_come), Arc::clone(&is_armed)));
            if !is_quiet {
                let how = if signal == SIGINT { "press Ctrl-C" } else { "signal" };
                say(format!("finishing; {how} again after 1 s to abandon"));
            }
        }
    })
}

/// A thread that waits for the second signal to say the last line: it is there before memory may be
/// too busy to start one.
struct Timer {
    second: Sender<()>,
    /// Ends when the line is out, or is not to be said.
    is_spoken: Receiver<()>,
}

/// After a delay, makes the next signal end the process immediately.
fn arm(has_come: Arc<AtomicBool>, is_armed: Arc<AtomicBool>) -> Timer {
    let later = Arc::clone(&is_armed);
    let (second, is_second) = mpsc::channel::<()>();
    let (spoken, is_spoken) = mpsc::channel::<()>();
    let started = thread::Builder::new().name("timer".to_owned()).spawn(move || {
        thread::sleep(MOMENT);
        has_come.store(false, Relaxed);
        // Pairs with the Acquire in `listen`.
        later.store(true, Release);
        if is_second.recv().is_ok()
            && let Some(kept) = silence(&IS_HUSHED)
        {
            complain(last_line(HAS_REPORTED.load(Relaxed))); // carries no memory
            // Nobody else gets the lock: no report follows this line.
            mem::forget(kept);
        }
        drop(spoken);
    });
    if started.is_err() {
        // Too early is better than never. Nothing was forgotten, so there is nothing to pair with.
        is_armed.store(true, Relaxed);
    }
    Timer { second, is_spoken }
}

/// Ends the process without its report, and says so if standard error takes a line at once.
fn abandon(signal: i32, timer: &Timer) -> ! {
    // Without its thread both fail at once, and nothing is said.
    let _ = timer.second.send(());
    let _ = timer.is_spoken.recv_timeout(LAST_LINE);
    // A shell reports 128 + the signal's number for a program that a signal ended.
    low_level::exit(128 + signal)
}

/// The current answer to SIGUSR1.
enum Knows {
    /// Asks another thread to print statistics; never waits.
    Job(Box<dyn Fn() + Send>),
    /// A sentence.
    Text(String),
}

static KNOWS: Mutex<Option<Knows>> = Mutex::new(None);

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While this value lives, its job answers SIGUSR1.
pub(crate) struct Answering(());

/// Calls `ask` for each SIGUSR1. It must not block, in particular not on a reader of its output.
pub(crate) fn answer_by(ask: impl Fn() + Send + 'static) -> Answering {
    *lock(&KNOWS) = Some(Knows::Job(Box::new(ask)));
    Answering(())
}

/// Sets the answer to SIGUSR1 for work that is not a job with counters.
pub(crate) fn now_doing(what: String) {
    *lock(&KNOWS) = Some(Knows::Text(what));
}

impl Drop for Answering {
    /// From now on the report describes the job.
    fn drop(&mut self) {
        *lock(&KNOWS) = None;
        *lock(&IS_HUSHED) = true;
    }
}

fn answer() {
    match &*lock(&KNOWS) {
        Some(Knows::Job(ask)) => ask(),
        Some(Knows::Text(what)) => say(what.clone()),
        None => say("still opening ports: nothing counted yet".to_owned()),
    }
}

/// Whether the report is being printed; nothing else may be printed from then on.
static IS_HUSHED: Mutex<bool> = Mutex::new(false);

/// Whether a part of a report has been printed, or is being printed.
static HAS_REPORTED: AtomicBool = AtomicBool::new(false);

/// Notes that a part of a report is printed from now on.
pub(crate) fn now_reporting() {
    HAS_REPORTED.store(true, Relaxed); // carries no memory
}

/// Returns the last line of a program that a second signal ends.
fn last_line(has_reported: bool) -> &'static str {
    match has_reported {
        true => "abandoned at a second signal; its report may be cut",
        false => "abandoned at a second signal, without a report",
    }
}

/// Returns the right to print a last line: `None` if a report or a message is being printed, which
/// may wait for its reader.
fn silence(is_hushed: &Mutex<bool>) -> Option<MutexGuard<'_, bool>> {
    is_hushed.try_lock().ok().filter(|is_hushed| !**is_hushed)
}

/// Messages to print: whether a thread prints one now, and the next one.
struct Speech {
    is_speaking: bool,
    next: Option<String>,
}

static SPEECH: Mutex<Speech> = Mutex::new(Speech { is_speaking: false, next: None });

/// Prints a message on another thread, after the current one. A message that is still waiting is
/// replaced.
fn say(what: String) {
    let mut speech = lock(&SPEECH);
    speech.next = Some(what);
    if speech.is_speaking {
        return;
    }
    let speaker = thread::Builder::new().name("speaker".to_owned()).spawn(speak);
    speech.is_speaking = speaker.is_ok();
}

/// Prints pending messages, then ends.
fn speak() {
    loop {
        let what = {
            let mut speech = lock(&SPEECH);
            speech.is_speaking = speech.next.is_some();
            speech.next.take()
        };
        let Some(what) = what else { return };
        let is_hushed = lock(&IS_HUSHED);
        if !*is_hushed {
            complain(&what);
        }
    }
}

/// Returns whether this process was started with a signal ignored. Source: proc_pid_status(5).
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_last_line_is_said_into_a_report() {
        let is_hushed = Mutex::new(false);
        assert!(silence(&is_hushed).is_some());
        let printing = lock(&is_hushed);
        assert!(silence(&is_hushed).is_none(), "a message waits for its reader");
        drop(printing);
        *lock(&is_hushed) = true;
        assert!(silence(&is_hushed).is_none(), "the report has begun");
    }
}
