//! Sends flow records to a bus: Kafka, or NATS JetStream.
//!
//! ```text
//! writer thread ── write ──► queue ──► courier thread ──► store ──► bus
//!                  (copies)            encodes            memory,    acknowledges,
//!                                                         or a spool refuses, is silent
//! ```
//!
//! A message is a batch: a Parquet file, the same for every bus (decision 0052). Its name is
//! `SENSOR/BOOT/BATCH`, by which the bus or a reader drops duplicates. A header has its path in a
//! tree of files.
//!
//! - `address`: the values of `--kafka`, `--nats`, `--spool`.
//! - `sink`: the [`RecordSink`](burstline_flow::RecordSink) that hands over batches.
//! - `courier`: the thread that encodes, sends, and counts.
//! - `store`: messages until they are acknowledged; `spool`: messages on disk.
//! - `kafka`, `nats`: the two buses, each a feature of the build.
//!
//! Invariants:
//! - B1: a record given to the sink is acknowledged, in the spool, or lost by name, exactly once.
//! - B2: a message leaves the store when the bus has acknowledged or permanently refused it.
//! - B3: the same batch has the same name and the same bytes, however often it is sent.
//! - B4: a bus delays the courier at most for one call's patience, and never delays packets.
// A build without clients refuses each address, so code for clients is unused.
#![cfg_attr(not(all(feature = "kafka", feature = "nats")), allow(dead_code))]

use std::time::Duration;

use bytes::Bytes;

mod address;
mod courier;
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "nats")]
mod nats;
mod sink;
mod spool;
mod store;

pub(crate) use address::in_brackets;
pub use address::{BusAddress, BusError, SpoolPlace};
pub use sink::BusSink;

/// No server answers, or none that has a stream or topic for it.
const ABSENT: &str = "bus_absent";
/// The bus has no room.
#[cfg(any(feature = "kafka", feature = "nats"))]
const FULL: &str = "bus_full";
/// The bus accepts less than arrives, or acknowledges too late.
const SLOW: &str = "bus_slow";
/// The bus will never accept this message.
const REFUSED: &str = "bus_refused";

/// Headers for a message's name, if the bus has no own field for it, and for its path in a tree.
#[cfg(feature = "kafka")]
const ID: &str = "burstline-id";
#[cfg(any(feature = "kafka", feature = "nats"))]
const PLACE: &str = "burstline-tree";

#[derive(Clone, Debug)]
#[cfg_attr(not(any(feature = "kafka", feature = "nats")), expect(dead_code, reason = "no bus"))]
struct Message {
    /// `SENSOR/BOOT/BATCH`.
    id: String,
    /// Its path in a tree of files.
    place: String,
    bytes: Bytes,
}

/// Why a message is not acknowledged.
#[derive(Clone, Debug)]
struct Trouble {
    /// The name of the loss if it persists.
    name: &'static str,
    error: String,
}

/// The result for a ticket's message.
type Verdict = (u64, Result<(), Trouble>);

/// A connection to a bus. The courier's thread owns it.
///
/// Neither call waits for the bus longer than documented. A submitted message gets one verdict, or
/// none while the bus is silent.
trait Bus {
    /// Submits a message, identified by `ticket`.
    ///
    /// # Errors
    /// The message was not accepted; there will be no verdict.
    fn submit(&mut self, ticket: u64, message: &Message) -> Result<(), Trouble>;

    /// Waits for verdicts, at most for `patience`.
    fn settle(&mut self, patience: Duration) -> Vec<Verdict>;

    /// Returns the current problem, if one is known.
    fn trouble(&self) -> Option<Trouble>;
}
