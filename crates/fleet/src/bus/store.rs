//! The store of messages until they are acknowledged: in order, in memory or in a spool.
//!
//! ```text
//! keep ──► waiting, oldest first ──take──► out, by ticket ──settle──► gone
//!                    ▲                          │
//!                    └───────── put_back ───────┘
//! ```
//!
//! Invariants:
//! - T1: a message is either waiting or out, exactly once.
//! - T2: messages in memory take at most [`MEMORY_BYTES`]; with a spool there are some only after a
//!   disk error.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;

use burstline_flow::{
    Earlier, Encoded, LostRecords, Made, Origin, SensorName, disk_loss, place_in_tree,
};
use bytes::Bytes;

use super::Message;
use super::spool::{Place, Spool};

const MEMORY_BYTES: usize = 64 << 20;

/// A stored message.
#[derive(Debug)]
pub(super) struct Entry {
    /// The start of the program that created it, and its number in that start.
    pub(super) boot: Arc<str>,
    pub(super) number: u64,
    /// The hour of its earliest record.
    pub(super) hour: u64,
    pub(super) records: u64,
    pub(super) packets: u64,
    pub(super) length: u32,
    /// Whether an earlier start of the program left it.
    pub(super) is_earlier: bool,
    pub(super) body: Body,
}

#[derive(Debug)]
pub(super) enum Body {
    Memory(Bytes),
    Disk(Place),
}

/// Location of a message at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    Memory,
    Disk,
    /// Its file was removed by someone else.
    Gone,
}

/// A message that could not be stored.
pub(super) struct Unstored {
    /// The name of the loss; empty if memory is full, because then the bus determines it.
    pub(super) name: &'static str,
    pub(super) error: Option<io::Error>,
}

pub(super) struct Store {
    sensor: SensorName,
    boot: Arc<str>,
    waiting: VecDeque<Entry>,
    out: HashMap<u64, Entry>,
    tickets: u64,
    memory: usize,
    spool: Option<Spool>,
    earlier: Earlier,
}

impl Store {
    /// Creates a store with the messages that earlier starts left in the spool.
    pub(super) fn new(mut spool: Option<Spool>, origin: &Origin) -> Self {
        let waiting: VecDeque<Entry> = spool.as_mut().map(Spool::left).unwrap_or_default().into();
        let found = waiting.iter().map(|entry| entry.records).sum();
        let last = spool.as_ref().and_then(|spool| spool.last.clone());
        Self {
            sensor: origin.sensor.clone(),
            boot: origin.boot.as_str().into(),
            waiting,
            out: HashMap::new(),
            tickets: 0,
            memory: 0,
            spool,
            earlier: Earlier { found, last, ..Earlier::default() },
        }
    }

    pub(super) fn earlier(&self) -> Earlier {
        self.earlier.clone()
    }

    pub(super) fn notes(&self) -> Vec<String> {
        self.spool.as_ref().map(|spool| spool.notes.clone()).unwrap_or_default()
    }

    /// Returns the number of submitted messages without a verdict.
    pub(super) fn out(&self) -> usize {
        self.out.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.out.is_empty()
    }

    /// Stores a message of this start. Returns an error if it is in memory but should be on disk.
    pub(super) fn keep(
        &mut self,
        number: u64,
        records: u64,
        packets: u64,
        encoded: Encoded,
    ) -> Result<Option<io::Error>, Unstored> {
        let Encoded { bytes, hour } = encoded;
        let length = bytes.len() as u32;
        let boot = Arc::clone(&self.boot);
        let mut failed = None;
        let mut body = None;
        if let Some(spool) = &mut self.spool {
            match spool.append(number, hour, [records, packets], &bytes) {
                Ok(Some(place)) => body = Some(Body::Disk(place)),
                Ok(None) => return Err(Unstored { name: "spool_full", error: None }),
                Err(error) => failed = Some(error),
            }
        }
        // Despite a disk error, the bus may still accept it from memory.
        if body.is_none() && self.memory + bytes.len() <= MEMORY_BYTES {
            self.memory += bytes.len();
            body = Some(Body::Memory(bytes.into()));
        }
        let Some(body) = body else {
            return Err(Unstored { name: failed.as_ref().map_or("", disk_loss), error: failed });
        };
        let entry = Entry { boot, number, hour, records, packets, length, is_earlier: false, body };
        self.waiting.push_back(entry);
        Ok(failed)
    }

    /// Takes the oldest waiting message. `Err` if the disk cannot read it, and it is lost.
    pub(super) fn take(&mut self) -> Option<Result<(u64, Message), (Entry, io::Error)>> {
        let entry = self.waiting.pop_front()?;
        let bytes = match (&entry.body, &self.spool) {
            (Body::Memory(bytes), _) => Ok(bytes.clone()),
            (Body::Disk(place), Some(spool)) => spool.read(place),
            (Body::Disk(_), None) => Err(io::ErrorKind::NotFound.into()),
        };
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(error) => {
                self.forget(&entry);
                return Some(Err((entry, error)));
            }
        };
        let id = format!("{}/{}/{}", self.sensor.as_str(), entry.boot, entry.number);
        let place = place_in_tree(&self.sensor, &entry.boot, entry.number, entry.hour);
        self.tickets += 1;
        self.out.insert(self.tickets, entry);
        Some(Ok((self.tickets, Message { id, place, bytes })))
    }

    /// Removes the message of a ticket. `None` if the ticket is unknown.
    pub(super) fn settle(&mut self, ticket: u64) -> Option<Entry> {
        let entry = self.out.remove(&ticket)?;
        self.forget(&entry);
        Some(entry)
    }

    fn forget(&mut self, entry: &Entry) {
        match (&entry.body, &mut self.spool) {
            (Body::Disk(place), Some(spool)) => spool.settle(place),
            _ => self.memory -= entry.length as usize,
        }
    }

    /// Puts the message of a ticket back, before all waiting ones.
    pub(super) fn put_back(&mut self, ticket: u64) {
        if let Some(entry) = self.out.remove(&ticket) {
            self.waiting.push_front(entry);
        }
    }

    /// Updates the journal with the job's progress.
    pub(super) fn tell(&mut self, made: &Made, lost: &LostRecords) {
        if let Some(spool) = &mut self.spool {
            spool.tell(made, lost);
        }
    }

    /// Closes the store, and returns the remaining messages.
    pub(super) fn close(mut self) -> Vec<(Entry, Left)> {
        if let Some(spool) = &mut self.spool {
            spool.close();
        }
        let spool = self.spool.as_ref();
        let place = |entry: Entry| {
            let left = match &entry.body {
                Body::Memory(_) => Left::Memory,
                Body::Disk(place) if spool.is_some_and(|spool| spool.has(place)) => Left::Disk,
                Body::Disk(_) => Left::Gone,
            };
            (entry, left)
        };
        self.out.into_values().chain(self.waiting).map(place).collect()
    }
}
