//! The object behind a `burstline_writer *`: a log and the name under which it is published.
//!
//! ```text
//! burstline_write ──► Writing: append, publish ──► a log of this process ──► readers elsewhere
//!                        '── no room: a lossless reader holds all segments: wait, then `full`
//! ```
//!
//! Invariants:
//! - W1: offered = published + full, and a call returns within `wait_ms`.
//! - W2: a stalled reader costs one wait, and no further wait until it moves.
//! - W3: a pointer is a number that is looked up and never reused; see `handles`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use burstline_log::{Appended, Ending, Log, LogConfig, Meta, Writer};
use burstline_share::{LosslessReaders, PublishConfig, Publisher};
use burstline_wire::hash::{FlowHasher, HashKind};
use burstline_wire::headers::LinkType;

use crate::border::Fault;
use crate::handles::another;
use crate::types::{
    HASH_FIVE_TUPLE, HASH_NONE, LogWriter, PublishOptions, Status, WriterStatistics,
};

/// The open writers by number.
static OPEN: RwLock<BTreeMap<usize, Arc<Mutex<Writing>>>> = RwLock::new(BTreeMap::new());

/// Allowed memory of a log, in bytes.
const LOG_BYTES: std::ops::RangeInclusive<u64> = 2 << 20..=64 << 30;
/// The longest allowed wait for readers.
const WAIT_MS_MAX: u32 = 60_000;
/// Interval between checks for room.
const LOOK_EVERY: Duration = Duration::from_micros(200);
/// How long readers have to reach the end before the name is removed.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A log with its writer and its publication.
pub(crate) struct Writing {
    log: Log,
    writer: Writer,
    publisher: Publisher,
    hasher: FlowHasher,
    /// Link type of each port's packets.
    links: Vec<LinkType>,
    /// Whether readers know each port's name. A port without a name gets the log's name before its
    /// first packet.
    is_named: [bool; 256],
    name: String,
    wait: Duration,
    /// Whether the last wait ended without room (W2).
    has_given_up: bool,
    offered: u64,
    full: u64,
}

impl Writing {
    pub(crate) fn open(name: &str, options: &PublishOptions) -> Result<Self, Fault> {
        let hash = check(options)?;
        let segment = LogConfig::default().segment_bytes;
        let (log, writer) = Log::create(LogConfig {
            name: name.to_owned(),
            bytes: (options.log_bytes as usize).next_multiple_of(segment),
            allow_lossless: options.lossless == 1,
            hash_kind: hash.code().into(),
            ..LogConfig::default()
        })
        .map_err(|error| Fault::new(Status::ErrorSystem, error.to_string()))?;
        let lossless = match options.lossless {
            0 => LosslessReaders::Refused,
            _ => LosslessReaders::Forever,
        };
        let config = PublishConfig { mode: options.mode, lossless, ..PublishConfig::new(name) };
        let publisher = Publisher::start(&config, vec![log.clone()])?;
        Ok(Self {
            log,
            writer,
            publisher,
            hasher: FlowHasher::new(hash),
            links: vec![LinkType(options.link_type as u16); 256],
            is_named: [false; 256],
            name: name.rsplit('/').next().unwrap_or(name).to_owned(),
            wait: Duration::from_millis(options.wait_ms.into()),
            has_given_up: false,
            offered: 0,
            full: 0,
        })
    }

    /// Sets a port's link type and name; must come before its first packet.
    pub(crate) fn name_port(&mut self, port: u8, link: u16, name: &str) {
        self.links[usize::from(port)] = LinkType(link);
        self.is_named[usize::from(port)] = true;
        self.log.name_port(port, link.into(), name);
    }

    /// Appends a packet; publishes pending packets before it waits. `until` is the deadline of the
    /// caller's call, set at the first wait. Returns false if there was no room; the packet is then
    /// counted as full.
    pub(crate) fn append(
        &mut self,
        bytes: &[u8],
        mut meta: Meta,
        until: &mut Option<Instant>,
    ) -> bool {
        self.offered += 1;
        if !self.is_named[usize::from(meta.port)] {
            let name = self.name.clone();
            self.name_port(meta.port, self.links[usize::from(meta.port)].0, &name);
        }
        meta.hash = self.hasher.hash(self.links[usize::from(meta.port)], bytes);
        while self.writer.append(bytes, &meta) == Appended::Full {
            self.writer.publish();
            let until = *until.get_or_insert_with(|| Instant::now() + self.wait);
            if self.has_given_up || Instant::now() >= until {
                self.has_given_up = true;
                self.full += 1;
                return false;
            }
            thread::sleep(LOOK_EVERY);
        }
        self.has_given_up = false;
        true
    }

    /// Counts packets that follow one without room as full.
    pub(crate) fn give_up(&mut self, packets: u64) {
        self.offered += packets;
        self.full += packets;
    }

    pub(crate) fn publish(&mut self) {
        self.writer.publish();
    }

    pub(crate) fn statistics(&self) -> WriterStatistics {
        WriterStatistics {
            size: size_of::<WriterStatistics>() as u32,
            readers: self.publisher.readers().len() as u32,
            offered: self.offered,
            published: self.writer.statistics().packets,
            full: self.full,
            epoch: self.publisher.epoch(),
        }
    }

    /// Tells the readers that the log has ended, and gives them some time to reach the end.
    fn finish(self) {
        self.writer.finish(Ending::Final);
        let until = Instant::now() + LAST_WORDS;
        let are_behind = || self.publisher.readers().iter().any(|reader| reader.lag_packets > 0);
        while are_behind() && Instant::now() < until {
            thread::sleep(LOOK_EVERY);
        }
    }
}

/// Checks each field, and returns the hash kind.
fn check(options: &PublishOptions) -> Result<HashKind, Fault> {
    let PublishOptions { size: _, mode, log_bytes, hash, lossless, wait_ms, link_type } = *options;
    let wrong = |field: &str, value: u64, must: &str| {
        Err(Fault::argument(format!("options.{field} is {value}: it must be {must}")))
    };
    if mode > 0o777 {
        return wrong("mode", mode.into(), "from 0 to 0777");
    }
    if !LOG_BYTES.contains(&log_bytes) {
        return wrong("log_bytes", log_bytes, "from 2097152 to 68719476736");
    }
    if lossless > 1 {
        return wrong("lossless", lossless.into(), "0 or 1");
    }
    if wait_ms > WAIT_MS_MAX {
        return wrong("wait_ms", wait_ms.into(), "from 0 to 60000");
    }
    if link_type > u16::MAX.into() {
        return wrong("link_type", link_type.into(), "from 0 to 65535");
    }
    match hash {
        HASH_NONE => Ok(HashKind::None),
        HASH_FIVE_TUPLE => Ok(HashKind::FiveTuple),
        _ => wrong("hash", hash.into(), "BURSTLINE_HASH_NONE or _FIVE_TUPLE"),
    }
}

pub(crate) fn add(writing: Writing) -> *mut LogWriter {
    let number = another() as usize;
    let mut open = OPEN.write().unwrap_or_else(PoisonError::into_inner);
    open.insert(number, Arc::new(Mutex::new(writing)));
    std::ptr::without_provenance_mut(number)
}

/// Runs `body` with a writer.
pub(crate) fn with<T>(
    writer: *const LogWriter,
    body: impl FnOnce(&mut Writing) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let open = OPEN.read().unwrap_or_else(PoisonError::into_inner);
    let found = open.get(&writer.addr()).cloned().ok_or_else(closed)?;
    drop(open);
    let outcome = lock(&found).and_then(|mut guard| body(&mut guard));
    end_if_last(found);
    outcome
}

/// Ends a removed log unless another thread is in a call with it.
fn end_if_last(writing: Arc<Mutex<Writing>>) {
    if let Some(writing) = Arc::into_inner(writing) {
        // After a panic, too: the log is intact up to what was published.
        writing.into_inner().unwrap_or_else(PoisonError::into_inner).finish();
    }
}

fn lock(writing: &Mutex<Writing>) -> Result<MutexGuard<'_, Writing>, Fault> {
    writing.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => {
            Fault::new(Status::ErrorBusy, "another thread is in a call with this writer")
        }
        TryLockError::Poisoned(_) => {
            Fault::new(Status::ErrorPanic, "a panic has stopped an earlier call with this writer")
        }
    })
}

fn closed() -> Fault {
    Fault::new(Status::ErrorClosed, "this writer is finished, or was never open")
}

/// Removes a writer from the table and ends its log. If a thread is in a call, that thread ends it.
pub(crate) fn finish(writer: *const LogWriter) -> Result<(), Fault> {
    let removed = OPEN.write().unwrap_or_else(PoisonError::into_inner).remove(&writer.addr());
    end_if_last(removed.ok_or_else(closed)?);
    Ok(())
}
