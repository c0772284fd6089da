//! `gen:` ports: generated packets, and a sink that discards packets.
//!
//! ```text
//!  recipe --flows--> for each flow its constant bytes, and partial sums of its checksums
//!  number k --seed--> flow, size --> image copy, patch lengths, mark, checksums --> slot
//! ```
//!
//! Packet k is a function of the recipe and k alone. A hash of the seed and k selects flow and
//! size, so two runs are identical byte for byte if `start=` fixes the time. Every packet is valid:
//! lengths, IPv4, TCP and UDP checksums. If it fits, a packet ends with a
//! [mark](burstline_wire::mark): the number of the packet in its flow, its time and a check. The
//! rest of the payload is zeros.
//!
//! A packet's time, also in its mark, is its due time. Without a rate it is the time of its
//! creation (one reading of the clock per call). With `start=`, or a rate without pacing, it
//! follows from the rate.
//!
//! Addresses are from the ranges for benchmarks (RFC 2544 appendix C, RFC 5180 section 8), unless
//! the address sets others. [`GENERATOR_KEYS`] lists all parameters.
//!
//! Invariants:
//! - G1: unpaced, it waits for room. Paced, it is like a wire: packet k is due at its time. If the
//!   log has no room at that time, the packet is lost and counted.
//! - G2: a size is the RFC 2544 frame length, so the packet has 4 bytes less. A packet is longer
//!   only if its headers need more.
//! - G3: packets lost or filtered here also have a number in their flow: a receiver notices the
//!   gap.

mod discard;
mod flow;
mod flows;
mod headers;
mod keys;
mod line;
mod pool;
pub(crate) mod rate;
mod recipe;
pub(crate) mod schedule;
mod sizes;
mod source;

use burstline_wire::headers::LinkType;

pub use keys::GENERATOR_KEYS;

use crate::{Address, OpenOptions, OpenedSink, OpenedSources};

/// Opens a generator.
pub(crate) fn open_sources(address: &Address, options: &OpenOptions) -> OpenedSources {
    let recipe = recipe::Recipe::parse(address)?;
    let name = address.to_string();
    let port = options.table.add_for(&name, &name, LinkType::ETHERNET)?;
    Ok(vec![Box::new(source::Generator::new(address, recipe, port, options)?)])
}

/// Opens a sink that discards.
pub(crate) fn open_sink(address: &Address, _options: &OpenOptions) -> OpenedSink {
    address.values(&[])?;
    Ok(Box::new(discard::Discard::new(address)))
}

/// Parses an address, for the test of tables.
#[cfg(test)]
pub(crate) fn read(address: &Address) {
    let _ = (
        recipe::Recipe::parse(address),
        address.values(GENERATOR_KEYS).map(|values| rate::Pace::parse(&values, 64.0)),
    );
}
