//! What signals ask of this process.
//!
//! ```text
//!  SIGINT, SIGTERM, SIGHUP   the first ends the job in good order; one that comes a second or
//!                            more after it ends the process at once: timeout(1) sends two in a
//!                            moment
//!  SIGUSR1                   statistics on standard error; a trigger of the flight recorder
//!  SIGUSR2                   nothing
//!  SIGXFSZ                   nothing: a file above `ulimit -f` is an error of the write
//! ```
//!
//! SIGHUP is left alone where nohup(1) has it ignored. Handlers look at flags and set them: so it
//! counts when a signal came, not when somebody had time for it. A separate thread, which has no
//! capabilities and reads no packets, does what takes longer.
//!
//! Invariant I1: that thread never writes to standard error, where it might wait for a reader. So
//! it always hears the first signal, and arms the handlers for the second.

use std::fs;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use burstline_sys::privileges;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use crate::failure::{Failure, complain};

/// Signals that come sooner after the first are one with it.
const MOMENT: Duration = Duration::from_secs(1);

/// Catches the signals above, and returns the flag that the first of those sets that end a job.
///
/// `is_quiet`: nothing is said of that signal.
pub(crate) fn stop_flag(is_quiet: bool) -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    let ending: Vec<i32> = [SIGINT, SIGTERM].into_iter().chain(hangup).collect();
    let is_armed = Arc::new(AtomicBool::new(false));
    for &signal in &ending {
        // The flag first: from then on a signal is not lost.
        caught(signal, flag::register(signal, Arc::clone(&stop)))?;
        // 128 + the signal's number is what a shell shows for a program that a signal ended.
        let armed = Arc::clone(&is_armed);
        caught(signal, flag::register_conditional_shutdown(signal, 128 + signal, armed))?;
    }
    // A handler that does nothing is enough: a write that goes too far fails with EFBIG, and is
    // counted. A signal that is ignored would be ignored by programs that are started, too.
    for signal in [SIGUSR2, SIGXFSZ] {
        caught(signal, flag::register(signal, Arc::new(AtomicBool::new(false))))?;
    }
    let heard = Signals::new(ending.into_iter().chain([SIGUSR1]));
    let heard = heard.map_err(|error| Failure::new(format!("catch signals: {error}")))?;
    let (ready, is_ready) = mpsc::channel::<()>();
    let listener = thread::Builder::new().name("signals".to_owned()).spawn(move || {
        // Giving up is always allowed, but to a filter of system calls: then the job's own
        // threads fail for the same reason and say so.
        let _ = privileges::give_up();
        drop(ready);
        listen(heard, &is_armed, is_quiet);
    });
    listener.map_err(|error| Failure::new(format!("start the thread `signals`: {error}")))?;
    // It ends when the other end is dropped: from then on the thread has no rights.
    let _ = is_ready.recv();
    Ok(stop)
}

/// A flag that each SIGUSR1 sets.
pub(crate) fn trigger_flag() -> Result<Arc<AtomicBool>, Failure> {
    let trigger = Arc::new(AtomicBool::new(false));
    caught(SIGUSR1, flag::register(SIGUSR1, Arc::clone(&trigger)))?;
    Ok(trigger)
}

fn caught<T>(signal: i32, registered: std::io::Result<T>) -> Result<(), Failure> {
    let registered = registered.map(drop);
    registered.map_err(|error| Failure::new(format!("catch signal {signal}: {error}")))
}

/// Does what signals ask for, as long as the process lives.
fn listen(mut heard: Signals, is_armed: &Arc<AtomicBool>, is_quiet: bool) {
    let mut is_ending = false;
    for signal in heard.forever() {
        if signal == SIGUSR1 {
            answer();
        } else if !is_ending {
            is_ending = true;
            arm(Arc::clone(is_armed));
            if !is_quiet {
                let how = if signal == SIGINT { "press Ctrl-C" } else { "signal" };
                say(format!("finishing; {how} again after 1 s to abandon"));
            }
        }
    }
}

/// From a moment on, the next signal ends the process at once.
fn arm(is_armed: Arc<AtomicBool>) {
    let later = Arc::clone(&is_armed);
    let timer = thread::Builder::new().name("timer".to_owned()).spawn(move || {
        thread::sleep(MOMENT);
        // The flag carries no memory, here and below.
        later.store(true, Relaxed);
    });
    if timer.is_err() {
        // Better too early than never.
        is_armed.store(true, Relaxed);
    }
}

/// Who knows what is going on.
enum Knows {
    /// Has statistics printed by somebody else; never waits.
    Job(Box<dyn Fn() + Send>),
    /// A sentence.
    Text(String),
}

static KNOWS: Mutex<Option<Knows>> = Mutex::new(None);

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While this lives, its job answers SIGUSR1.
pub(crate) struct Answering(());

/// Has `ask` called for each SIGUSR1. It must not wait, for a reader of what it prints above all.
pub(crate) fn answer_by(ask: impl Fn() + Send + 'static) -> Answering {
    *lock(&KNOWS) = Some(Knows::Job(Box::new(ask)));
    Answering(())
}

/// What SIGUSR1 tells from now on, of work that is not a job with counters.
pub(crate) fn now_doing(what: String) {
    *lock(&KNOWS) = Some(Knows::Text(what));
}

impl Drop for Answering {
    /// What is said of the job afterwards is its report.
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

/// Whether the report is being printed, so that nothing may come in between or after it.
static IS_HUSHED: Mutex<bool> = Mutex::new(false);

/// What is still to be said, while a thread is saying something.
struct Speech {
    is_speaking: bool,
    next: Option<String>,
}

static SPEECH: Mutex<Speech> = Mutex::new(Speech { is_speaking: false, next: None });

/// Says something on a thread beside, after what is being said. Of what comes meanwhile, the last
/// is said.
fn say(what: String) {
    let mut speech = lock(&SPEECH);
    speech.next = Some(what);
    if speech.is_speaking {
        return;
    }
    let speaker = thread::Builder::new().name("speaker".to_owned()).spawn(speak);
    speech.is_speaking = speaker.is_ok();
}

/// Says what there is to say, and ends.
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

/// Whether the process that started this one has it ignore a signal. Source: proc_pid_status(5).
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
