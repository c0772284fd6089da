//! Follows a name: reads its logs in turn, and its writers one after the other.
//!
//! ```text
//!            stopped or killed, and drained              epoch + 1
//!  Reading ────────────────────────────────► Waiting ──────────────► Reading
//!    │ final, or not following                 every 50 ms: who publishes now?
//!     ▼
//!  Ended
//! ```
//!
//! A killed writer does not end its logs; the closing of its socket shows that it is gone. If that
//! was seen *before* a poll of its logs found nothing, they are drained. The libraries for other
//! languages use this reader: a call waits for the next burst, and holds it.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::attachment::{AttachConfig, Attachment};
use crate::error::ShareError;
use crate::feed::{Feed, Held};
use crate::link::WriterLink;
use crate::sums::Sums;
use burstline_log::{Ending, Start, VerdictGiver};

/// Time between two checks whether the writer still lives.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Time between two attempts to find the next writer.
const WAIT_EVERY: Duration = Duration::from_millis(50);
/// The longest sleep on a log; the end of a writer wakes nobody.
const SLEEP_NS: u64 = 50_000_000;
/// The longest sleep on one of several logs: the others do not wake the reader.
const SLEEP_IN_TURN_NS: u64 = 1_000_000;
/// Like `SLEEP_IN_TURN_NS`, if packets wait for verdicts.
const SLEEP_BEFORE_VERDICTS_NS: u64 = 100_000;

/// The state of a follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// There is a writer, or there was one whose logs are not drained yet.
    Reading,
    /// There is no publisher, or the old one is still there.
    Waiting,
    /// No more packets will come.
    Ended,
}

/// The result of asking for a burst.
pub enum Next {
    /// A burst of log `log`.
    Burst {
        /// Its packets.
        held: Held,
        /// The number of the log within the name.
        log: u32,
    },
    /// No packets within the timeout.
    None,
    /// No more packets will come.
    End,
    /// Bursts in all segments of the window are held.
    WindowFull,
    /// The caller's `is_interrupted` returned true.
    Interrupted,
}

/// A reader of the logs of a name.
pub struct Follower {
    attach: AttachConfig,
    is_following: bool,
    feeds: Vec<Feed>,
    /// By feed, if verdicts are given.
    verdicts: Vec<Arc<VerdictGiver>>,
    link: Arc<WriterLink>,
    phase: Phase,
    /// The index of the feed to read next.
    turn: usize,
    /// Whether the publisher was found to be gone.
    is_gone: bool,
    looked: Instant,
    /// Totals of the previous writers.
    past: Sums,
    writers_down: u64,
}

impl Follower {
    /// Attaches to the logs published as `name`. `is_following`: it continues with the next writer.
    ///
    /// # Errors
    /// As for [`Attachment::open`].
    pub fn open(name: &str, attach: &AttachConfig, is_following: bool) -> Result<Self, ShareError> {
        let Attachment { readers: feeds, verdicts, link } = Attachment::open(name, attach)?;
        // Packets that the next writer publishes before it is found must be read, too.
        let attach = AttachConfig { start: Start::Oldest, ..*attach };
        Ok(Self {
            attach,
            is_following,
            feeds,
            verdicts,
            link,
            phase: Phase::Reading,
            turn: 0,
            is_gone: false,
            looked: Instant::now(),
            past: Sums::default(),
            writers_down: 0,
        })
    }

    /// Returns the next packets. Waits for them at most `timeout_ns`; `u64::MAX` is for ever. While
    /// it waits, it calls `is_interrupted` at least every 50 ms.
    ///
    /// # Errors
    /// If attaching to the next writer fails; the next call retries.
    ///
    /// Cost: no system call if there are packets.
    pub fn next(
        &mut self,
        timeout_ns: u64,
        is_interrupted: impl Fn() -> bool,
    ) -> Result<Next, ShareError> {
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
                if self.has_changed() {
                    continue;
                }
                if self.is_window_full() {
                    return Ok(Next::WindowFull);
                }
            }
            let left_ns = match timeout_ns {
                u64::MAX => u64::MAX,
                _ => timeout_ns.saturating_sub(began.elapsed().as_nanos() as u64),
            };
            if left_ns == 0 {
                return Ok(Next::None);
            }
            if is_interrupted() {
                return Ok(Next::Interrupted);
            }
            self.wait(left_ns);
        }
    }

    /// Returns link type and name of a port of log `log`; `None` if the writer has not named it, or
    /// the log does not exist.
    pub fn port_name(&self, log: u32, port: u8) -> Option<(u32, String)> {
        let index = log.checked_sub(self.first_log())?;
        self.feeds.get(index as usize)?.port_name(port)
    }

    /// Returns the readers of the writer's logs, from log [`first_log`](Self::first_log) on.
    pub fn feeds(&self) -> &[Feed] {
        &self.feeds
    }

    /// Returns the receiver of verdicts on the packets of log `log`, for bursts of the current
    /// writer only. `None` if no verdicts are given, or the log does not exist.
    pub fn verdicts(&self, log: u32) -> Option<&Arc<VerdictGiver>> {
        self.verdicts.get(log.checked_sub(self.first_log())? as usize)
    }

    /// Returns the connection to the current or last writer.
    pub fn link(&self) -> &WriterLink {
        &self.link
    }

    /// Returns the number of times that a writer was stopped or killed.
    pub fn writers_down(&self) -> u64 {
        self.writers_down
    }

    /// Returns the number of packets published but not read yet.
    pub fn lag(&self) -> u64 {
        self.feeds.iter().fold(0, |sum, feed| sum.saturating_add(feed.lag()))
    }

    /// Returns the share of its fullest log that was opened since the current segment, in percent.
    pub fn filled_percent(&self) -> u64 {
        self.feeds.iter().map(Feed::filled_percent).max().unwrap_or(0)
    }

    /// Returns whether the writer has ended or is gone; [`next`](Self::next) then finds out which.
    pub fn is_over(&self) -> bool {
        let is_over = |feed: &Feed| feed.ending().is_some() && feed.lag() == 0;
        self.feeds.iter().all(is_over) || self.link.is_gone()
    }

    /// Returns whether it waits for the next writer.
    pub fn is_waiting(&self) -> bool {
        self.phase == Phase::Waiting
    }

    /// Returns the number of the first log of the name that it reads.
    pub fn first_log(&self) -> u32 {
        self.attach.log.unwrap_or(0)
    }

    /// Returns the totals over all logs and all writers.
    pub fn sums(&self) -> Sums {
        self.feeds.iter().fold(self.past, Sums::with)
    }

    /// Polls each log once, beginning with the one whose turn it is.
    fn look(&mut self) -> Option<Next> {
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

    /// Handles a poll without packets. Returns whether to poll again or report the end.
    fn has_changed(&mut self) -> bool {
        if self.feeds.iter().all(Feed::is_finished) {
            self.writer_ended();
            return true;
        }
        if self.is_window_full() {
            return false;
        }
        if self.is_gone {
            // The publisher was gone before the last poll, so that saw the last packet. Only a poll
            // of a part may miss it, because it can end early, after packets of other parts.
            let is_drained = !self.feeds.iter().any(Feed::has_more);
            if is_drained {
                self.writer_ended();
            }
            return is_drained;
        }
        if self.looked.elapsed() >= LOOK_EVERY {
            self.looked = Instant::now();
            self.is_gone = self.link.is_gone();
        }
        self.is_gone
    }

    /// Returns whether a log cannot continue before a held burst is dropped.
    fn is_window_full(&self) -> bool {
        self.feeds.iter().any(|feed| !feed.is_finished() && feed.is_window_full())
    }

    /// Handles the end of a writer whose packets were all read.
    fn writer_ended(&mut self) {
        let is_final = |feed: &Feed| feed.is_finished() && feed.ending() == Some(Ending::Final);
        if self.feeds.iter().all(is_final) {
            self.phase = Phase::Ended;
            return;
        }
        self.writers_down += 1;
        self.phase = if self.is_following { Phase::Waiting } else { Phase::Ended };
        self.looked = Instant::now();
    }

    fn look_for_next_writer(&mut self) -> Result<(), ShareError> {
        if self.looked.elapsed() < WAIT_EVERY {
            return Ok(());
        }
        self.looked = Instant::now();
        if let Some(next) = Attachment::open_next(&self.link, &self.attach)? {
            let Attachment { readers: feeds, verdicts, link } = next;
            self.past = self.sums();
            (self.feeds, self.verdicts, self.link) = (feeds, verdicts, link);
            (self.turn, self.is_gone, self.phase) = (0, false, Phase::Reading);
        }
        Ok(())
    }

    /// Sleeps until there may be new packets, at most `left_ns` and at most 50 ms.
    pub fn wait(&self, left_ns: u64) {
        match (self.phase, self.feeds.as_slice()) {
            (Phase::Reading, [feed]) => feed.wait(left_ns.min(SLEEP_NS)),
            (Phase::Reading, feeds) => {
                let turn_ns = match self.attach.gives_verdicts {
                    true => SLEEP_BEFORE_VERDICTS_NS,
                    false => SLEEP_IN_TURN_NS,
                };
                feeds[self.turn].wait(left_ns.min(turn_ns));
            }
            _ => thread::sleep(WAIT_EVERY.min(Duration::from_nanos(left_ns))),
        }
    }
}
