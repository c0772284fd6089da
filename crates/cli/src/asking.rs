//! A minimal HTTP client: `top`, and a service that polls its jobs, query
//! [`serving`](crate::serving).
//!
//! The server is not trusted: a line is limited to [`LINE_BYTES`], an answer to the caller's limit,
//! and every wait to [`Patience`].

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The longest line of an answer, in bytes.
const LINE_BYTES: u64 = 4 << 20;
/// Maximum number of header lines before the body.
const HEAD_LINES: usize = 100;

/// Timeouts of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// For the connection.
    pub(crate) connect: Duration,
    /// Between two bytes.
    pub(crate) silence: Duration,
    /// For the whole exchange, including the connection. `None`: unlimited while bytes arrive.
    pub(crate) whole: Option<Duration>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// The connection could not be made, or was lost.
    Lost(io::Error),
    /// The connection ended before the answer began.
    Cut,
    /// The status is not 200, or `None` if the answer is not HTTP.
    Refused(Option<u16>),
}

/// The body of an answer.
#[derive(Debug)]
pub(crate) struct Answer(BufReader<Timed>);

/// A connection whose reads time out.
#[derive(Debug)]
struct Timed {
    stream: TcpStream,
    silence: Duration,
    until: Option<Instant>,
}

impl Read for Timed {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if let Some(until) = self.until {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(left.min(self.silence)))?;
        }
        let silence = self.silence;
        self.stream.read(room).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                io::Error::new(io::ErrorKind::TimedOut, format!("no data for {silence:?}"))
            }
            _ => error,
        })
    }
}

/// Requests `path` with a query string from an address.
pub(crate) fn ask(
    address: SocketAddr,
    path: &str,
    patience: &Patience,
) -> Result<Answer, Unanswered> {
    let begun = Instant::now();
    let stream = TcpStream::connect_timeout(&address, patience.connect)?;
    let whole = patience.whole.map(|whole| whole.saturating_sub(begun.elapsed()));
    ask_over(stream, &address.to_string(), path, &Patience { whole, ..*patience })
}

/// The same over a connection that has been begun. `host` names the server in the request.
pub(crate) fn ask_over(
    mut stream: TcpStream,
    host: &str,
    path: &str,
    patience: &Patience,
) -> Result<Answer, Unanswered> {
    let Patience { silence, whole, .. } = *patience;
    let until = whole.map(|whole| Instant::now() + whole);
    stream.set_read_timeout(Some(silence))?;
    stream.set_write_timeout(Some(silence))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Answer(BufReader::new(Timed { stream, silence, until }));
    let status = answer.line()?;
    match status.as_deref().and_then(status_of) {
        Some(200) => {}
        other => return Err(Unanswered::Refused(other)),
    }
    for _ in 0..HEAD_LINES {
        match answer.line()?.as_deref() {
            Some("") => return Ok(answer),
            Some(_) => {}
            None => return Err(Unanswered::Cut),
        }
    }
    Err(Unanswered::Refused(None))
}

/// Parses `HTTP/1.1 200 OK`.
fn status_of(line: &str) -> Option<u16> {
    line.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()
}

impl From<io::Error> for Unanswered {
    fn from(error: io::Error) -> Self {
        Self::Lost(error)
    }
}

impl Answer {
    /// Returns the next line without its end, or `None` at the end of the answer.
    pub(crate) fn line(&mut self) -> io::Result<Option<String>> {
        let mut bytes = Vec::new();
        self.0.by_ref().take(LINE_BYTES).read_until(b'\n', &mut bytes)?;
        if bytes.pop() != Some(b'\n') {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&bytes);
        Ok(Some(text.trim_end_matches('\r').to_owned()))
    }

    /// Returns the whole body, which may have at most `most` bytes.
    pub(crate) fn whole(self, most: u64) -> io::Result<String> {
        let mut text = String::new();
        self.0.take(most + 1).read_to_string(&mut text)?;
        match text.len() as u64 > most {
            true => Err(io::Error::other(format!("its answer is longer than {most} bytes"))),
            false => Ok(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    const PATIENCE: Patience = Patience { connect: LONG, silence: LONG, whole: Some(LONG) };

    /// Queries a server that sends these pieces 40 ms apart, then disconnects.
    fn asked(pieces: &'static [&str]) -> Result<Result<String, io::ErrorKind>, Unanswered> {
        asked_for(pieces, Duration::from_millis(40), LONG)
    }

    /// The same with pieces `pause` apart, and a time limit for the answer.
    fn asked_for(
        pieces: &'static [&str],
        pause: Duration,
        whole: Duration,
    ) -> Result<Result<String, io::ErrorKind>, Unanswered> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let speaker = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // Read the whole request: closing a connection with unread data resets it.
            assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
            for piece in pieces {
                // The client may have disconnected.
                let _ = stream.write_all(piece.as_bytes());
                thread::sleep(pause);
            }
        });
        let answer = ask(address, "/metrics", &Patience { whole: Some(whole), ..PATIENCE });
        let whole = answer.map(|answer| answer.whole(8).map_err(|error| error.kind()));
        speaker.join().unwrap();
        whole
    }

    #[test]
    fn an_answer_is_taken_up_to_its_length_and_time() {
        let whole = asked(&["HTTP/1.1 200 OK\r\nX: y\r\n", "\r\nshort"]);
        assert_eq!(whole.unwrap().unwrap(), "short");
        let long = asked(&["HTTP/1.1 200 OK\r\n\r\nnine char"]);
        assert_eq!(long.unwrap(), Err(io::ErrorKind::Other));
        // A server that never ends, but sends a byte now and then.
        let endless = &["HTTP/1.1 200 OK\r\n\r\n", "a", "b", "c", "d", "e", "f", "g", "h", "i"];
        let slow = asked_for(endless, Duration::from_millis(400), Duration::from_secs(2));
        let is_late = |kind| matches!(kind, io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock);
        assert!(slow.unwrap().is_err_and(is_late));
    }

    #[test]
    fn what_is_no_answer_has_its_reason() {
        let refused = asked(&["HTTP/1.1 401 Unauthorized\r\n\r\n"]);
        assert!(matches!(refused, Err(Unanswered::Refused(Some(401)))));
        let other = asked(&["SSH-2.0-OpenSSH\r\n"]);
        assert!(matches!(other, Err(Unanswered::Refused(None))));
        assert!(matches!(asked(&["HTTP/1.1 200 OK\r\nX: "]), Err(Unanswered::Cut)));
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        // Another test may listen there by now, and not answer.
        let silence = Duration::from_secs(1);
        let refused = ask(nobody, "/", &Patience { silence, ..PATIENCE });
        assert!(matches!(refused, Err(Unanswered::Lost(_))));
    }
}
