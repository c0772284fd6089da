//! A dictionary of a column's distinct values, and each row's value. Values are compared as
//! numbers, and formatted once each.

use std::hash::{BuildHasher, RandomState};

/// The key that stands for a value in comparisons.
pub(super) trait Key: Copy + Eq {
    /// Hashes its words with a secret, so that senders of packets cannot choose collisions.
    fn hash(&self, secret: u64) -> u64;
}

impl Key for u64 {
    #[inline]
    fn hash(&self, secret: u64) -> u64 {
        mix(*self ^ secret, SECOND)
    }
}

/// An address, and whether it is IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) bytes: [u8; 16],
    pub(super) is_v4: bool,
}

impl Key for Address {
    #[inline]
    fn hash(&self, secret: u64) -> u64 {
        let bits = u128::from_le_bytes(self.bytes);
        mix(bits as u64 ^ secret, (bits >> 64) as u64 ^ SECOND)
    }
}

/// An odd number without structure: the fractional part of the square root of 13.
const SECOND: u64 = 0x9b05_688c_2b3e_6c1f;

#[inline(always)]
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// The distinct values of a column, and each row's value.
pub(super) struct Dictionary<K> {
    /// The values, in order of first occurrence.
    pub(super) values: Vec<K>,
    /// Numbers of the rows' values, for rows that have one.
    pub(super) ids: Vec<u32>,
    /// Whether each row has a value; empty until a row has none.
    pub(super) levels: Vec<u32>,
    /// Numbers of values plus 1, by hash; 0 is empty. At most half of them are used.
    places: Vec<u32>,
    secret: u64,
}

impl<K: Key> Dictionary<K> {
    /// Creates a dictionary for about this many rows.
    pub(super) fn new(rows: usize) -> Self {
        Self {
            values: Vec::new(),
            ids: Vec::with_capacity(rows),
            levels: Vec::new(),
            places: vec![0; 64],
            secret: RandomState::new().hash_one(0),
        }
    }

    /// Adds a row with this value.
    #[inline]
    pub(super) fn push(&mut self, key: K) {
        let id = match self.ids.last() {
            Some(&last) if self.values[last as usize] == key => last,
            _ => self.id(key),
        };
        self.ids.push(id);
        if !self.levels.is_empty() {
            self.levels.push(1);
        }
    }

    /// Adds a row without a value.
    pub(super) fn push_none(&mut self) {
        if self.levels.is_empty() {
            self.levels = vec![1; self.ids.len()];
        }
        self.levels.push(0);
    }

    fn id(&mut self, key: K) -> u32 {
        let mask = self.places.len() - 1;
        let mut at = key.hash(self.secret) as usize & mask;
        loop {
            match self.places[at].checked_sub(1) {
                Some(id) if self.values[id as usize] == key => return id,
                Some(_) => at = (at + 1) & mask,
                None => break,
            }
        }
        self.values.push(key);
        self.places[at] = self.values.len() as u32;
        if 2 * self.values.len() > self.places.len() {
            self.grow();
        }
        self.values.len() as u32 - 1
    }

    #[cold]
    fn grow(&mut self) {
        let mask = 4 * self.places.len() - 1;
        self.places = vec![0; mask + 1];
        for (id, value) in (1..).zip(&self.values) {
            let mut at = value.hash(self.secret) as usize & mask;
            while self.places[at] != 0 {
                at = (at + 1) & mask;
            }
            self.places[at] = id;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_row_has_its_value_and_each_value_stands_once(
            rows in proptest::collection::vec(proptest::option::of(0_u64..300), 0..900),
        ) {
            let mut dictionary = Dictionary::new(0);
            for row in &rows {
                match row {
                    Some(key) => dictionary.push(*key),
                    None => dictionary.push_none(),
                }
            }
            let mut ids = dictionary.ids.iter();
            let mut levels = dictionary.levels.iter();
            let all = dictionary.levels.is_empty();
            let has = rows.iter().map(|_| all || *levels.next().unwrap() == 1).collect::<Vec<_>>();
            let read: Vec<_> = has
                .iter()
                .map(|has| has.then(|| dictionary.values[*ids.next().unwrap() as usize]))
                .collect();
            prop_assert_eq!(read, rows);
            let distinct: std::collections::BTreeSet<_> = dictionary.values.iter().collect();
            prop_assert_eq!(distinct.len(), dictionary.values.len());
        }
    }
}
