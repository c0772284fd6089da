//! A published log with readers in other processes, which run this program.
//!
//! ```text
//! bench                                    bench --as-reader SOCKET POLICY CORE
//!   Writer, Publisher  <---- socket ---->    Attachment
//!   "until N PACKETS"  ----- stdin  ---->    reads until it has delivered or missed N packets
//!   Account            <---- stdout -----    DELIVERED MISSED SUM END_NS, then waits idle
//! ```
//!
//! A run starts when every reader has its command; packets are transferred only through the log's
//! memory. Between runs a reader is blocked in read(2) and uses no CPU time.

pub mod giver;
mod other;
pub mod reader;

use std::thread;

use burstline_log::{Log, LogConfig, Policy, Writer, WriterStatistics};
use burstline_share::{LosslessReaders, PublishConfig, Publisher, ReaderStatus};
use burstline_sys::affinity;
use burstline_sys::clock;
use burstline_sys::memory::{PageChoice, PageKind};
use burstline_sys::temporary::TemporaryFolder;

use crate::ours::{SEGMENT_BYTES, copy_in, produce};
use crate::threads::Cores;
use crate::traffic::{Frames, Traffic};
pub(crate) use other::Other;
use reader::Account;

/// The option that makes this program a reader.
pub const READER_OPTION: &str = "--as-reader";

/// A log with its writer, published in a separate directory.
pub struct Shared {
    readers: Vec<Other>,
    writer: Writer,
    // Dropped before its directory.
    publisher: Publisher,
    log: Log,
    directory: TemporaryFolder,
    /// Packets written so far.
    written: u64,
}

/// The result of a run.
pub struct SharedRun {
    /// Time from the start until the writer had written all, in s.
    pub writer_seconds: f64,
    /// Time from the start until all had written or read everything, in s.
    pub seconds: f64,
    /// The account of each reader that took part, in the order of their start.
    pub accounts: Vec<Account>,
}

impl Shared {
    /// Creates a log with `bytes` bytes of packet memory, without a reader.
    ///
    /// # Errors
    /// A sentence.
    pub fn create(bytes: usize, pages: PageChoice) -> Result<Self, String> {
        let (name, segment_bytes) = ("bench".to_owned(), SEGMENT_BYTES);
        let config = LogConfig { name, bytes, segment_bytes, pages, ..LogConfig::default() };
        let (log, writer) = Log::create(config).map_err(|error| error.to_string())?;
        let directory =
            TemporaryFolder::create("burstline-bench-").map_err(|error| error.to_string())?;
        let lossless = LosslessReaders::Forever;
        let config = PublishConfig { lossless, ..PublishConfig::new(socket_in(&directory)) };
        let publisher = Publisher::start(&config, vec![log.clone()]);
        let publisher = publisher.map_err(|error| error.to_string())?;
        Ok(Self { readers: Vec::new(), writer, publisher, log, directory, written: 0 })
    }

    /// Starts another reader on the consumer's core, attached when this returns. Call it before the
    /// first run, from which its packets are counted.
    ///
    /// # Errors
    /// A sentence.
    pub fn add_reader(&mut self, cores: Cores, policy: Policy) -> Result<(), String> {
        assert_eq!(self.written, 0, "a reader that comes late counts otherwise");
        let policy = if policy == Policy::Lossless { "lossless" } else { "lossy" };
        let (socket, core) = (socket_in(&self.directory), cores.consumer.0.to_string());
        let arguments = [READER_OPTION, &socket, policy, &core];
        self.readers.push(Other::start("reader", &arguments, reader::ATTACHED)?);
        Ok(())
    }

    /// Hands `packets` packets, a multiple of [`BURST`](crate::rivals::BURST), to the first
    /// `listening` readers; the others are not touched. The packets are built in place or copied
    /// from `received`.
    ///
    /// # Errors
    /// If a reader has ended or has read wrong data.
    pub fn run(
        &mut self,
        cores: Cores,
        traffic: &Traffic,
        received: Option<&Frames>,
        packets: u64,
        listening: usize,
    ) -> Result<SharedRun, String> {
        self.written += packets;
        for reader in &mut self.readers[..listening] {
            reader.tell(&format!("{} {packets}", self.written))?;
        }
        let writer = &mut self.writer;
        let (start_ns, written_ns) = thread::scope(|scope| {
            let producer = scope.spawn(move || {
                let _ = affinity::pin_to(cores.producer);
                let start_ns = clock::monotonic_ns();
                match received {
                    Some(received) => copy_in(writer, received, packets),
                    None => produce(writer, traffic, 0..packets as u32),
                }
                (start_ns, clock::monotonic_ns())
            });
            producer.join().expect("the producer does not panic")
        });
        let listening = self.readers[..listening].iter_mut();
        let accounts = listening.map(|reader| reader.hear(Account::parse));
        let accounts = accounts.collect::<Result<Vec<_>, _>>()?;
        let end_ns = accounts.iter().map(|account| account.end_ns).fold(written_ns, u64::max);
        let seconds = |until_ns: u64| (until_ns - start_ns) as f64 / 1e9;
        let (writer_seconds, seconds) = (seconds(written_ns), seconds(end_ns));
        Ok(SharedRun { writer_seconds, seconds, accounts })
    }

    /// Makes reader `index` read until it has seen `until` packets, in runs of `packets`.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub fn read_alone(
        &mut self,
        index: usize,
        until: u64,
        packets: u64,
    ) -> Result<Account, String> {
        self.readers[index].tell(&format!("{until} {packets}"))?;
        self.readers[index].hear(Account::parse)
    }

    /// Returns the process of reader `index`.
    pub fn process(&self, index: usize) -> u32 {
        self.readers[index].id()
    }

    /// Returns the publisher's status of the readers.
    pub fn statuses(&self) -> Vec<ReaderStatus> {
        self.publisher.readers()
    }

    /// Returns the packets written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Returns the writer's counters.
    pub fn statistics(&self) -> WriterStatistics {
        self.writer.statistics()
    }

    /// Returns the page kind of the log.
    pub fn page(&self) -> PageKind {
        self.log.placement().page
    }
}

fn socket_in(directory: &TemporaryFolder) -> String {
    directory.file("bench")
}
