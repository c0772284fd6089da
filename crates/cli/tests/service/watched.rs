//! Jobs that answer HTTP while they run, and clients that query them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{ChildStderr, Command, Stdio};
use std::time::Duration;

use burstline_testbed::Killed;
use serde_json::Value;

use crate::support::{PROGRAM, last_object};

/// A job that answers HTTP.
pub(crate) struct Watched {
    pub(crate) child: Killed,
    /// Host and port.
    pub(crate) address: String,
    /// The path in the program's announcement: `/metrics`, `/`, `/?token=...`.
    pub(crate) path: String,
    /// Kept open so that the job can write more.
    said: BufReader<ChildStderr>,
}

impl Watched {
    /// Connects a hundred clients: some say nothing, some stop in the middle of requesting `path`,
    /// some never stop.
    pub(crate) fn rude_clients(&self, path: &str) -> Vec<TcpStream> {
        let half = format!("GET {path} HTTP/1.1\r\nHost:");
        let words: [&[u8]; 3] = [b"", half.as_bytes(), &[b'x'; 16 << 10]];
        let rude = (0..100).map(|number| {
            let mut stream = TcpStream::connect(&self.address).unwrap();
            stream.set_nonblocking(true).unwrap();
            // It may be refused already.
            let _ = stream.write(words[number % 3]);
            stream
        });
        rude.collect()
    }

    /// Starts a job with `--metrics` or `--web`, on a local port chosen by the kernel.
    pub(crate) fn start(flag: &str, words: &[&str]) -> Self {
        Self::start_at(flag, "127.0.0.1:0", words, |_| {})
    }

    /// The same at an address, after changing the command.
    pub(crate) fn start_at(
        flag: &str,
        address: &str,
        words: &[&str],
        change: impl FnOnce(&mut Command),
    ) -> Self {
        let mut job = Command::new(PROGRAM);
        job.args(words).args([flag, address, "--json"]).stdin(Stdio::null());
        change(&mut job);
        let mut child = job.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let what = if flag == "--web" { "page at http://" } else { "metrics at http://" };
        let mut line = String::new();
        while !line.contains(what) {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "it has ended");
        }
        let address = line.trim().split("http://").nth(1).unwrap();
        let (address, path) = address.split_at(address.find('/').unwrap());
        let (address, path) = (address.to_owned(), path.to_owned());
        Self { child: Killed(child), address, path, said }
    }

    /// Returns the URL of its page.
    pub(crate) fn page(&self) -> String {
        format!("http://{}{}", self.address, self.path)
    }

    /// Returns head and body of the answer to a request.
    pub(crate) fn ask(&self, request: &str) -> (String, String) {
        asked(&self.address, request)
    }

    /// Returns the job's status as JSON.
    pub(crate) fn status(&self) -> Value {
        let query =
            self.path.split_once('?').map_or(String::new(), |(_, query)| format!("?{query}"));
        let request = format!("GET /status{query} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address);
        let (head, body) = self.ask(&request);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        serde_json::from_str(&body).unwrap()
    }

    pub(crate) fn signal(&self, name: &str) {
        burstline_testbed::signal(self.child.id(), name).unwrap();
    }

    /// Ends the job, and returns its report.
    pub(crate) fn end(self) -> Value {
        self.signal("-INT");
        self.wait(true)
    }

    /// Waits for its end, and returns its report.
    pub(crate) fn wait(mut self, is_success: bool) -> Value {
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).unwrap();
        let mut output = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        assert_eq!(self.child.wait().unwrap().success(), is_success, "{rest}");
        last_object(&output)
    }
}

/// Returns head and body of an address's answer to a request.
pub(crate) fn asked(address: &str, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// Returns the metrics at an address, after checking that the answer is complete OpenMetrics.
pub(crate) fn scraped(address: &str) -> String {
    let (head, body) = asked(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("application/openmetrics-text; version=1.0.0"), "{head}");
    assert_eq!(body.matches("# EOF\n").count(), 1, "{body}");
    assert!(body.ends_with("# EOF\n"), "{body}");
    body
}
