//! The smallest server of HTTP that a scraper needs: one thread, one path, one answer a connection.
//!
//! ```text
//!   accept ──► request, up to an empty line ──► answer ──► closed
//!              at most REQUEST_BYTES, within PATIENCE for both together
//! ```
//!
//! The thread sleeps until any of its connections can go on. It drops a client that is slow, says
//! nothing or never stops when its time is up; while [`MOST_CLIENTS`] are
//! served, further ones wait in the kernel's queue. Sources: RFC 9110, RFC 9112.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use burstline_engine::Progress;
use burstline_sys::privileges;
use burstline_sys::readiness::{Wish, wait_each_for};

use crate::failure::Failure;

/// Connections that are served at a time.
const MOST_CLIENTS: usize = 64;

/// The longest request, in bytes.
const REQUEST_BYTES: usize = 8 << 10;

/// How long a connection may take for everything.
const PATIENCE: Duration = Duration::from_secs(2);

/// Between two looks whether the job has ended.
const LOOK: Duration = Duration::from_millis(50);

/// What OpenMetrics 1.0 is called.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A socket that listens for scrapers.
#[derive(Debug)]
pub(crate) struct Listener(TcpListener);

impl Listener {
    /// Listens at an address. Done before rights are given up: a low port takes one.
    pub(crate) fn bind(address: SocketAddr) -> Result<Self, Failure> {
        let bound = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        bound.map(Self).map_err(|error| {
            Failure::new(format!(
                "--metrics {address}: {error}; name another port, or stop its user"
            ))
        })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// A connection.
struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    /// What is left to be sent, once the request is there.
    answer: Option<Vec<u8>>,
    deadline: Instant,
}

/// Answers scrapers until `is_over`.
pub(crate) fn serve(
    listener: &Listener,
    command: &'static str,
    begun_s: f64,
    progress: &Progress,
    is_over: &AtomicBool,
) {
    // Where that is refused, the job's own threads say so.
    let _ = privileges::give_up();
    let mut clients: Vec<Client> = Vec::new();
    // A wish, carries no memory.
    while !is_over.load(Relaxed) {
        let is_open = clients.len() < MOST_CLIENTS;
        let mut wanted: Vec<_> = clients
            .iter()
            .map(|client| {
                let wish = if client.answer.is_some() { Wish::Write } else { Wish::Read };
                (client.stream.as_fd(), wish)
            })
            .collect();
        if is_open {
            wanted.push((listener.0.as_fd(), Wish::Read));
        }
        let Ok(ready) = wait_each_for(&wanted, LOOK.as_nanos() as u64) else {
            std::thread::sleep(LOOK);
            continue;
        };
        let now = Instant::now();
        let mut number = 0;
        clients.retain_mut(|client| {
            let is_ready = ready[number];
            number += 1;
            let goes_on = !is_ready || client.step(|| super::text(command, begun_s, progress));
            goes_on && now < client.deadline
        });
        if is_open && ready.last() == Some(&true) {
            clients.extend(accept(&listener.0, now + PATIENCE));
        }
    }
}

/// The next connection. `None`: it is gone already, or there is no descriptor for it.
fn accept(listener: &TcpListener, deadline: Instant) -> Option<Client> {
    let (stream, _) = listener.accept().ok()?;
    stream.set_nonblocking(true).ok()?;
    Some(Client { stream, request: Vec::new(), answer: None, deadline })
}

impl Client {
    /// Does what can be done now. False: it is done with, or has gone.
    fn step(&mut self, text: impl FnOnce() -> String) -> bool {
        let outcome = match &mut self.answer {
            None => self.read(text),
            Some(answer) => self.stream.write(answer).map(|bytes| {
                answer.drain(..bytes);
                !answer.is_empty()
            }),
        };
        match outcome {
            Ok(goes_on) => goes_on,
            Err(error) => {
                matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
            }
        }
    }

    fn read(&mut self, text: impl FnOnce() -> String) -> io::Result<bool> {
        let mut place = [0; 1024];
        let bytes = self.stream.read(&mut place)?;
        self.request.extend_from_slice(&place[..bytes]);
        let is_whole = self.request.windows(4).any(|four| four == b"\r\n\r\n");
        if is_whole || self.request.len() > REQUEST_BYTES {
            let answer = if is_whole { answer(&self.request, text) } else { too_long() };
            self.answer = Some(answer.into_bytes());
        }
        Ok(bytes > 0)
    }
}

fn too_long() -> String {
    response(
        "431 Request Header Fields Too Large",
        "text/plain",
        "the request is too long\n",
        false,
    )
}

/// The answer to a whole request.
fn answer(request: &[u8], text: impl FnOnce() -> String) -> String {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let path = target.split('?').next().unwrap_or("");
    let plain = |status, body| response(status, "text/plain", body, method == "HEAD");
    match (method, path) {
        _ if !words.next().is_some_and(|version| version.starts_with("HTTP/1.")) => {
            plain("400 Bad Request", "expected a request of HTTP/1.1\n")
        }
        ("GET" | "HEAD", "/metrics") => response("200 OK", CONTENT_TYPE, &text(), method == "HEAD"),
        ("GET" | "HEAD", _) => plain("404 Not Found", "only /metrics is here\n"),
        _ => plain("405 Method Not Allowed", "only GET and HEAD\n"),
    }
}

fn response(status: &str, content_type: &str, body: &str, is_head: bool) -> String {
    let length = body.len();
    let body = if is_head { "" } else { body };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n\
         {body}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_path_is_answered_and_the_rest_is_told() {
        let status = |request: &str| {
            let answer = answer(request.as_bytes(), || "body".to_owned());
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            (head[9..12].to_owned(), body.to_owned())
        };
        for (request, code) in [
            ("GET /metrics HTTP/1.1\r\n\r\n", "200"),
            ("GET /metrics?x=1 HTTP/1.0\r\n\r\n", "200"),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", "200"),
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("GET /metrics\r\n\r\n", "400"),
            ("\r\n\r\n", "400"),
        ] {
            let (status, body) = status(request);
            assert_eq!(status, code, "{request}");
            assert_eq!(body == "body", request.starts_with("GET /metrics") && code == "200");
        }
    }
}
