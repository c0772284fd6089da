//! Flow records to a collector, by IPFIX (RFC 7011) over UDP or TCP.
//!
//! ```text
//! writer thread ── write ──► bounded queue ──► courier thread ──► collector
//!                  (copies)   full: records    templates, records, statistics
//!                             lost, by name
//! ```
//!
//! - `message`: the bytes: templates, data records, the statistics that say what was lost.
//! - `courier`: the thread that has the socket, connects again, and counts what it could not send.
//! - `sink`: the [`RecordSink`](burstline_flow::RecordSink) that hands it records.
//!
//! A record with packets in both directions becomes two data records, one for each: collectors add
//! them up without knowing RFC 5103. Octets are those of whole frames, as everywhere here.
//!
//! Invariants:
//! - X1: a flow record's data records are in one message: it is sent or lost as a whole.
//! - X2: every flow record that the sink was given is in its account once, as sent or as lost.
//! - X3: nothing waits for the collector but the courier: a slow one loses records, never packets.

mod courier;
mod message;
mod sink;

pub use sink::{Collector, CollectorError, IpfixSink};
