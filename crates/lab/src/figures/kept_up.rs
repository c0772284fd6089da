//! Tells how much of the time a driver kept up with a line, and for how long without a break.
//!
//! Other programs may use the cores of a shared machine. While the driver is off its core, its card
//! loses packets that exceed ring and FIFO, as any card would. While the device is off its core,
//! its line stands still. So the run is divided into windows of a few ms. The time that the driver
//! was away is printed beside the windows that it did not keep up with.

use std::time::Duration;

use burstline_nicsim::ReceiveCounts;

/// Length of a window: long enough that the device's batches matter little.
const WINDOW: Duration = Duration::from_millis(5);

/// Share of the line's packets that must arrive in a window, without loss. It is below 1 because a
/// device that was briefly off its core delivers a little less.
const SHARE: f64 = 0.98;

/// A gap between two calls that means the driver was off its core.
const AWAY: Duration = Duration::from_micros(200);

/// The observer of one run.
#[derive(Default)]
pub(super) struct KeptUp {
    packets_per_s: f64,
    /// Start of the current window, and the counts at that time.
    since: Duration,
    before: ReceiveCounts,
    looked: Duration,
    kept: Duration,
    on_end: Duration,
    longest: Duration,
    pauses: u32,
    away: Duration,
    longest_away: Duration,
}

impl KeptUp {
    /// Creates one for a line of this many packets a second, from time 0 on.
    pub(super) fn new(packets_per_s: f64, before: ReceiveCounts) -> Self {
        Self { packets_per_s, before, ..Self::default() }
    }

    /// Checks the counts; the driver must call it all the time.
    pub(super) fn look(&mut self, now: Duration, counts: impl FnOnce() -> ReceiveCounts) {
        let gap = now.saturating_sub(self.looked);
        self.looked = now;
        if gap > AWAY {
            self.pauses += 1;
            self.away += gap;
            self.longest_away = self.longest_away.max(gap);
        }
        let window = now.saturating_sub(self.since);
        if window < WINDOW {
            return;
        }
        let counts = counts();
        let arrived = counts.arrived - self.before.arrived;
        let due = self.packets_per_s * window.as_secs_f64();
        if lost(&counts) == lost(&self.before) && arrived as f64 >= SHARE * due {
            self.kept += window;
            self.on_end += window;
            self.longest = self.longest.max(self.on_end);
        } else {
            self.on_end = Duration::ZERO;
        }
        (self.since, self.before) = (now, counts);
    }

    /// Describes the result.
    pub(super) fn said(&self) -> String {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let (kept, all) = (ms(self.kept), ms(self.since));
        let (longest, pauses) = (ms(self.longest), self.pauses);
        let (away, longest_away) = (ms(self.away), ms(self.longest_away));
        format!(
            "at the line's rate without loss in {kept:.0} of {all:.0} ms, {longest:.0} in a \
             row; the driver paused {pauses} times, {away:.1} ms, {longest_away:.1} at most"
        )
    }
}

/// Returns the packets lost for any reason.
pub(super) fn lost(counts: &ReceiveCounts) -> u64 {
    counts.overflowed + counts.reset + counts.link_down + counts.too_long
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_where_the_line_was_full_and_nothing_was_lost() {
        let at = |arrived, overflowed| ReceiveCounts { arrived, overflowed, ..Default::default() };
        let mut kept_up = KeptUp::new(1e6, at(0, 0));
        // A full window; one with a loss; one with too few packets.
        for (ms, arrived, lost) in [(5, 5000, 0), (10, 10_000, 1), (15, 14_000, 1)] {
            for us in (ms * 1000 - 4900..ms * 1000).step_by(100) {
                kept_up.look(Duration::from_micros(us), || panic!("the window is not over"));
            }
            kept_up.look(Duration::from_millis(ms), || at(arrived, lost));
        }
        // Pauses with enough packets.
        kept_up.look(Duration::from_millis(25), || at(24_000, 1));
        kept_up.look(Duration::from_millis(30), || at(29_000, 1));
        let said = kept_up.said();
        assert!(said.contains("in 20 of 30 ms, 15 in a row"), "{said}");
        assert!(said.contains("paused 2 times, 15.0 ms, 10.0 at most"), "{said}");
    }
}
