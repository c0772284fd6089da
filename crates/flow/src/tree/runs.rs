//! Parquet's encoding of small numbers: runs of one value, and bit-packed groups of eight.
//!
//! ```text
//! run     | 2 * length         | the value, whole bytes |
//! packed  | 2 * groups + 1     | 8 values of `width` bits | ...
//! ```
//!
//! Source: apache/parquet-format, Encodings.md, "Run Length Encoding / Bit-Packing Hybrid" and
//! "Delta Encoding".

/// Values per group.
const GROUP: usize = 8;

/// Values per block of differences, and its parts.
const BLOCK: usize = 128;
const PARTS: usize = 4;

/// Returns the most bits of a number below `count`.
pub(super) fn width(count: usize) -> u32 {
    count.checked_sub(1).map_or(0, |most| usize::BITS - most.leading_zeros())
}

pub(super) fn append(values: &[u32], width: u32, out: &mut Vec<u8>) {
    let mut rest = values;
    while let Some(&value) = rest.first() {
        let length = rest.iter().take_while(|&&other| other == value).count();
        if length >= GROUP {
            append_run(value, length, width, out);
            rest = &rest[length..];
            continue;
        }
        let mut packed = 0;
        while packed < rest.len() && !begins_run(&rest[packed..]) {
            packed += GROUP;
        }
        let (now, later) = rest.split_at(packed.min(rest.len()));
        append_packed(now, width, out);
        rest = later;
    }
}

pub(super) fn append_run(value: u32, length: usize, width: u32, out: &mut Vec<u8>) {
    append_number(2 * length as u64, out);
    out.extend(&value.to_le_bytes()[..width.div_ceil(8) as usize]);
}

fn begins_run(values: &[u32]) -> bool {
    values.get(..GROUP).is_some_and(|group| group.iter().all(|&value| value == group[0]))
}

/// Appends packed groups. The last group is padded with zeros.
fn append_packed(values: &[u32], width: u32, out: &mut Vec<u8>) {
    append_number(2 * values.len().div_ceil(GROUP) as u64 + 1, out);
    for group in values.chunks(GROUP) {
        let (mut held, mut bits) = (0_u64, 0);
        for at in 0..GROUP {
            held |= u64::from(group.get(at).copied().unwrap_or(0)) << bits;
            bits += width;
            while bits >= 8 {
                out.push(held as u8);
                (held, bits) = (held >> 8, bits - 8);
            }
        }
    }
}

/// Appends `first` and then `count - 1` times `later`, as differences.
pub(super) fn append_differences(first: u64, later: u64, count: usize, out: &mut Vec<u8>) {
    append_number(BLOCK as u64, out);
    append_number(PARTS as u64, out);
    append_number(count as u64, out);
    append_signed(first as i64, out);
    let step = later.wrapping_sub(first) as i64;
    for block in 0..count.saturating_sub(1).div_ceil(BLOCK) {
        // The first block has one difference that is not 0, in its first part.
        let least = if block == 0 { step.min(0) } else { 0 };
        append_signed(least, out);
        let (head, rest) = (step.wrapping_sub(least) as u64, 0_i64.wrapping_sub(least) as u64);
        let width = if block == 0 { 64 - head.max(rest).leading_zeros() } else { 0 };
        // Parts after the last value exist with a width of 0.
        out.push(width as u8);
        let left = count - 1 - block * BLOCK;
        let others = if block == 0 { 64 - rest.leading_zeros() } else { 0 };
        let is_there = |part: usize| part * (BLOCK / PARTS) < left;
        out.extend((1..PARTS).map(|part| if is_there(part) { others as u8 } else { 0 }));
        append_part(head, rest, width, out);
        for _ in (1..PARTS).filter(|&part| is_there(part)) {
            append_part(rest, rest, others, out);
        }
    }
}

/// Appends one value followed by equal ones, 32 in all.
fn append_part(head: u64, rest: u64, width: u32, out: &mut Vec<u8>) {
    let (mut held, mut bits) = (0_u128, 0);
    for at in 0..BLOCK / PARTS {
        held |= u128::from(if at == 0 { head } else { rest }) << bits;
        bits += width;
        while bits >= 8 {
            out.push(held as u8);
            (held, bits) = (held >> 8, bits - 8);
        }
    }
}

/// Appends a number with seven bits per byte, the lowest first.
fn append_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a signed number in the same form; small absolute values are short.
pub(super) fn append_signed(number: i64, out: &mut Vec<u8>) {
    append_number((number << 1 ^ number >> 63) as u64, out);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number(bytes: &mut &[u8]) -> u64 {
        let mut number = 0;
        for shift in (0..).step_by(7) {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        number
    }

    /// Reads what [`append`] wrote, bit by bit.
    fn read(mut bytes: &[u8], width: u32, count: usize) -> Vec<u32> {
        let mut values = Vec::new();
        while !bytes.is_empty() {
            let head = number(&mut bytes);
            let length = (head >> 1) as usize;
            let is_packed = head & 1 == 1;
            let taken =
                if is_packed { length * width as usize } else { width.div_ceil(8) as usize };
            let (now, later) = bytes.split_at(taken);
            let bit = |at: usize| u32::from(now[at / 8] >> (at % 8) & 1);
            let at = |index: usize| {
                let bits = (0..width as usize).map(|bit_at| index * width as usize + bit_at);
                bits.rev().fold(0, |value, place| value << 1 | bit(place))
            };
            match is_packed {
                true => values.extend((0..length * GROUP).map(at)),
                false => values.extend(std::iter::repeat_n(at(0), length)),
            }
            bytes = later;
        }
        assert!(values.len() >= count && values[count..].iter().all(|&value| value == 0));
        values.truncate(count);
        values
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            width in 0_u32..21,
            runs in proptest::collection::vec((any::<u32>(), 1_usize..40), 0..60),
        ) {
            let value = |value: u32| value & ((1 << width) - 1);
            let values: Vec<u32> = runs
                .iter()
                .flat_map(|&(one, length)| std::iter::repeat_n(value(one), length % 19 + 1))
                .collect();
            let mut out = Vec::new();
            append(&values, width, &mut out);
            prop_assert_eq!(read(&out, width, values.len()), values);
        }
    }

    #[test]
    fn a_width_holds_every_number_below() {
        assert_eq!([0, 1, 2, 3, 4, 5, 1 << 17].map(width), [0, 0, 1, 2, 2, 3, 17]);
    }
}
