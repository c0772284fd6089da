//! `gen:` ports: packets out of nothing, and a sink that keeps nothing.
//!
//! ```text
//!  recipe --flows--> of each flow the bytes that stay, and sums of what its checksums are of
//!  number k --seed--> flow, size --> image copy, patch lengths, mark, checksums --> slot
//! ```
//!
//! Packet k is a function of the recipe and k alone. A hash of the seed and k draws flow and size,
//! so two runs are the same byte for byte when `start=` fixes the time. Every packet is valid:
//! lengths, IPv4, TCP and UDP checksums. If there is room, it ends with a
//! [mark](burstline_wire::mark): the number of the packet in its flow, its time and a check. The
//! rest of the payload is zeros.
//!
//! A packet's time, also in its mark, is when it was due. Without a rate it is when the packet was
//! made (one reading of the clock per call). With `start=`, or a rate without pacing, it is the
//! time by the rate.
//!
//! Addresses are from the ranges for benchmarks (RFC 2544 appendix C, RFC 5180 section 8), unless
//! the address sets others. [`GENERATOR_KEYS`] has everything that can be.
//!
//! Invariants:
//! - G1: unpaced, it waits for room. Paced, it is like a wire: packet k is due at its time. If the
//!   log has no room for it then, it is lost and counted.
//! - G2: a size is the RFC 2544 frame length, so that the packet has 4 bytes less. Only a packet
//!   whose headers need more is longer.
//! - G3: what is lost or filtered here has its number in its flow, too: a receiver misses it.

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

use crate::{Address, OpenOptions, PortError, Sink, Source};

/// Opens a generator.
pub(crate) fn open_source(
    address: &Address,
    options: &OpenOptions,
) -> Result<Box<dyn Source>, PortError> {
    let recipe = recipe::Recipe::parse(address)?;
    let name = address.to_string();
    let port = options.table.add_for(&name, &name, LinkType::ETHERNET)?;
    Ok(Box::new(source::Generator::new(address, recipe, port, options)?))
}

/// Opens a sink that discards.
pub(crate) fn open_sink(
    address: &Address,
    _options: &OpenOptions,
) -> Result<Box<dyn Sink>, PortError> {
    address.values(&[])?;
    Ok(Box::new(discard::Discard::new(address)))
}

/// Reads an address, for the test of tables.
#[cfg(test)]
pub(crate) fn read(address: &Address) {
    let _ = (
        recipe::Recipe::parse(address),
        address.values(GENERATOR_KEYS).map(|values| rate::Pace::parse(&values, 64.0)),
    );
}
