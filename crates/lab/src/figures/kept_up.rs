//! Whether a line was kept up with: how much of the time, and on end.
//!
//! The cores of a machine that is shared are not always one's own. While the driver's core is away,
//! its card loses what ring and FIFO have no room for, as any card would. While the device's core
//! is away, its line stands still. So the second is divided into a few ms at a time. What the
//! driver did not keep up with is printed beside how long it was away.

use std::time::Duration;

use burstline_nicsim::ReceiveCounts;

/// What is looked at together: as long as the device's batches matter little.
const WINDOW: Duration = Duration::from_millis(5);

/// What has to come of what the line has, beside no loss: a device that was away for a moment has
/// brought a little less.
const SHARE: f64 = 0.98;

/// A driver that looks again only after so long was not on its core.
const AWAY: Duration = Duration::from_micros(200);

/// Watches.
pub(super) struct KeptUp {
    packets_per_s: f64,
    /// The window that is open: since when, and the counts at its start.
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
    /// With a line of this many packets a second, from time 0 on.
    pub(super) fn new(packets_per_s: f64, before: ReceiveCounts) -> Self {
        let (since, looked, kept, on_end, longest) = <(_, _, _, _, _)>::default();
        let (pauses, away, longest_away) = <(_, _, _)>::default();
        Self {
            packets_per_s,
            since,
            before,
            looked,
            kept,
            on_end,
            longest,
            pauses,
            away,
            longest_away,
        }
    }

    /// To be called all the time, by the driver.
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

    /// What there is to say, of all that was looked at.
    pub(super) fn said(&self) -> String {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let (kept, all) = (ms(self.kept), ms(self.since));
        let (longest, pauses) = (ms(self.longest), self.pauses);
        let (away, longest_away) = (ms(self.away), ms(self.longest_away));
        format!(
            "at the line's rate without loss in {kept:.0} of {all:.0} ms, {longest:.0} on end; \
             the driver away {pauses} times, {away:.1} ms, {longest_away:.1} at most"
        )
    }
}

/// Packets lost by any name.
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
        // Full; a loss; too few.
        for (ms, arrived, lost) in [(5, 5000, 0), (10, 10_000, 1), (15, 14_000, 1)] {
            for us in (ms * 1000 - 4900..ms * 1000).step_by(100) {
                kept_up.look(Duration::from_micros(us), || panic!("the window is not over"));
            }
            kept_up.look(Duration::from_millis(ms), || at(arrived, lost));
        }
        // Pauses in which enough came.
        kept_up.look(Duration::from_millis(25), || at(24_000, 1));
        kept_up.look(Duration::from_millis(30), || at(29_000, 1));
        let said = kept_up.said();
        assert!(said.contains("in 20 of 30 ms, 15 on end"), "{said}");
        assert!(said.contains("away 2 times, 15.0 ms, 10.0 at most"), "{said}");
    }
}
