//! Following a name: its logs in turn, and its writers one after the other.
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
//! look at its logs found nothing, they are drained. The libraries for other languages read this
//! way: a call waits for the next burst, and holds it.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::attachment::{AttachConfig, Attachment};
use crate::error::ShareError;
use crate::feed::{Feed, Held};
use crate::link::WriterLink;
use crate::sums::Sums;
use burstline_log::{Ending, Start, VerdictGiver};

/// Between two looks whether the writer still lives.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Between two looks for the next writer.
const WAIT_EVERY: Duration = Duration::from_millis(50);
/// The longest sleep on a log; the writer's end does not wake.
const SLEEP_NS: u64 = 50_000_000;
/// The longest sleep on one of several logs: the others do not wake.
const SLEEP_IN_TURN_NS: u64 = 1_000_000;
/// As above, where packets wait for verdicts.
const SLEEP_BEFORE_VERDICTS_NS: u64 = 100_000;

/// Where the reader stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// There is a writer, or was one whose logs are not drained yet.
    Reading,
    /// There is no publisher, or not yet a new one.
    Waiting,
    /// There will never be more.
    Ended,
}

/// What there is for a caller who wants a burst.
pub enum Next {
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
    /// Nothing: bursts of all segments of the window are held.
    WindowFull,
    /// Nothing yet: the caller's own question says that it is to end.
    Interrupted,
}

/// The logs of a name.
pub struct Follower {
    attach: AttachConfig,
    is_following: bool,
    feeds: Vec<Feed>,
    /// By feed, where verdicts are given.
    verdicts: Vec<Arc<VerdictGiver>>,
    link: Arc<WriterLink>,
    phase: Phase,
    /// The reader whose turn it is.
    turn: usize,
    /// Whether the publisher was seen to be gone.
    is_gone: bool,
    looked: Instant,
    /// What was read of the writers before.
    past: Sums,
    writers_down: u64,
}

impl Follower {
    /// Attaches to the logs published as `name`. `is_following`: it goes on with the next writer.
    ///
    /// # Errors
    /// As for [`Attachment::open`].
    pub fn open(name: &str, attach: &AttachConfig, is_following: bool) -> Result<Self, ShareError> {
        let Attachment { readers: feeds, verdicts, link } = Attachment::open(name, attach)?;
        // What the next writer has written before it was found is wanted, too.
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

    /// The next packets, waiting for them at most `timeout_ns`, in `[0, u64::MAX]`; the last is
    /// for ever. While there are none, it calls `is_interrupted` at least every 50 ms.
    ///
    /// # Errors
    /// The next writer cannot be attached to; the next call tries again.
    ///
    /// Cost: where packets are, no system call.
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

    /// Link type and name of a port of log `log`; `None` where the writer has not named it, or
    /// there is no such log.
    pub fn port_name(&self, log: u32, port: u8) -> Option<(u32, String)> {
        let index = log.checked_sub(self.first_log())?;
        self.feeds.get(index as usize)?.port_name(port)
    }

    /// Readers of the writer's logs, the first one of log [`first_log`](Self::first_log).
    pub fn feeds(&self) -> &[Feed] {
        &self.feeds
    }

    /// Where verdicts on the packets of log `log` go, for bursts of this writer: a burst of the one
    /// before has another. `None` where none are given, or there is no such log.
    pub fn verdicts(&self, log: u32) -> Option<&Arc<VerdictGiver>> {
        self.verdicts.get(log.checked_sub(self.first_log())? as usize)
    }

    /// The connection to the writer that is read, or was read last.
    pub fn link(&self) -> &WriterLink {
        &self.link
    }

    /// How often a writer was stopped or killed.
    pub fn writers_down(&self) -> u64 {
        self.writers_down
    }

    /// Packets published that have yet to be read.
    pub fn lag(&self) -> u64 {
        self.feeds.iter().fold(0, |sum, feed| sum.saturating_add(feed.lag()))
    }

    /// The part of its fullest log that was begun since the segment that is read, in percent.
    pub fn filled_percent(&self) -> u64 {
        self.feeds.iter().map(Feed::filled_percent).max().unwrap_or(0)
    }

    /// Whether the writer has ended or gone: the next call of [`next`](Self::next) finds out more.
    pub fn is_over(&self) -> bool {
        let is_over = |feed: &Feed| feed.ending().is_some() && feed.lag() == 0;
        self.feeds.iter().all(is_over) || self.link.is_gone()
    }

    /// Whether there is no writer, and the next one is waited for.
    pub fn is_waiting(&self) -> bool {
        self.phase == Phase::Waiting
    }

    /// The number of the first log of the name that is read.
    pub fn first_log(&self) -> u32 {
        self.attach.log.unwrap_or(0)
    }

    /// What was read, over all logs and all writers.
    pub fn sums(&self) -> Sums {
        self.feeds.iter().fold(self.past, Sums::with)
    }

    /// Looks at each log once, from the one whose turn it is.
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

    /// Nothing was found: is that the end, or should one look again?
    fn has_changed(&mut self) -> bool {
        if self.feeds.iter().all(Feed::is_finished) {
            self.writer_ended();
            return true;
        }
        if self.is_window_full() {
            return false;
        }
        if self.is_gone {
            // It was gone before the last look. That has seen the last packet unless it was one at
            // a part, which ends early where there are only others' packets.
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

    /// Whether some log cannot go on before a burst is let go of.
    fn is_window_full(&self) -> bool {
        self.feeds.iter().any(|feed| !feed.is_finished() && feed.is_window_full())
    }

    /// The writers have published their last packets, and those were read.
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

    /// Sleeps until there may be news, at most `left_ns`, and at most 50 ms.
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
