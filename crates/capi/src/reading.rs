//! A reader as C sees it: errors are texts, and statistics are a struct of C's.

use std::sync::Arc;

use burstline_log::VerdictGiver;
use burstline_share::{Feed, Follower, Next};

use crate::border::Fault;
use crate::options::Wishes;
use crate::types::{Statistics, Status};

/// The logs of a name.
pub(crate) struct Reading {
    follower: Follower,
    /// Bursts that may be held of each log.
    window: usize,
}

impl Reading {
    pub(crate) fn open(name: &str, wishes: &Wishes) -> Result<Self, Fault> {
        let follower = Follower::open(name, &wishes.attach, wishes.is_following)?;
        Ok(Self { follower, window: wishes.attach.window })
    }

    /// The next packets: see [`Follower::next`].
    pub(crate) fn next(
        &mut self,
        timeout_ns: u64,
        is_closed: impl Fn() -> bool,
    ) -> Result<Next, Fault> {
        #[cfg(feature = "deliberate-panic")]
        crate::border::deliberate::panic_if_asked(crate::border::deliberate::IN_THE_READER);
        Ok(self.follower.next(timeout_ns, is_closed)?)
    }

    /// Why there is no burst while bursts of every segment of the window are held.
    pub(crate) fn window_full(&self) -> Fault {
        let window = self.window;
        let text = format!("bursts of all {window} segments of the window are held: release one");
        Fault::new(Status::ErrorWindow, text)
    }

    /// Link type and name of a port of log `log`; `None` where the writer has not named it.
    pub(crate) fn port_name(&self, log: u32, port: u8) -> Result<Option<(u32, String)>, Fault> {
        let first = self.follower.first_log();
        let end = first as usize + self.follower.feeds().len();
        if !(first as usize..end).contains(&(log as usize)) {
            let text = format!("log {log}: this reader has those of [{first}, {end})");
            return Err(Fault::argument(text));
        }
        Ok(self.follower.port_name(log, port))
    }

    /// Counts of this moment; `held` and `size` are the caller's.
    pub(crate) fn statistics(&self) -> Statistics {
        let (sums, feeds, link) =
            (self.follower.sums(), self.follower.feeds(), self.follower.link());
        Statistics {
            size: 0,
            logs: feeds.len() as u32,
            offered: sums.offered,
            delivered: sums.delivered,
            missed: sums.missed,
            laps: sums.laps,
            torn: sums.torn,
            lag: self.follower.lag(),
            writer_down: self.follower.writers_down(),
            epoch: link.epoch(),
            writer_pid: link.pid(),
            demoted: feeds.iter().filter(|feed| Feed::is_demoted(feed)).count() as u32,
            held: 0,
            is_waiting: u32::from(self.follower.is_waiting()),
        }
    }

    /// Where verdicts on bursts of log `log` go.
    pub(crate) fn verdicts(&self, log: u32) -> Option<Arc<VerdictGiver>> {
        self.follower.verdicts(log).cloned()
    }

    /// Which publisher of the name is read.
    pub(crate) fn epoch(&self) -> u64 {
        self.follower.link().epoch()
    }
}
