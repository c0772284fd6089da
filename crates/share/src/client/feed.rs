//! A reader of one log of one writer, in place or with checked copies.
//!
//! The kind is decided on attaching; code that reads a feed does not need to know it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use burstline_log::{
    AttachError, Burst, Ending, HeldBurst, HeldCopy, Reader, ReaderStatistics, UntrustedReader,
    VerdictGiver,
};

/// A reader of either kind, with the functions of [`Reader`].
#[derive(Debug)]
pub enum Feed {
    /// Lends the writer's memory.
    Trusting(Reader),
    /// Lends copies.
    Wary(Box<UntrustedReader>),
}

/// A burst that is kept beyond the next call.
pub enum Held {
    /// In the writer's memory; its segment is pinned.
    Pinned(HeldBurst),
    /// In memory of this process.
    Copied(HeldCopy),
}

impl Held {
    /// Returns the packets.
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
    /// Returns whether it copies and checks packets.
    pub fn is_wary(&self) -> bool {
        matches!(self, Self::Wary(_))
    }

    /// Lends the packets published since the last burst; `None` if there are none.
    #[inline]
    pub fn next_burst(&mut self) -> Option<Burst<'_>> {
        each!(self, reader => reader.next_burst())
    }

    /// Lends the next burst as long as the returned value lives.
    pub fn hold_burst(&mut self) -> Option<Held> {
        match self {
            Self::Trusting(reader) => reader.hold_burst().map(Held::Pinned),
            Self::Wary(reader) => reader.hold_burst().map(Held::Copied),
        }
    }

    /// Returns whether every segment of the window is held, which blocks the reader.
    pub fn is_window_full(&self) -> bool {
        each!(self, reader => reader.is_window_full())
    }

    /// Takes up to `most` of the packets published since the last ones, and returns their number.
    #[inline]
    pub fn take_up_to(&mut self, most: u64) -> u64 {
        each!(self, reader => reader.take_up_to(most))
    }

    /// Lends the packets taken last; `None` if there are none.
    pub fn taken(&self) -> Option<Burst<'_>> {
        each!(self, reader => reader.taken())
    }

    /// Puts the newest `packets` of those taken last back, so that they are taken again.
    pub fn put_back(&mut self, packets: u64) {
        each!(self, reader => reader.put_back(packets));
    }

    /// Returns its counters.
    pub fn statistics(&self) -> ReaderStatistics {
        each!(self, reader => reader.statistics())
    }

    /// Returns the number of packets published since its start, by the writer's count.
    pub fn offered(&self) -> u64 {
        each!(self, reader => reader.offered())
    }

    /// Returns the number of packets published before its start.
    pub fn passed_before(&self) -> u64 {
        each!(self, reader => reader.passed_before())
    }

    /// Returns the number of packets published but not read yet.
    pub fn lag(&self) -> u64 {
        each!(self, reader => reader.lag())
    }

    /// Returns whether packets were published that it has not examined, of any part.
    pub fn has_more(&self) -> bool {
        each!(self, reader => reader.has_more())
    }

    /// Returns the share of the log that was opened since the current segment, in percent.
    pub fn filled_percent(&self) -> u64 {
        each!(self, reader => reader.filled_percent())
    }

    /// Returns the size of the log's segments: its capacity in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        each!(self, reader => reader.capacity_bytes())
    }

    /// Returns whether the log has ended and was read to its end.
    pub fn is_finished(&self) -> bool {
        each!(self, reader => reader.is_finished())
    }

    /// Returns how the writer ended the log, if it has.
    pub fn ending(&self) -> Option<Ending> {
        each!(self, reader => reader.ending())
    }

    /// Returns whether the writer has stopped waiting for it.
    pub fn is_demoted(&self) -> bool {
        each!(self, reader => reader.is_demoted())
    }

    /// Returns the kind of the flow hash: a code of the layer that computes it.
    pub fn hash_kind(&self) -> u32 {
        each!(self, reader => reader.hash_kind())
    }

    /// Returns the clock of the packets' times: a code of the layer that takes them.
    pub fn clock_kind(&self) -> u32 {
        each!(self, reader => reader.clock_kind())
    }

    /// Returns link type and name of an interface, by the writer's port number.
    pub fn port_name(&self, port: u8) -> Option<(u32, String)> {
        each!(self, reader => reader.port_name(port))
    }

    /// Keeps a socket open while this reader, or a burst that it holds, lives.
    pub(crate) fn tie_to(&self, socket: Arc<OwnedFd>) {
        each!(self, reader => reader.tie_to(socket));
    }

    /// Returns a giver of verdicts, which uses the column that came with the reader's files.
    pub(crate) fn verdicts(&self, column: OwnedFd) -> Result<VerdictGiver, AttachError> {
        each!(self, reader => reader.verdicts(column))
    }

    /// Sleeps until there may be new packets, at most `timeout_ns`.
    pub fn wait(&self, timeout_ns: u64) {
        each!(self, reader => reader.wait(timeout_ns));
    }
}
