//! The thread that has the bus: it encodes batches, keeps them in the store, and sends from there.
//!
//! Messages are sent in the order in which they came; one that is refused is sent again a little
//! later, before those that wait. At the end the bus has some seconds for what is left; what
//! is then not acknowledged stays in the spool, or is lost by name.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use burstline_flow::{Batch, Made, Origin, SinkAccount, encode};

use super::store::{Entry, Store, Unstored};
use super::{ABSENT, Bus, REFUSED, SLOW, Trouble};

/// Messages that are submitted and have no verdict.
const WINDOW: usize = 256;
/// Batches that are taken between two looks at the bus.
const TAKEN: usize = 16;
/// How long one look at the queue, or at the bus, may take.
const LOOK: Duration = Duration::from_millis(20);
const GLANCE: Duration = Duration::from_millis(2);
/// Between a refusal and the next try; and where nobody was there, which costs no message's way.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_ABSENT: Duration = Duration::from_millis(200);
/// How long the bus has for what is left when the job ends.
const FINISH: Duration = Duration::from_secs(10);

/// What the sink hands over.
pub(super) enum Order {
    Batch(Batch),
    Made(Made),
}

pub(super) struct Courier {
    bus: Box<dyn Bus>,
    store: Store,
    origin: Arc<Origin>,
    account: SinkAccount,
    /// Nothing is submitted before.
    resume: Instant,
    /// Why it was not acknowledged, until something is.
    refusal: Option<Trouble>,
}

impl Courier {
    pub(super) fn new(
        bus: Box<dyn Bus>,
        store: Store,
        origin: Arc<Origin>,
        mut account: SinkAccount,
    ) -> Self {
        account.earlier = store.earlier();
        account.notes = store.notes();
        Self { bus, store, origin, account, resume: Instant::now(), refusal: None }
    }

    /// Sends what comes, until the sink hands over no more.
    pub(super) fn run(mut self, orders: &Receiver<Order>) -> SinkAccount {
        while self.hear(orders) {
            let patience = if self.store.out() > 0 { GLANCE } else { Duration::ZERO };
            self.send(patience);
        }
        let end = Instant::now() + FINISH;
        while !self.store.is_empty() && Instant::now() < end {
            self.send(LOOK);
        }
        self.conclude()
    }

    /// Takes what the sink has handed over. False: it hands over no more.
    fn hear(&mut self, orders: &Receiver<Order>) -> bool {
        let mut patience = if self.store.out() > 0 { Duration::ZERO } else { LOOK };
        for _ in 0..TAKEN {
            match orders.recv_timeout(patience) {
                Ok(Order::Batch(batch)) => self.keep(&batch),
                Ok(Order::Made(made)) => {
                    self.store.tell(&made, &self.account.lost_in_all());
                }
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
            patience = Duration::ZERO;
        }
        true
    }

    /// Makes a message of a batch, and stores it.
    fn keep(&mut self, batch: &Batch) {
        let records = batch.records.len() as u64;
        let packets = batch.packets();
        let unstored = match encode(batch, &self.origin) {
            Ok(encoded) => {
                let kept = self.store.keep(batch.number, records, packets, encoded);
                let Err(unstored) = kept else { return };
                unstored
            }
            Err(error) => Unstored { name: "write_failed", error: Some(error) },
        };
        let Unstored { name, error } = unstored;
        // Memory is full because of the bus.
        let name = if name.is_empty() { self.reason() } else { name };
        self.account.lose(name, records, packets);
        if let Some(error) = error {
            let kind = self.account.kind;
            let what = || format!("--{kind}: keep records in the spool: {error}");
            self.account.first_error.get_or_insert_with(what);
        }
    }

    /// The name of the loss that the bus is the reason for.
    fn reason(&self) -> &'static str {
        let now = self.bus.trouble();
        now.as_ref().or(self.refusal.as_ref()).map_or(SLOW, |trouble| trouble.name)
    }

    /// Submits what may be submitted, and waits for verdicts.
    fn send(&mut self, patience: Duration) {
        while self.store.out() < WINDOW && Instant::now() >= self.resume {
            let Some(taken) = self.store.take() else { break };
            let (ticket, message) = match taken {
                Ok(taken) => taken,
                Err((entry, error)) => {
                    self.lose(&entry, "spool_failed", &error.to_string());
                    continue;
                }
            };
            if let Err(trouble) = self.bus.submit(ticket, &message) {
                self.refused(ticket, trouble);
            }
        }
        for (ticket, outcome) in self.bus.settle(patience) {
            match outcome {
                Ok(()) => self.acknowledged(ticket),
                Err(trouble) => self.refused(ticket, trouble),
            }
        }
    }

    fn acknowledged(&mut self, ticket: u64) {
        let Some(entry) = self.store.settle(ticket) else { return };
        self.refusal = None;
        let account = &mut self.account;
        account.parts += 1;
        account.bytes += u64::from(entry.length);
        match entry.is_earlier {
            true => account.earlier.acknowledged += entry.records,
            false => {
                account.records += entry.records;
                account.packets += entry.packets;
            }
        }
    }

    fn refused(&mut self, ticket: u64, trouble: Trouble) {
        if trouble.name == REFUSED {
            if let Some(entry) = self.store.settle(ticket) {
                self.lose(&entry, REFUSED, &trouble.error);
            }
            return;
        }
        self.store.put_back(ticket);
        let is_absent = trouble.name == ABSENT;
        // A client that has just begun has no connection yet.
        if !is_absent || self.account.parts > 0 {
            self.note(&trouble.error);
        }
        self.resume = Instant::now() + if is_absent { RETRY_ABSENT } else { RETRY };
        self.refusal = Some(trouble);
    }

    fn lose(&mut self, entry: &Entry, name: &'static str, error: &str) {
        match entry.is_earlier {
            true => self.account.earlier.lost += entry.records,
            false => self.account.lose(name, entry.records, entry.packets),
        }
        self.note(error);
    }

    /// What went wrong first.
    fn note(&mut self, error: &str) {
        let prefix = format!("{}: ", self.account.kind);
        if !self.account.notes.iter().any(|note| note.starts_with(&prefix)) {
            self.account.notes.push(prefix + error);
        }
    }

    /// Counts what is left.
    fn conclude(mut self) -> SinkAccount {
        let name = match self.reason() {
            // A client that has not connected yet says nothing.
            SLOW if self.account.parts == 0 => ABSENT,
            name => name,
        };
        let trouble = self.bus.trouble().or_else(|| self.refusal.clone());
        if let Some(trouble) = trouble.filter(|_| !self.store.is_empty()) {
            self.note(&trouble.error);
        }
        // The client goes first: what it still has must not be sent while it is counted.
        drop(self.bus);
        for entry in self.store.close() {
            let (records, packets) = (entry.records, entry.packets);
            match (entry.is_on_disk(), entry.is_earlier) {
                (true, true) => {}
                (true, false) => {
                    self.account.spooled.records += records;
                    self.account.spooled.packets += packets;
                }
                (false, _) => self.account.lose(name, records, packets),
            }
        }
        self.account
    }
}
