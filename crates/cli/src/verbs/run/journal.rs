//! The service's log on standard output: one event per line, as text or JSON.
//!
//! ```text
//!   supervisor ──lines, pipes──► Queue ──thread `journal`──► burstline run --journal: nobody
//!                                  ▲                            │ reads what jobs print,
//!                                  └──the pipes of N ended──────┘ writes the log
//! ```
//!
//! The supervisor keeps its rights, so it reads nothing that a job prints: it gives the pipes away.
//! Any process of nobody may end the one that reads. The supervisor keeps copies of the pipes, and
//! gives them to the next one. What the ended one had read and not written is lost.
//!
//! Invariants:
//! - J1: the supervisor waits for nobody: what finds no room in the queue is dropped and counted.
//! - J2: it reads numbers of 8 bytes from that process, at most one for each start that was handed
//!   over. After anything else it reads no more, and that process is killed.
//! - J3: it closes its copies of a process's pipes only when that process has ended. So whoever
//!   takes the journal over ends no job by a pipe that nobody reads.

mod entry;
mod line;
mod output;
mod process;
mod queue;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use burstline_sys::seqpacket::SeqPacket;

use super::child::{Printed, Told};
use crate::args::LogFormat;
use entry::Dropped;
pub(super) use entry::Event;
use line::Printer;
pub(super) use process::serve;
use queue::Queue;

/// Maximum number of lines that wait for the reader, and their bytes; as many wait for the process
/// that writes them.
const LINES: usize = 4096;
const BYTES: usize = 16 << 20;
/// How long to wait for the reader at the end.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// The supervisor's end of the log.
pub(super) struct Journal {
    format: LogFormat,
    queue: Arc<Queue>,
    dropped: Dropped,
}

impl Journal {
    /// Starts the thread that sends. Events wait until a process takes them: see
    /// [`begin`](Self::begin).
    pub(super) fn start(format: LogFormat) -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let sending = Arc::clone(&queue);
        thread::Builder::new().name("journal".to_owned()).spawn(move || sending.send_all())?;
        Ok(Self { format, queue, dropped: Dropped::default() })
    }

    /// Logs an event.
    pub(super) fn tell(&mut self, event: &Event<'_>) {
        let put = |line| self.queue.put(line);
        self.dropped.offer(self.format, event.line(self.format), put);
    }

    /// Has what a process prints logged, after all events so far. `job` is `None` for the process
    /// that answers.
    pub(super) fn read(&self, printed: Printed, job: Option<&str>) {
        let Printed { number, pipes, is_read } = printed;
        self.queue.keep(Printer { number, job: job.map(str::to_owned) }, pipes, is_read);
    }

    /// Lets the pipes of a process go that has ended, once they are read.
    pub(super) fn has_ended(&self, number: u64) {
        self.queue.has_ended(number);
    }

    /// Sends to this process from now on, and hears it. `tell` gets [`Told::Broken`] when it can be
    /// heard no longer: it is to be killed then.
    pub(super) fn begin<T: Send + 'static>(
        &self,
        line: SeqPacket,
        number: u64,
        events: &Sender<T>,
        tell: fn(u64, Told) -> T,
    ) -> io::Result<()> {
        let (line, queue, events) = (Arc::new(line), Arc::clone(&self.queue), events.clone());
        let heard = Arc::clone(&line);
        thread::Builder::new().name("hear journal".to_owned()).spawn(move || {
            while line::receive_end(&heard).is_some_and(|start| queue.is_read(number, start)) {}
            queue.lose(number);
            let _ = events.send(tell(number, Told::Broken)); // fails only when the service ends
        })?;
        self.queue.begin(line, number);
        Ok(())
    }

    /// Forgets this process, which has ended.
    pub(super) fn lose(&self, number: u64) {
        self.queue.lose(number);
    }

    /// Closes the line to the process once it has everything; then it ends.
    pub(super) fn finish(&self) {
        self.queue.finish();
    }
}

/// Pipes of a process, which are read elsewhere: of its output, if there is one, and its errors.
pub(super) type Pipes = Vec<OwnedFd>;
