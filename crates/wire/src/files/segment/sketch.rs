//! Which flows a segment may hold: a Bloom filter of their hashes.
//!
//! ```text
//!  hash --> four bits of 2^n        while packets come: as many bits as the segment may ever need
//!  finish --> folded in halves as long as at most half of the bits are set, and written
//! ```
//!
//! A filter never says no of a hash that was put in. It says yes of one in sixteen others at most,
//! where half of its bits are set. In a file it lies in front of the worklist: the CRC32C of its
//! bits, then the bits, byte by byte from the lowest on; 2^n bytes of them.

use super::super::word;

/// Bits that a hash sets.
const BITS: u32 = 4;

/// Bytes of bits that a filter has at least.
const LEAST_BYTES: usize = 8;

/// Bytes of the checksum.
const CHECKSUM_BYTES: usize = 4;

/// The most bytes of a sketch: for each packet, and besides.
pub(super) const SHARE_BYTES: usize = 2;
pub(super) const SPARE_BYTES: usize = CHECKSUM_BYTES + LEAST_BYTES;

/// The flow hashes of the open segment.
#[derive(Clone, Debug)]
pub(super) struct Sketch {
    words: Vec<u64>,
    /// Whether a packet has no hash: then nothing can be said.
    is_open: bool,
}

impl Sketch {
    /// For a segment of `segment_bytes`, a power of two from 4096 on.
    pub(super) fn new(segment_bytes: usize) -> Self {
        // A packet takes 36 bytes and more, so fewer than half of these bits are ever set.
        Self { words: vec![0; segment_bytes / 32], is_open: false }
    }

    #[inline]
    pub(super) fn insert(&mut self, hash: u32) {
        let mask = self.words.len() * 64 - 1;
        for bit in bits(hash) {
            let bit = bit as usize & mask;
            self.words[bit / 64] |= 1 << (bit % 64);
        }
    }

    /// Takes note of a packet without a hash.
    pub(super) fn open(&mut self) {
        self.is_open = true;
    }

    pub(super) fn clear(&mut self) {
        self.words.fill(0);
        self.is_open = false;
    }

    /// The bytes for the file; none where nothing can be said.
    ///
    /// Cost: two passes over the bits, some microseconds for a segment of 1 MiB.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        if self.is_open {
            return Vec::new();
        }
        let mut words = self.words.clone();
        while words.len() > LEAST_BYTES / 8 {
            let (low, high) = words.split_at(words.len() / 2);
            let half: Vec<u64> = low.iter().zip(high).map(|(low, high)| low | high).collect();
            let set: usize = half.iter().map(|word| word.count_ones() as usize).sum();
            if set > half.len() * 32 {
                break;
            }
            words = half;
        }
        let mut bytes = vec![0; CHECKSUM_BYTES];
        words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        let checksum = crc32c::crc32c(&bytes[CHECKSUM_BYTES..]);
        bytes[..CHECKSUM_BYTES].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }
}

/// Whether a filter, as it lies in a file, is whole.
pub(super) fn is_sound(bytes: &[u8]) -> bool {
    let Some(bits) = bytes.get(CHECKSUM_BYTES..) else { return false };
    bits.len().is_power_of_two() && crc32c::crc32c(bits) == word(bytes, 0, false)
}

/// Whether a filter, as it lies in a file, may have this hash; yes if it is damaged.
pub(super) fn may_hold(bytes: &[u8], hash: u32) -> bool {
    if !is_sound(bytes) {
        return true;
    }
    let filter = &bytes[CHECKSUM_BYTES..];
    let mask = filter.len() * 8 - 1;
    bits(hash).all(|bit| {
        let bit = bit as usize & mask;
        filter[bit / 8] >> (bit % 8) & 1 == 1
    })
}

/// The numbers of a hash's bits. Their low bits are those in a smaller filter.
#[inline]
fn bits(hash: u32) -> impl Iterator<Item = u32> {
    let mixed = u64::from(hash).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let (first, step) = ((mixed >> 32) as u32, mixed as u32 >> 7 | 1);
    (0..BITS).map(move |number| first.wrapping_add(number.wrapping_mul(step)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_is_there_and_little_else() {
        for hashes in [1, 2, 10, 1000, 5000] {
            let mut sketch = Sketch::new(1 << 20);
            // Whatever the hashes are like: the sum of two numbers, or far apart.
            let hash = |number: u32| number * 7 + (number % 3) * 0x1000_0000;
            (0..hashes).for_each(|number| sketch.insert(hash(number)));
            let bytes = sketch.to_bytes();
            let most = SHARE_BYTES * hashes as usize + SPARE_BYTES;
            assert!(bytes.len() <= most, "{hashes}: {}", bytes.len());
            assert!((0..hashes).all(|number| may_hold(&bytes, hash(number))));
            let others = (hashes..hashes + 10_000).filter(|&other| may_hold(&bytes, hash(other)));
            let others = others.count();
            assert!(others < 800, "{hashes}: {others} of 10000");
        }
    }

    #[test]
    fn a_damaged_filter_says_nothing() {
        let mut sketch = Sketch::new(4096);
        sketch.insert(7);
        let bytes = sketch.to_bytes();
        assert!(!may_hold(&bytes, 8));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(may_hold(&damaged, 8), "{bit}");
        }
        assert!(may_hold(&[], 8) && may_hold(&bytes[..7], 8));
        sketch.open();
        assert!(sketch.to_bytes().is_empty());
    }
}
