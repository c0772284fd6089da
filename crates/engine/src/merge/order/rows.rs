//! Merges sorted rows of keys, two at a time.
//!
//! ```text
//!  row a    | 0 |  3  7  8  | MAX |         from the front: the lesser of the next two
//!  row b    | 0 |  4  5  9  | MAX |  --->   from the back: the greater of the last two
//!  both     | 0 |  3  4  5  7  8  9  | MAX |
//! ```
//!
//! Each row has sentinel keys before and after it that lose against every other key. So a step
//! compares two keys, without bounds checks or a branch on the result. Each step depends on the one
//! before it, so a row is filled from both ends at once, as two independent chains.
//!
//! No two rows have a key in common, because their inputs differ.

use super::{CHUNK, Key};

/// Slots for a chunk of up to `ROWS_MOST` rows. A power of two, so indices are masked, not checked.
const SLOTS: usize = 1024;
const MASK: usize = SLOTS - 1;

/// The most rows that are merged; more are sorted instead.
const ROWS_MOST: usize = 64;
const _: () = assert!(CHUNK + 2 * ROWS_MOST <= SLOTS);

/// The position of a row, between a 0 and a MAX.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    start: usize,
    len: usize,
}

/// A set of rows.
#[derive(Debug)]
pub(super) struct Rows {
    from: Box<[Key; SLOTS]>,
    to: Box<[Key; SLOTS]>,
    rows: Vec<Row>,
    /// All keys, sorted, if there are too many rows.
    sorted: Vec<Key>,
    is_sorted: bool,
}

impl Default for Rows {
    fn default() -> Self {
        let slots = || Box::new([0; SLOTS]);
        let (from, to) = (slots(), slots());
        Self { from, to, rows: Vec::new(), sorted: Vec::new(), is_sorted: false }
    }
}

impl Rows {
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.sorted.clear();
        self.is_sorted = false;
    }

    /// Adds an ascending row. All rows have [`CHUNK`] keys together, if they are not too many.
    pub(super) fn add(&mut self, keys: impl ExactSizeIterator<Item = Key>) {
        let len = keys.len();
        if len == 0 {
            return;
        }
        let start = self.rows.last().map_or(1, |row| row.start + row.len + 2);
        if self.is_sorted || self.rows.len() == ROWS_MOST || start + len >= SLOTS {
            self.give_up();
            self.sorted.extend(keys);
            return;
        }
        let slots = &mut self.from[start - 1..=start + len];
        slots[0] = 0;
        slots[len + 1] = Key::MAX;
        slots[1..=len].iter_mut().zip(keys).for_each(|(slot, key)| *slot = key);
        self.rows.push(Row { start, len });
    }

    /// Switches to sorting, because there are too many rows.
    #[cold]
    fn give_up(&mut self) {
        for row in self.rows.drain(..) {
            self.sorted.extend(&self.from[row.start..row.start + row.len]);
        }
        self.is_sorted = true;
    }

    /// Merges all rows into one.
    pub(super) fn merge(&mut self) {
        if self.is_sorted {
            self.sorted.sort_unstable();
        }
        while self.rows.len() > 1 {
            let mut pairs = 0;
            for at in (0..self.rows.len()).step_by(2) {
                let one = self.rows[at];
                let other = self.rows.get(at + 1).copied();
                self.rows[pairs] = match other {
                    Some(other) => merge_two(&self.from, one, other, &mut self.to),
                    None => copy(&self.from, one, &mut self.to),
                };
                pairs += 1;
            }
            self.rows.truncate(pairs);
            std::mem::swap(&mut self.from, &mut self.to);
        }
    }

    /// Returns all keys in order, after [`merge`](Self::merge).
    pub(super) fn keys(&self) -> &[Key] {
        match self.rows.first() {
            Some(row) => &self.from[row.start..row.start + row.len],
            None => &self.sorted,
        }
    }
}

/// Copies a row and its sentinels.
fn copy(from: &[Key; SLOTS], row: Row, to: &mut [Key; SLOTS]) -> Row {
    let all = row.start - 1..=row.start + row.len;
    to[all.clone()].copy_from_slice(&from[all]);
    row
}

/// Merges two rows into one that starts where the first does.
#[inline(never)]
fn merge_two(from: &[Key; SLOTS], one: Row, other: Row, to: &mut [Key; SLOTS]) -> Row {
    let row = Row { start: one.start, len: one.len + other.len };
    let slots = &mut to[row.start - 1..=row.start + row.len];
    slots[0] = 0;
    slots[row.len + 1] = Key::MAX;
    let (front, back) = slots[1..=row.len].split_at_mut(row.len / 2);
    let (mut first, mut second) = (one.start, other.start);
    let (mut last, mut second_last) = (one.start + one.len - 1, other.start + other.len - 1);
    let middle = back.len() - front.len();
    let (center, back) = back.split_at_mut(middle);
    for (front, back) in front.iter_mut().zip(back.iter_mut().rev()) {
        let (a, b) = (from[first & MASK], from[second & MASK]);
        let is_second = b < a;
        *front = a.min(b);
        second += usize::from(is_second);
        first += usize::from(!is_second);
        let (a, b) = (from[last & MASK], from[second_last & MASK]);
        let is_second = b > a;
        *back = a.max(b);
        second_last = second_last.wrapping_sub(usize::from(is_second));
        last = last.wrapping_sub(usize::from(!is_second));
    }
    if let [center] = center {
        *center = from[first & MASK].min(from[second & MASK]);
    }
    row
}
