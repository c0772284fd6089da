//! Flow records: what remains of a conversation without its packets, both directions in one record.
//!
//! ```text
//! burst ──► sight ──► table ──► record ──► queue ──► writer thread ──► RecordSink: a tree of files
//!           key, hash  one per core         bounded    not on packet threads
//! ```
//!
//! - `table`: one source's open conversations; bounded, exact, with timeouts and TCP's state.
//! - `record`: one finished record, plain data; its columns are computed from it.
//! - `queue`: the bounded queue from packet threads to the writer, and its losses.
//! - `sink`: the trait of everything that takes batches of records.
//! - `tree`: the Parquet files, written under hidden names and renamed.
//!
//! The table counts packets without a record, by reason; the queue counts records that it dropped,
//! with their packets; a sink counts records that it could not write.
//!
//! Invariants:
//! - I1: packets of all records + packets without one = packets seen, whatever the input.
//! - I2: a table has at most 200 bytes of state for each flow that it has room for.
//! - I3: a slow sink loses records, by name and number, and never delays packets of a source that
//!   cannot wait.
#![forbid(unsafe_code)]

mod queue;
mod record;
mod sink;
mod table;
mod tree;

pub use queue::{Outbox, Shows, Writer, queue};
pub use record::{EndReason, Place, PortName, Record, Tunnel};
pub use sink::{
    Batch, Earlier, LostRecords, Made, RecordSink, SinkAccount, Spooled, TreeError, disk_loss,
};
pub use table::{FlowTable, NoFlow, STATE_BYTES_MAX, TableConfig, TableCounts};
pub use tree::{
    BootId, Compacted, Encoded, Journal, NotWritten, Origin, SCHEMA, SCHEMA_VERSION, SensorName,
    TreeSink, compact, compact_telling, encode, place_in_tree,
};
