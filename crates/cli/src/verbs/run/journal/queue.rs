//! What waits for the process that writes the log, and the pipes that it reads.
//!
//! The supervisor puts, one thread sends, another hears. All three keep the lock for some moves in
//! memory only, so the supervisor never waits for the process.
//!
//! Invariants:
//! - Q1: the pipes of a start go to a process behind all lines that were put before them.
//! - Q2: a process gets each pipe once. A next one gets all that an earlier one had, and then the
//!   lines and pipes that wait.
//! - Q3: pipes are kept for each process that runs, and for at most [`ENDED_MOST`] that have ended.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use burstline_sys::seqpacket::SeqPacket;

use super::super::room::{Line, Room};
use super::line::{self, Printer};
use super::{BYTES, LINES, Pipes};

/// The most ended processes whose last lines are waited for. Older ones lose theirs.
const ENDED_MOST: usize = 256;

/// The queue.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    room: Arc<Room>,
}

#[derive(Debug, Default)]
struct State {
    items: VecDeque<Item>,
    kept: BTreeMap<u64, Kept>,
    process: Option<Process>,
    is_finishing: bool,
}

#[derive(Debug)]
enum Item {
    Text(Line),
    /// The pipes of this start, unless they were given up since.
    Pipes(u64),
}

/// The pipes of a start.
#[derive(Debug)]
struct Kept {
    printer: Printer,
    pipes: Arc<Pipes>,
    /// Who waits for their end, if they have not ended.
    is_read: Option<Sender<()>>,
    has_ended: bool,
    /// The number of the last process that got them.
    reader: Option<u64>,
}

/// The process that writes the log.
#[derive(Debug)]
struct Process {
    line: Arc<SeqPacket>,
    /// Number among all starts of the service.
    number: u64,
    /// How many starts it has, and has not told the end of.
    reads: u64,
}

/// What the thread sends next, and to whom.
struct Task {
    line: Arc<SeqPacket>,
    number: u64,
    what: What,
}

enum What {
    Text(Line),
    Pipes { printer: Printer, pipes: Arc<Pipes> },
}

impl Default for Queue {
    fn default() -> Self {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Self { state, changed, room: Room::new(BYTES) }
    }
}

impl Queue {
    /// Queues a line if there is room.
    pub(super) fn put(&self, line: String) -> bool {
        let mut state = self.lock();
        let Some(line) = self.room.try_for(line).filter(|_| state.items.len() < LINES) else {
            return false;
        };
        state.items.push_back(Item::Text(line));
        self.changed.notify_all();
        true
    }

    /// Keeps pipes, and queues them behind all lines so far.
    pub(super) fn keep(&self, printer: Printer, pipes: Pipes, is_read: Sender<()>) {
        let (mut state, number) = (self.lock(), printer.number);
        let (pipes, is_read) = (Arc::new(pipes), Some(is_read));
        let kept = Kept { printer, pipes, is_read, has_ended: false, reader: None };
        state.kept.insert(number, kept);
        state.items.push_back(Item::Pipes(number));
        self.changed.notify_all();
    }

    /// Notes the end of a process that prints.
    pub(super) fn has_ended(&self, number: u64) {
        let mut state = self.lock();
        let Some(kept) = state.kept.get_mut(&number) else { return };
        kept.has_ended = true;
        if kept.is_read.is_none() {
            state.drop_pipes(number);
        }
        let mut ended = state.kept.values().filter(|kept| kept.has_ended);
        if let Some(oldest) = ended.next().map(|kept| kept.printer.number)
            && ended.count() >= ENDED_MOST
        {
            state.drop_pipes(oldest);
        }
    }

    /// Notes what a process has said: the pipes of a start have ended. Returns whether it may say
    /// that.
    pub(super) fn is_read(&self, process: u64, number: u64) -> bool {
        let mut state = self.lock();
        let current = state.process.as_mut().filter(|current| current.number == process);
        let Some(current) = current.filter(|current| current.reads > 0) else { return false };
        current.reads -= 1;
        if let Some(kept) = state.kept.get_mut(&number) {
            kept.is_read = None;
            if kept.has_ended {
                state.drop_pipes(number);
            }
        }
        true
    }

    /// Sends to this process from now on.
    pub(super) fn begin(&self, line: Arc<SeqPacket>, number: u64) {
        self.lock().process = Some(Process { line, number, reads: 0 });
        self.changed.notify_all();
    }

    /// Sends nothing more to this process. A send that blocks fails.
    pub(super) fn lose(&self, number: u64) {
        let mut state = self.lock();
        if let Some(lost) = state.process.take_if(|current| current.number == number) {
            lost.line.hang_up();
        }
    }

    /// Closes the line once all is sent.
    pub(super) fn finish(&self) {
        self.lock().is_finishing = true;
        self.changed.notify_all();
    }

    /// Sends until the end.
    pub(super) fn send_all(&self) {
        while let Some(task) = self.next() {
            if task.send().is_err() {
                self.give_back(task);
            }
        }
    }

    /// Waits for what is sent next. `None` at the end.
    fn next(&self) -> Option<Task> {
        let mut state = self.lock();
        loop {
            if let Some(task) = state.next() {
                return Some(task);
            }
            if let Some(process) = state.process.as_ref().filter(|_| state.is_finishing) {
                process.line.end_sending();
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Keeps a line for the next process. Pipes are kept in any case.
    fn give_back(&self, task: Task) {
        if let What::Text(line) = task.what {
            self.lock().items.push_front(Item::Text(line));
        }
        self.lose(task.number);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next(&mut self) -> Option<Task> {
        let process = self.process.as_mut()?;
        let (line, number) = (Arc::clone(&process.line), process.number);
        // Q2: what another process had comes first.
        let is_left = |kept: &&mut Kept| kept.reader.is_some_and(|reader| reader != number);
        let mut kept = self.kept.values_mut().find(is_left);
        while kept.is_none() {
            kept = match self.items.pop_front()? {
                Item::Text(text) => return Some(Task { line, number, what: What::Text(text) }),
                Item::Pipes(start) => self.kept.get_mut(&start),
            };
        }
        let kept = kept?;
        kept.reader = Some(number);
        process.reads += 1;
        let (printer, pipes) = (kept.printer.clone(), Arc::clone(&kept.pipes));
        Some(Task { line, number, what: What::Pipes { printer, pipes } })
    }

    fn drop_pipes(&mut self, number: u64) {
        if self.kept.remove(&number).is_some_and(|kept| kept.reader.is_none()) {
            self.items.retain(|item| !matches!(item, Item::Pipes(start) if *start == number));
        }
    }
}

impl Task {
    fn send(&self) -> io::Result<()> {
        match &self.what {
            What::Text(text) => line::send_text(&self.line, text.text()),
            What::Pipes { printer, pipes } => line::send_pipes(&self.line, printer, pipes),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Receiver};

    use super::*;

    /// Keeps pipes of a start; the receiver sees when they count as read.
    fn keep(queue: &Queue, number: u64) -> Receiver<()> {
        let (is_read, all_read) = mpsc::channel();
        queue.keep(Printer { number, job: None }, Pipes::new(), is_read);
        all_read
    }

    fn begin(queue: &Queue, number: u64) {
        let [here, _there] = SeqPacket::pair().unwrap();
        queue.begin(Arc::new(here), number);
    }

    /// Returns what is sent now.
    fn sent(queue: &Queue) -> String {
        let mut sent = Vec::new();
        loop {
            let task = queue.lock().next();
            let Some(task) = task else { return sent.join(" ") };
            sent.push(match task.what {
                What::Text(line) => line.text().to_owned(),
                What::Pipes { printer, .. } => printer.number.to_string(),
            });
        }
    }

    fn is_waiting(all_read: &Receiver<()>) -> bool {
        all_read.try_recv() == Err(mpsc::TryRecvError::Empty)
    }

    #[test]
    fn a_next_process_gets_all_pipes_and_then_what_waits() {
        let queue = Queue::default();
        assert!(queue.put("a".to_owned()));
        let waits = [3, 4].map(|number| keep(&queue, number));
        assert!(queue.put("b".to_owned()));
        assert_eq!(sent(&queue), "", "there is no process");
        begin(&queue, 1);
        assert_eq!(sent(&queue), "a 3 4 b");
        let _last = keep(&queue, 6);
        assert!(queue.put("c".to_owned()));
        queue.lose(1);
        assert_eq!(sent(&queue), "");
        begin(&queue, 5);
        assert_eq!(sent(&queue), "3 4 6 c");
        // Pipes that were read stay while their process runs.
        assert!(queue.is_read(5, 3) && !is_waiting(&waits[0]) && is_waiting(&waits[1]));
        queue.lose(5);
        begin(&queue, 7);
        assert_eq!(sent(&queue), "3 4 6");
        queue.has_ended(3);
        queue.has_ended(4);
        assert!(queue.is_read(7, 3) && queue.is_read(7, 4));
        queue.lose(7);
        begin(&queue, 8);
        assert_eq!(sent(&queue), "6");
    }

    #[test]
    fn a_process_says_no_more_ends_than_it_has_starts() {
        let queue = Queue::default();
        let _waits = keep(&queue, 3);
        begin(&queue, 1);
        assert!(!queue.is_read(1, 3), "it does not have it yet");
        assert_eq!(sent(&queue), "3");
        assert!(!queue.is_read(2, 3), "it is another process");
        assert!(queue.is_read(1, 9), "it was given up meanwhile");
        assert!(!queue.is_read(1, 3));
    }

    #[test]
    fn what_waits_is_bounded_in_lines_and_in_ended_processes() {
        let queue = Queue::default();
        let waits: Vec<_> = (0..300).map(|number| keep(&queue, number)).collect();
        (0..300).for_each(|number| queue.has_ended(number));
        assert_eq!(waits.iter().filter(|all_read| is_waiting(all_read)).count(), ENDED_MOST);
        assert_eq!(queue.lock().items.len(), ENDED_MOST);
        let put = (0..2 * LINES).filter(|_| queue.put("x".to_owned())).count();
        assert_eq!(put, LINES - ENDED_MOST);
        let queue = Queue::default();
        let put = (0..64).filter(|_| queue.put("x".repeat(1 << 20))).count();
        assert_eq!(put, 15, "16 MiB, with what a line takes besides");
    }
}
