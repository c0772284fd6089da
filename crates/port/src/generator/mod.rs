//! `gen:` ports: packets out of nothing, and a sink that keeps nothing.
//!
//! ```text
//!  recipe --flows--> one template a flow: headers, sums of their checksums
//!  number k --seed--> flow, size --> template copy, patch lengths, sequence, checksums --> slot
//! ```
//!
//! Packet k is a function of the recipe and k alone: flow and size are drawn by a hash of the seed
//! and k, so that two runs are the same byte for byte when `start=` fixes the time. Every packet
//! is valid: lengths, IPv4, TCP and UDP checksums. It carries k: in its payload for UDP, in the
//! sequence number for TCP. The rest of the payload is zeros.
//!
//! Addresses are from the ranges for benchmarks (RFC 2544 appendix C, RFC 5180 section 8).
//!
//! Invariants:
//! - G1: unpaced, it waits for room. Paced, it is like a wire: packet k is due at its time, and
//!   when the log has no room for it then, it is lost and counted.
//! - G2: a size is the RFC 2544 frame length, so that the packet has 4 bytes less. Only a packet
//!   whose headers need more is longer.

mod discard;
mod recipe;
mod source;
mod template;

use burstline_wire::headers::LinkType;

use crate::{Address, OpenOptions, Port, PortError};

/// Opens a generator.
pub(crate) fn open_source(
    address: &Address,
    options: &OpenOptions,
) -> Result<Box<dyn Port>, PortError> {
    let recipe = recipe::Recipe::parse(address)?;
    let name = address.to_string();
    let port = options.table.add_for(&name, &name, LinkType::ETHERNET)?;
    Ok(Box::new(source::Generator::new(address, recipe, port, options)?))
}

/// Opens a sink that discards.
pub(crate) fn open_sink(
    address: &Address,
    _options: &OpenOptions,
) -> Result<Box<dyn Port>, PortError> {
    address.check_keys(&[])?;
    Ok(Box::new(discard::Discard::new(address)))
}
