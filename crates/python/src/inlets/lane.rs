//! A source that is not a published log: a file, a set, an interface, a generator.
//!
//! Its packets are copied once, into this reader's own log. A source lends its buffer only until
//! the next call, and a numpy view may live longer (Decision 0050).
//!
//! ```text
//!  Source ──receive, one copy──► private log ──hold_burst──► Lent
//!            │ offered, lost                   │ in flight     │ delivered
//! ```

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use burstline_log::{Ending, Handoff, Log, LogConfig, MAX_WINDOW, Policy, Reader, ReaderConfig};
use burstline_log::{Start, Writer};
use burstline_port::{OpenOptions, PortAccount, PortState, PortTable, Source};
use burstline_share::Held;
use burstline_sys::readiness;

use crate::fault::Fault;
use crate::inlet::Found;
use crate::lent::Lent;
use crate::links::{Links, learn};
use crate::report::{Row, Tally};

/// Size of a private log: the window that may be held, and the same again to continue with.
const LOG_BYTES: usize = 8 << 20;
/// Packets received before they are lent: a large part of a segment.
const BUDGET: u64 = 2048;
/// Maximum sleep on one of several sources, because the others do not wake the thread.
const SLEEP_IN_TURN_NS: u64 = 1_000_000;

/// One source, and the log through which it is read.
pub(crate) struct Lane {
    source: Box<dyn Source>,
    /// `None` once the source has ended.
    writer: Option<Writer>,
    reader: Reader,
    table: PortTable,
    links: Arc<Links>,
    number: u32,
    hash_kind: u32,
    window: usize,
    delivered: Tally,
    is_finished: bool,
}

impl Lane {
    pub(crate) fn new(
        source: Box<dyn Source>,
        number: u32,
        window: usize,
        options: &OpenOptions,
    ) -> Result<Self, Fault> {
        let hash_kind = u32::from(options.hash.code());
        let (log, writer) = Log::create(LogConfig {
            name: source.info().name.clone(),
            bytes: LOG_BYTES,
            handoff: Handoff::Near,
            max_readers: 1,
            hash_kind,
            clock_kind: source.info().timestamps.code(),
            ..LogConfig::default()
        })?;
        let window = window.min(MAX_WINDOW);
        let config = ReaderConfig { policy: Policy::Lossless, window, start: Start::Oldest };
        let reader = log.attach(config)?;
        Ok(Self {
            source,
            writer: Some(writer),
            reader,
            table: options.table.clone(),
            links: Default::default(),
            number,
            hash_kind,
            window,
            delivered: Tally::default(),
            is_finished: false,
        })
    }

    /// Polls once for packets: in the log, then at the source.
    pub(crate) fn look(&mut self) -> Result<Found, Fault> {
        if let Some(found) = self.lend() {
            return Ok(found);
        }
        if self.reader.is_window_full() {
            return Ok(Found::WindowFull { window: self.window });
        }
        let Some(writer) = &mut self.writer else { return Ok(Found::End) };
        let received = self.source.receive(writer, BUDGET);
        writer.publish();
        let is_idle = match received {
            Ok(received) if received.state == PortState::Ended => {
                self.end();
                false
            }
            Ok(received) => received.state == PortState::Idle,
            Err(error) => {
                // Packets received before the error are delivered, and the account is exact.
                self.end();
                return Err(error.into());
            }
        };
        Ok(match self.lend() {
            Some(found) => found,
            None if self.writer.is_none() => Found::End,
            None if is_idle => Found::Nothing,
            // For example, a filter rejected a whole buffer.
            None => Found::Again,
        })
    }

    fn lend(&mut self) -> Option<Found> {
        let held = Held::Pinned(self.reader.hold_burst()?);
        let table = &self.table;
        let links = learn(&mut self.links, held.burst().worklist(), |port| {
            let entry = table.entries_from(port.into()).into_iter().next()?;
            Some((entry.link.0.into(), entry.name))
        });
        let lent = Lent::new(held, links, self.number, 0, self.hash_kind);
        self.delivered.add(&lent);
        Some(Found::Burst(Arc::new(lent)))
    }

    fn end(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.finish(Ending::Final);
        }
    }

    /// Sleeps until there may be packets. `is_alone`: whether this is the only source.
    pub(crate) fn wait(&self, timeout_ns: u64, is_alone: bool) {
        let timeout_ns = if is_alone { timeout_ns } else { timeout_ns.min(SLEEP_IN_TURN_NS) };
        if self.source.wait(timeout_ns).is_some() {
            return;
        }
        let descriptors: Vec<_> = self.source.readiness().into_iter().collect();
        let has_slept = !descriptors.is_empty()
            && matches!(readiness::wait(&descriptors, timeout_ns), Ok(ready)
                if ready != readiness::Ready::Failed);
        if !has_slept {
            thread::sleep(Duration::from_nanos(timeout_ns.min(SLEEP_IN_TURN_NS)));
        }
    }

    /// Ends the source's work.
    pub(crate) fn close(&mut self) -> Result<(), Fault> {
        self.end();
        if !std::mem::replace(&mut self.is_finished, true) {
            self.source.finish()?;
        }
        Ok(())
    }

    pub(crate) fn row(&self) -> Row {
        let PortAccount {
            offered,
            lost,
            in_flight,
            fragments_unmatched,
            writer_down,
            notes,
            is_damaged,
            ..
        } = self.source.account();
        Row {
            port: self.source.info().name.clone(),
            offered,
            delivered: self.delivered,
            lost,
            // Packets in the private log are in flight, too.
            in_flight: in_flight + self.reader.lag(),
            fragments_unmatched,
            writer_down,
            is_damaged,
            notes,
        }
    }
}
