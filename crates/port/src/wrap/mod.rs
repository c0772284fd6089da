//! Ports around ports: tracing and faults.
//!
//! ```text
//!  engine --receive, lend, transmit--> Tracer --> FaultInjector --> the port itself
//! ```
//!
//! A wrapper lends what the port inside lends. It receives by lending, one packet at a time, and
//! appending: so it sees every packet, and holds at most one that the log had no room for. That
//! costs an indirect call a packet, which is nothing beside what wrappers are for.
//!
//! Invariant: with nothing to do, a wrapper changes no packet, no state and no count.

mod fault;
mod impair;
mod tracer;

pub use fault::{FaultInjector, FaultPlan};
pub use impair::{Impairer, ImpairmentCounts, ImpairmentPlan, ImpairmentTally};
pub use tracer::Tracer;

use burstline_log::{Appended, Meta, Scratch, Writer};

use crate::{Lent, PortAccount, PortState};

/// A packet that the log had no room for.
struct Held {
    bytes: Vec<u8>,
    meta: Meta,
}

impl Held {
    fn new(bytes: &[u8], meta: Meta) -> Self {
        Self { bytes: bytes.to_vec(), meta }
    }

    /// Lends it as a burst of its own.
    fn lend<'a>(&'a self, scratch: &'a mut Scratch, first_packet: u64) -> Lent<'a> {
        scratch.clear();
        scratch.push(0, self.bytes.len() as u32, &self.meta);
        Lent { burst: scratch.burst(&self.bytes, first_packet), state: PortState::Busy }
    }
}

/// Appends and counts; `false` when the log had no room.
fn append(writer: &mut Writer, bytes: &[u8], meta: &Meta, account: &mut PortAccount) -> bool {
    match writer.append(bytes, meta) {
        Appended::Full => return false,
        Appended::Whole => {}
        Appended::Truncated => {
            account.truncated += u64::from(bytes.len() == meta.original_length as usize);
        }
    }
    account.bytes_copied += bytes.len().min(writer.max_packet_bytes()) as u64;
    true
}
