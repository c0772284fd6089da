//! Finds those of up to 64 packets that have one of the reader's buckets, without branches.
//!
//! With packets in random order, a branch is mispredicted about once per match, at some 20 cycles.
//! The bit mask of 64 packets costs some 20 instructions, and one misprediction at its end.

use std::ops::Range;

use crate::buckets::Buckets;

/// Packets that are tested together.
pub(crate) const WINDOW: usize = u64::BITS as usize;

/// Returns a mask whose bit `i` says whether packet `packets.start + i` of a segment has one of
/// `buckets`, for 1 to 64 `packets`. `column` is the published part of the segment's column.
/// `bucket_at` returns a packet's bucket if `column` is too short.
#[inline]
pub(crate) fn own(
    column: &[u8],
    packets: Range<usize>,
    buckets: Buckets,
    bucket_at: impl Fn(usize) -> u8,
) -> u64 {
    // Use the 64 bytes that end with the last packet's. Bytes before it are published; bytes after
    // it may be being written.
    match column.get(..packets.end).and_then(<[u8]>::last_chunk::<WINDOW>) {
        Some(window) => mask_of(window, buckets) >> (WINDOW - packets.len()),
        None => packets
            .rev()
            .fold(0, |mask, index| mask << 1 | u64::from(buckets.holds(bucket_at(index)))),
    }
}

/// Returns a mask whose bit `i` says whether byte `i` is in `buckets`. Cost: some 20 instructions.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn mask_of(window: &[u8; WINDOW], buckets: Buckets) -> u64 {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_set1_epi8,
        _mm_sub_epi8,
    };
    let mut mask = 0;
    for (index, piece) in window.as_chunks::<16>().0.iter().enumerate() {
        // SAFETY: every x86-64 processor has SSE2, and the piece is 16 bytes.
        let bits = unsafe {
            let first = _mm_set1_epi8(buckets.first() as i8);
            let span = _mm_set1_epi8(buckets.span() as i8);
            let distance = _mm_sub_epi8(_mm_loadu_si128(piece.as_ptr().cast::<__m128i>()), first);
            // SSE2 has no unsigned comparison, so this computes `distance <= span` with a minimum.
            _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(distance, span), distance))
        };
        mask |= u64::from(bits as u32) << (16 * index);
    }
    mask
}

/// Returns a mask whose bit `i` says whether byte `i` is in `buckets`.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn mask_of(window: &[u8; WINDOW], buckets: Buckets) -> u64 {
    window.iter().rev().fold(0, |mask, &bucket| mask << 1 | u64::from(buckets.holds(bucket)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_one_look_at_each_packet() {
        let column: Vec<u8> = (0..300_u32).map(|index| (index * 167 + index / 7) as u8).collect();
        let parts = [(0, 1), (0, 4), (1, 4), (3, 4), (6, 7), (255, 256)];
        for buckets in parts.map(|(worker, workers)| Buckets::of_worker(worker, workers)) {
            for (start, end) in
                [(0, 1), (0, 64), (5, 64), (63, 65), (64, 128), (200, 263), (236, 300)]
            {
                // Bytes after the column's end are something else; a column that is too short is
                // not used.
                for known in [end, 280, 0] {
                    let bits = own(&column[..known], start..end, buckets, |index| column[index]);
                    for (offset, &bucket) in column[start..end].iter().enumerate() {
                        let is_own = bits >> offset & 1 == 1;
                        assert_eq!(is_own, buckets.holds(bucket), "{offset} of {start}..{end}");
                    }
                    assert!(end - start == WINDOW || bits >> (end - start) == 0);
                }
            }
        }
    }
}
