//! Runs two sides of a comparison in turns.
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

/// Runs each side once to warm up and then `runs` times in turns. The first side alternates, too.
///
/// # Errors
/// The first error of a side, or that `stop` was set, which is checked before each run.
pub fn alternate<T>(
    runs: usize,
    stop: &AtomicBool,
    mut ours: impl FnMut() -> Result<T, String>,
    mut peer: impl FnMut() -> Result<T, String>,
) -> Result<Rounds<T>, String> {
    let mut rounds = Rounds { ours: Vec::new(), peer: Vec::new() };
    for round in 0..=runs {
        for turn in 0..2 {
            go_on(stop)?;
            let is_ours = (round + turn) % 2 == 0;
            let value = if is_ours { ours()? } else { peer()? };
            let side = if is_ours { &mut rounds.ours } else { &mut rounds.peer };
            if round > 0 {
                side.push(value);
            }
        }
    }
    Ok(rounds)
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
    fn an_error_or_the_flag_ends_it() {
        let wrong = alternate(3, &AtomicBool::new(false), || Ok(1.0), || Err("torn".to_owned()));
        assert_eq!(wrong, Err("torn".to_owned()));
        let stopped = alternate(3, &AtomicBool::new(true), || Ok(1.0), || Ok(1.0));
        assert_eq!(stopped, Err("interrupted".to_owned()));
    }
}
