//! Flow records to a bus: Kafka, or NATS JetStream.
//!
//! ```text
//! writer thread ── write ──► queue ──► courier thread ──► store ──► bus
//!                  (copies)            encodes            memory,    acknowledges,
//!                                                         or a spool refuses, is silent
//! ```
//!
//! A message is a batch: a file of Parquet, the same for every bus (decision 0052). Its name is
//! `SENSOR/BOOT/BATCH`, which the bus or a reader drops a second copy by; a header says where a
//! tree has it as a file.
//!
//! - `address`: what is typed after `--kafka`, `--nats`, `--spool`.
//! - `sink`: the [`RecordSink`](burstline_flow::RecordSink) that hands over batches.
//! - `courier`: the thread that encodes, sends, and counts.
//! - `store`: messages until they are acknowledged; `spool`: those of them that are on disk.
//! - `kafka`, `nats`: the two buses, each a feature of the build.
//!
//! Invariants:
//! - B1: a record that the sink was given is acknowledged, in the spool, or lost by name, once.
//! - B2: a message leaves the store when the bus has acknowledged it, or refuses it for good.
//! - B3: the same batch has the same name and the same bytes, however often it is sent.
//! - B4: a bus holds up the courier for no longer than one call's patience, and packets never.
// A build without clients refuses each address: what a client would use is then unused.
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

/// Nobody answers, or nobody who has a place for it.
const ABSENT: &str = "bus_absent";
/// It has no room.
#[cfg(any(feature = "kafka", feature = "nats"))]
const FULL: &str = "bus_full";
/// It takes less than comes, or does not say in time that it took it.
const SLOW: &str = "bus_slow";
/// It will never take this message.
const REFUSED: &str = "bus_refused";

/// The headers of a message's name, where the bus has none of its own, and of its place in a tree.
#[cfg(feature = "kafka")]
const ID: &str = "burstline-id";
#[cfg(any(feature = "kafka", feature = "nats"))]
const PLACE: &str = "burstline-tree";

/// A message, as a bus takes it.
#[derive(Clone, Debug)]
#[cfg_attr(not(any(feature = "kafka", feature = "nats")), expect(dead_code, reason = "no bus"))]
struct Message {
    /// `SENSOR/BOOT/BATCH`.
    id: String,
    /// Where a tree has it as a file.
    place: String,
    bytes: Bytes,
}

/// Why a message is not acknowledged.
#[derive(Clone, Debug)]
struct Trouble {
    /// The loss that it becomes if it lasts.
    name: &'static str,
    error: String,
}

/// What became of the message of a ticket.
type Verdict = (u64, Result<(), Trouble>);

/// One way to readers elsewhere. The courier's thread owns it.
///
/// Neither call waits for the bus longer than it says. A message that was submitted gets one
/// verdict, or none while the bus is silent.
trait Bus {
    /// Hands over a message, which `ticket` stands for.
    ///
    /// # Errors
    /// It was not taken; there will be no verdict.
    fn submit(&mut self, ticket: u64, message: &Message) -> Result<(), Trouble>;

    /// Waits for verdicts, `patience` at most.
    fn settle(&mut self, patience: Duration) -> Vec<Verdict>;

    /// What is wrong now, as far as it is known.
    fn trouble(&self) -> Option<Trouble>;
}
