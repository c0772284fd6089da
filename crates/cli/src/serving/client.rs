//! A connection: one request and its answer, or a stream of events.
//!
//! An event stream has at most one event in flight. Until it is sent, further events are skipped: a
//! slow page gets the newest state, later. The last event waits for its turn.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use burstline_sys::readiness::Wish;

/// The longest request, in bytes.
const REQUEST_BYTES: usize = 8 << 10;

/// Timeout for request and answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Timeout for one event.
const EVENT_PATIENCE: Duration = Duration::from_secs(10);

/// State of a connection.
#[derive(Debug)]
enum State {
    /// Receiving the request.
    Asking(Vec<u8>),
    /// Sending an answer; then the connection is closed.
    Answering(Arc<[u8]>, usize),
    /// Sending events: the one in flight, if any.
    Watching(Option<(Arc<[u8]>, usize)>),
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The connection continues.
    On,
    /// The request is complete, or too long.
    Asked { request: Vec<u8>, is_whole: bool },
    /// The connection is finished or lost.
    Over,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) stream: TcpStream,
    /// Index of the listener that accepted it.
    pub(super) door: usize,
    state: State,
    deadline: Instant,
    /// Whether the last event is sent or in flight.
    has_last: bool,
}

impl Client {
    pub(super) fn new(stream: TcpStream, door: usize, now: Instant) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let (state, deadline) = (State::Asking(Vec::new()), now + PATIENCE);
        Ok(Self { stream, door, state, deadline, has_last: false })
    }

    /// Returns the readiness that the connection waits for.
    pub(super) fn wish(&self) -> Wish {
        match self.state {
            State::Asking(_) | State::Watching(None) => Wish::Read,
            State::Answering(..) | State::Watching(Some(_)) => Wish::Write,
        }
    }

    pub(super) fn is_watching(&self) -> bool {
        matches!(self.state, State::Watching(_))
    }

    /// Returns whether bytes are still to be sent.
    pub(super) fn is_sending(&self) -> bool {
        matches!(self.state, State::Answering(..) | State::Watching(Some(_)))
    }

    /// Returns whether the deadline has passed.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        now >= self.deadline && !matches!(self.state, State::Watching(None))
    }

    /// Begins to send an answer.
    pub(super) fn answer(&mut self, answer: String) {
        self.state = State::Answering(answer.into_bytes().into(), 0);
    }

    /// Starts the event stream with `first`.
    pub(super) fn watch(&mut self, first: String, now: Instant) {
        self.state = State::Watching(Some((first.into_bytes().into(), 0)));
        self.deadline = now + EVENT_PATIENCE;
    }

    /// Sends an event unless another is in flight. Returns whether it did.
    pub(super) fn tell(&mut self, event: &Arc<[u8]>, now: Instant) -> bool {
        let is_free = matches!(self.state, State::Watching(None));
        if is_free {
            self.state = State::Watching(Some((Arc::clone(event), 0)));
            self.deadline = now + EVENT_PATIENCE;
        }
        is_free
    }

    /// Sends the last event. Returns whether part of that is still to be done.
    pub(super) fn take_leave(&mut self, last: &Arc<[u8]>) -> bool {
        self.has_last = self.has_last || self.tell(last, self.deadline);
        let is_gone = self.is_sending() && self.step() == Step::Over;
        !is_gone && (self.is_sending() || !self.has_last)
    }

    /// Reads or writes as much as possible without blocking.
    pub(super) fn step(&mut self) -> Step {
        let stepped = match &mut self.state {
            State::Asking(request) => ask(&mut self.stream, request),
            State::Answering(bytes, sent) => {
                send(&mut self.stream, bytes, sent).map(|is_gone| match is_gone {
                    true => Step::Over,
                    false => Step::On,
                })
            }
            State::Watching(Some((bytes, sent))) => {
                let gone = send(&mut self.stream, bytes, sent);
                if matches!(gone, Ok(true)) {
                    self.state = State::Watching(None);
                }
                gone.map(|_| Step::On)
            }
            // A page sends nothing after its request, so this is the end of the connection.
            State::Watching(None) => self.stream.read(&mut [0; 64]).map(|_| Step::Over),
        };
        stepped.unwrap_or_else(|error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Step::On,
            _ => Step::Over,
        })
    }
}

fn ask(stream: &mut TcpStream, request: &mut Vec<u8>) -> io::Result<Step> {
    let mut place = [0; 1024];
    let bytes = stream.read(&mut place)?;
    request.extend_from_slice(&place[..bytes]);
    let is_whole = request.windows(4).any(|four| four == b"\r\n\r\n");
    Ok(match (is_whole || request.len() > REQUEST_BYTES, bytes) {
        (true, _) => Step::Asked { request: std::mem::take(request), is_whole },
        (false, 0) => Step::Over,
        (false, _) => Step::On,
    })
}

/// Sends a part of `bytes`. Returns whether everything is sent.
fn send(stream: &mut TcpStream, bytes: &[u8], sent: &mut usize) -> io::Result<bool> {
    *sent += stream.write(&bytes[*sent..])?;
    Ok(*sent == bytes.len())
}
