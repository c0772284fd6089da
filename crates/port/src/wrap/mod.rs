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

/// Passes calls on to the field `inner`, which the wrapper must have: what no wrapper changes of a
/// sink.
macro_rules! forward_sink {
    () => {
        fn flush(&mut self) -> Result<(), crate::PortError> {
            self.inner.flush()
        }

        fn flush_when_due(&mut self) -> Result<bool, crate::PortError> {
            self.inner.flush_when_due()
        }

        fn tell_gap(&mut self, port: u8, packets: u64) {
            self.inner.tell_gap(port, packets);
        }

        fn tell_overrun(&mut self, port: u8, packets: u64) {
            self.inner.tell_overrun(port, packets);
        }

        fn look_at_clock(&mut self) -> Result<(), crate::PortError> {
            self.inner.look_at_clock()
        }

        fn set_totals(&mut self, totals: &[crate::InterfaceTotals]) {
            self.inner.set_totals(totals);
        }
    };
}

mod copying;
mod fault;
mod impair;
mod tracer;

pub use copying::Copying;
pub use fault::{FaultInjector, FaultPlan};
pub use impair::{Impairer, ImpairmentCounts, ImpairmentPlan, ImpairmentTally};
pub use tracer::Tracer;

use copying::{Held, append};
