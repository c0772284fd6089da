//! Ports that wrap other ports: tracing and faults.
//!
//! ```text
//!  engine --receive, lend, transmit--> Tracer --> FaultInjector --> the port itself
//! ```
//!
//! A wrapper lends what the inner port lends. It receives by lending one packet at a time and
//! appending it ([`Copying`]), so it sees every packet. The indirect call per packet is cheap
//! compared with what wrappers do.
//!
//! Invariant: a wrapper with nothing to do changes no packet, no state and no count.

mod copying;
mod fault;
mod impair;
mod tracer;

pub use copying::Copying;
pub use fault::{FaultInjector, FaultPlan};
pub use impair::{Impairer, ImpairmentCounts, ImpairmentPlan, ImpairmentTally};
pub use tracer::Tracer;

use copying::{Held, append};
