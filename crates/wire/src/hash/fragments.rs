//! The hasher's memory of first fragments: a small set-associative cache.
//!
//! ```text
//! set = key mod SETS     [ newest | . | . | oldest ]     4 entries, one cache line
//! ```
//!
//! An entry is a 64-bit fingerprint of (addresses, id, protocol) and the hash of the flow. A new
//! entry evicts the oldest of its set, so the table never grows and needs no clock. Two datagrams
//! with the same fingerprint would share a hash; nothing worse can happen. The same holds for a
//! datagram whose first fragment was lost and whose 16-bit IPv4 id is reused.

use super::symmetric;
use crate::headers::{Fragment, Headers, Network, bytes_at};

/// Fragmented datagrams in flight that are remembered. 4,096 entries of 16 bytes are 64 KiB: they
/// stay in the L2 cache.
pub const FRAGMENTS_MAX: usize = SETS * WAYS;

const SETS: usize = 1024;
const WAYS: usize = 4;

const _: () = assert!(SETS.is_power_of_two() && size_of::<[Entry; WAYS]>() == 64);

/// Flow hashes of first fragments.
pub(super) struct FragmentTable {
    sets: Box<[[Entry; WAYS]]>,
}

/// `key` 0 marks an empty entry: [`key`] never returns it.
#[derive(Clone, Copy)]
struct Entry {
    key: u64,
    hash: u32,
}

impl FragmentTable {
    pub(super) fn new() -> Self {
        Self { sets: vec![[Entry { key: 0, hash: 0 }; WAYS]; SETS].into_boxed_slice() }
    }

    /// Stores the hash of a first fragment; a repeated fragment replaces its own entry.
    pub(super) fn remember(&mut self, key: u64, hash: u32) {
        let set = &mut self.sets[set_index(key)];
        let place = set.iter().position(|entry| entry.key == key).unwrap_or(WAYS - 1);
        set[..=place].rotate_right(1);
        set[0] = Entry { key, hash };
    }

    /// Returns the hash of the first fragment with this key, if it is still stored.
    pub(super) fn recall(&self, key: u64) -> Option<u32> {
        let set = &self.sets[set_index(key)];
        set.iter().find(|entry| entry.key == key).map(|entry| entry.hash)
    }
}

/// Returns the fingerprint of the datagram that `fragment` is a part of; never 0.
///
/// IPv4 also distinguishes datagrams by protocol (RFC 791 section 3.2). IPv6 does not (RFC 8200
/// section 4.5), and there the first fragment's protocol may follow further extension headers.
pub(super) fn key(headers: &Headers, fragment: Fragment, packet: &[u8]) -> u64 {
    let network = headers.network_offset as usize;
    let key = if headers.network == Network::Ipv4 {
        let addresses: [u8; 8] = bytes_at(packet, network + 12).unwrap_or_default();
        symmetric::datagram(&addresses, fragment.id, headers.protocol)
    } else {
        let addresses: [u8; 32] = bytes_at(packet, network + 8).unwrap_or_default();
        symmetric::datagram(&addresses, fragment.id, 0)
    };
    key.max(1)
}

fn set_index(key: u64) -> usize {
    key as usize & (SETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_entries_of_a_set_stay() {
        let mut table = FragmentTable::new();
        let keys: Vec<u64> = (1..=6).map(|i| i * SETS as u64 + 7).collect();
        for (hash, key) in (0..).zip(&keys) {
            table.remember(*key, hash);
        }
        let recalled: Vec<_> = keys.iter().map(|key| table.recall(*key)).collect();
        assert_eq!(recalled, [None, None, Some(2), Some(3), Some(4), Some(5)]);
    }

    #[test]
    fn a_repeated_first_fragment_takes_no_second_entry() {
        let mut table = FragmentTable::new();
        let keys: Vec<u64> = (1..=4).map(|i| i * SETS as u64).collect();
        for key in &keys {
            table.remember(*key, 1);
        }
        table.remember(keys[0], 2);
        assert_eq!(table.recall(keys[0]), Some(2));
        assert!(keys[1..].iter().all(|key| table.recall(*key) == Some(1)));
        // The repetition also made it the newest, so the second key is evicted next.
        table.remember(5 * SETS as u64, 3);
        assert_eq!((table.recall(keys[0]), table.recall(keys[1])), (Some(2), None));
    }
}
