//! Finds the faster way to a far reader, by trying both.
//!
//! ```text
//!   rest  ->  time the best way  ->  settle  ->  time the other  ->  settle  ->  once more
//!    ^                                 |             | no faster                     |
//!    +---------------------------------+-------------+------- the faster is the best +
//! ```
//!
//! How far the reader is does not say which way is faster. An AMD EPYC streams to a far core at
//! twice the rate of ordinary stores, an Intel Xeon at less than a third (Decision 0062). So the
//! writer times segments of both ways. After a change the log still holds segments of the way
//! before, and the reader goes at their pace: a log's worth of segments is left out.
//!
//! Slow traffic sets the pace itself, and nothing is tried. A way that proves to be slower is left
//! at once, and the next trial comes later.
//!
//! Invariant T1: the best way changes only after the other one was faster [`WINS`] times running.
//! Each of its windows was faster than each of the best way's, so traffic that grows steadily
//! changes nothing.

/// Bytes that are timed together: some ms at the rates that are tried. At least eight segments.
const WINDOW_BYTES: usize = 8 << 20;
const WINDOW_LEAST: u32 = 8;

/// Trials that the other way has to win, one after the other.
const WINS: u32 = 2;

/// Time between two trials. The host moves cores within minutes; a lost trial doubles the time.
const REST_NS: u64 = 1_000_000_000;
const REST_MOST_NS: u64 = 64 * REST_NS;

/// The other way is faster if it takes less than this share of the time: 4 of 5.
const FASTER: (u64, u64) = (4, 5);

/// Traffic below two GB/s is slow: half a nanosecond a byte.
const BYTES_PER_SLOW_NS: u64 = 2;

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

/// Which way is the faster one, and the trial that goes on.
#[derive(Debug)]
pub(super) struct Trial {
    /// Segments of the log, and those that are timed together.
    segments: u32,
    window: u32,
    segment_bytes: u64,
    is_far_best: bool,
    stage: Stage,
    /// When the stage began; 0 is long ago.
    since_ns: u64,
    rest_ns: u64,
    /// Segments of the stage so far.
    done: u32,
    /// The shorter window of the best way, and the longer one of the other, in the trials won.
    best_ns: u64,
    other_ns: u64,
    wins: u32,
}

impl Trial {
    pub(super) fn new(segments: u32, segment_bytes: usize) -> Self {
        Self {
            segments,
            window: ((WINDOW_BYTES / segment_bytes) as u32).max(WINDOW_LEAST),
            segment_bytes: segment_bytes as u64,
            is_far_best: false,
            stage: Stage::Rest,
            since_ns: 0,
            rest_ns: REST_NS,
            done: 0,
            best_ns: u64::MAX,
            other_ns: 0,
            wins: 0,
        }
    }

    /// Whether the next segment goes the far way.
    pub(super) fn goes_far(&self) -> bool {
        self.is_far_best != matches!(self.stage, Stage::Settle | Stage::TimeOther)
    }

    /// Ends the trial that goes on, if any, without a result.
    pub(super) fn stop(&mut self) {
        (self.stage, self.wins) = (Stage::Rest, 0);
    }

    /// Forgets which way was the best one.
    pub(super) fn forget(&mut self) {
        self.stop();
        (self.is_far_best, self.since_ns, self.rest_ns) = (false, 0, REST_NS);
    }

    /// Records that a segment was taken at `now_ns`. Called once a segment.
    pub(super) fn took(&mut self, now_ns: u64) {
        self.done = self.done.saturating_add(1);
        let spent_ns = now_ns.saturating_sub(self.since_ns);
        let is_timed = self.done >= self.window;
        match self.stage {
            Stage::Rest if spent_ns >= self.rest_ns => self.begin(Stage::TimeBest, now_ns),
            Stage::TimeBest if is_timed && self.is_slow(spent_ns) => {
                self.wins = 0;
                self.begin(Stage::Rest, now_ns);
            }
            Stage::TimeBest if is_timed => {
                let before_ns = if self.wins == 0 { u64::MAX } else { self.best_ns };
                self.best_ns = before_ns.min(spent_ns);
                self.begin(Stage::Settle, now_ns);
            }
            Stage::Settle if self.is_much_slower(spent_ns) => self.lose(now_ns),
            Stage::Settle if self.done >= self.segments => self.begin(Stage::TimeOther, now_ns),
            Stage::TimeOther if !self.is_faster(spent_ns) => self.lose(now_ns),
            Stage::TimeOther if is_timed => self.win(spent_ns, now_ns),
            Stage::Return if self.done >= self.segments => self.begin(Stage::TimeBest, now_ns),
            _ => {}
        }
    }

    fn begin(&mut self, stage: Stage, now_ns: u64) {
        (self.stage, self.since_ns, self.done) = (stage, now_ns, 0);
    }

    fn is_slow(&self, window_ns: u64) -> bool {
        window_ns > u64::from(self.window) * self.segment_bytes / BYTES_PER_SLOW_NS
    }

    /// Whether the segments of this stage take twice as long as those of the best way.
    fn is_much_slower(&self, spent_ns: u64) -> bool {
        let expected_ns = self.best_ns / u64::from(self.window);
        spent_ns > 2 * expected_ns * u64::from(self.done.max(WINDOW_LEAST))
    }

    fn is_faster(&self, other_ns: u64) -> bool {
        other_ns * FASTER.1 < self.best_ns * FASTER.0
    }

    fn lose(&mut self, now_ns: u64) {
        self.wins = 0;
        self.rest_ns = (2 * self.rest_ns).min(REST_MOST_NS);
        self.begin(Stage::Rest, now_ns);
    }

    /// The other way was faster. It is the best one if it was faster than all windows of this one.
    fn win(&mut self, other_ns: u64, now_ns: u64) {
        let before_ns = if self.wins == 0 { 0 } else { self.other_ns };
        self.other_ns = before_ns.max(other_ns);
        if !self.is_faster(self.other_ns) {
            return self.lose(now_ns);
        }
        self.wins += 1;
        if self.wins < WINS {
            return self.begin(Stage::Return, now_ns);
        }
        (self.is_far_best, self.wins, self.rest_ns) = (!self.is_far_best, 0, REST_NS);
        self.begin(Stage::Rest, now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT_BYTES: usize = 1 << 18;
    const SECOND_NS: u64 = 1_000_000_000;
    /// The log of a writer that runs since a minute, with time of the machine's start.
    const START_NS: u64 = 60 * SECOND_NS;

    fn trial() -> Trial {
        Trial::new(16, SEGMENT_BYTES)
    }

    /// Takes segments for `ns`, each of which takes as long as `pace_ns` says of its way and its
    /// time. Returns the number of segments that went far.
    fn run(
        trial: &mut Trial,
        clock_ns: &mut u64,
        ns: u64,
        pace_ns: impl Fn(bool, u64) -> u64,
    ) -> u64 {
        let (end_ns, mut far) = (*clock_ns + ns, 0);
        while *clock_ns < end_ns {
            far += u64::from(trial.goes_far());
            let took_ns = pace_ns(trial.goes_far(), *clock_ns);
            *clock_ns += took_ns * at_once(trial, *clock_ns, took_ns);
            trial.took(*clock_ns);
        }
        far
    }

    /// Returns how many segments pass at once: under miri all up to the next trial, as nothing is
    /// timed before it. Else these tests would take hours there.
    fn at_once(trial: &Trial, now_ns: u64, took_ns: u64) -> u64 {
        let left_ns = (trial.since_ns + trial.rest_ns).saturating_sub(now_ns);
        let is_skipped = cfg!(miri) && trial.stage == Stage::Rest;
        if is_skipped { (left_ns / took_ns).max(1) } else { 1 }
    }

    fn run_to(stage: Stage, trial: &mut Trial, clock_ns: &mut u64, pace_ns: u64) {
        while trial.stage != stage {
            run(trial, clock_ns, 1, |_, _| pace_ns);
        }
    }

    #[test]
    fn the_faster_way_is_found_and_found_again_when_it_changes() {
        let (mut trial, mut clock_ns) = (trial(), START_NS);
        let streams_well = |is_far, _| if is_far { 30_000 } else { 60_000 };
        let streams_badly = |is_far, _| if is_far { 60_000 } else { 10_000 };
        run(&mut trial, &mut clock_ns, 20_000_000, streams_well);
        assert!(trial.is_far_best, "20 ms are enough at first");
        run(&mut trial, &mut clock_ns, 2 * SECOND_NS, streams_badly);
        assert!(!trial.is_far_best, "and 2 s later");
        let far = run(&mut trial, &mut clock_ns, 300 * SECOND_NS, streams_badly);
        assert!(!trial.is_far_best);
        let trials = 10; // after 1, 2, 4, ... 64, 64 s
        assert!(far > 0 && far <= trials * u64::from(2 * WINDOW_LEAST), "{far}: left at once");
    }

    #[test]
    fn ways_that_differ_little_change_nothing() {
        let (mut trial, mut clock_ns) = (trial(), START_NS);
        let pace_ns = |is_far, _| 30_000 - 5_000 * u64::from(is_far);
        run(&mut trial, &mut clock_ns, 5 * SECOND_NS, pace_ns);
        assert!(!trial.is_far_best);
    }

    #[test]
    fn one_disturbance_changes_nothing() {
        let (mut trial, mut clock_ns) = (trial(), START_NS);
        run_to(Stage::TimeBest, &mut trial, &mut clock_ns, 30_000);
        clock_ns += 900_000; // an interrupt that doubles the time of the best way
        run_to(Stage::Return, &mut trial, &mut clock_ns, 30_000);
        run(&mut trial, &mut clock_ns, 3 * SECOND_NS, |_, _| 30_000);
        assert!(!trial.is_far_best);
    }

    #[test]
    fn traffic_that_grows_changes_nothing() {
        let (mut trial, mut clock_ns) = (trial(), START_NS);
        let grows = |_, now_ns: u64| 90_000 - (now_ns - START_NS).min(10_000_000) / 125;
        run(&mut trial, &mut clock_ns, 5 * SECOND_NS, grows);
        assert!(!trial.is_far_best);
    }

    #[test]
    fn slow_traffic_tries_nothing_and_ends_a_trial() {
        let (mut trial, mut clock_ns) = (trial(), START_NS);
        let slow_ns = SEGMENT_BYTES as u64 / BYTES_PER_SLOW_NS + 1;
        assert_eq!(run(&mut trial, &mut clock_ns, 20 * SECOND_NS, |_, _| slow_ns), 0);
        run_to(Stage::Settle, &mut trial, &mut clock_ns, 30_000);
        clock_ns += SECOND_NS; // nothing comes
        trial.took(clock_ns);
        assert_eq!((trial.stage, trial.goes_far()), (Stage::Rest, false));
    }

    #[test]
    fn a_win_counts_only_if_the_next_trial_follows_at_once() {
        let (mut trial, mut clock_ns) = (trial(), START_NS);
        run_to(Stage::TimeOther, &mut trial, &mut clock_ns, 30_000);
        run_to(Stage::Return, &mut trial, &mut clock_ns, 10_000);
        assert_eq!(trial.wins, 1);
        run_to(Stage::Rest, &mut trial, &mut clock_ns, SECOND_NS);
        assert_eq!(trial.wins, 0);
    }

    #[test]
    fn a_reader_that_comes_near_ends_a_trial_and_leaves_its_result() {
        let (mut trial, mut clock_ns) = (trial(), START_NS);
        let streams_well = |is_far, _| if is_far { 30_000 } else { 60_000 };
        run(&mut trial, &mut clock_ns, 20_000_000, streams_well);
        run_to(Stage::TimeOther, &mut trial, &mut clock_ns, 30_000);
        assert!(!trial.goes_far());
        trial.stop();
        assert!(trial.goes_far());
        trial.forget();
        assert!(!trial.goes_far());
    }
}
