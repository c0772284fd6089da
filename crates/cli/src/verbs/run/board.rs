//! The jobs of a service, as the supervisor tells them to the process that answers for it.
//!
//! ```text
//!   supervisor ──put──► Board ◄──read── thread `tell metrics`
//!                                         ▲ │
//!        one byte, which may ask for        │ a message for each job, with a connection to it
//!        connections, too                 │ ▼ if it answers; then one that says "end"
//!                                       Line: the process that reads scrapers and jobs
//! ```
//!
//! That process has no rights, and makes no connection: the thread begins each one, and reads
//! nothing from it. Of the process it reads that byte. So neither a scraper nor a job gives the
//! service a byte to parse.
//!
//! Invariants:
//! - B1: the supervisor waits for nobody: it only replaces what is on the board.
//! - B2: the thread answers a question at most every [`PAUSE`], whoever asks.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use burstline_sys::seqpacket::SeqPacket;
use burstline_sys::tcp;
use serde_json::{Value, json};

/// Time between two answers.
const PAUSE: Duration = Duration::from_millis(20);
/// The longest message: a job's name has at most 64 characters.
const MESSAGE_BYTES: usize = 256;
/// The last message of an answer.
const END: &[u8] = b"end";

/// The published state of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JobNow {
    pub(super) name: String,
    /// Index into [`STATES`](super::slot::STATES).
    pub(super) state: usize,
    pub(super) starts: u64,
}

/// A job, and where it answers.
#[derive(Clone, Debug)]
pub(super) struct Posted {
    pub(super) job: JobNow,
    /// The address of its metrics, if it answers on the listener from the service.
    pub(super) metrics: Option<SocketAddr>,
}

/// The current jobs.
#[derive(Clone, Debug, Default)]
pub(super) struct Board(Arc<Mutex<Vec<Posted>>>);

/// What the process asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Question {
    Jobs = b'j',
    /// Also connections to those that answer.
    Connections = b'c',
}

/// A job in an answer.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) job: JobNow,
    pub(super) connection: Option<TcpStream>,
}

impl Board {
    pub(super) fn put(&self, jobs: Vec<Posted>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = jobs;
    }

    fn jobs(&self) -> Vec<Posted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Answers questions until the other end closes.
    pub(super) fn answer(&self, line: &SeqPacket) -> io::Result<()> {
        let mut question = [0];
        loop {
            if line.receive(&mut question, None)?.bytes == 0 {
                return Ok(());
            }
            let has_connections = question[0] == Question::Connections as u8;
            for Posted { job, metrics } in self.jobs() {
                let connection = metrics.filter(|_| has_connections).map(tcp::begin_connection);
                // Without a connection the job counts as one that does not answer.
                let connection = connection.and_then(Result::ok);
                let descriptor = connection.as_ref().map(TcpStream::as_fd);
                line.send(&job.encoded(), descriptor.as_slice())?;
            }
            line.send(END, &[])?;
            thread::sleep(PAUSE);
        }
    }
}

impl JobNow {
    fn encoded(&self) -> Vec<u8> {
        json!([self.name, self.state, self.starts]).to_string().into_bytes()
    }

    fn decoded(message: &[u8]) -> Option<Self> {
        let parts: Value = serde_json::from_slice(message).ok()?;
        let name = parts[0].as_str()?.to_owned();
        Some(Self { name, state: parts[1].as_u64()? as usize, starts: parts[2].as_u64()? })
    }
}

/// The other end, at which the process asks.
#[derive(Debug)]
pub(super) struct Line(SeqPacket);

impl Line {
    /// Takes the first message, which has the socket where scrapers connect.
    pub(super) fn begin(line: OwnedFd) -> io::Result<(Self, OwnedFd)> {
        let (line, mut descriptors) = (SeqPacket::from(line), Vec::new());
        line.receive(&mut [0; MESSAGE_BYTES], Some(&mut descriptors))?;
        let listener = descriptors.pop().ok_or(ErrorKind::UnexpectedEof)?;
        Ok((Self(line), listener))
    }

    /// Asks for the jobs. An error means that the service has ended.
    pub(super) fn ask(&self, question: Question) -> io::Result<Vec<Told>> {
        self.0.send(&[question as u8], &[])?;
        let (mut told, mut room) = (Vec::new(), [0; MESSAGE_BYTES]);
        loop {
            let mut descriptors: Vec<OwnedFd> = Vec::new();
            let bytes = self.0.receive(&mut room, Some(&mut descriptors))?.bytes;
            match &room[..bytes] {
                END => return Ok(told),
                [] => return Err(ErrorKind::UnexpectedEof.into()),
                message => {
                    let job = JobNow::decoded(message).ok_or(ErrorKind::InvalidData)?;
                    let connection = descriptors.pop().map(TcpStream::from);
                    told.push(Told { job, connection });
                }
            }
        }
    }
}

/// Sends the socket where scrapers connect: see [`Line::begin`].
pub(super) fn begin(line: &SeqPacket, listener: impl AsFd) -> io::Result<()> {
    line.send(b"listener", &[listener.as_fd()])
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn jobs_come_with_connections_if_that_is_asked_for() {
        let [here, there] = SeqPacket::pair().unwrap();
        let scraped = TcpListener::bind("127.0.0.1:0").unwrap();
        begin(&here, &scraped).unwrap();
        let (line, listener) = Line::begin(there.into()).unwrap();
        let found = TcpListener::from(listener).local_addr().unwrap();
        assert_eq!(found, scraped.local_addr().unwrap());

        let asked = TcpListener::bind("127.0.0.1:0").unwrap();
        let name = |letter: &str| letter.repeat(64);
        let job = |letter: &str| JobNow { name: name(letter), state: 5, starts: u64::MAX };
        let board = Board::default();
        board.put(vec![
            Posted { job: job("a"), metrics: None },
            Posted { job: job("b"), metrics: asked.local_addr().ok() },
        ]);
        let answering = thread::spawn(move || board.answer(&here));
        let mut told = line.ask(Question::Connections).unwrap();
        let jobs: Vec<_> = told.iter().map(|told| told.job.clone()).collect();
        assert_eq!(jobs, [job("a"), job("b")]);
        assert!(told[0].connection.is_none());
        told[1].connection.take().unwrap().write_all(b"x").unwrap();
        let mut heard = Vec::new();
        asked.accept().unwrap().0.read_to_end(&mut heard).unwrap();
        assert_eq!(heard, b"x");
        let told = line.ask(Question::Jobs).unwrap();
        assert!(told.len() == 2 && told.iter().all(|told| told.connection.is_none()));
        drop(line);
        answering.join().unwrap().unwrap();
    }
}
