//! The sink that passes batches of records to the courier, and its account.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use burstline_flow::{Batch, Made, Origin, RecordSink, SinkAccount};
use burstline_sys::privileges;

use super::courier::{Courier, Order};
use super::spool::Spool;
use super::store::Store;
use super::{Bus, BusAddress, BusError, SLOW, SpoolPlace};

/// Most batches in the queue to the courier: some 25 MB.
const ORDERS: usize = 256;
/// How long a batch waits for room in the queue. The courier never waits for the bus, only for
/// processor and disk.
const PATIENCE: Duration = Duration::from_secs(10);
const NAP: Duration = Duration::from_millis(1);

/// A sink that sends records to a bus.
pub struct BusSink {
    kind: &'static str,
    orders: Option<SyncSender<Order>>,
    courier: Option<JoinHandle<SinkAccount>>,
    /// Whether the courier did not make room in time, and has not since.
    is_stuck: bool,
    /// News from the courier to report immediately.
    news: Receiver<String>,
    account: SinkAccount,
}

impl BusSink {
    /// Opens the spool, if there is one, and starts the courier. A bus that does not answer is not
    /// an error: it may appear later.
    ///
    /// # Errors
    /// The spool belongs to another program, or cannot be used; the client cannot be created.
    pub fn open(
        address: &BusAddress,
        origin: &Arc<Origin>,
        place: Option<&SpoolPlace>,
    ) -> Result<Self, BusError> {
        let kind = address.kind;
        let spool = place.map(|place| Spool::open(place, kind, origin)).transpose()?;
        let store = Store::new(spool, origin);
        let (orders, taken) = sync_channel(ORDERS);
        let (told, is_made) = mpsc::channel();
        let (tell, news) = mpsc::channel();
        let (address, origin) = (address.clone(), Arc::clone(origin));
        let courier = move || {
            // The job's own threads report it if this fails. The client's threads inherit this
            // thread's rights.
            let _ = privileges::give_up();
            let account = SinkAccount { kind, sends: true, ..SinkAccount::default() };
            match connect(&address, &origin) {
                Ok(bus) => {
                    let _ = told.send(Ok(()));
                    Courier::new(bus, store, origin, account, tell).run(&taken)
                }
                Err(error) => {
                    let _ = told.send(Err(error));
                    account
                }
            }
        };
        let failed = |error| BusError::Client { kind, error };
        let courier =
            thread::Builder::new().name(kind.to_owned()).spawn(courier).map_err(failed)?;
        let gone = || failed(std::io::Error::other("its thread has failed"));
        is_made.recv().map_err(|_| gone())??;
        let (orders, courier, account) = (Some(orders), Some(courier), SinkAccount::default());
        Ok(Self { kind, orders, courier, is_stuck: false, news, account })
    }

    /// Sends an order, unless the courier makes no room for it in time.
    fn hand_over(&mut self, mut order: Order) -> Result<(), Order> {
        let Some(orders) = &self.orders else { return Err(order) };
        let begun = Instant::now();
        loop {
            match orders.try_send(order) {
                Ok(()) => {
                    self.is_stuck = false;
                    return Ok(());
                }
                Err(TrySendError::Full(back)) if !self.is_stuck => order = back,
                Err(TrySendError::Full(back) | TrySendError::Disconnected(back)) => {
                    return Err(back);
                }
            }
            self.is_stuck = begun.elapsed() > PATIENCE;
            thread::sleep(NAP);
        }
    }
}

#[allow(unused_variables)] // a build without buses refuses the address earlier
fn connect(address: &BusAddress, origin: &Origin) -> Result<Box<dyn Bus>, BusError> {
    match address.kind {
        #[cfg(feature = "kafka")]
        "kafka" => Ok(Box::new(super::kafka::Kafka::new(address, origin)?)),
        #[cfg(feature = "nats")]
        "nats" => Ok(Box::new(super::nats::Nats::new(address, origin)?)),
        kind => Err(BusError::NotBuilt { kind }),
    }
}

impl RecordSink for BusSink {
    fn write(&mut self, batch: &Batch) {
        if let Err(Order::Batch(batch)) = self.hand_over(Order::Batch(batch.clone())) {
            self.account.lose(SLOW, batch.records.len() as u64, batch.packets());
        }
    }

    fn tick(&mut self, made: &Made) {
        if let Some(orders) = &self.orders {
            // The next one replaces it.
            let _ = orders.try_send(Order::Made(*made));
        }
    }

    fn news(&mut self) -> Vec<String> {
        self.news.try_iter().collect()
    }

    fn finish(&mut self, made: &Made) {
        let _ = self.hand_over(Order::Made(*made));
        self.orders = None;
        let Some(courier) = self.courier.take() else { return };
        let lost = std::mem::take(&mut self.account).lost;
        match courier.join() {
            Ok(account) => self.account = account,
            Err(_) => {
                let failed = format!("{}: its thread has failed", self.kind);
                self.account.first_error = Some(failed);
            }
        }
        for lost in lost {
            self.account.lose(lost.name, lost.records, lost.packets);
        }
    }

    fn account(&self) -> SinkAccount {
        self.account.clone()
    }
}
