//! A reader for C: errors are texts, and statistics are a C struct.

use std::sync::Arc;

use burstline_log::VerdictGiver;
use burstline_share::{Feed, Follower, Next};

use crate::border::Fault;
use crate::options::Wishes;
use crate::types::{Statistics, Status};

/// The reader of a name's logs.
pub(crate) struct Reading {
    follower: Follower,
    /// Maximum number of segments held of each log.
    window: usize,
}

impl Reading {
    pub(crate) fn open(name: &str, wishes: &Wishes) -> Result<Self, Fault> {
        let follower = Follower::open(name, &wishes.attach, wishes.is_following)?;
        Ok(Self { follower, window: wishes.attach.window })
    }

    /// Returns the next packets: see [`Follower::next`].
    pub(crate) fn next(
        &mut self,
        timeout_ns: u64,
        is_closed: impl Fn() -> bool,
    ) -> Result<Next, Fault> {
        #[cfg(feature = "deliberate-panic")]
        crate::border::deliberate::panic_if_asked(crate::border::deliberate::IN_THE_READER);
        Ok(self.follower.next(timeout_ns, is_closed)?)
    }

    /// Returns the error for a window whose segments are all held.
    pub(crate) fn window_full(&self) -> Fault {
        let window = self.window;
        let text = format!("bursts of all {window} segments of the window are held: release one");
        Fault::new(Status::ErrorWindow, text)
    }

    /// Returns the link type and name of a port of log `log`, or `None` if it has no name yet.
    pub(crate) fn port_name(&self, log: u32, port: u8) -> Result<Option<(u32, String)>, Fault> {
        let first = self.follower.first_log();
        let end = first as usize + self.follower.feeds().len();
        if !(first as usize..end).contains(&(log as usize)) {
            let text = format!("log {log}: this reader has only logs [{first}, {end})");
            return Err(Fault::argument(text));
        }
        Ok(self.follower.port_name(log, port))
    }

    /// Returns the current counts; the caller sets `held` and `size`.
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

    /// Returns where verdicts on bursts of log `log` are sent.
    pub(crate) fn verdicts(&self, log: u32) -> Option<Arc<VerdictGiver>> {
        self.follower.verdicts(log).cloned()
    }

    /// Returns the epoch of the publisher being read.
    pub(crate) fn epoch(&self) -> u64 {
        self.follower.link().epoch()
    }
}
