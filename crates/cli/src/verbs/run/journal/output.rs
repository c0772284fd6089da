//! The log on standard output, as its process writes it.
//!
//! A separate thread writes, so a stalled reader blocks no thread that reads from jobs. Lines
//! without room are dropped and counted.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use super::super::room::{Line, Room};
use super::entry::{Dropped, Event};
use super::{BYTES, LINES, PATIENCE};
use crate::args::LogFormat;
use crate::failure::complain;

/// The lines that wait for the reader of standard output.
#[derive(Debug)]
pub(super) struct Output {
    format: LogFormat,
    room: Arc<Room>,
    waiting: Mutex<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    /// `None` at the end.
    lines: Option<SyncSender<Line>>,
    dropped: Dropped,
}

impl Output {
    /// Starts the writing thread. The receiver hears its end.
    pub(super) fn start(format: LogFormat) -> io::Result<(Arc<Self>, Receiver<()>)> {
        let (output, lines) = Self::new(format);
        let (is_done, done) = mpsc::channel();
        thread::Builder::new().name("write".to_owned()).spawn(move || {
            write_all(&lines);
            let _ = is_done.send(()); // fails if the receiver is gone
        })?;
        Ok((Arc::new(output), done))
    }

    /// Returns an output, and the receiver of its lines.
    pub(super) fn new(format: LogFormat) -> (Self, Receiver<Line>) {
        let (lines, receive) = mpsc::sync_channel(LINES);
        let waiting = Waiting { lines: Some(lines), dropped: Dropped::default() };
        (Self { format, room: Room::new(BYTES), waiting: Mutex::new(waiting) }, receive)
    }

    pub(super) fn tell(&self, event: &Event<'_>) {
        self.put(event.line(self.format));
    }

    /// Queues a line if there is room.
    pub(super) fn put(&self, line: String) {
        let mut waiting = self.lock();
        let Waiting { lines: Some(lines), dropped } = &mut *waiting else { return };
        let put = |line| self.room.try_for(line).is_some_and(|line| lines.try_send(line).is_ok());
        dropped.offer(self.format, line, put);
    }

    /// Ends the log after writing its lines, as far as the reader accepts them in time.
    pub(super) fn finish(&self, done: &Receiver<()>) {
        self.lock().lines = None;
        let _ = done.recv_timeout(PATIENCE);
    }

    pub(super) fn format(&self) -> LogFormat {
        self.format
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
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

    #[test]
    fn long_lines_that_nobody_reads_are_dropped_and_counted() {
        let (output, lines) = Output::new(LogFormat::Text);
        let message = |text: &str| {
            output.tell(&Event { job: Some("a"), name: "message", text, fields: vec![] })
        };
        let long = "x".repeat(1 << 20);
        for _ in 0..64 {
            message(&long);
        }
        let waiting: usize = lines.try_iter().map(|line| line.text().len()).sum();
        assert!(waiting <= 17 << 20, "{waiting} bytes");
        message("after");
        let told: Vec<_> = lines.try_iter().map(|line| line.text().to_owned()).collect();
        assert!(told[0].contains("lines of this log were dropped: no room"), "{told:?}");
        assert!(told[1].ends_with(" UTC a: after\n"), "{told:?}");
    }
}
