//! A loser tree: which of k inputs has the least key, and again after that one has moved on.
//!
//! ```text
//!            winner: b
//!               |
//!             [ c ]            each inner node keeps who lost there; only the way from the
//!            /     \           winner's leaf to the root is played again: log2 k comparisons
//!         [ a ]   [ d ]
//!         /  \    /  \
//!        a    b  c    d
//! ```
//!
//! Source: Knuth, The Art of Computer Programming, volume 3, section 5.4.1.

/// A time and the number of the input that has it: equal times keep the inputs' order.
///
/// One word, so that a comparison is one instruction: the time counts from a [`Base`], 19 hours
/// back and 58 ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(u64);

/// What the times of some keys count from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Base(u64);

const INPUT_BITS: u32 = 16;
/// The first time that a key cannot tell from never, counted from the base.
const FAR_NS: u64 = (1 << (64 - INPUT_BITS)) - 2;
/// How far a base is before the time that it is made for, in ns.
const BACK_NS: u64 = 1 << 46;

impl Base {
    /// For keys around `time_ns`.
    pub(crate) fn around(time_ns: u64) -> Self {
        Self(time_ns.saturating_sub(BACK_NS))
    }

    /// Whether a key of this base tells `time_ns` from every other time.
    #[inline(always)]
    pub(crate) fn can_tell(self, time_ns: u64) -> bool {
        time_ns.wrapping_sub(self.0) < FAR_NS
    }
}

impl Key {
    /// After every other.
    const LAST: Self = Self(u64::MAX);

    /// Of a time that the base can tell, or of one after all of these.
    #[inline(always)]
    pub(crate) fn new(base: Base, time_ns: u64, input: usize) -> Self {
        let since_ns = time_ns.saturating_sub(base.0).min(FAR_NS);
        Self(since_ns << INPUT_BITS | input as u64)
    }

    /// The input.
    #[inline(always)]
    pub(crate) fn input(self) -> usize {
        self.0 as usize & ((1 << INPUT_BITS) - 1)
    }
}

/// The tournament of up to 65,535 inputs.
#[derive(Debug)]
pub(crate) struct LoserTree {
    /// The winner, then the losers at nodes `[1, leaves)`; node n has its children at 2n, 2n + 1.
    nodes: Vec<Key>,
    /// A power of two.
    leaves: usize,
}

impl LoserTree {
    /// A tree of `keys`, of which the one at i is input i's; at least one.
    pub(crate) fn new(keys: &[Key]) -> Self {
        let leaves = keys.len().max(1).next_power_of_two();
        let mut tree = Self { nodes: vec![Key::LAST; leaves], leaves };
        tree.play(keys);
        tree
    }

    /// Plays all games anew, with as many keys as before.
    pub(crate) fn play(&mut self, keys: &[Key]) {
        self.nodes[0] = self.winner_below(1, keys);
    }

    fn winner_below(&mut self, node: usize, keys: &[Key]) -> Key {
        if node >= self.leaves {
            return keys.get(node - self.leaves).copied().unwrap_or(Key::LAST);
        }
        let left = self.winner_below(2 * node, keys);
        let right = self.winner_below(2 * node + 1, keys);
        self.nodes[node] = left.max(right);
        left.min(right)
    }

    /// The least key.
    #[inline(always)]
    pub(crate) fn winner(&self) -> Key {
        self.nodes[0]
    }

    /// The winner's input has `key` next. Cost: a comparison for each level, and no branch on what
    /// comes of it: which input is next is what a processor cannot guess.
    #[inline(always)]
    pub(crate) fn replace_winner(&mut self, key: Key) {
        let mut at = (self.leaves + self.nodes[0].input()) / 2;
        let mut winner = key;
        while at > 0 {
            let other = self.nodes[at];
            self.nodes[at] = other.max(winner);
            winner = other.min(winner);
            at /= 2;
        }
        self.nodes[0] = winner;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_sorts_and_equal_times_keep_the_inputs_order() {
        for inputs in 1..=9_usize {
            // Input i has the times i % 3, i % 3 + 2, ...: many are equal.
            let time = |input: usize, round: usize| (input % 3 + 2 * round) as u64;
            let key =
                |input: usize, round: usize| Key::new(Base::around(0), time(input, round), input);
            let first: Vec<Key> = (0..inputs).map(|input| key(input, 0)).collect();
            let mut tree = LoserTree::new(&first);
            let mut rounds = vec![0; inputs];
            let mut merged = Vec::new();
            for _ in 0..inputs * 5 {
                let winner = tree.winner();
                merged.push(winner);
                let round = &mut rounds[winner.input()];
                *round += 1;
                let is_over = *round == 5;
                let next_ns = if is_over { u64::MAX } else { time(winner.input(), *round) };
                tree.replace_winner(Key::new(Base::around(0), next_ns, winner.input()));
            }
            assert!(merged.is_sorted(), "{inputs} inputs: {merged:?}");
            assert_eq!(rounds, vec![5; inputs]);
        }
    }
}
