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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(u128);

const INPUT_BITS: u32 = 16;

impl Key {
    /// After every other.
    const LAST: Self = Self(u128::MAX);

    #[inline(always)]
    pub(crate) fn new(time_ns: u64, input: usize) -> Self {
        Self(u128::from(time_ns) << INPUT_BITS | input as u128)
    }

    /// The input.
    #[inline(always)]
    pub(crate) fn input(self) -> usize {
        self.0 as usize & ((1 << INPUT_BITS) - 1)
    }

    #[inline(always)]
    pub(crate) fn time_ns(self) -> u64 {
        (self.0 >> INPUT_BITS) as u64
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
            let key = |input: usize, round: usize| Key::new(time(input, round), input);
            let first: Vec<Key> = (0..inputs).map(|input| key(input, 0)).collect();
            let mut tree = LoserTree::new(&first);
            let mut rounds = vec![0; inputs];
            let mut merged = Vec::new();
            for _ in 0..inputs * 5 {
                let winner = tree.winner();
                merged.push((winner.time_ns(), winner.input()));
                let round = &mut rounds[winner.input()];
                *round += 1;
                let is_over = *round == 5;
                let next_ns = if is_over { u64::MAX } else { time(winner.input(), *round) };
                tree.replace_winner(Key::new(next_ns, winner.input()));
            }
            assert!(merged.is_sorted(), "{inputs} inputs: {merged:?}");
            assert_eq!(rounds, vec![5; inputs]);
        }
    }
}
