//! The hash of all tables in this crate: fast, and seeded so that no sender can target a slot.

use std::hash::{BuildHasher, Hasher};

/// Source of the constant: the golden ratio, as for Fibonacci hashing (Knuth, volume 3, 6.4).
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

#[inline]
pub(crate) fn mix(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word) * u128::from(MULTIPLIER);
    (product as u64) ^ (product >> 64) as u64
}

/// Hashes words with a seed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seed(pub(crate) u64);

/// A hash that is being computed.
pub(crate) struct Mixer(u64);

impl BuildHasher for Seed {
    type Hasher = Mixer;

    fn build_hasher(&self) -> Mixer {
        Mixer(self.0 ^ MULTIPLIER)
    }
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = mix(self.0, byte.into());
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.0 = mix(self.0, word);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}
