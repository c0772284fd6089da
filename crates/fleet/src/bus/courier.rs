//! The courier thread, which owns the bus: it encodes batches, stores them, and sends them.
//!
//! Messages are sent in order; a refused one is retried a little later, before those still waiting.
//! At the end the bus gets some seconds for the remaining messages. Those not acknowledged by then
//! stay in the spool, or are lost by name.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use burstline_flow::{Batch, Made, Origin, SinkAccount, disk_loss, encode};

use super::store::{Entry, Left, Store, Unstored};
use super::{ABSENT, Bus, REFUSED, SLOW, Trouble};

/// Most submitted messages without a verdict.
const WINDOW: usize = 256;
/// Batches taken between two polls of the bus.
const TAKEN: usize = 16;
/// Longest time of one poll of the queue or the bus.
const LOOK: Duration = Duration::from_millis(20);
const GLANCE: Duration = Duration::from_millis(2);
/// Delay after a refusal, and after a missing bus, where a retry transfers no message.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_ABSENT: Duration = Duration::from_millis(200);
/// How long a new client may take to connect before that is reported.
const CONNECTS: Duration = Duration::from_secs(5);
/// How long the bus gets for the remaining messages when the job ends.
const FINISH: Duration = Duration::from_secs(10);

/// An order from the sink.
pub(super) enum Order {
    Batch(Batch),
    Made(Made),
}

pub(super) struct Courier {
    bus: Box<dyn Bus>,
    store: Store,
    origin: Arc<Origin>,
    account: SinkAccount,
    begun: Instant,
    /// Nothing is submitted before this time.
    resume: Instant,
    /// Why a message was refused, until another one is acknowledged.
    refusal: Option<Trouble>,
    /// Why the disk refused a message, the first time.
    disk: Option<Trouble>,
    /// For news to report immediately.
    news: Sender<String>,
}

impl Courier {
    pub(super) fn new(
        bus: Box<dyn Bus>,
        store: Store,
        origin: Arc<Origin>,
        mut account: SinkAccount,
        news: Sender<String>,
    ) -> Self {
        account.earlier = store.earlier();
        account.notes = store.notes();
        let begun = Instant::now();
        let (refusal, disk) = (None, None);
        Self { bus, store, origin, account, begun, resume: begun, refusal, disk, news }
    }

    /// Processes orders until the sink is closed.
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

    /// Takes orders from the sink. Returns false if the sink is closed.
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

    /// Encodes a batch as a message, and stores it.
    fn keep(&mut self, batch: &Batch) {
        let records = batch.records.len() as u64;
        let packets = batch.packets();
        let encoded = match encode(batch, &self.origin) {
            Ok(encoded) => encoded,
            Err(error) => {
                self.account.lose("write_failed", records, packets);
                let what = format!("--{}: make a message: {error}", self.account.kind);
                self.account.first_error.get_or_insert(what);
                return;
            }
        };
        match self.store.keep(batch.number, records, packets, encoded) {
            Ok(None) => {}
            Ok(Some(error)) => self.disk_refused(&error),
            Err(Unstored { name, error }) => {
                // Memory is full because the bus does not drain it.
                let name = if name.is_empty() { self.reason() } else { name };
                self.account.lose(name, records, packets);
                if let Some(error) = error {
                    self.disk_refused(&error);
                    fail(&mut self.account, self.disk.as_ref());
                }
            }
        }
    }

    /// Reports once that a message is in memory because the disk refused it.
    fn disk_refused(&mut self, error: &io::Error) {
        if self.disk.is_none() {
            let name = disk_loss(error);
            let error = format!("--{}: keep records in the spool: {error}", self.account.kind);
            self.tell(format!("{error}; they are kept in memory"));
            self.disk = Some(Trouble { name, error });
        }
    }

    fn tell(&mut self, what: String) {
        // The receiver is gone once the job ends; the report contains it.
        let _ = self.news.send(what.clone());
        self.account.notes.push(what);
    }

    /// Returns the name of losses caused by the bus.
    fn reason(&self) -> &'static str {
        let now = self.bus.trouble();
        now.as_ref().or(self.refusal.as_ref()).map_or(SLOW, |trouble| trouble.name)
    }

    /// Submits messages up to the limits, and waits for verdicts.
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
        // A new client has no connection yet.
        if !is_absent || self.account.parts > 0 || self.begun.elapsed() > CONNECTS {
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

    /// Notes the first error.
    fn note(&mut self, error: &str) {
        let prefix = format!("{}: ", self.account.kind);
        if !self.account.notes.iter().any(|note| note.starts_with(&prefix)) {
            self.tell(prefix + error);
        }
    }

    /// Counts the remaining messages.
    fn conclude(mut self) -> SinkAccount {
        let name = match self.reason() {
            // A client that has not connected yet has no error.
            SLOW if self.account.parts == 0 => ABSENT,
            name => name,
        };
        let trouble = self.bus.trouble().or_else(|| self.refusal.clone());
        if let Some(trouble) = trouble.filter(|_| !self.store.is_empty()) {
            self.note(&trouble.error);
        }
        // Messages that should be on disk but are not are lost because of the disk.
        let name = self.disk.as_ref().map_or(name, |disk| disk.name);
        // Drop the client first: it must not send messages while they are counted.
        drop(self.bus);
        let account = &mut self.account;
        for (entry, left) in self.store.close() {
            let (records, packets) = (entry.records, entry.packets);
            match (left, entry.is_earlier) {
                (Left::Disk, true) => {}
                (Left::Disk, false) => {
                    account.spooled.records += records;
                    account.spooled.packets += packets;
                }
                (Left::Gone, true) => account.earlier.lost += records,
                (Left::Gone, false) => account.lose("spool_failed", records, packets),
                (Left::Memory, _) => {
                    account.lose(name, records, packets);
                    fail(account, self.disk.as_ref());
                }
            }
        }
        self.account
    }
}

/// Counts lost records; notes an error if the disk caused the loss.
fn fail(account: &mut SinkAccount, disk: Option<&Trouble>) {
    if let (None, Some(disk)) = (&account.first_error, disk) {
        account.first_error = Some(disk.error.clone());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc;

    use burstline_flow::{BootId, Record, SensorName};
    use burstline_sys::temporary::TemporaryFolder;

    use super::super::spool::Spool;
    use super::super::{Message, SpoolPlace, Verdict};
    use super::*;

    /// A bus without a server.
    struct Nobody;

    impl Bus for Nobody {
        fn submit(&mut self, _: u64, _: &Message) -> Result<(), Trouble> {
            Err(Trouble { name: ABSENT, error: "no connection".to_owned() })
        }

        fn settle(&mut self, _: Duration) -> Vec<Verdict> {
            Vec::new()
        }

        fn trouble(&self) -> Option<Trouble> {
            None
        }
    }

    /// Returns a courier with a spool and without a reachable bus.
    fn courier(place: &SpoolPlace) -> (Courier, Receiver<String>) {
        let sensor = SensorName::new("one").unwrap();
        let origin = Arc::new(Origin { sensor, boot: BootId::default(), ports: Vec::new() });
        let spool = Spool::open(place, "nats", &origin).unwrap();
        let store = Store::new(Some(spool), &origin);
        let account = SinkAccount { kind: "nats", ..SinkAccount::default() };
        let (tell, news) = mpsc::channel();
        (Courier::new(Box::new(Nobody), store, origin, account, tell), news)
    }

    #[test]
    fn a_spool_that_takes_nothing_is_said_at_once_and_what_it_loses_has_its_name() {
        let folder = TemporaryFolder::create("burstline-courier-").unwrap();
        let place = SpoolPlace { folder: folder.path().join("spool"), bytes: 1 << 20 };
        let (mut courier, news) = courier(&place);
        fs::remove_dir_all(&place.folder).unwrap();
        for number in 0..2 {
            courier
                .keep(&Batch { number, records: vec![Record { packets: 3, ..Record::default() }] });
        }
        let said: Vec<String> = news.try_iter().collect();
        assert_eq!(said.len(), 1, "{said:?}");
        let wanted = "--nats: keep records in the spool: No such file or directory";
        assert!(said[0].starts_with(wanted) && said[0].ends_with("kept in memory"), "{said:?}");
        let account = courier.conclude();
        assert_eq!((account.lost.len(), account.spooled.records), (1, 0));
        let lost = account.lost[0];
        assert_eq!((lost.name, lost.records, lost.packets), ("write_failed", 2, 6));
        assert!(account.first_error.unwrap().starts_with(wanted));
        assert_eq!(account.notes, said);
    }

    #[test]
    fn messages_whose_file_was_removed_do_not_count_as_spooled() {
        let folder = TemporaryFolder::create("burstline-courier-").unwrap();
        let place = SpoolPlace { folder: folder.path().join("spool"), bytes: 1 << 20 };
        for (is_removed, spooled) in [(false, 1), (true, 0)] {
            let (mut courier, _news) = courier(&place);
            courier.keep(&Batch {
                number: 0,
                records: vec![Record { packets: 3, ..Record::default() }],
            });
            if is_removed {
                fs::remove_dir_all(&place.folder).unwrap();
            }
            let account = courier.conclude();
            let lost: Vec<_> = account.lost.iter().map(|lost| (lost.name, lost.records)).collect();
            assert_eq!(account.spooled.records, spooled);
            assert_eq!(lost, if is_removed { &[("spool_failed", 1)][..] } else { &[] });
            assert_eq!(account.earlier.lost, u64::from(is_removed));
        }
    }
}
