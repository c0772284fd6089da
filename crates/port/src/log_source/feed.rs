//! One log of one writer, read in place or copied and checked.

use burstline_log::{Burst, Ending, Reader, ReaderStatistics, UntrustedReader};

/// A reader.
pub(super) enum Feed {
    /// Lends the writer's own memory.
    Trusting(Reader),
    /// Lends copies.
    Wary(Box<UntrustedReader>),
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
    #[inline]
    pub(super) fn take_up_to(&mut self, most: u64) -> u64 {
        each!(self, reader => reader.take_up_to(most))
    }

    pub(super) fn taken(&self) -> Option<Burst<'_>> {
        each!(self, reader => reader.taken())
    }

    pub(super) fn put_back(&mut self, packets: u64) {
        each!(self, reader => reader.put_back(packets));
    }

    pub(super) fn statistics(&self) -> ReaderStatistics {
        each!(self, reader => reader.statistics())
    }

    /// Packets published since the reader's start, by the writer's count.
    pub(super) fn offered(&self) -> u64 {
        each!(self, reader => reader.offered())
    }

    pub(super) fn is_finished(&self) -> bool {
        each!(self, reader => reader.is_finished())
    }

    pub(super) fn ending(&self) -> Option<Ending> {
        each!(self, reader => reader.ending())
    }

    pub(super) fn is_demoted(&self) -> bool {
        each!(self, reader => reader.is_demoted())
    }

    pub(super) fn hash_kind(&self) -> u32 {
        each!(self, reader => reader.hash_kind())
    }

    pub(super) fn clock_kind(&self) -> u32 {
        each!(self, reader => reader.clock_kind())
    }

    /// Link type and name of an interface, by the writer's number of it.
    pub(super) fn port_name(&self, port: u8) -> Option<(u32, String)> {
        each!(self, reader => reader.port_name(port))
    }

    pub(super) fn wait(&self, timeout_ns: u64) {
        each!(self, reader => reader.wait(timeout_ns));
    }

    /// Packets published that have yet to be read.
    pub(super) fn lag(&self) -> u64 {
        each!(self, reader => reader.lag())
    }

    pub(super) fn is_wary(&self) -> bool {
        matches!(self, Self::Wary(_))
    }
}
