//! Ports around ports: tracing and faults.
//!
//! ```text
//!  engine --receive, lend, transmit--> Tracer --> FaultInjector --> the port itself
//! ```
//!
//! A wrapper lends what the port inside lends. It receives by lending, one packet at a time, and
//! appending ([`Copying`]): so it sees every packet. That costs an indirect call a packet, which is
//! little beside what wrappers are for.
//!
//! Invariant: with nothing to do, a wrapper changes no packet, no state and no count.

mod copying;
mod fault;
mod impair;
mod tracer;

pub use copying::Copying;
pub use fault::{FaultInjector, FaultPlan};
pub use impair::{Impairer, ImpairmentCounts, ImpairmentPlan, ImpairmentTally};
pub use tracer::Tracer;

use copying::{Held, append};
