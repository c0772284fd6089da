//! Data sources of `top`: a job's event stream, or the published names.
//!
//! A peer is not trusted: its data is bounded in size, and control characters in its text are
//! escaped.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::asking::{self, Answer, Patience, Unanswered};
use crate::failure::Failure;
use crate::verbs::doctor::published;
use crate::view::logs;

/// Timeouts for a job's stream, which has an event per second until the job ends.
const PATIENCE: Patience =
    Patience { connect: Duration::from_secs(3), silence: Duration::from_secs(5), whole: None };

/// Timeouts for a single request.
const ONCE: Patience = Patience { whole: Some(Duration::from_secs(10)), ..PATIENCE };

/// The longest answer of a job, in bytes.
const ANSWER_BYTES: u64 = 4 << 20;

/// Delay before reconnecting.
const AGAIN: Duration = Duration::from_secs(1);

/// An update.
#[derive(Debug)]
pub(super) enum News {
    /// Past data, as columns.
    Past(Value),
    /// Current data.
    State(Value),
    /// The report of a job that has ended.
    End(Value),
    /// The connection failed, for this reason.
    Lost(String),
}

/// A source of data.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// The names published on this machine.
    Names,
    /// A job.
    Job(Peer),
}

/// The address of a job.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    address: SocketAddr,
    /// `?token=...`, or empty.
    query: String,
}

/// Splits a port, an address, or a URL into its place and its path.
fn parted(word: &str) -> (&str, &str) {
    let rest = word.strip_prefix("http://").unwrap_or(word);
    rest.split_at(rest.find('/').unwrap_or(rest.len()))
}

/// Returns the TCP port in the address of a job.
pub(crate) fn port(word: &str) -> Option<u16> {
    parted(word).0.rsplit(':').next()?.parse().ok()
}

impl Source {
    /// Parses a port, an address, or a URL that the job has printed.
    pub(super) fn of(word: Option<&str>) -> Result<Self, Failure> {
        let Some(word) = word else { return Ok(Self::Names) };
        let (place, path) = parted(word);
        let query = path.find('?').map_or("", |at| &path[at..]);
        let is_plain = query.bytes().all(|byte| byte.is_ascii_graphic());
        let address = match place.parse::<u16>() {
            Ok(port) => Ok(Some((Ipv4Addr::LOCALHOST, port).into())),
            Err(_) => place.to_socket_addrs().map(|mut found| found.next()),
        };
        match address {
            Ok(Some(address)) if is_plain => {
                Ok(Self::Job(Peer { address, query: query.to_owned() }))
            }
            Err(error) if place.contains(':') => Err(Failure::new(format!("top {word}: {error}"))),
            _ => Err(Failure::usage(format!(
                "top {word}: expected HOST:PORT, a port of 127.0.0.1, or http://HOST:PORT/?token="
            ))),
        }
    }

    /// Returns the name to display.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Names => "published logs".to_owned(),
            Self::Job(peer) => peer.address.to_string(),
        }
    }

    /// Returns the current data once.
    pub(super) fn look(&self) -> Result<News, Failure> {
        match self {
            Self::Names => Ok(News::State(names())),
            Self::Job(peer) => {
                let body = peer.ask("/status", &ONCE).and_then(|answer| {
                    let whole = answer.whole(ANSWER_BYTES);
                    whole.map_err(|error| peer.failed(&error.to_string()))
                });
                let body = body.map_err(Failure::new)?;
                let state = serde_json::from_str(&body);
                let failed = |_| Failure::new(peer.failed("its answer is not a job's"));
                state.map(News::State).map_err(failed)
            }
        }
    }

    /// Sends updates until the receiver is dropped.
    pub(super) fn follow(&self, tell: &SyncSender<News>, every: Duration) {
        loop {
            let is_heard = match self {
                Self::Names => tell.send(News::State(names())).is_ok(),
                Self::Job(peer) => match peer.follow(tell) {
                    Ok(is_heard) => is_heard,
                    Err(error) => tell.send(News::Lost(error)).is_ok(),
                },
            };
            if !is_heard {
                return;
            }
            thread::sleep(if matches!(self, Self::Names) { every } else { AGAIN });
        }
    }
}

fn names() -> Value {
    logs::json(&published())
}

impl Peer {
    fn failed(&self, why: &str) -> String {
        format!("{}: {why}", self.address)
    }

    /// Requests a path and returns the body of the answer.
    fn ask(&self, path: &str, patience: &Patience) -> Result<Answer, String> {
        let Self { address, query } = self;
        let answer = asking::ask(*address, &format!("{path}{query}"), patience);
        let why = |reason| match reason {
            Unanswered::Lost(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                "no job answers here: start one with --web or --metrics".to_owned()
            }
            Unanswered::Lost(error) => error.to_string(),
            Unanswered::Cut => "its answer is incomplete".to_owned(),
            Unanswered::Refused(Some(401)) => {
                format!("it requires a token: burstline top 'http://{address}/?token=...'")
            }
            Unanswered::Refused(Some(503)) => {
                "the maximum number of viewers is connected".to_owned()
            }
            Unanswered::Refused(_) => "this is not a burstline job".to_owned(),
        };
        answer.map_err(|reason| self.failed(&why(reason)))
    }

    /// Sends a job's updates until it ends. Returns false if the receiver is gone or the job has
    /// ended.
    fn follow(&self, tell: &SyncSender<News>) -> Result<bool, String> {
        let mut answer = self.ask("/events", &PATIENCE)?;
        let mut name = String::new();
        loop {
            let silent = |error: io::Error| match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    self.failed("it has sent nothing for 5 s")
                }
                _ => self.failed(&error.to_string()),
            };
            let Some(line) = answer.line().map_err(silent)? else {
                return Err(self.failed("the connection was closed before the job's end"));
            };
            if let Some(event) = line.strip_prefix("event: ") {
                event.clone_into(&mut name);
            }
            let Some(data) = line.strip_prefix("data: ") else { continue };
            let data = serde_json::from_str(data);
            let data = data.map_err(|_| self.failed("its answer is not a job's"))?;
            let is_heard = match name.as_str() {
                "end" => {
                    // This is the last update, so a missing receiver does not matter.
                    let _ = tell.send(News::End(data));
                    false
                }
                "past" => tell.send(News::Past(data)).is_ok(),
                _ => tell.send(News::State(data)).is_ok(),
            };
            if !is_heard {
                return Ok(false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_addresses_and_words_that_are_not() {
        let read = |word| match Source::of(Some(word)) {
            Ok(Source::Job(peer)) => Some(format!("{}{}", peer.address, peer.query)),
            _ => None,
        };
        for (word, address) in [
            ("9180", Some("127.0.0.1:9180")),
            ("10.0.0.1:80", Some("10.0.0.1:80")),
            ("[::1]:9180", Some("[::1]:9180")),
            ("http://10.0.0.1:80/?token=abc", Some("10.0.0.1:80?token=abc")),
            ("http://10.0.0.1:80/metrics", Some("10.0.0.1:80")),
            ("10.0.0.1", None),
            ("tap", None),
            ("", None),
            ("http://", None),
            ("127.0.0.1:1/?a b", None),
            ("127.0.0.1:1/?a\r\nX: y", None),
        ] {
            assert_eq!(read(word).as_deref(), address, "{word}");
        }
    }
}
