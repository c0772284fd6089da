//! The columns of a burst: one row per packet, which numpy splits into fields.
//!
//! A row has 80 bytes, all little-endian except the addresses. `COLUMNS` of `burstline/_dtypes.py`
//! defines the same layout.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | time_ns |
//! | 8 | 8 | flow: a 64-bit hash of the exact five-tuple, in the packet's direction; 0 if not IP |
//! | 16 | 16 | source |
//! | 32 | 16 | destination |
//! | 48 | 4 | length |
//! | 52 | 4 | original_length |
//! | 56 | 4 | hash |
//! | 60 | 2, 2 | source_port, destination_port |
//! | 64 | 2 | vlan: the outermost tag's number; 65535 if none |
//! | 66 | 1, 1, 1, 1 | version, protocol, port, flags |
//! | 70 | 1 | has_ports |
//! | 71 | 9 | not used |

use std::hash::{DefaultHasher, Hash, Hasher};

use burstline_wire::flow::{FlowKey, IpVersion};
use burstline_wire::headers;

use crate::lent::{Lent, Seen};

/// Size of a row, in bytes.
const ROW_BYTES: usize = 80;
/// The value of `vlan` without a tag.
const NO_VLAN: u16 = u16::MAX;

/// Returns the rows of all packets, the oldest first. Cost: about 50 ns per packet.
pub(crate) fn rows(lent: &Lent) -> Vec<u8> {
    let mut rows = vec![0; lent.len() * ROW_BYTES];
    for (row, seen) in rows.chunks_exact_mut(ROW_BYTES).zip(lent.packets()) {
        fill(row, lent, &seen);
    }
    rows
}

fn fill(row: &mut [u8], lent: &Lent, seen: &Seen<'_>) {
    let mut put = |at: usize, bytes: &[u8]| row[at..at + bytes.len()].copy_from_slice(bytes);
    let packet = seen.packet;
    put(0, &packet.time_ns().to_le_bytes());
    put(48, &(seen.bytes.len() as u32).to_le_bytes());
    put(52, &(packet.original_length() as u32).to_le_bytes());
    put(56, &packet.desc().hash().to_le_bytes());
    put(68, &[packet.port(), seen.flags()]);
    let headers = headers::parse(lent.links.link(packet.port()), seen.bytes);
    let vlan = headers.tags().first().map_or(NO_VLAN, |tag| tag.id());
    put(64, &vlan.to_le_bytes());
    let Some(key) = FlowKey::new(&headers, seen.bytes) else { return };
    put(8, &flow(&key).to_le_bytes());
    put(16, &key.source);
    put(32, &key.destination);
    if let Some(ports) = key.ports {
        put(60, &ports.source.to_le_bytes());
        put(62, &ports.destination.to_le_bytes());
        put(70, &[1]);
    }
    let version = match key.version {
        IpVersion::V4 => 4,
        IpVersion::V6 => 6,
    };
    put(66, &[version, key.protocol]);
}

/// Returns a hash that is the same for the same key in every process, and never 0.
fn flow(key: &FlowKey) -> u64 {
    // SipHash with zero keys: two of a million flows collide once in ten million files.
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish().max(1)
}
