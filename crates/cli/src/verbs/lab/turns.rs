//! Turns of what `lab dma` and `lab retention` compare.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crate::failure::Failure;

/// Turns of one thing: at least one.
pub(crate) struct Turns<T>(pub(crate) Vec<T>);

impl<T> Turns<T> {
    /// The turn whose figure is in the middle.
    pub(crate) fn median(&self, figure: impl Fn(&T) -> f64) -> &T {
        let mut turns: Vec<&T> = self.0.iter().collect();
        turns.sort_by(|a, b| figure(a).total_cmp(&figure(b)));
        turns[turns.len() / 2]
    }
}

/// How many turns there are of how many things, each thing once in a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounds {
    pub(super) rounds: u16,
    pub(super) things: usize,
}

impl Rounds {
    /// All turns.
    pub(super) fn turns(self) -> usize {
        usize::from(self.rounds) * self.things
    }

    /// Does one turn after the other, each by its number and that of its thing, and sorts them by
    /// thing. `None` or an end that the user wants: that turn and those behind it are left out.
    ///
    /// # Errors
    /// A turn's.
    pub(super) fn run<T>(
        self,
        stop: &AtomicBool,
        mut turn: impl FnMut(usize, usize) -> Result<Option<T>, Failure>,
    ) -> Result<Vec<Turns<T>>, Failure> {
        let mut all: Vec<Turns<T>> = Vec::new();
        for number in 0..self.turns() {
            let thing = number % self.things;
            let done = turn(number, thing);
            // It may have failed because of the end. The flag carries no memory.
            if stop.load(Relaxed) {
                break;
            }
            let Some(done) = done? else { break };
            match all.get_mut(thing) {
                Some(turns) => turns.0.push(done),
                None => all.push(Turns(vec![done])),
            }
        }
        Ok(all)
    }
}

/// How many turns are done.
pub(super) fn done<T>(all: &[Turns<T>]) -> usize {
    all.iter().map(|turns| turns.0.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_sorted_by_what_they_are_of_until_the_end() {
        let (stop, rounds) = (AtomicBool::new(false), Rounds { rounds: 3, things: 2 });
        let all = rounds.run(&stop, |number, thing| Ok(Some((number, thing)))).unwrap();
        assert_eq!((all[0].0.as_slice(), done(&all)), (&[(0, 0), (2, 0), (4, 0)][..], 6));
        assert_eq!(all[1].median(|turn| -(turn.0 as f64)), &(3, 1));
        let cut = rounds.run(&stop, |number, _| Ok((number < 3).then_some(number))).unwrap();
        assert_eq!((cut[0].0.as_slice(), cut[1].0.as_slice()), (&[0, 2][..], &[1][..]));
        let ended = rounds.run(&stop, |number, _| {
            stop.store(number == 1, Relaxed);
            if number == 1 { Err(Failure::new("interrupted")) } else { Ok(Some(number)) }
        });
        assert_eq!(done(&ended.unwrap()), 1);
    }
}
