//! One log of one writer, read in place or copied and checked.
//!
//! Attaching decides which of the two; code that reads a feed does not need to know.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use burstline_log::{
    AttachError, Burst, Ending, HeldBurst, HeldCopy, Reader, ReaderStatistics, UntrustedReader,
    VerdictGiver,
};

/// A reader of either kind. Its functions are those of [`Reader`].
#[derive(Debug)]
pub enum Feed {
    /// Lends the writer's own memory.
    Trusting(Reader),
    /// Lends copies.
    Wary(Box<UntrustedReader>),
}

/// A burst that is kept beyond the next one.
pub enum Held {
    /// In the writer's memory; its segment is pinned.
    Pinned(HeldBurst),
    /// In memory of this process.
    Copied(HeldCopy),
}

impl Held {
    /// The packets.
    pub fn burst(&self) -> Burst<'_> {
        match self {
            Self::Pinned(held) => held.burst(),
            Self::Copied(held) => held.burst(),
        }
    }
}

macro_rules! each {
    ($self:expr, $reader:ident => $body:expr) => {
        match $self {
            Feed::Trusting($reader) => $body,
            Feed::Wary($reader) => $body,
        }
    };
}

impl Feed {
    /// Whether it copies and checks.
    pub fn is_wary(&self) -> bool {
        matches!(self, Self::Wary(_))
    }

    /// Lends the packets published since the last burst; `None` where there are none.
    #[inline]
    pub fn next_burst(&mut self) -> Option<Burst<'_>> {
        each!(self, reader => reader.next_burst())
    }

    /// Lends the next burst for as long as the value lives.
    pub fn hold_burst(&mut self) -> Option<Held> {
        match self {
            Self::Trusting(reader) => reader.hold_burst().map(Held::Pinned),
            Self::Wary(reader) => reader.hold_burst().map(Held::Copied),
        }
    }

    /// Whether every segment of the window is held, so that it cannot go on.
    pub fn is_window_full(&self) -> bool {
        each!(self, reader => reader.is_window_full())
    }

    /// Takes up to `most` of the packets published since the last ones, and returns how many.
    #[inline]
    pub fn take_up_to(&mut self, most: u64) -> u64 {
        each!(self, reader => reader.take_up_to(most))
    }

    /// Lends what was taken last; `None` where that was nothing.
    pub fn taken(&self) -> Option<Burst<'_>> {
        each!(self, reader => reader.taken())
    }

    /// Puts the newest `packets` of those taken last back, to be taken again.
    pub fn put_back(&mut self, packets: u64) {
        each!(self, reader => reader.put_back(packets));
    }

    /// What it has seen so far.
    pub fn statistics(&self) -> ReaderStatistics {
        each!(self, reader => reader.statistics())
    }

    /// Packets published since its start, by the writer's count.
    pub fn offered(&self) -> u64 {
        each!(self, reader => reader.offered())
    }

    /// Packets published before its start, which it never had.
    pub fn passed_before(&self) -> u64 {
        each!(self, reader => reader.passed_before())
    }

    /// Packets published that have yet to be read.
    pub fn lag(&self) -> u64 {
        each!(self, reader => reader.lag())
    }

    /// Whether something was published that it has not looked at, whether its own or not.
    pub fn has_more(&self) -> bool {
        each!(self, reader => reader.has_more())
    }

    /// The part of the log that was begun since the segment that is read, in percent.
    pub fn filled_percent(&self) -> u64 {
        each!(self, reader => reader.filled_percent())
    }

    /// Bytes of the log's segments: what it holds at most.
    pub fn capacity_bytes(&self) -> u64 {
        each!(self, reader => reader.capacity_bytes())
    }

    /// Whether the log has ended and is read to its end.
    pub fn is_finished(&self) -> bool {
        each!(self, reader => reader.is_finished())
    }

    /// How the writer ended the log, if it has.
    pub fn ending(&self) -> Option<Ending> {
        each!(self, reader => reader.ending())
    }

    /// Whether the writer has stopped waiting for it.
    pub fn is_demoted(&self) -> bool {
        each!(self, reader => reader.is_demoted())
    }

    /// What the flow hash is: a code of the layer that computes it.
    pub fn hash_kind(&self) -> u32 {
        each!(self, reader => reader.hash_kind())
    }

    /// Whose times the packets have: a code of the layer that stamps them.
    pub fn clock_kind(&self) -> u32 {
        each!(self, reader => reader.clock_kind())
    }

    /// Link type and name of an interface, by the writer's number of it.
    pub fn port_name(&self, port: u8) -> Option<(u32, String)> {
        each!(self, reader => reader.port_name(port))
    }

    /// Keeps a socket open for as long as this, or a burst that it holds, lives.
    pub(crate) fn tie_to(&self, socket: Arc<OwnedFd>) {
        each!(self, reader => reader.tie_to(socket));
    }

    /// Gives verdicts into the column that came with its files.
    pub(crate) fn verdicts(&self, column: OwnedFd) -> Result<VerdictGiver, AttachError> {
        each!(self, reader => reader.verdicts(column))
    }

    /// Sleeps until there is news, or for `timeout_ns`.
    pub fn wait(&self, timeout_ns: u64) {
        each!(self, reader => reader.wait(timeout_ns));
    }
}
