//! Finds the faster way to a far reader, by trying both.
//!
//! ```text
//!   rest  ->  time the best way  ->  settle  ->  time the other  ->  settle  ->  once more
//!    ^                                               | no faster                     |
//!    +-----------------------------------------------+------- the faster is the best +
//! ```
//!
//! How far the reader is does not say which way is faster. An AMD EPYC streams twice as fast as it
//! fetches lines from a far core; an Intel Xeon streams at a fifth of that rate (Decision 0062). So
//! the writer times segments of both ways. After a change the log still holds segments of the way
//! before, and the reader goes at their pace: a log's worth of segments is left out.
//!
//! Slow traffic sets the pace itself, and nothing is tried.
//!
//! Invariant T1: the best way changes only after the other one was faster [`WINS`] times running.

/// Segments that are timed together: more than a moment's disturbance, less than a millisecond.
const WINDOW: u32 = 32;

/// Trials that the other way has to win, one after the other.
const WINS: u32 = 2;

/// Time between two trials: the host moves cores within minutes.
const REST_NS: u64 = 1_000_000_000;

/// The other way is faster if it takes less than this share of the time: 4 of 5.
const FASTER: (u64, u64) = (4, 5);

/// Traffic below half a GB/s is slow: 2 ns a byte.
const SLOW_NS_PER_BYTE: u64 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Rest,
    TimeBest,
    /// Segments of the best way leave the log.
    Settle,
    TimeOther,
    /// Segments of the other way leave the log.
    Return,
}

/// The shape of the log whose segments are timed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub segments: u32,
    pub segment_bytes: usize,
}

/// Which way is the faster one, and the trial that goes on.
#[derive(Debug)]
pub(super) struct Trial {
    shape: Shape,
    is_far_best: bool,
    stage: Stage,
    /// When the stage began. 0: at no time, a trial is due.
    since_ns: u64,
    /// Segments left of the stage.
    left: u32,
    best_ns: u64,
    wins: u32,
}

impl Trial {
    pub(super) fn new(shape: Shape) -> Self {
        Self {
            shape,
            is_far_best: false,
            stage: Stage::Rest,
            since_ns: 0,
            left: 0,
            best_ns: 0,
            wins: 0,
        }
    }

    /// Whether the next segment goes the far way.
    pub(super) fn goes_far(&self) -> bool {
        self.is_far_best != matches!(self.stage, Stage::Settle | Stage::TimeOther)
    }

    /// Records that a segment was taken at `now_ns`. Called once a segment.
    pub(super) fn took(&mut self, now_ns: u64) {
        self.left = self.left.saturating_sub(1);
        if self.left > 0 {
            return;
        }
        let spent_ns = now_ns.saturating_sub(self.since_ns);
        match self.stage {
            Stage::Rest if self.since_ns != 0 && spent_ns < REST_NS => {}
            Stage::Rest | Stage::Return => self.begin(Stage::TimeBest, now_ns),
            Stage::TimeBest if self.is_slow(spent_ns) => self.begin(Stage::Rest, now_ns),
            Stage::TimeBest => {
                self.best_ns = spent_ns;
                self.begin(Stage::Settle, now_ns);
            }
            Stage::Settle => self.begin(Stage::TimeOther, now_ns),
            Stage::TimeOther => self.judge(spent_ns, now_ns),
        }
    }

    fn begin(&mut self, stage: Stage, now_ns: u64) {
        self.left = match stage {
            Stage::Rest => 0,
            Stage::TimeBest | Stage::TimeOther => WINDOW,
            Stage::Settle | Stage::Return => self.shape.segments,
        };
        (self.stage, self.since_ns) = (stage, now_ns);
    }

    fn is_slow(&self, window_ns: u64) -> bool {
        window_ns > u64::from(WINDOW) * self.shape.segment_bytes as u64 * SLOW_NS_PER_BYTE
    }

    /// Decides after a trial in which the other way took `other_ns`.
    fn judge(&mut self, other_ns: u64, now_ns: u64) {
        let is_faster = other_ns * FASTER.1 < self.best_ns * FASTER.0;
        self.wins = if is_faster { self.wins + 1 } else { 0 };
        if self.wins == WINS {
            (self.is_far_best, self.wins) = (!self.is_far_best, 0);
            self.begin(Stage::Rest, now_ns);
        } else {
            self.begin(if is_faster { Stage::Return } else { Stage::Rest }, now_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { segments: 16, segment_bytes: 1 << 18 };

    /// Takes segments for `ns`, each of which takes as long as `pace_ns` says of its way. Returns
    /// the number of segments that went far.
    fn run(trial: &mut Trial, clock_ns: &mut u64, ns: u64, pace_ns: impl Fn(bool) -> u64) -> u64 {
        let (end_ns, mut far) = (*clock_ns + ns, 0);
        while *clock_ns < end_ns {
            *clock_ns += pace_ns(trial.goes_far());
            trial.took(*clock_ns);
            far += u64::from(trial.goes_far());
        }
        far
    }

    #[test]
    fn the_faster_way_is_found_and_found_again_when_it_changes() {
        let (mut trial, mut clock_ns) = (Trial::new(SHAPE), 1);
        let second = 1_000_000_000;
        let streams_well = |is_far| if is_far { 30_000 } else { 60_000 };
        let streams_badly = |is_far| if is_far { 60_000 } else { 10_000 };
        run(&mut trial, &mut clock_ns, 20_000_000, streams_well);
        assert!(trial.is_far_best, "20 ms are enough at first");
        run(&mut trial, &mut clock_ns, 2 * second, streams_badly);
        assert!(!trial.is_far_best, "and 2 s later");
        let far = run(&mut trial, &mut clock_ns, 10 * second, streams_badly);
        assert!(!trial.is_far_best);
        assert!(far > 0 && far * 500 < 10 * second / 10_000, "{far}: trials are rare");
    }

    #[test]
    fn ways_that_differ_little_change_nothing() {
        let (mut trial, mut clock_ns) = (Trial::new(SHAPE), 1);
        run(&mut trial, &mut clock_ns, 5_000_000_000, |is_far| 30_000 - 5_000 * u64::from(is_far));
        assert!(!trial.is_far_best);
    }

    #[test]
    fn one_disturbance_changes_nothing() {
        let (mut trial, mut clock_ns) = (Trial::new(SHAPE), 1);
        let pace_ns = |_| 30_000;
        while trial.stage != Stage::TimeBest {
            run(&mut trial, &mut clock_ns, 1, pace_ns);
        }
        clock_ns += 900_000; // an interrupt that doubles the time of the best way
        while trial.stage != Stage::Return {
            run(&mut trial, &mut clock_ns, 1, pace_ns);
        }
        run(&mut trial, &mut clock_ns, 3_000_000_000, pace_ns);
        assert!(!trial.is_far_best);
    }

    #[test]
    fn slow_traffic_tries_nothing() {
        let (mut trial, mut clock_ns) = (Trial::new(SHAPE), 1);
        let slow_ns = 2 * SHAPE.segment_bytes as u64 + 1;
        assert_eq!(run(&mut trial, &mut clock_ns, 20_000_000_000, |_| slow_ns), 0);
    }
}
