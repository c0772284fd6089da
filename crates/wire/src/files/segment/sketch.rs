//! A sketch of the flows that a segment or a file may hold: a Bloom filter of their hashes.
//!
//! ```text
//!  hash --> four bits of 2^n        while packets come: as many bits as the segment may ever need
//!  finish --> folded in halves to what packets have room for, and on while a sixteenth is set
//!  segments of a file --> or --> folded while at most an eighth is set, in the last segment
//! ```
//!
//! A filter has no false negatives. Half of its bits are set if, for example, each packet of a
//! segment has its own flow. Then it has false positives for one in sixteen other flows; with an
//! eighth set, for one in 4,096. A segment reserves two bytes for each hash that sets bits. Hashes
//! that were inserted recently set none: packets of few flows need little room. In a file a filter
//! is stored before the worklist: the CRC32C of its bits, then the bits, byte by byte from the
//! lowest on, 2^n bytes.

use super::super::word;
use crate::crc32c;

/// Bits that a hash sets.
const BITS: u32 = 4;

/// Minimum bytes of a filter's bits, and of the room for them in proportion to a segment.
const LEAST_BYTES: usize = 8;
const LEAST_SHARE: usize = 512;

/// Words of the bits of 1 MiB segments, the usual size.
const USUAL_WORDS: usize = (1 << 20) / 128;

/// Places of hashes that were inserted recently, a power of two: 4 KiB, less than their bits take.
const RECENT: usize = 1024;

/// Bytes of the checksum.
const CHECKSUM_BYTES: usize = 4;

/// The most bytes that a hash adds to the room of a sketch.
pub(super) const SHARE_BYTES: usize = 2;

/// How far a filter is folded.
#[derive(Clone, Copy)]
struct Fold {
    /// Folded down to this many bytes in any case.
    most_bytes: usize,
    /// Then folded further while at most one of this many bits is set.
    full: usize,
    least_bytes: usize,
}

/// With fewer bytes, a few flows would share too many bits with others.
const FILE: Fold = Fold { most_bytes: usize::MAX, full: 8, least_bytes: 128 };

/// Flow hashes: those of the open segment, or of a whole file.
#[derive(Clone, Debug)]
pub struct Sketch {
    words: Vec<u64>,
    /// Some of the hashes that are inserted, each at its place: most come again soon.
    recent: Box<[u32; RECENT]>,
    /// Hashes inserted that were not recent: each sets at most [`BITS`] bits, and the others none.
    setting: usize,
    /// Whether a packet has no hash: then the sketch is unusable.
    is_open: bool,
}

impl Sketch {
    /// Creates a sketch with the bits that a segment may need: a power of two from 4096 on.
    ///
    /// A packet takes 36 bytes or more, so at most a quarter of these bits is ever set. More bits
    /// would cost more than they help: all are read a few times for each segment.
    #[must_use]
    pub fn new(segment_bytes: usize) -> Self {
        let words = vec![0; segment_bytes / 128];
        Self { words, recent: Box::new(none_recent()), setting: 0, is_open: false }
    }

    /// Returns the most bytes of a file's sketch with segments of this size.
    #[must_use]
    pub const fn most_bytes(segment_bytes: u64) -> u64 {
        segment_bytes / 16 + CHECKSUM_BYTES as u64
    }

    /// Inserts a hash.
    #[inline]
    pub fn insert(&mut self, hash: u32) {
        self.insert_all(&[hash]);
    }

    /// Inserts hashes. Cost: some 5 instructions if a hash was there recently, else some 50.
    // Not inlined: it needs all registers.
    #[inline(never)]
    pub(super) fn insert_all(&mut self, hashes: &[u32]) {
        // With a constant number of words, no index needs a bounds check.
        self.setting += match <&mut [u64; USUAL_WORDS]>::try_from(&mut self.words[..]) {
            Ok(words) => set_all(words, &mut self.recent, hashes),
            Err(_) => set_all(&mut self.words, &mut self.recent, hashes),
        };
    }

    /// Notes a packet without a hash.
    pub(super) fn open(&mut self) {
        self.is_open = true;
    }

    pub(super) fn clear(&mut self) {
        self.words.fill(0);
        *self.recent = none_recent();
        (self.setting, self.is_open) = (0, false);
    }

    /// Adds the hashes of another sketch of the same size.
    pub(super) fn add(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
        self.setting = self.setting.saturating_add(other.setting);
        self.is_open |= other.is_open;
    }

    /// Returns the bytes that a segment reserves for the sketch as it is.
    pub(super) fn room_bytes(&self) -> usize {
        CHECKSUM_BYTES + (SHARE_BYTES * self.setting).max(least_room_bytes(self.words.len() * 128))
    }

    /// Returns the bytes for a segment; empty if a packet had no hash.
    ///
    /// Cost: a pass over the bits, a few microseconds for a segment of 1 MiB.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        match self.is_open {
            true => Vec::new(),
            false => {
                let most_bytes = self.room_bytes() - CHECKSUM_BYTES;
                let fold = Fold { most_bytes, full: 16, least_bytes: LEAST_BYTES };
                written(self.folded(fold))
            }
        }
    }

    /// Returns the bytes for a whole file; empty if a packet had no hash, or if more than half of
    /// the bits are set.
    #[must_use]
    pub fn to_file_bytes(&self) -> Vec<u8> {
        let is_full = ones(&self.words) > self.words.len() * 32;
        if self.is_open || is_full { Vec::new() } else { written(self.folded(FILE)) }
    }

    fn folded(&self, fold: Fold) -> Vec<u64> {
        // So few bits can be set that no count is needed down to this size.
        let most = self.setting.saturating_mul(BITS as usize * fold.full);
        let bytes = most.div_ceil(8).max(fold.least_bytes).next_power_of_two();
        let bytes = bytes.min(1 << fold.most_bytes.ilog2());
        let mut words = vec![0; (bytes / 8).min(self.words.len())];
        for part in self.words.chunks_exact(words.len()) {
            words.iter_mut().zip(part).for_each(|(word, part)| *word |= part);
        }
        while words.len() > fold.least_bytes / 8 {
            let (low, high) = words.split_at(words.len() / 2);
            let half: Vec<u64> = low.iter().zip(high).map(|(low, high)| low | high).collect();
            if ones(&half) > half.len() * 64 / fold.full {
                break;
            }
            words = half;
        }
        words
    }

    /// Returns whether a filter, as stored in a file, may have this hash; true if it is damaged.
    #[must_use]
    pub fn may_hold(bytes: &[u8], hash: u32) -> bool {
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
}

/// Returns the bytes that bits may take in any segment of this size. With fewer, a few flows that
/// take turns would fill them.
const fn least_room_bytes(segment_bytes: usize) -> usize {
    let bytes = segment_bytes / LEAST_SHARE;
    if bytes > LEAST_BYTES { bytes } else { LEAST_BYTES }
}

/// Returns the bytes that a segment of this size reserves for the sketch of one packet.
pub(super) const fn first_room_bytes(segment_bytes: usize) -> usize {
    CHECKSUM_BYTES + least_room_bytes(segment_bytes) + SHARE_BYTES
}

/// Sets the bits of hashes. Returns how many were not recent.
#[inline(always)]
fn set_all(words: &mut [u64], recent: &mut [u32; RECENT], hashes: &[u32]) -> usize {
    let (mask, mut setting) = (words.len() - 1, 0);
    for &hash in hashes {
        let place = &mut recent[hash as usize % RECENT];
        if *place == hash {
            continue;
        }
        *place = hash;
        setting += 1;
        for bit in bits(hash) {
            words[(bit as usize / 64) & mask] |= 1 << (bit % 64);
        }
    }
    setting
}

/// Returns places of which each has a hash that belongs at another: it equals no hash looked for.
const fn none_recent() -> [u32; RECENT] {
    let mut places = [0; RECENT];
    places[0] = 1;
    places
}

fn ones(words: &[u64]) -> usize {
    words.iter().map(|word| word.count_ones() as usize).sum()
}

/// Returns a filter as it is stored in a file.
fn written(words: Vec<u64>) -> Vec<u8> {
    let mut bytes = vec![0; CHECKSUM_BYTES];
    words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    let checksum = crc32c::crc32c(&bytes[CHECKSUM_BYTES..]);
    bytes[..CHECKSUM_BYTES].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Returns whether a filter, as stored in a file, is undamaged.
pub(super) fn is_sound(bytes: &[u8]) -> bool {
    let Some(bits) = bytes.get(CHECKSUM_BYTES..) else { return false };
    bits.len().is_power_of_two() && crc32c::crc32c(bits) == word(bytes, 0, false)
}

/// Returns the bit numbers of a hash. Their low bits are the numbers in a smaller filter.
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
            // Hashes of any distribution: the sum of two numbers, or far apart.
            let hash = |number: u32| number * 7 + (number % 3) * 0x1000_0000;
            (0..hashes).for_each(|number| sketch.insert(hash(number)));
            let bytes = sketch.to_bytes();
            let most = sketch.room_bytes();
            assert!(most <= 2 * hashes as usize + 4 + 2048);
            assert!(bytes.len() <= most, "{hashes}: {}", bytes.len());
            assert!((0..hashes).all(|number| Sketch::may_hold(&bytes, hash(number))));
            let others =
                (hashes..hashes + 10_000).filter(|&other| Sketch::may_hold(&bytes, hash(other)));
            let others = others.count();
            assert!(others < 300, "{hashes}: {others} of 10000");
        }
    }

    #[test]
    fn a_file_has_what_its_segments_have_and_hardly_anything_else() {
        // Spread like real hashes.
        let hash = |flow: u32| (flow ^ flow >> 7).wrapping_mul(0x85EB_CA6B) ^ flow << 9;
        for flows in [1, 100, 10_000, 60_000, 300_000] {
            let mut file = Sketch::new(1 << 20);
            for segment in 0..10 {
                let mut sketch = Sketch::new(1 << 20);
                let of_it = (0..flows).filter(|flow| flow % 10 == segment);
                of_it.for_each(|flow| sketch.insert(hash(flow)));
                file.add(&sketch);
            }
            let bytes = file.to_file_bytes();
            assert_eq!(bytes.is_empty(), flows == 300_000, "{flows}");
            assert!((0..flows).all(|flow| Sketch::may_hold(&bytes, hash(flow))), "{flows}");
            let others = (0..100_000)
                .filter(|&other| Sketch::may_hold(&bytes, hash(other + 1_000_000)))
                .count();
            let most = if flows < 15_000 { 150 } else { 6_250 };
            assert!(bytes.is_empty() || others < most, "{flows}: {others} of 100000");
        }
        let mut open = Sketch::new(4096);
        open.open();
        let mut file = Sketch::new(4096);
        file.add(&open);
        assert!(file.to_file_bytes().is_empty());
    }

    #[test]
    fn bits_are_the_same_one_by_one_and_of_any_number_of_words() {
        for segment_bytes in [4096, 1 << 18, 1 << 20] {
            // Each hash occurs three times in a row, and again later.
            let hash = |at: u32| (at / 3 % 700).wrapping_mul(0x9E37_79B1);
            let hashes: Vec<u32> = (0..6000).map(hash).collect();
            let (mut all, mut each) = (Sketch::new(segment_bytes), Sketch::new(segment_bytes));
            hashes.chunks(32).for_each(|hashes| all.insert_all(hashes));
            hashes.iter().for_each(|&hash| each.insert(hash));
            let mut words = vec![0; segment_bytes / 128];
            for bit in hashes.iter().flat_map(|&hash| bits(hash)) {
                let bit = bit as usize % (segment_bytes / 2);
                words[bit / 64] |= 1 << (bit % 64);
            }
            assert_eq!((&all.words, all.setting), (&words, each.setting));
            assert_eq!(&each.words, &words);
            assert!((700..=2000).contains(&each.setting), "{}", each.setting);
        }
    }

    #[test]
    fn a_damaged_filter_says_nothing() {
        let mut sketch = Sketch::new(4096);
        sketch.insert(7);
        let bytes = sketch.to_bytes();
        assert!(!Sketch::may_hold(&bytes, 8));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Sketch::may_hold(&damaged, 8), "{bit}");
        }
        assert!(Sketch::may_hold(&[], 8) && Sketch::may_hold(&bytes[..7], 8));
        sketch.open();
        assert!(sketch.to_bytes().is_empty());
    }
}
