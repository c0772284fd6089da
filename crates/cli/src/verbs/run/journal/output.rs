//! The log on standard output, as its process writes it.
//!
//! ```text
//!   threads that read jobs ──put──► lines ──take──► thread `write` ──► standard output
//!                            wait while it goes on     many lines a write
//! ```
//!
//! A job that prints faster than the log is written waits at its own pipe. One whose log nobody
//! takes does not: after [`STALLED`] lines are dropped and counted, until something is taken again.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::super::room::{Line, Room};
use super::entry::{Dropped, Event};
use super::{BYTES, LINES, PATIENCE};
use crate::args::LogFormat;
use crate::failure::complain;

/// How long lines wait while nothing is taken.
const STALLED: Duration = Duration::from_secs(1);
/// Lines of more bytes are written by the next call.
const WRITE_BYTES: usize = 64 << 10;

/// The lines that wait for the reader of standard output.
#[derive(Debug)]
pub(super) struct Output {
    format: LogFormat,
    waiting: Mutex<Waiting>,
    has_lines: Condvar,
    has_room: Condvar,
}

#[derive(Debug)]
struct Waiting {
    lines: VecDeque<Line>,
    room: Arc<Room>,
    /// How often lines were taken.
    takes: u64,
    /// That number when lines waited in vain: until it changes, none waits.
    stalled_at: Option<u64>,
    is_over: bool,
    dropped: Dropped,
}

/// Whole lines.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) text: String,
    pub(super) lines: u64,
}

impl Output {
    /// Starts the writing thread. The receiver hears its end.
    pub(super) fn start(format: LogFormat) -> io::Result<(Arc<Self>, Receiver<()>)> {
        let output = Arc::new(Self::new(format));
        let (is_done, done) = mpsc::channel();
        let own = Arc::clone(&output);
        thread::Builder::new().name("write".to_owned()).spawn(move || {
            write_all(&own);
            let _ = is_done.send(()); // fails if the receiver is gone
        })?;
        Ok((output, done))
    }

    pub(super) fn new(format: LogFormat) -> Self {
        let waiting = Waiting {
            lines: VecDeque::new(),
            room: Room::new(BYTES),
            takes: 0,
            stalled_at: None,
            is_over: false,
            dropped: Dropped::default(),
        };
        let (has_lines, has_room) = (Condvar::new(), Condvar::new());
        Self { format, waiting: Mutex::new(waiting), has_lines, has_room }
    }

    pub(super) fn tell(&self, event: &Event<'_>) {
        self.put(event.line(self.format));
    }

    /// Queues a line. Waits for room while lines are taken.
    pub(super) fn put(&self, line: String) {
        let mut waiting = self.lock();
        let (mut takes, mut until) = (waiting.takes, Instant::now() + STALLED);
        while !waiting.has_room(&line) && !waiting.is_over && !waiting.is_stalled() {
            let left = until.saturating_duration_since(Instant::now());
            if waiting.takes != takes {
                (takes, until) = (waiting.takes, Instant::now() + STALLED);
            } else if left.is_zero() {
                waiting.stalled_at = Some(takes);
            } else {
                let waited = self.has_room.wait_timeout(waiting, left);
                waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        if waiting.is_over {
            return;
        }
        let mut dropped = std::mem::take(&mut waiting.dropped);
        dropped.offer(self.format, line, |line| waiting.put(line));
        waiting.dropped = dropped;
        self.has_lines.notify_one();
    }

    /// Waits for lines, and takes some. `None` at the end.
    pub(super) fn take(&self) -> Option<Batch> {
        let mut waiting = self.lock();
        while waiting.lines.is_empty() && !waiting.is_over {
            waiting = self.has_lines.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        let mut batch = Batch::default();
        while batch.text.len() < WRITE_BYTES {
            let Some(line) = waiting.lines.pop_front() else { break };
            batch.text += line.text();
            batch.lines += 1;
        }
        waiting.takes += 1;
        self.has_room.notify_all();
        Some(batch).filter(|batch| batch.lines > 0)
    }

    /// Ends the log after writing its lines, as far as the reader accepts them in time.
    pub(super) fn finish(&self, done: &Receiver<()>) {
        self.end();
        let _ = done.recv_timeout(PATIENCE);
    }

    /// Takes no more lines.
    pub(super) fn end(&self) {
        self.lock().is_over = true;
        self.has_lines.notify_all();
        self.has_room.notify_all();
    }

    pub(super) fn format(&self) -> LogFormat {
        self.format
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn has_room(&self, line: &str) -> bool {
        self.lines.len() < LINES && self.room.has_room_for(line)
    }

    fn is_stalled(&self) -> bool {
        self.stalled_at == Some(self.takes)
    }

    /// Returns whether there was room.
    fn put(&mut self, line: String) -> bool {
        let line = Some(line).filter(|line| self.has_room(line));
        let line = line.and_then(|line| self.room.try_for(line));
        let has_room = line.is_some();
        self.lines.extend(line);
        has_room
    }
}

fn write_all(output: &Output) {
    let mut failed = 0_u64;
    while let Some(Batch { text, lines }) = output.take() {
        let mut out = io::stdout().lock();
        // The jobs continue even if the log cannot be written.
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) if failed > 0 => {
                complain(&format!("the log can be written again; {failed} lines were lost"));
                failed = 0;
            }
            Ok(()) => {}
            Err(error) => {
                if failed == 0 {
                    complain(&format!("the log cannot be written, and lines are lost: {error}"));
                }
                failed += lines;
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

    fn message(output: &Output, text: &str) {
        output.tell(&Event { job: Some("a"), name: "message", text, fields: vec![] });
    }

    #[test]
    fn long_lines_that_nobody_reads_are_dropped_and_counted() {
        let output = Output::new(LogFormat::Text);
        let long = "x".repeat(1 << 20);
        for _ in 0..64 {
            message(&output, &long);
        }
        let mut waiting = 0;
        while !output.lock().lines.is_empty() {
            waiting += output.take().unwrap().text.len();
        }
        assert!(waiting <= 17 << 20, "{waiting} bytes");
        message(&output, "after");
        let told = output.take().unwrap();
        let lines: Vec<_> = told.text.lines().collect();
        assert!(lines[0].contains("lines of this log were dropped: no room"), "{lines:?}");
        assert!(lines[1].ends_with(" UTC a: after"), "{lines:?}");
    }

    #[test]
    fn who_prints_faster_than_the_log_is_taken_waits_and_loses_nothing() {
        const PRINTED: u64 = 50_000;
        let output = Arc::new(Output::new(LogFormat::Text));
        let printing: Vec<_> = (0..2)
            .map(|_| {
                let output = Arc::clone(&output);
                thread::spawn(move || (0..PRINTED).for_each(|_| message(&output, "x")))
            })
            .collect();
        let taking = thread::spawn({
            let output = Arc::clone(&output);
            move || {
                let mut lines = 0;
                while let Some(batch) = output.take() {
                    assert!(!batch.text.contains("dropped"), "{}", batch.text);
                    lines += batch.lines;
                    thread::sleep(Duration::from_millis(1)); // slower than they print
                }
                lines
            }
        });
        printing.into_iter().for_each(|printing| printing.join().unwrap());
        output.end();
        assert_eq!(taking.join().unwrap(), 2 * PRINTED);
    }
}
