//! The queue from packet threads to the writer thread: a fixed number of reused batches.
//!
//! ```text
//! table ──► Outbox ──full batches──► Writer ──► sinks
//!              ▲                        │
//!              └────empty batches───────┘
//! ```
//!
//! An outbox without an empty batch has a writer that is too slow. A source that can wait waits;
//! the records of any other are dropped, and counted with their packets.
//!
//! Invariants:
//! - Q1: batches are created with the queue; none is allocated while packets arrive.
//! - Q2: a record is in a batch, in a sink, or counted as dropped.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TryRecvError};
use std::time::{Duration, Instant};

use crate::record::Record;
use crate::sink::{Batch, Made, RecordSink};
use crate::table::TableCounts;

const BATCH_RECORDS: usize = 512;

/// Batches of each outbox: 65,536 records, some 12 MiB once they are used.
const BATCHES: usize = 128;

/// Interval of calls to the sinks when no records arrive.
const TICK: Duration = Duration::from_millis(100);

/// Progress of one outbox. Counters for other threads to read: they publish no memory.
#[derive(Debug, Default)]
struct Shown {
    packets: AtomicU64,
    packets_without_flow: AtomicU64,
    records: AtomicU64,
    records_dropped: AtomicU64,
    packets_dropped: AtomicU64,
}

/// Progress of all outboxes.
#[derive(Debug, Default)]
pub struct Shows(Vec<Shown>);

impl Shows {
    /// Creates the progress of this many outboxes.
    #[must_use]
    pub fn new(outboxes: usize) -> Self {
        Self((0..outboxes).map(|_| Shown::default()).collect())
    }

    /// Returns the sums.
    #[must_use]
    pub fn made(&self) -> Made {
        let mut made = Made::default();
        for shown in &self.0 {
            made.packets += shown.packets.load(Relaxed);
            made.packets_without_flow += shown.packets_without_flow.load(Relaxed);
            made.records += shown.records.load(Relaxed);
            made.records_dropped += shown.records_dropped.load(Relaxed);
            made.packets_dropped += shown.packets_dropped.load(Relaxed);
        }
        made
    }
}

struct Full {
    records: Vec<Record>,
    home: usize,
}

/// The sending side, one per packet thread.
pub struct Outbox<'a> {
    batch: Option<Vec<Record>>,
    full: SyncSender<Full>,
    empty: Receiver<Vec<Record>>,
    home: usize,
    can_wait: bool,
    shown: &'a Shown,
    records_dropped: u64,
    packets_dropped: u64,
}

/// The receiving side.
pub struct Writer<'a> {
    full: Receiver<Full>,
    homes: Vec<SyncSender<Vec<Record>>>,
    shows: &'a Shows,
    next: u64,
}

/// Creates a queue with an outbox per element of `can_wait`, which says whether its source can
/// wait.
#[must_use]
pub fn queue<'a>(can_wait: &[bool], shows: &'a Shows) -> (Vec<Outbox<'a>>, Writer<'a>) {
    // Room for all batches: sending never blocks.
    let (full, received) = mpsc::sync_channel(can_wait.len() * BATCHES);
    let mut homes = Vec::new();
    let each = can_wait.iter().zip(&shows.0).enumerate();
    let outboxes = each.map(|(home, (&can_wait, shown))| {
        let (give, empty) = mpsc::sync_channel(BATCHES);
        for _ in 0..BATCHES {
            // There is room, and `empty` is still open.
            let _ = give.try_send(Vec::with_capacity(BATCH_RECORDS));
        }
        homes.push(give);
        Outbox {
            batch: None,
            full: full.clone(),
            empty,
            home,
            can_wait,
            shown,
            records_dropped: 0,
            packets_dropped: 0,
        }
    });
    let outboxes = outboxes.collect();
    (outboxes, Writer { full: received, homes, shows, next: 0 })
}

impl Outbox<'_> {
    /// Adds a record.
    pub fn push(&mut self, record: &Record) {
        if self.batch.is_none() {
            self.batch = self.take_empty();
        }
        let Some(batch) = &mut self.batch else {
            self.records_dropped += 1;
            self.packets_dropped += record.packets;
            return;
        };
        batch.push(*record);
        if batch.len() == BATCH_RECORDS {
            self.flush();
        }
    }

    /// Sends the current batch.
    pub fn flush(&mut self) {
        if let Some(records) = self.batch.take_if(|batch| !batch.is_empty()) {
            // There is room for every batch. Without a writer it is dropped.
            let _ = self.full.try_send(Full { records, home: self.home });
        }
    }

    /// Waits for the writer from now on: the source has ended.
    pub fn wait_from_now(&mut self) {
        self.can_wait = true;
    }

    /// Publishes the table's counts and the dropped records. Cost: five stores.
    #[inline]
    pub fn show(&self, counts: &TableCounts) {
        self.shown.packets.store(counts.packets, Relaxed);
        self.shown.packets_without_flow.store(counts.packets_without_flow(), Relaxed);
        self.shown.records.store(counts.records, Relaxed);
        self.shown.records_dropped.store(self.records_dropped, Relaxed);
        self.shown.packets_dropped.store(self.packets_dropped, Relaxed);
    }

    fn take_empty(&mut self) -> Option<Vec<Record>> {
        match self.empty.try_recv() {
            Ok(batch) => Some(batch),
            Err(TryRecvError::Empty) if self.can_wait => self.empty.recv().ok(),
            Err(_) => None,
        }
    }
}

impl Writer<'_> {
    /// Passes all batches to all sinks until every outbox is dropped.
    pub fn run(self, sinks: &mut [Box<dyn RecordSink>]) {
        self.run_telling(sinks, &mut |_| {});
    }

    /// Like [`run`](Self::run), and reports errors of sinks immediately.
    pub fn run_telling(mut self, sinks: &mut [Box<dyn RecordSink>], tell: &mut dyn FnMut(String)) {
        let mut ticked = Instant::now();
        loop {
            match self.full.recv_timeout(TICK) {
                Ok(Full { records, home }) => {
                    let batch = Batch { number: self.next, records };
                    self.next += 1;
                    sinks.iter_mut().for_each(|sink| sink.write(&batch));
                    let mut records = batch.records;
                    records.clear();
                    // There is room for every batch; the outbox may be dropped.
                    let _ = self.homes[home].try_send(records);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                let made = self.shows.made();
                for sink in &mut *sinks {
                    sink.tick(&made);
                    sink.news().into_iter().for_each(&mut *tell);
                }
            }
        }
        let made = self.shows.made();
        // In reverse, so that the tree is first: it waits for nothing, but the others may wait.
        sinks.iter_mut().rev().for_each(|sink| sink.finish(&made));
    }
}

#[cfg(test)]
pub(crate) mod tests;
