//! One log of one writer, read in place or copied and checked; its bursts are held.

use std::sync::Arc;

use burstline_log::{
    Burst, Ending, HeldBurst, HeldCopy, Reader, ReaderStatistics, UntrustedReader,
};
use burstline_share::{Attachment, Offer, ShareError, WriterLink};

use crate::options::Wishes;

/// A reader.
pub(crate) enum Feed {
    /// Lends the writer's own memory.
    Trusting(Reader),
    /// Lends copies.
    Wary(Box<UntrustedReader>),
}

/// A burst that was given out.
pub(crate) enum Held {
    /// In the writer's memory; its segment is pinned.
    Pinned(HeldBurst),
    /// In memory of this process.
    Copied(HeldCopy),
}

impl Held {
    pub(crate) fn burst(&self) -> Burst<'_> {
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
    pub(crate) fn hold_burst(&mut self) -> Option<Held> {
        match self {
            Self::Trusting(reader) => reader.hold_burst().map(Held::Pinned),
            Self::Wary(reader) => reader.hold_burst().map(Held::Copied),
        }
    }

    pub(crate) fn is_window_full(&self) -> bool {
        each!(self, reader => reader.is_window_full())
    }

    pub(crate) fn is_finished(&self) -> bool {
        each!(self, reader => reader.is_finished())
    }

    pub(crate) fn ending(&self) -> Option<Ending> {
        each!(self, reader => reader.ending())
    }

    pub(crate) fn statistics(&self) -> ReaderStatistics {
        each!(self, reader => reader.statistics())
    }

    pub(crate) fn offered(&self) -> u64 {
        each!(self, reader => reader.offered())
    }

    pub(crate) fn lag(&self) -> u64 {
        each!(self, reader => reader.lag())
    }

    pub(crate) fn is_demoted(&self) -> bool {
        each!(self, reader => reader.is_demoted())
    }

    /// Link type and name of an interface, by the writer's number of it.
    pub(crate) fn port_name(&self, port: u8) -> Option<(u32, String)> {
        each!(self, reader => reader.port_name(port))
    }

    pub(crate) fn wait(&self, timeout_ns: u64) {
        each!(self, reader => reader.wait(timeout_ns));
    }
}

/// Attaches to the logs that are published as `name`.
pub(crate) fn attach(
    name: &str,
    wishes: &Wishes,
) -> Result<(Vec<Feed>, Arc<WriterLink>), ShareError> {
    if !wishes.is_untrusted {
        let Attachment { readers, link } = Attachment::open(name, &wishes.attach)?;
        return Ok((readers.into_iter().map(Feed::Trusting).collect(), link));
    }
    let Offer { logs, link } = Offer::ask(name, &wishes.attach)?;
    let mut feeds = Vec::new();
    for files in logs {
        let reader = UntrustedReader::attach(files).map_err(|error| {
            let path = link.path().to_owned();
            ShareError::Attach { path, error }
        })?;
        reader.tie_to(link.socket());
        feeds.push(Feed::Wary(Box::new(reader)));
    }
    Ok((feeds, Arc::new(link)))
}
