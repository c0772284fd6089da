//! The sink that passes batches of records to the courier, and its account.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use burstline_flow::{Batch, Made, RecordSink, SinkAccount};

use super::courier::{Courier, Order};
use super::message::Totals;
use crate::bus::in_brackets;

/// Most orders in the queue, and records in one: 50 MB at most.
const ORDERS: usize = 256;
const ORDER_RECORDS: usize = 1024;
/// How long a collector may take for the remaining records when the job ends.
const FINISH: Duration = Duration::from_secs(10);

/// A collector of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    /// The collector as typed.
    pub name: String,
    /// Whether it uses TCP, not UDP.
    pub is_tcp: bool,
    /// Host and port.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Its first address, after name resolution.
    pub address: SocketAddr,
    /// The observation domain.
    pub domain: u32,
}

/// Why a collector cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CollectorError {
    /// Invalid text.
    #[error(
        "{name:?}: expected udp:HOST:PORT or tcp:HOST:PORT, with ?domain=N for the observation \
         domain, e.g. udp:10.0.0.9:4739"
    )]
    Name {
        /// The text as typed.
        name: String,
    },
    /// An IPv6 address without brackets, which is ambiguous.
    #[error("{name:?}: write an IPv6 address in brackets: {instead}")]
    Bracket {
        /// The text as typed.
        name: String,
        /// The corrected text.
        instead: String,
    },
    /// The socket cannot be created, or the name cannot be resolved.
    #[error("--ipfix {name}: {error}")]
    Io {
        /// The text as typed.
        name: String,
        /// The system's error.
        error: io::Error,
    },
}

impl FromStr for Collector {
    type Err = CollectorError;

    /// Parses `udp:HOST:PORT?domain=N` without name resolution.
    fn from_str(text: &str) -> Result<Self, CollectorError> {
        let wrong = || CollectorError::Name { name: text.to_owned() };
        let (scheme, rest) = text.split_once(':').ok_or_else(wrong)?;
        let (host, keys) = rest.split_once('?').unwrap_or((rest, "domain=1"));
        if let Some(instead) = in_brackets(host) {
            return Err(CollectorError::Bracket { name: text.to_owned(), instead });
        }
        let domain = keys.strip_prefix("domain=").and_then(|number| number.parse().ok());
        let (name, port) = host.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
        let is_tcp = match scheme {
            "tcp" => true,
            "udp" => false,
            _ => return Err(wrong()),
        };
        Ok(Self {
            name: text.to_owned(),
            is_tcp,
            host: Some(host.to_owned()).filter(|_| !name.is_empty()).ok_or_else(wrong)?,
            port,
            address: SocketAddr::from(([0; 4], 0)),
            domain: domain.ok_or_else(wrong)?,
        })
    }
}

/// State shared by sink and courier.
#[derive(Debug, Default)]
pub(super) struct Shared(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    account: SinkAccount,
    is_connected: bool,
    /// News to report immediately.
    news: Vec<String>,
    /// When the job ended.
    finishing: Option<Instant>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_connected(&self, is_connected: bool) {
        self.lock().is_connected = is_connected;
    }

    pub(super) fn is_finishing(&self) -> bool {
        self.lock().finishing.is_some()
    }

    /// Returns whether the remaining records take too long.
    pub(super) fn is_overdue(&self) -> bool {
        self.lock().finishing.is_some_and(|since| since.elapsed() > FINISH)
    }

    pub(super) fn sent(&self, records: u64, packets: u64, bytes: usize) {
        let account = &mut self.lock().account;
        account.records += records;
        account.packets += packets;
        account.bytes += bytes as u64;
        account.parts += 1;
    }

    /// Moves records from sent to lost.
    pub(super) fn unsend(&self, records: u64, packets: u64) {
        let account = &mut self.lock().account;
        account.records -= records;
        account.packets -= packets;
    }

    pub(super) fn lose(&self, name: &'static str, records: u64, packets: u64, error: &io::Error) {
        if records > 0 {
            self.lock().account.lose(name, records, packets);
        }
        self.note(error);
    }

    /// Notes the first error.
    pub(super) fn note(&self, error: &io::Error) {
        let mut state = self.lock();
        if state.account.notes.is_empty() {
            state.account.notes.push(error.to_string());
            state.news.push(error.to_string());
        }
    }

    pub(super) fn totals(&self) -> Totals {
        let account = &self.lock().account;
        let lost = account.lost_in_all();
        Totals {
            messages: account.parts,
            bytes: account.bytes,
            records: account.records,
            records_lost: lost.records,
            packets_lost: lost.packets,
        }
    }
}

/// A sink that sends records to a collector.
pub struct IpfixSink {
    name: String,
    orders: Option<SyncSender<Order>>,
    courier: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
    told: Instant,
}

impl IpfixSink {
    /// Resolves a collector's name, and starts the courier. UDP delivery is not confirmed. A TCP
    /// collector, or a route to it, may appear later. None of these is an error.
    ///
    /// # Errors
    /// [`CollectorError::Io`]: unknown host, or no socket.
    pub fn open(mut collector: Collector) -> Result<Self, CollectorError> {
        let name = collector.name.clone();
        let failed = |error| CollectorError::Io { name: name.clone(), error };
        let found = collector.host.to_socket_addrs().map_err(failed)?.next();
        let nowhere = || failed(io::Error::other("the host has no address"));
        collector.address = found.ok_or_else(nowhere)?;
        let shared = Arc::new(Shared::default());
        let courier = Courier::new(collector, Arc::clone(&shared)).map_err(failed)?;
        let (orders, taken) = sync_channel(ORDERS);
        let thread = thread::Builder::new().name("ipfix".to_owned());
        let courier = thread.spawn(move || courier.run(&taken)).map_err(failed)?;
        let (orders, courier) = (Some(orders), Some(courier));
        Ok(Self { name, orders, courier, shared, told: Instant::now() })
    }

    fn tell(&self, made: &Made) {
        if let Some(orders) = &self.orders {
            // The next one replaces it.
            let _ = orders.try_send(Order::Made(*made));
        }
    }
}

impl RecordSink for IpfixSink {
    fn write(&mut self, batch: &Batch) {
        let Some(orders) = &self.orders else { return };
        for records in batch.records.chunks(ORDER_RECORDS) {
            let refused = match orders.try_send(Order::Records(records.to_vec())) {
                Ok(()) => continue,
                Err(TrySendError::Full(order) | TrySendError::Disconnected(order)) => order,
            };
            let Order::Records(records) = refused else { continue };
            let packets = records.iter().map(|record| record.packets).sum();
            let mut state = self.shared.lock();
            let is_absent = self.name.starts_with("tcp:") && !state.is_connected;
            let name = if is_absent { "collector_absent" } else { "collector_slow" };
            state.account.lose(name, records.len() as u64, packets);
        }
    }

    fn tick(&mut self, made: &Made) {
        if self.told.elapsed() >= Duration::from_secs(1) {
            self.told = Instant::now();
            self.tell(made);
        }
    }

    fn news(&mut self) -> Vec<String> {
        let news = std::mem::take(&mut self.shared.lock().news);
        news.iter().map(|what| format!("{}: {what}", self.name)).collect()
    }

    fn finish(&mut self, made: &Made) {
        self.tell(made);
        self.shared.lock().finishing = Some(Instant::now());
        self.orders = None;
        if let Some(courier) = self.courier.take()
            && courier.join().is_err()
        {
            let mut state = self.shared.lock();
            state.account.first_error = Some(format!("{}: its thread has failed", self.name));
        }
    }

    fn account(&self) -> SinkAccount {
        let mut account = self.shared.lock().account.clone();
        (account.kind, account.sends) = ("ipfix", true);
        for note in &mut account.notes {
            *note = format!("{}: {note}", self.name);
        }
        account
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_collectors() {
        for (name, is_tcp, host, domain) in [
            ("udp:10.0.0.9:4739", false, "10.0.0.9:4739", 1),
            ("tcp:[fe80::1]:9?domain=7", true, "[fe80::1]:9", 7),
        ] {
            let read: Collector = name.parse().unwrap();
            assert_eq!((read.is_tcp, &read.host[..], read.domain), (is_tcp, host, domain));
        }
        for name in [
            "",
            "udp:",
            "udp:x",
            "udp::1",
            "sctp:x:1",
            "udp:x:0",
            "udp:x:66000",
            "udp:x:1?domain=",
            "udp:x:1?x=1",
            "x:1",
        ] {
            assert!(name.parse::<Collector>().is_err(), "{name}");
        }
        let error = "udp:::1:4739?domain=7".parse::<Collector>().unwrap_err().to_string();
        assert!(error.ends_with(": write an IPv6 address in brackets: [::1]:4739"), "{error}");
    }
}
