//! Queries one sensor: ssh runs `burstline extract ... -w -` there, and a file spools its output.
//!
//! ```text
//!  sensor                                this machine
//!  extract -w - ── stdout ── packets ──► copier thread ──► spool file
//!               ── stderr ── report ───► listener thread ─► text, bounded
//!                                        asker: waits for the end, measures silence
//! ```
//!
//! All waits are bounded: a connection has a timeout, and a sensor that sends no byte for
//! [`Patience::silence`] is given up. The bytes received until then are kept.
//!
//! Invariant A1: the asker returns even if another process keeps ssh's output open after its end.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, PipeReader, Read, Write};
use std::iter;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use burstline_sys::helper::launcher::Program;
use burstline_sys::privileges;
use serde_json::Value;

use crate::Sensor;
use crate::ssh::{NOT_FOUND, SSH_FAILED, Way, last_line};

/// Interval for checking the sensor's progress.
const LOOK: Duration = Duration::from_millis(10);
/// How long output may stay open after ssh has ended.
const LINGER: Duration = Duration::from_secs(2);
/// Bytes that are kept of a sensor's standard error.
const SAID_MOST: usize = 1 << 20;
const CHUNK_BYTES: usize = 256 << 10;

/// The query for every sensor: the flags of `extract`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// Flags such as `--from=... --to=... --flow=... --filter=...`.
    pub flags: Vec<String>,
}

/// Limits on a sensor's time and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Timeout of a connection. Rounded to whole seconds, at least one.
    pub connect: Duration,
    /// Longest time without a byte.
    pub silence: Duration,
    /// Most bytes from one sensor.
    pub bytes_most: u64,
}

/// Outcome of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The sensor sent everything it found.
    Whole,
    /// The sensor sent only a part, or its files were damaged; with the reason.
    Partial(String),
    /// The sensor sent nothing; with the reason.
    Failed(String),
}

/// A sensor's answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// How it ended.
    pub outcome: Outcome,
    /// The sensor's own report, if there is one.
    pub report: Option<Value>,
    /// Bytes in the spool file.
    pub bytes: u64,
}

impl Answer {
    /// Returns a number from the report.
    pub fn number(&self, key: &str) -> Option<u64> {
        self.report.as_ref()?[key].as_u64()
    }
}

/// State shared by the threads of one query.
#[derive(Default)]
struct Progress {
    /// Bytes written so far.
    bytes: u64,
    /// Set once the thread is done.
    is_copied: bool,
    is_heard: bool,
    is_too_much: bool,
    said: String,
    error: Option<io::Error>,
}

#[derive(Default)]
struct Shared(Mutex<Progress>);

impl Shared {
    /// Never poisoned: a thread that holds the lock only changes a few words, and cannot panic.
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Queries a sensor, and writes its packets to `spool`, which must be a new file.
///
/// Blocks until the sensor is done or given up, or until `is_stopped` returns true.
pub fn ask(
    sensor: &Sensor,
    question: &Question,
    config: Option<&Path>,
    patience: Patience,
    spool: File,
    is_stopped: &dyn Fn() -> bool,
) -> Answer {
    let failed = |why: String| Answer { outcome: Outcome::Failed(why), report: None, bytes: 0 };
    let command = command(sensor, question, config, patience);
    let started = io::pipe().and_then(|(packets, output)| {
        let (text, errors) = io::pipe()?;
        let program = Program::start(&command, output.into(), errors.into())?;
        Ok((program, Outputs { packets, text }))
    });
    let (mut program, outputs) = match started {
        Ok(started) => started,
        Err(error) => {
            return failed(format!("start ssh: {error}; Debian: apt-get install openssh-client"));
        }
    };
    let shared = Arc::new(Shared::default());
    if let Err(error) = listen(outputs, spool, patience.bytes_most, &shared) {
        // Nothing would read its output.
        program.kill();
        return failed(format!("start a thread for ssh: {error}"));
    }
    let ended = wait(&mut program, &shared, patience, is_stopped);
    judge(sensor, &shared, &ended)
}

/// What ssh writes.
struct Outputs {
    packets: PipeReader,
    text: PipeReader,
}

/// Returns the ssh command line for a sensor, with the command to run there.
pub fn command(
    sensor: &Sensor,
    question: &Question,
    config: Option<&Path>,
    patience: Patience,
) -> Vec<OsString> {
    let (host, port, connect) = (sensor.host.as_str(), sensor.port, patience.connect);
    let way = Way { host, port, config, connect };
    let words = [sensor.program.as_str(), "extract", "--json", "--write=-"].into_iter();
    let words = words.chain(question.flags.iter().map(String::as_str)).chain(["--"]);
    let command = way.command(words.chain(sensor.files.iter().map(String::as_str)));
    iter::once(command.get_program()).chain(command.get_args()).map(OsStr::to_owned).collect()
}

/// Starts the threads that read ssh's output. They end with the output.
fn listen(
    Outputs { mut packets, mut text }: Outputs,
    mut spool: File,
    bytes_most: u64,
    shared: &Arc<Shared>,
) -> io::Result<()> {
    let copying = Arc::clone(shared);
    thread::Builder::new().name("copy".to_owned()).spawn(move || {
        let copied = privileges::give_up()
            .and_then(|()| copy(&mut packets, &mut spool, bytes_most, &copying));
        let mut progress = copying.lock();
        progress.error = copied.err();
        progress.is_copied = true;
    })?;
    let hearing = Arc::clone(shared);
    thread::Builder::new().name("hear".to_owned()).spawn(move || {
        // If the kernel refuses, the other thread says so.
        if privileges::give_up().is_ok() {
            hear(&mut text, &hearing);
        }
        hearing.lock().is_heard = true;
    })?;
    Ok(())
}

fn copy(from: &mut impl Read, to: &mut File, most: u64, shared: &Shared) -> io::Result<()> {
    let (mut chunk, mut bytes) = (vec![0; CHUNK_BYTES], 0);
    loop {
        let length = match from.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // ssh was killed.
            Err(_) => return Ok(()),
        };
        bytes += length as u64;
        if bytes > most {
            shared.lock().is_too_much = true;
            return Ok(());
        }
        to.write_all(&chunk[..length])?;
        shared.lock().bytes = bytes;
    }
}

/// Keeps the end of standard error: the report is its last line.
fn hear(from: &mut impl Read, shared: &Shared) {
    let (mut said, mut chunk) = (Vec::new(), vec![0; 4096]);
    while let Ok(length @ 1..) = from.read(&mut chunk) {
        said.extend_from_slice(&chunk[..length]);
        if said.len() > 2 * SAID_MOST {
            said.drain(..said.len() - SAID_MOST);
        }
        let text = String::from_utf8_lossy(&said).into_owned();
        let mut progress = shared.lock();
        progress.said = text;
    }
}

/// Why the wait ended.
enum Ended {
    /// ssh ended with this code; `None` if a signal killed it.
    Code(Option<i32>),
    GivenUp(String),
}

fn wait(
    program: &mut Program,
    shared: &Shared,
    patience: Patience,
    is_stopped: &dyn Fn() -> bool,
) -> Ended {
    let (mut known, mut since) = (0, Instant::now());
    let mut code = None;
    let ended = loop {
        if code.is_none() {
            match program.try_wait() {
                Ok(status) => code = status.map(|status| (status.code(), Instant::now())),
                Err(error) => break Ended::GivenUp(format!("wait for ssh: {error}")),
            }
        }
        let progress = shared.lock();
        let is_done = progress.is_copied && progress.is_heard;
        // Standard error is not progress: it may never end.
        let bytes = progress.bytes;
        let (is_too_much, has_failed) = (progress.is_too_much, progress.error.is_some());
        drop(progress);
        match code {
            Some((code, _)) if is_done => break Ended::Code(code),
            // A1. While bytes arrive, ssh's own buffer is still being drained.
            Some((code, at)) if bytes == known && at.elapsed().min(since.elapsed()) > LINGER => {
                break Ended::Code(code);
            }
            // A process that ssh left behind may be writing them.
            Some((code, at)) if at.elapsed() > patience.silence => break Ended::Code(code),
            _ => {}
        }
        if bytes != known {
            (known, since) = (bytes, Instant::now());
        }
        if is_stopped() {
            break Ended::GivenUp("stopped".to_owned());
        }
        if is_too_much {
            let most = patience.bytes_most;
            break Ended::GivenUp(format!("sent more than {most} bytes, see --limit"));
        }
        if has_failed {
            break Ended::GivenUp("the spool cannot be written".to_owned());
        }
        if since.elapsed() > patience.silence {
            let seconds = patience.silence.as_secs_f64();
            break Ended::GivenUp(format!("sent nothing for {seconds} s, see --silence"));
        }
        thread::sleep(LOOK);
    };
    program.kill();
    ended
}

fn judge(sensor: &Sensor, shared: &Shared, ended: &Ended) -> Answer {
    let mut progress = shared.lock();
    let said = std::mem::take(&mut progress.said);
    let report = privileges::without_rights(|| report_in(&said)).ok().flatten();
    let bytes = progress.bytes;
    let why = match (ended, progress.error.take()) {
        (_, Some(error)) => {
            Some(format!("write the spool: {error}; set TMPDIR to a different folder"))
        }
        (Ended::GivenUp(why), None) => Some(why.clone()),
        (Ended::Code(Some(0)), None) if report.is_some() => None,
        (Ended::Code(Some(0)), None) => {
            let program = &sensor.program;
            Some(format!("{program:?} is not burstline: it exited without a report"))
        }
        (Ended::Code(Some(NOT_FOUND)), None) => {
            let program = &sensor.program;
            let (said, remedy) = (last_line(&said), "set program = \"PATH\" for this sensor");
            Some(format!("no program {program:?} there: {said}; {remedy}"))
        }
        (Ended::Code(Some(SSH_FAILED)), None) => Some(last_line(&said)),
        (Ended::Code(Some(code)), None) => Some(match &report {
            Some(report) => format!("extract found damage: {}", losses(report)),
            None => format!("extract exited with code {code}: {}", last_line(&said)),
        }),
        (Ended::Code(None), None) => Some("ssh was killed".to_owned()),
    };
    let outcome = match why {
        None => Outcome::Whole,
        Some(why) if bytes > 0 => Outcome::Partial(why),
        Some(why) => Outcome::Failed(why),
    };
    Answer { outcome, report, bytes }
}

/// Returns the report in the text of a sensor, which is not trusted.
fn report_in(said: &str) -> Option<Value> {
    let objects = said.lines().rev().filter(|line| line.starts_with('{'));
    let report = objects.filter_map(|line| serde_json::from_str::<Value>(line).ok()).next();
    report.filter(|report| report["command"] == "extract")
}

fn losses(report: &Value) -> String {
    let lost = report["lost"].as_object().into_iter().flatten();
    let counted = lost.filter(|(_, packets)| packets.as_u64() > Some(0));
    let texts: Vec<String> = counted.map(|(cause, packets)| format!("{cause} {packets}")).collect();
    match texts.is_empty() {
        true => "check its recordings with burstline check".to_owned(),
        false => texts.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_no_option_and_words_are_quoted() {
        let sensor = Sensor {
            name: "x".into(),
            host: "-oProxyCommand=touch x".into(),
            port: Some(7),
            files: vec!["/rec/it's $(id)".into(), "-w".into()],
            program: "burst line".into(),
        };
        let question = Question { flags: vec!["--filter=host a; id".into()] };
        let (second, most) = (Duration::from_secs(1), u64::MAX);
        let patience = Patience { connect: second, silence: second, bytes_most: most };
        let command = command(&sensor, &question, None, patience);
        let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
        let end = words.iter().position(|word| word == "--").unwrap();
        assert_eq!(words[end + 1], sensor.host);
        assert_eq!(
            words[end + 2],
            r"'burst line' 'extract' '--json' '--write=-' '--filter=host a; id' '--' ".to_owned()
                + r"'/rec/it'\''s $(id)' '-w'"
        );
        assert_eq!(words.len(), end + 3);
        assert_eq!(words[end - 2..end], ["7", "-T"]);
    }
}
