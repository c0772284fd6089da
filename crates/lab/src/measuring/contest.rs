//! Lets contenders take turns, for figures and for scenarios.
//!
//! The machine's speed drifts over minutes and differs from process to process. Runs that alternate
//! in one process see the same drift, and it cancels in a ratio of medians.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crate::statistics::Quartiles;

/// The measurements of each run, by side.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rounds<T = f64> {
    /// Ours.
    pub ours: Vec<T>,
    /// The rival's.
    pub peer: Vec<T>,
}

impl Rounds {
    /// Returns the medians of ours and of the rival.
    pub fn medians(&self) -> (f64, f64) {
        (Quartiles::of(&self.ours).median, Quartiles::of(&self.peer).median)
    }
}

/// Checks that the user has not stopped the run.
///
/// # Errors
/// If `stop` was set.
pub fn go_on(stop: &AtomicBool) -> Result<(), String> {
    // Relaxed: no other data depends on the flag.
    if stop.load(Relaxed) { Err("interrupted".to_owned()) } else { Ok(()) }
}

/// Runs each of `sides` once to warm up and then `runs` times in turns. Ours (0) and the rival (1)
/// alternate as the first; further sides have their turns before ours.
///
/// # Errors
/// The first error of a side, or that `stop` was set, which is checked before each run.
pub fn alternate_all<T>(
    runs: usize,
    sides: usize,
    stop: &AtomicBool,
    mut turn: impl FnMut(usize) -> Result<T, String>,
) -> Result<Vec<Vec<T>>, String> {
    let mut values: Vec<Vec<T>> = (0..sides).map(|_| Vec::with_capacity(runs)).collect();
    for round in 0..=runs {
        let others = 2..sides;
        let order: Vec<usize> = match round % 2 {
            0 => others.chain([0, 1]).collect(),
            _ => [1].into_iter().chain(others).chain([0]).collect(),
        };
        for side in order {
            go_on(stop)?;
            let value = turn(side)?;
            if round > 0 {
                values[side].push(value);
            }
        }
    }
    Ok(values)
}

/// Runs ours and the rival as [`alternate_all`] does.
///
/// # Errors
/// As [`alternate_all`].
pub fn alternate<T>(
    runs: usize,
    stop: &AtomicBool,
    mut ours: impl FnMut() -> Result<T, String>,
    mut peer: impl FnMut() -> Result<T, String>,
) -> Result<Rounds<T>, String> {
    let turn = |side: usize| if side == 0 { ours() } else { peer() };
    let mut sides = alternate_all(runs, 2, stop, turn)?.into_iter();
    let mut next = || sides.next().unwrap_or_default();
    Ok(Rounds { ours: next(), peer: next() })
}

/// A seeded order of turns. Source: Fisher and Yates; Knuth's MMIX for the numbers.
pub(crate) struct Shuffle(pub(crate) u64);

impl Shuffle {
    /// Returns the next order of this many contenders.
    pub(crate) fn of(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for at in (1..count).rev() {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let other = ((self.0 >> 33) % (at as u64 + 1)) as usize;
            order.swap(at, other);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn sides_take_turns_and_the_first_round_does_not_count() {
        let order = RefCell::new(String::new());
        let side = |name: char, value: f64| {
            let order = &order;
            move || {
                order.borrow_mut().push(name);
                Ok(value)
            }
        };
        let rounds = alternate(3, &AtomicBool::new(false), side('o', 1.0), side('p', 2.0)).unwrap();
        assert_eq!(rounds, Rounds { ours: vec![1.0; 3], peer: vec![2.0; 3] });
        assert_eq!(order.into_inner(), "oppooppo");
    }

    #[test]
    fn further_sides_have_their_turns_before_ours() {
        let mut order = Vec::new();
        let values = alternate_all(2, 4, &AtomicBool::new(false), |side| {
            order.push(side);
            Ok(side)
        });
        assert_eq!(values, Ok(vec![vec![0; 2], vec![1; 2], vec![2; 2], vec![3; 2]]));
        assert_eq!(order, [2, 3, 0, 1, 1, 2, 3, 0, 2, 3, 0, 1]);
    }

    #[test]
    fn the_order_of_turns_is_that_of_the_seed() {
        let orders = |seed| {
            let mut shuffle = Shuffle(seed);
            (0..8).map(|_| shuffle.of(4)).collect::<Vec<_>>()
        };
        assert_eq!(orders(7), orders(7));
        assert_ne!(orders(7), orders(8));
        for mut order in orders(7) {
            order.sort_unstable();
            assert_eq!(order, [0, 1, 2, 3]);
        }
    }

    #[test]
    fn an_error_or_the_flag_ends_it() {
        let wrong = alternate(3, &AtomicBool::new(false), || Ok(1.0), || Err("torn".to_owned()));
        assert_eq!(wrong, Err("torn".to_owned()));
        let stopped = alternate(3, &AtomicBool::new(true), || Ok(1.0), || Ok(1.0));
        assert_eq!(stopped, Err("interrupted".to_owned()));
    }
}
