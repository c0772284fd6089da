//! The service's log on standard output: one event per line, as text or JSON.
//!
//! A separate thread writes it, so a stalled reader blocks neither the supervisor nor a job. Lines
//! without room are dropped and counted.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use burstline_sys::clock;
use serde_json::{Map, Value};

use super::room::{Line, Room};
use crate::args::LogFormat;
use crate::failure::{Failure, complain};
use crate::foreign::{harmless, one_line};
use crate::words::time_text;

/// Maximum number of lines that wait for the reader, and their bytes.
const LINES: usize = 4096;
const BYTES: usize = 16 << 20;
/// How long to wait for the reader at the end.
const PATIENCE: Duration = Duration::from_secs(2);

/// A log event.
pub(super) struct Event<'a> {
    pub(super) job: Option<&'a str>,
    /// The event's name in JSON.
    pub(super) name: &'static str,
    /// Text for people.
    pub(super) text: &'a str,
    /// Additional fields for programs.
    pub(super) fields: Vec<(&'static str, Value)>,
}

/// The log.
pub(super) struct Journal {
    format: LogFormat,
    lines: SyncSender<Line>,
    room: Arc<Room>,
    done: Receiver<()>,
    dropped: u64,
}

impl Journal {
    /// Starts the writing thread.
    pub(super) fn start(format: LogFormat) -> Result<Self, Failure> {
        let (is_done, done) = mpsc::channel();
        let (journal, receive) = Self::new(format, done);
        let writer = thread::Builder::new().name("journal".to_owned()).spawn(move || {
            write_all(&receive);
            let _ = is_done.send(()); // fails if the receiver is gone
        });
        writer.map_err(|error| Failure::new(format!("start the thread `journal`: {error}")))?;
        Ok(journal)
    }

    /// Returns a log, and the receiver of its lines.
    fn new(format: LogFormat, done: Receiver<()>) -> (Self, Receiver<Line>) {
        let (lines, receive) = mpsc::sync_channel(LINES);
        (Self { format, lines, room: Room::new(BYTES), done, dropped: 0 }, receive)
    }

    /// Logs an event.
    pub(super) fn tell(&mut self, event: &Event<'_>) {
        if self.dropped > 0 {
            let text = format!("{} lines of this log were dropped: no room", self.dropped);
            let fields = vec![("lines", self.dropped.into())];
            let line = self.line(&Event { job: None, name: "dropped", text: &text, fields });
            if self.put(line) {
                self.dropped = 0;
            }
        }
        if !self.put(self.line(event)) {
            self.dropped += 1;
        }
    }

    /// Queues a line if there is room.
    fn put(&self, line: String) -> bool {
        let line = self.room.try_for(line);
        line.is_some_and(|line| self.lines.try_send(line).is_ok())
    }

    fn line(&self, event: &Event<'_>) -> String {
        let now = time_text(clock::realtime_ns());
        let now = now.get(.."2026-11-21 21:44:01.123".len()).unwrap_or(&now);
        match self.format {
            LogFormat::Text => {
                let job = event.job.map_or(String::new(), |job| format!("{job}: "));
                format!("{now} UTC {job}{}\n", one_line(event.text))
            }
            LogFormat::Json => {
                let mut object = Map::new();
                object.insert("time".to_owned(), format!("{}Z", now.replace(' ', "T")).into());
                if let Some(job) = event.job {
                    object.insert("job".to_owned(), job.into());
                }
                object.insert("event".to_owned(), event.name.into());
                if !event.text.is_empty() {
                    object.insert("text".to_owned(), event.text.into());
                }
                let fields = event.fields.iter().map(|(key, value)| (*key, value.clone()));
                object.extend(fields.map(|(key, value)| (key.to_owned(), value)));
                // JSON escapes only ASCII control characters.
                format!("{}\n", harmless(&Value::Object(object).to_string()))
            }
        }
    }

    /// Ends the log after writing its lines, as far as the reader accepts them in time.
    pub(super) fn finish(self) {
        drop(self.lines);
        let _ = self.done.recv_timeout(PATIENCE);
    }
}

fn write_all(lines: &Receiver<Line>) {
    let mut failed = 0_u64;
    for line in lines {
        let mut out = io::stdout().lock();
        // The jobs continue even if the log cannot be written.
        match out.write_all(line.text().as_bytes()).and_then(|()| out.flush()) {
            Ok(()) if failed > 0 => {
                complain(&format!("the log can be written again; {failed} lines were lost"));
                failed = 0;
            }
            Ok(()) => {}
            Err(error) => {
                if failed == 0 {
                    complain(&format!("the log cannot be written, and lines are lost: {error}"));
                }
                failed += 1;
            }
        }
    }
    if failed > 0 {
        complain(&format!("{failed} lines of the log were lost"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal(format: LogFormat) -> (Journal, Receiver<Line>) {
        Journal::new(format, mpsc::channel().1)
    }

    fn message(text: &str) -> Event<'_> {
        Event { job: Some("a"), name: "message", text, fields: vec![] }
    }

    #[test]
    fn no_line_has_what_a_terminal_obeys() {
        let text = "a\x1b[2J\u{9b}31m\u{202e}b";
        for format in [LogFormat::Text, LogFormat::Json] {
            let (mut journal, lines) = journal(format);
            journal.tell(&message(text));
            let line = lines.recv().unwrap().text().to_owned();
            let is_order = |letter: char| letter.is_control() || letter == '\u{202e}';
            assert!(!line.trim_end_matches('\n').contains(is_order), "{line:?}");
            if format == LogFormat::Json {
                let event: Value = serde_json::from_str(&line).unwrap();
                assert_eq!(event["text"], text);
            }
        }
    }

    #[test]
    fn long_lines_that_nobody_reads_are_dropped_and_counted() {
        let (mut journal, lines) = journal(LogFormat::Text);
        let long = "x".repeat(1 << 20);
        for _ in 0..64 {
            journal.tell(&message(&long));
        }
        let waiting: usize = lines.try_iter().map(|line| line.text().len()).sum();
        assert!(waiting <= 17 << 20, "{waiting} bytes");
        journal.tell(&message("after"));
        let told: Vec<_> = lines.try_iter().map(|line| line.text().to_owned()).collect();
        assert!(told[0].contains("lines of this log were dropped: no room"), "{told:?}");
        assert!(told[1].ends_with(" UTC a: after\n"), "{told:?}");
    }
}
