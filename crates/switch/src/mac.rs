//! The MAC table: maps a VLAN and an address to the end that reaches it.
//!
//! ```text
//!  (vlan, address) --hash--> slot, slot, slot ...      linear probing, at most half full
//! ```
//!
//! A look-up ignores entries older than the maximum age. [`sweep`](MacTable::sweep) frees their
//! slots, a part of the table in each call. A full table learns nothing (W5).

use crate::EndId;
use crate::hash::mix;

/// An entry, as shown to users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MacEntry {
    /// The VLAN.
    pub vlan: u16,
    /// The address.
    pub address: [u8; 6],
    /// The end that reaches it.
    pub end: EndId,
    /// Whether it was configured and never ages.
    pub is_static: bool,
    /// When it last sent, in ns by the caller's clock; 0 for a static entry that never did.
    pub seen_ns: u64,
    /// Frames that it sent.
    pub frames: u64,
}

/// Totals of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MacTotals {
    /// Current entries, including static ones.
    pub entries: usize,
    /// Maximum number of entries.
    pub most: usize,
    /// Addresses learned.
    pub learned: u64,
    /// Entries that aged out.
    pub aged: u64,
    /// Addresses that moved to another end.
    pub moved: u64,
    /// Frames whose source was not learned, because the table was full.
    pub full: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Learned {
    /// The address was already known at this end.
    Known,
    /// The address is new at this end.
    New,
    Full,
    /// The address is a static entry of another end, or the end's address limit is reached.
    Refused,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// VLAN and address; 0 in a free slot, because 0 is not a valid VLAN.
    key: u64,
    seen_ns: u64,
    frames: u64,
    end: EndId,
    is_static: bool,
}

const FREE: Slot = Slot { key: 0, seen_ns: 0, frames: 0, end: EndId(0), is_static: false };

#[derive(Debug)]
pub(crate) struct MacTable {
    slots: Vec<Slot>,
    seed: u64,
    age_ns: u64,
    totals: MacTotals,
    /// Learned entries of each end.
    of_end: Vec<u32>,
    swept: usize,
}

#[inline]
pub(crate) fn key_of(vlan: u16, address: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..2].copy_from_slice(&vlan.to_be_bytes());
    bytes[2..].copy_from_slice(&address[..6]);
    u64::from_be_bytes(bytes)
}

impl MacTable {
    pub(crate) fn new(most: usize, age_ns: u64, seed: u64) -> Self {
        let slots = vec![FREE; (most.max(1) * 2).next_power_of_two()];
        let totals = MacTotals { most, ..MacTotals::default() };
        Self { slots, seed, age_ns, totals, of_end: vec![0; EndId::MOST], swept: 0 }
    }

    /// Returns the end of an address. Cost: a hash, and one or two cache lines of the table.
    #[inline]
    pub(crate) fn find(&self, key: u64, now_ns: u64) -> Option<EndId> {
        let slot = &self.slots[self.place(key)?];
        (!self.is_old(slot, now_ns)).then_some(slot.end)
    }

    /// Learns that an address sends through `end`, which may have `end_most` addresses.
    #[inline]
    pub(crate) fn learn(
        &mut self,
        key: u64,
        end: EndId,
        now_ns: u64,
        end_most: Option<u32>,
    ) -> Learned {
        let Some(at) = self.place(key) else { return self.enter(key, end, now_ns, end_most) };
        let known = self.slots[at];
        if known.end == end {
            self.slots[at] = Slot { seen_ns: now_ns, frames: known.frames + 1, ..known };
            return Learned::Known;
        }
        if known.is_static || !self.may_learn(end, end_most) {
            return Learned::Refused;
        }
        let is_old = self.is_old(&known, now_ns);
        self.of_end[known.end.index()] -= 1;
        self.of_end[end.index()] += 1;
        let frames = if is_old { 1 } else { known.frames + 1 };
        self.slots[at] = Slot { end, seen_ns: now_ns, frames, ..known };
        // An aged entry counts as learned, not as moved.
        self.totals.moved += u64::from(!is_old);
        self.totals.learned += u64::from(is_old);
        self.totals.aged += u64::from(is_old);
        Learned::New
    }

    #[cold]
    fn enter(&mut self, key: u64, end: EndId, now_ns: u64, end_most: Option<u32>) -> Learned {
        if !self.may_learn(end, end_most) {
            return Learned::Refused;
        }
        if self.totals.entries >= self.totals.most {
            self.totals.full += 1;
            return Learned::Full;
        }
        self.put(Slot { key, seen_ns: now_ns, frames: 1, end, is_static: false });
        self.of_end[end.index()] += 1;
        self.totals.learned += 1;
        Learned::New
    }

    /// Adds a static entry, replacing a learned one. Returns false if the table is full.
    pub(crate) fn add_static(&mut self, vlan: u16, address: [u8; 6], end: EndId) -> bool {
        let key = key_of(vlan, &address);
        if let Some(at) = self.place(key) {
            self.take_out(at);
        }
        if self.totals.entries >= self.totals.most {
            let learned = self.slots.iter().position(|slot| slot.key != 0 && !slot.is_static);
            let Some(at) = learned else { return false };
            self.take_out(at);
        }
        self.put(Slot { key, seen_ns: 0, frames: 0, end, is_static: true });
        true
    }

    /// Removes the entries for which `is_wanted` returns false. Returns their number.
    pub(crate) fn retain(&mut self, is_wanted: impl Fn(&MacEntry) -> bool) -> usize {
        let all = std::mem::take(&mut self.slots);
        self.slots = vec![FREE; all.len()];
        let before = std::mem::take(&mut self.totals.entries);
        self.of_end.fill(0);
        for slot in all.into_iter().filter(|slot| slot.key != 0) {
            if is_wanted(&entry_of(&slot)) {
                self.of_end[slot.end.index()] += u32::from(!slot.is_static);
                self.put(slot);
            }
        }
        before - self.totals.entries
    }

    /// Frees aged entries in the next `slots` slots of the table.
    pub(crate) fn sweep(&mut self, slots: usize, now_ns: u64) {
        for _ in 0..slots.min(self.slots.len()) {
            let at = self.swept % self.slots.len();
            // Freeing a slot may move another entry into it.
            while self.is_gone(at, now_ns) {
                self.take_out(at);
                self.totals.aged += 1;
            }
            self.swept = at + 1;
        }
    }

    fn is_gone(&self, at: usize, now_ns: u64) -> bool {
        let slot = &self.slots[at];
        slot.key != 0 && self.is_old(slot, now_ns)
    }

    /// Returns the number of slots that a whole sweep visits.
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn totals(&self) -> MacTotals {
        self.totals
    }

    /// Returns the entries at `now_ns`, sorted by VLAN and address.
    pub(crate) fn entries(&self, now_ns: u64) -> Vec<MacEntry> {
        let is_there = |slot: &&Slot| slot.key != 0 && !self.is_old(slot, now_ns);
        let mut all: Vec<_> = self.slots.iter().filter(is_there).map(entry_of).collect();
        all.sort_unstable();
        all
    }

    /// Returns whether an entry is older than the maximum age. A static one never is.
    #[inline]
    fn is_old(&self, slot: &Slot, now_ns: u64) -> bool {
        !slot.is_static && now_ns.saturating_sub(slot.seen_ns) >= self.age_ns
    }

    /// Returns whether an end that may have `end_most` addresses has fewer.
    #[inline]
    fn may_learn(&self, end: EndId, end_most: Option<u32>) -> bool {
        end_most.is_none_or(|most| self.of_end[end.index()] < most)
    }

    #[inline]
    fn home(&self, key: u64) -> usize {
        mix(self.seed, key) as usize & (self.slots.len() - 1)
    }

    #[inline]
    fn place(&self, key: u64) -> Option<usize> {
        let mut at = self.home(key);
        // At most half of the slots are used, so the loop finds a free one.
        while self.slots[at].key != key {
            if self.slots[at].key == 0 {
                return None;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
        Some(at)
    }

    fn put(&mut self, slot: Slot) {
        let mut at = self.home(slot.key);
        while self.slots[at].key != 0 {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = slot;
        self.totals.entries += 1;
    }

    /// Frees a slot, and moves up later entries that would no longer be found.
    fn take_out(&mut self, at: usize) {
        let mask = self.slots.len() - 1;
        let gone = self.slots[at];
        self.of_end[gone.end.index()] -= u32::from(!gone.is_static);
        self.totals.entries -= 1;
        let (mut free, mut next) = (at, (at + 1) & mask);
        while self.slots[next].key != 0 {
            let home = self.home(self.slots[next].key);
            // Its distance from home now, and its distance if moved.
            if (next.wrapping_sub(home) & mask) >= (next.wrapping_sub(free) & mask) {
                self.slots[free] = self.slots[next];
                free = next;
            }
            next = (next + 1) & mask;
        }
        self.slots[free] = FREE;
    }
}

fn entry_of(slot: &Slot) -> MacEntry {
    let bytes = slot.key.to_be_bytes();
    let [high, low, address @ ..] = bytes;
    MacEntry {
        vlan: u16::from_be_bytes([high, low]),
        address,
        end: slot.end,
        is_static: slot.is_static,
        seen_ns: slot.seen_ns,
        frames: slot.frames,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGE: u64 = 100;

    fn key(number: u64) -> u64 {
        1 << 48 | number
    }

    #[test]
    fn a_flood_of_addresses_removes_nobody_and_ageing_makes_room() {
        let mut table = MacTable::new(100, AGE, 7);
        let (own, other) = (EndId(1), EndId(2));
        assert!(table.add_static(1, [0, 0, 0, 0, 0, 9], own));
        assert_eq!(table.learn(key(500), own, 0, None), Learned::New);
        for number in 1000..2000 {
            table.learn(key(number), other, 10, None);
        }
        let totals = table.totals();
        assert_eq!((totals.entries, totals.full, totals.learned), (100, 902, 99));
        assert_eq!((table.find(key(500), 10), table.find(key(9), 10)), (Some(own), Some(own)));
        assert_eq!(table.learn(key(500), own, 90, None), Learned::Known);
        table.sweep(table.slots(), 10 + AGE);
        let totals = table.totals();
        assert_eq!((totals.entries, totals.aged), (2, 98));
        assert_eq!(table.learn(key(3000), other, 10 + AGE, None), Learned::New);
        assert_eq!(table.find(key(500), 90 + AGE), None, "old, swept or not");
        assert_eq!(table.find(key(9), u64::MAX), Some(own), "static");
    }

    #[test]
    fn addresses_move_but_for_static_ones() {
        let mut table = MacTable::new(4, AGE, 1);
        assert_eq!(table.learn(key(5), EndId(1), 0, None), Learned::New);
        assert_eq!(table.learn(key(5), EndId(2), 1, None), Learned::New);
        assert_eq!((table.totals().moved, table.find(key(5), 1)), (1, Some(EndId(2))));
        assert!(table.add_static(1, [0, 0, 0, 0, 0, 5], EndId(3)));
        assert_eq!(table.learn(key(5), EndId(1), 2, None), Learned::Refused);
        assert_eq!(table.totals().entries, 1);
        // An end that may have one address.
        assert_eq!(table.learn(key(6), EndId(1), 2, Some(1)), Learned::New);
        assert_eq!(table.learn(key(7), EndId(1), 2, Some(1)), Learned::Refused);
        assert_eq!(table.learn(key(6), EndId(1), 3, Some(1)), Learned::Known);
        assert_eq!(table.retain(|entry| entry.end != EndId(1)), 1);
        assert_eq!(table.learn(key(7), EndId(1), 4, Some(1)), Learned::New);
    }

    #[test]
    fn what_is_taken_out_hides_nobody() {
        let mut table = MacTable::new(64, u64::MAX, 3);
        let mut known = std::collections::BTreeSet::new();
        for number in 1..10_000_u64 {
            let number = number.wrapping_mul(0x9e37_79b9) % 200 + 1;
            match table.place(key(number)) {
                Some(at) => {
                    table.take_out(at);
                    assert!(known.remove(&number));
                }
                None if table.learn(key(number), EndId(0), 0, None) == Learned::New => {
                    known.insert(number);
                }
                None => assert_eq!(known.len(), 64),
            }
            let is_right = |n: &u64| table.find(key(*n), 0).is_some() == known.contains(n);
            assert!((1..=200).all(|n| is_right(&n)));
        }
    }
}
