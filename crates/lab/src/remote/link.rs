//! This side's end of the ssh connection: sends requests and receives replies within time limits.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use burstline_fleet::{NOT_FOUND, SSH_FAILED, last_line};

use serde_json::Value;

use super::error::RemoteError;
use super::spec::Spec;
use super::words::{ALIVE_EVERY, Hello, LINE_BYTES_MOST, PROTOCOL, Reply, Request};

/// Time for ssh to end after its output has closed.
const LINGER: Duration = Duration::from_secs(2);
/// Interval of the checks whether it has.
const LOOK: Duration = Duration::from_millis(10);
/// Maximum number of bytes kept of other output.
const SAID_MOST: usize = 4096;

/// An event from the other side.
enum Event {
    Reply(Box<Reply>),
    /// A first line in an unknown format that still has a version.
    OtherHello(String),
    End,
}

/// Output other than replies: on standard error, and on standard output before the first reply.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<String>>);

impl Said {
    fn hear(&self, text: &str) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.push_str(text);
        let surplus = said.len().saturating_sub(SAID_MOST);
        let from = said.ceil_char_boundary(surplus);
        said.drain(..from);
    }

    fn last(&self) -> String {
        last_line(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// An ssh connection to the generator. Dropping it ends both.
pub(super) struct Link {
    host: String,
    silence: Duration,
    child: Child,
    /// `None` after the other side was asked to end.
    input: Option<ChildStdin>,
    events: Receiver<Event>,
    said: Said,
    /// Reads ssh's standard error until it closes.
    hears: Option<JoinHandle<()>>,
    is_over: bool,
}

impl Link {
    /// Starts the generator and waits until it has identified itself.
    pub(super) fn start(spec: &Spec, stop: &AtomicBool) -> Result<(Self, Hello), RemoteError> {
        let mut words = vec![
            spec.program.clone(),
            "lab".to_owned(),
            "generator".to_owned(),
            format!("--port={}", spec.port),
            format!("--silence={}ms", spec.silence.as_millis().max(1)),
        ];
        words.extend(spec.back.as_ref().map(|back| format!("--back={back}")));
        let mut command = spec.way().command(words.iter().map(String::as_str));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A terminal's Ctrl-C must reach only this program, which ends the other side properly.
        command.process_group(0);
        let mut child = command.spawn().map_err(RemoteError::NotStarted)?;
        let (said, (send, events)) = (Said::default(), mpsc::channel());
        let mut hears = None;
        if let (Some(output), Some(errors)) = (child.stdout.take(), child.stderr.take()) {
            let (also, hearing) = (said.clone(), said.clone());
            thread::spawn(move || listen(output, &send, &also));
            hears = Some(thread::spawn(move || hear(errors, &hearing)));
        }
        let (host, silence) = (spec.host.clone(), spec.silence);
        let input = child.stdin.take();
        let mut link = Self { host, silence, child, input, events, said, hears, is_over: false };
        let hello = link.greet(spec, stop)?;
        Ok((link, hello))
    }

    fn greet(&mut self, spec: &Spec, stop: &AtomicBool) -> Result<Hello, RemoteError> {
        let until = Instant::now() + spec.connect + spec.silence;
        loop {
            // Relaxed: no other data depends on the flag, here and below.
            if stop.load(Relaxed) {
                return Err(RemoteError::Stopped);
            }
            match self.events.recv_timeout(ALIVE_EVERY) {
                Ok(Event::Reply(reply)) => match *reply {
                    Reply::Hello(hello) => return self.check(*hello),
                    failed @ Reply::Failed(_) => drop(self.content(failed)?),
                    other => return Err(self.confused(&other)),
                },
                Err(RecvTimeoutError::Timeout) if Instant::now() < until => {}
                Err(RecvTimeoutError::Timeout) => {
                    return Err(self.silent(spec.connect + spec.silence));
                }
                Ok(Event::OtherHello(theirs)) => return Err(self.other_version(theirs)),
                Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.no_hello(&spec.program));
                }
            }
        }
    }

    fn check(&self, hello: Hello) -> Result<Hello, RemoteError> {
        let ours = env!("CARGO_PKG_VERSION");
        if hello.version == ours && hello.protocol == PROTOCOL {
            return Ok(hello);
        }
        let protocol = hello.protocol;
        Err(self.other_version(match hello.version == ours {
            true => format!("{ours} with protocol {protocol} in place of {PROTOCOL}"),
            false => hello.version,
        }))
    }

    fn other_version(&self, theirs: String) -> RemoteError {
        let ours = env!("CARGO_PKG_VERSION");
        RemoteError::OtherVersion { host: self.host.clone(), theirs, ours }
    }

    /// Returns whether the connection has ended.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Sends a request and waits for the reply.
    pub(super) fn ask(&mut self, request: &Request) -> Result<Reply, RemoteError> {
        self.say(request)?;
        match self.events.recv_timeout(self.silence) {
            Ok(Event::Reply(reply)) => self.content(*reply),
            Ok(_) | Err(RecvTimeoutError::Disconnected) => Err(self.gone()),
            Err(RecvTimeoutError::Timeout) => Err(self.silent(self.silence)),
        }
    }

    /// Sends a long request and waits for the reply. Passes on the user's stop.
    pub(super) fn ask_long(
        &mut self,
        request: &Request,
        stop: &AtomicBool,
    ) -> Result<Reply, RemoteError> {
        self.say(request)?;
        let (mut heard, mut is_stopped) = (Instant::now(), false);
        loop {
            match self.events.recv_timeout(ALIVE_EVERY) {
                Ok(Event::Reply(reply)) if *reply == Reply::Working => heard = Instant::now(),
                Ok(Event::Reply(reply)) => return self.content(*reply),
                Ok(_) | Err(RecvTimeoutError::Disconnected) => return Err(self.gone()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if heard.elapsed() > self.silence {
                return Err(self.silent(self.silence));
            }
            if stop.load(Relaxed) && !is_stopped {
                is_stopped = true;
                self.say(&Request::Stop)?;
            }
            self.say(&Request::Alive)?;
        }
    }

    fn content(&self, reply: Reply) -> Result<Reply, RemoteError> {
        match reply {
            Reply::Failed(why) => Err(RemoteError::Failed { host: self.host.clone(), why }),
            other => Ok(other),
        }
    }

    fn say(&mut self, request: &Request) -> Result<(), RemoteError> {
        let line = serde_json::to_string(request).unwrap_or_default() + "\n";
        let is_said = match &mut self.input {
            Some(input) => input.write_all(line.as_bytes()).is_ok(),
            None => false,
        };
        if is_said { Ok(()) } else { Err(self.gone()) }
    }

    /// Handles a reply that does not match the request. Later replies cannot be trusted.
    pub(super) fn confused(&mut self, reply: &Reply) -> RemoteError {
        self.end();
        let said = serde_json::to_string(reply).unwrap_or_default();
        let said: String = said.chars().take(80).collect();
        RemoteError::Gone { host: self.host.clone(), how: format!("it said {said}") }
    }

    fn silent(&mut self, time: Duration) -> RemoteError {
        self.end();
        let seconds = time.as_secs_f64();
        RemoteError::Silent { host: self.host.clone(), seconds }
    }

    fn gone(&mut self) -> RemoteError {
        let how = match self.end() {
            Some(code) => format!("ssh ended with code {code}: {}", self.said.last()),
            None => format!("ssh was killed: {}", self.said.last()),
        };
        RemoteError::Gone { host: self.host.clone(), how }
    }

    /// Returns why it never identified itself.
    fn no_hello(&mut self, program: &str) -> RemoteError {
        let (code, host, program) = (self.end(), self.host.clone(), program.to_owned());
        let said = self.said.last();
        match code {
            Some(SSH_FAILED) => RemoteError::Unreachable { host, said },
            Some(NOT_FOUND) => RemoteError::NoProgram { host, program, said },
            Some(code) => {
                let ours = env!("CARGO_PKG_VERSION");
                RemoteError::Stranger { host, program, code, said, ours }
            }
            None => RemoteError::Gone { host, how: format!("ssh was killed: {said}") },
        }
    }

    /// Ends both sides: the other one by closing its input (N1), ssh after a moment or by force.
    /// Returns ssh's exit code if it was not killed. By then its last output is read, unless
    /// another process keeps its standard error open.
    fn end(&mut self) -> Option<i32> {
        let code = self.end_ssh();
        let (began, hears) = (Instant::now(), self.hears.take());
        while hears.as_ref().is_some_and(|hears| !hears.is_finished()) && began.elapsed() < LINGER {
            thread::sleep(LOOK);
        }
        code
    }

    fn end_ssh(&mut self) -> Option<i32> {
        self.is_over = true;
        drop(self.input.take());
        let began = Instant::now();
        while began.elapsed() < LINGER {
            match self.child.try_wait() {
                Ok(Some(status)) => return status.code(),
                Ok(None) => thread::sleep(LOOK),
                Err(_) => break,
            }
        }
        // It may have ended by now.
        let _ = self.child.kill();
        self.child.wait().ok().and_then(|status| status.code())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.end();
    }
}

/// Passes replies on. Output of a shell before the first reply is ignored.
fn listen(output: ChildStdout, events: &Sender<Event>, said: &Said) {
    let mut output = BufReader::new(output);
    loop {
        let mut line = Vec::new();
        let read = output.by_ref().take(LINE_BYTES_MOST).read_until(b'\n', &mut line);
        let event = match read {
            Ok(1..) => match serde_json::from_slice(&line) {
                Ok(reply) => Event::Reply(Box::new(reply)),
                Err(_) => match version_of(&line) {
                    Some(version) => Event::OtherHello(version),
                    None => {
                        said.hear(&String::from_utf8_lossy(&line));
                        continue;
                    }
                },
            },
            Ok(0) | Err(_) => Event::End,
        };
        let is_end = matches!(event, Event::End);
        if events.send(event).is_err() || is_end {
            return;
        }
    }
}

fn version_of(line: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(line).ok()?;
    value["hello"]["version"].as_str().map(str::to_owned)
}

fn hear(mut errors: ChildStderr, said: &Said) {
    let mut chunk = [0; 1024];
    while let Ok(length @ 1..) = errors.read(&mut chunk) {
        said.hear(&String::from_utf8_lossy(&chunk[..length]));
    }
}
