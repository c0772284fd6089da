//! A chunk of an order, as the merging thread hands it to a follower: which packets of which logs
//! come next.
//!
//! ```text
//! | first packet, packets | first packet, packets | ... | key | key | key | ...
//!   of log 0                of log 1                      a byte a packet: its log
//! ```
//!
//! A log has consecutive packets in a chunk, so one number for each log is enough. It does not have
//! to follow on the last chunk's: the merging thread may be lapped as well.

use super::order::{Picks, input_of};

const ROW_BYTES: usize = 12;

/// The packets of one log in a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    /// The number of the first one in its log.
    pub(crate) first_packet: u64,
    pub(crate) packets: u32,
}

/// Writes a chunk in place of `bytes`: a row for each log, of which there are up to 256, and the
/// order of their packets.
pub(crate) fn write(bytes: &mut Vec<u8>, rows: impl Iterator<Item = Row>, picks: &Picks<'_>) {
    bytes.clear();
    for row in rows {
        bytes.extend(row.first_packet.to_le_bytes());
        bytes.extend(row.packets.to_le_bytes());
    }
    match picks {
        Picks::Keys(keys) => bytes.extend(keys.iter().map(|key| input_of(*key) as u8)),
        Picks::Runs(runs) => {
            runs.iter().for_each(|run| bytes.resize(bytes.len() + run.count, run.input as u8));
        }
    }
}

/// Splits a chunk into the rows of `logs` logs and the keys.
pub(crate) fn split(bytes: &[u8], logs: usize) -> (impl Iterator<Item = Row>, &[u8]) {
    let (rows, keys) = bytes.split_at(logs * ROW_BYTES);
    let row = |bytes: &[u8]| {
        let (first, packets) = bytes.split_at(8);
        let packets = packets.try_into().expect("the rest of a row has four bytes");
        let first = first.try_into().expect("the start of a row has eight bytes");
        Row { first_packet: u64::from_le_bytes(first), packets: u32::from_le_bytes(packets) }
    };
    (rows.chunks_exact(ROW_BYTES).map(row), keys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::order::Run;

    #[test]
    fn a_chunk_comes_back() {
        let rows = [
            Row { first_packet: u64::MAX - 9, packets: 3 },
            Row::default(),
            Row { first_packet: 7, packets: 2 },
        ];
        let mut bytes = vec![9; 99];
        let runs =
            [Run { input: 2, count: 1 }, Run { input: 0, count: 3 }, Run { input: 2, count: 1 }];
        write(&mut bytes, rows.into_iter(), &Picks::Runs(&runs));
        let (read, keys) = split(&bytes, 3);
        assert_eq!(read.collect::<Vec<_>>(), rows);
        assert_eq!(keys, [2, 0, 0, 0, 2]);
        write(&mut bytes, rows.into_iter(), &Picks::Keys(&[5 << 16 | 2, 6 << 16, 7 << 16]));
        assert_eq!(split(&bytes, 3).1, [2, 0, 0]);
    }
}
