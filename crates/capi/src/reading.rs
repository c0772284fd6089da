//! Reading a name: its logs in turn, and its writers one after the other.
//!
//! ```text
//!            stopped or killed, and drained              epoch + 1
//!  Reading ────────────────────────────────► Waiting ──────────────► Reading
//!     │ final, or not following                 once 50 ms: who publishes now?
//!     ▼
//!  Ended
//! ```
//!
//! A writer that was killed says nothing; the end of its socket does. If that was seen *before* a
//! look at its logs found nothing, they are drained.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use burstline_log::{Ending, Start};
use burstline_share::{AttachConfig, Attachment, Feed, Held, ShareError, WriterLink};

use crate::border::Fault;
use crate::options::Wishes;
use crate::sums::Sums;
use crate::types::{Statistics, Status};

/// Between two looks whether the writer still lives.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Between two looks for the next writer.
const WAIT_EVERY: Duration = Duration::from_millis(50);
/// The longest sleep on a log; the writer's end does not wake.
const SLEEP_NS: u64 = 50_000_000;
/// The longest sleep on one of several logs: the others do not wake.
const SLEEP_IN_TURN_NS: u64 = 1_000_000;

/// Where the reader stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// There is a writer, or was one whose logs are not drained yet.
    Reading,
    /// Nobody publishes, or not yet again.
    Waiting,
    /// There will never be more.
    Ended,
}

/// What there is for a caller who wants a burst.
pub(crate) enum Next {
    /// A burst of log `log`.
    Burst {
        /// Its packets.
        held: Held,
        /// Which log of the name.
        log: u32,
    },
    /// Nothing within the timeout.
    None,
    /// Never more.
    End,
}

/// The logs of a name.
pub(crate) struct Reading {
    wishes: Wishes,
    feeds: Vec<Feed>,
    link: Arc<WriterLink>,
    phase: Phase,
    /// The reader whose turn it is.
    turn: usize,
    /// Whether the publisher was seen to be gone.
    is_gone: bool,
    looked: Instant,
    /// What was read of the writers before.
    past: Sums,
    writer_down: u64,
}

impl Reading {
    pub(crate) fn open(name: &str, wishes: &Wishes) -> Result<Self, ShareError> {
        let Attachment { readers: feeds, link } = Attachment::open(name, &wishes.attach)?;
        // What the next writer has written before it was found is wanted, too.
        let wishes =
            Wishes { attach: AttachConfig { start: Start::Oldest, ..wishes.attach }, ..*wishes };
        Ok(Self {
            wishes,
            feeds,
            link,
            phase: Phase::Reading,
            turn: 0,
            is_gone: false,
            looked: Instant::now(),
            past: Sums::default(),
            writer_down: 0,
        })
    }

    /// The next packets, waiting for them at most `timeout_ns`, in `[0, u64::MAX]`; the last is
    /// for ever. Where there are none, `is_closed` is asked now and then.
    ///
    /// Cost: where packets are, no system call.
    pub(crate) fn next(
        &mut self,
        timeout_ns: u64,
        is_closed: impl Fn() -> bool,
    ) -> Result<Next, Fault> {
        let began = Instant::now();
        loop {
            match self.phase {
                Phase::Ended => return Ok(Next::End),
                Phase::Waiting => self.look_for_next_writer()?,
                Phase::Reading => {}
            }
            if self.phase == Phase::Reading {
                if let Some(next) = self.look() {
                    return Ok(next);
                }
                if self.has_changed()? {
                    continue;
                }
            }
            let left_ns = match timeout_ns {
                u64::MAX => u64::MAX,
                _ => timeout_ns.saturating_sub(began.elapsed().as_nanos() as u64),
            };
            if left_ns == 0 {
                return Ok(Next::None);
            }
            if is_closed() {
                return Err(Fault::closed());
            }
            self.sleep(left_ns);
        }
    }

    /// Link type and name of a port of log `log`; `None` where the writer has not named it.
    pub(crate) fn port_name(&self, log: u32, port: u8) -> Result<Option<(u32, String)>, Fault> {
        let first = self.first_log();
        let feed = log.checked_sub(first).and_then(|index| self.feeds.get(index as usize));
        let feed = feed.ok_or_else(|| {
            let end = first as usize + self.feeds.len();
            Fault::argument(format!("log {log}: this reader has those of [{first}, {end})"))
        })?;
        Ok(feed.port_name(port))
    }

    /// Counts of this moment; `held` and `size` are the caller's.
    pub(crate) fn statistics(&self) -> Statistics {
        let sums = self.sums();
        Statistics {
            size: 0,
            logs: self.feeds.len() as u32,
            offered: sums.offered,
            delivered: sums.delivered,
            missed: sums.missed,
            laps: sums.laps,
            torn: sums.torn,
            lag: self.feeds.iter().fold(0, |sum, feed| sum.saturating_add(feed.lag())),
            writer_down: self.writer_down,
            epoch: self.link.epoch(),
            writer_pid: self.link.pid(),
            demoted: self.feeds.iter().filter(|feed| feed.is_demoted()).count() as u32,
            held: 0,
            is_waiting: u32::from(self.phase == Phase::Waiting),
        }
    }

    /// Which publisher of the name is read.
    pub(crate) fn epoch(&self) -> u64 {
        self.link.epoch()
    }

    fn first_log(&self) -> u32 {
        self.wishes.attach.log.unwrap_or(0)
    }

    fn sums(&self) -> Sums {
        self.feeds.iter().fold(self.past, Sums::with)
    }

    /// Looks at each log once, from the one whose turn it is.
    fn look(&mut self) -> Option<Next> {
        #[cfg(feature = "deliberate-panic")]
        crate::border::deliberate::panic_if_asked(crate::border::deliberate::IN_THE_READER);
        let logs = self.feeds.len();
        for step in 0..logs {
            let index = (self.turn + step) % logs;
            if let Some(held) = self.feeds[index].hold_burst() {
                self.turn = (index + 1) % logs;
                return Some(Next::Burst { held, log: self.first_log() + index as u32 });
            }
        }
        None
    }

    /// Nothing was found: is that the end, or should one look again?
    fn has_changed(&mut self) -> Result<bool, Fault> {
        if self.feeds.iter().all(Feed::is_finished) {
            self.writer_ended();
            return Ok(true);
        }
        let is_stuck = |feed: &&Feed| !feed.is_finished() && feed.is_window_full();
        if self.feeds.iter().any(|feed| is_stuck(&feed)) {
            let window = self.wishes.attach.window;
            let text =
                format!("bursts of all {window} segments of the window are held: release one");
            return Err(Fault::new(Status::ErrorWindow, text));
        }
        if self.is_gone {
            // It was gone before the last look, so that was the last packet.
            self.writer_ended();
            return Ok(true);
        }
        if self.looked.elapsed() >= LOOK_EVERY {
            self.looked = Instant::now();
            self.is_gone = self.link.is_gone();
        }
        Ok(self.is_gone)
    }

    /// The writers have published their last packets, and those were read.
    fn writer_ended(&mut self) {
        let is_final = |feed: &Feed| feed.is_finished() && feed.ending() == Some(Ending::Final);
        if self.feeds.iter().all(is_final) {
            self.phase = Phase::Ended;
            return;
        }
        self.writer_down += 1;
        self.phase = if self.wishes.is_following { Phase::Waiting } else { Phase::Ended };
        self.looked = Instant::now();
    }

    fn look_for_next_writer(&mut self) -> Result<(), Fault> {
        if self.looked.elapsed() < WAIT_EVERY {
            return Ok(());
        }
        self.looked = Instant::now();
        if let Some(next) = Attachment::open_next(&self.link, &self.wishes.attach)? {
            let Attachment { readers: feeds, link } = next;
            self.past = self.sums();
            (self.feeds, self.link) = (feeds, link);
            (self.turn, self.is_gone, self.phase) = (0, false, Phase::Reading);
        }
        Ok(())
    }

    fn sleep(&self, left_ns: u64) {
        match (self.phase, self.feeds.as_slice()) {
            (Phase::Reading, [feed]) => feed.wait(left_ns.min(SLEEP_NS)),
            (Phase::Reading, feeds) => feeds[self.turn].wait(left_ns.min(SLEEP_IN_TURN_NS)),
            _ => thread::sleep(WAIT_EVERY.min(Duration::from_nanos(left_ns))),
        }
    }
}
