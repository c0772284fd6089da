//! Exports flow records to a collector, by IPFIX (RFC 7011) over UDP or TCP.
//!
//! ```text
//! writer thread ── write ──► bounded queue ──► courier thread ──► collector
//!                  (copies)   full: records    templates, records, statistics
//!                             lost, by name
//! ```
//!
//! - `message`: the encoding: templates, data records, and statistics about losses.
//! - `courier`: the thread that owns the socket, reconnects, and counts losses.
//! - `sink`: the [`RecordSink`](burstline_flow::RecordSink) that passes records to it.
//!
//! A record with packets in both directions becomes two data records, one each: collectors add them
//! up without RFC 5103 support. Octets count whole frames, as everywhere here.
//!
//! Invariants:
//! - X1: a flow record's data records are in one message: it is sent or lost as a whole.
//! - X2: every flow record given to the sink is in its account once, as sent or as lost.
//! - X3: only the courier waits for the collector: a slow one loses records, never packets.

mod courier;
mod message;
mod sink;

pub use sink::{Collector, CollectorError, IpfixSink};
