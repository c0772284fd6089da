//! The order of packets that are in hand: which input is next, and which packet of it.
//!
//! ```text
//!  input 0   times | 10 | 14 | 15 |            order   0.0  1.0  1.1  0.1 ...
//!  input 1   times | 11 | 12 | 20 |    --->            up to the first input that has no packet
//!  input 2   idle, promises 16                         in hand and may yet bring the next: 2
//! ```
//!
//! Only times are looked at here, in an array for each input; packets are copied afterwards, when
//! it is known where the next ones lie.

use super::tree::{Base, Key, LoserTree};

/// A time that no packet has: an input that is not waited for.
pub(crate) const NEVER_NS: u64 = u64::MAX;

/// One packet of the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pick(u32);

impl Pick {
    const INDEX_BITS: u32 = 16;

    #[inline(always)]
    fn new(input: usize, index: usize) -> Self {
        Self((input as u32) << Self::INDEX_BITS | index as u32)
    }

    /// The input that it is of.
    #[inline(always)]
    pub(crate) fn input(self) -> usize {
        (self.0 >> Self::INDEX_BITS) as usize
    }

    /// Which packet of that input's burst.
    #[inline(always)]
    pub(crate) fn index(self) -> usize {
        (self.0 & ((1 << Self::INDEX_BITS) - 1)) as usize
    }
}

/// What one input has in hand.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    /// The times of its burst's packets, below [`NEVER_NS`], and behind them one that is none of a
    /// packet's: what the input promises when those are gone.
    times_ns: Vec<u64>,
    /// The first packet that is not in the order yet.
    next: usize,
}

impl Lane {
    /// An input that has nothing, and promises nothing.
    pub(crate) fn new() -> Self {
        Self { times_ns: vec![0], next: 0 }
    }

    /// Begins another burst; none is in hand any more.
    pub(crate) fn refill(&mut self, times_ns: impl Iterator<Item = u64>, low_ns: u64) {
        self.times_ns.clear();
        self.times_ns.extend(times_ns.map(|time_ns| time_ns.min(NEVER_NS - 1)));
        self.times_ns.push(low_ns);
        self.next = 0;
    }

    /// What the input promises once its burst is gone.
    pub(crate) fn promise(&mut self, low_ns: u64) {
        let end = self.end();
        self.times_ns[end] = low_ns;
    }

    /// Packets of the burst.
    fn end(&self) -> usize {
        self.times_ns.len() - 1
    }

    /// Packets that are not in the order yet.
    pub(crate) fn left(&self) -> usize {
        self.end() - self.next
    }

    /// The time of packet `index` of the burst.
    #[inline(always)]
    pub(crate) fn time_ns(&self, index: usize) -> u64 {
        self.times_ns[index]
    }

    /// The time of the burst's last packet, if there is one.
    pub(crate) fn last_ns(&self) -> Option<u64> {
        self.times_ns.len().checked_sub(2).map(|at| self.times_ns[at])
    }

    /// What comes next: a packet's time, or the promise.
    #[inline(always)]
    pub(crate) fn head_ns(&self) -> u64 {
        self.times_ns[self.next]
    }

    /// The packets from `index` on are not in the order after all.
    pub(crate) fn put_back(&mut self, index: usize) {
        self.next = self.next.min(index);
    }
}

/// Why an order ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It is as long as was asked for, or the next times are too far from the first one's.
    Long,
    /// This input has no packet in hand, and may bring one that comes before all others.
    Empty(usize),
    /// Nobody has a packet, and nobody is waited for.
    Over,
}

/// Puts up to `most` packets of all lanes in order. Lanes have fewer than 2^16 packets.
///
/// Packets of a lane stay in its order, whatever their times: one that is older than the one
/// before it comes as soon as it is its lane's first.
///
/// Cost: two loads and log2 of the number of lanes comparisons a packet, without branches that
/// depend on times.
pub(crate) fn interleave(
    base: Base,
    tree: &mut LoserTree,
    lanes: &mut [Lane],
    order: &mut Vec<Pick>,
    most: usize,
) -> Stop {
    order.clear();
    loop {
        let input = tree.winner().input();
        let Some(lane) = lanes.get_mut(input) else { return Stop::Over };
        let time_ns = lane.head_ns();
        if !base.can_tell(time_ns) {
            // A key of another base is needed to see whose turn it is, if anybody's.
            let is_over = lanes.iter().all(|lane| lane.head_ns() == NEVER_NS);
            return if is_over { Stop::Over } else { Stop::Long };
        }
        if lane.next + 1 == lane.times_ns.len() {
            return if time_ns == NEVER_NS { Stop::Over } else { Stop::Empty(input) };
        }
        if order.len() == most {
            return Stop::Long;
        }
        order.push(Pick::new(input, lane.next));
        lane.next += 1;
        tree.replace_winner(Key::new(base, lane.head_ns(), input));
    }
}

/// The keys of all lanes, to begin with, and what they count from.
pub(crate) fn keys(lanes: &[Lane], keys: &mut Vec<Key>) -> Base {
    let base = Base::around(lanes.iter().map(Lane::head_ns).min().unwrap_or(NEVER_NS));
    let lanes = lanes.iter().enumerate();
    keys.clear();
    keys.extend(lanes.map(|(input, lane)| Key::new(base, lane.head_ns(), input)));
    base
}

#[cfg(test)]
mod tests;
