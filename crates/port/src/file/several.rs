//! Outputs of several files: striped files, or one file per link type.
//!
//! Invariant: when one fails, the others are closed, and the failed one counts every further
//! packet.

pub(super) mod links;
pub(super) mod stripes;

use burstline_log::Burst;

use crate::{LostPackets, PortAccount, PortError, Sink};

/// The outputs, and the index of a failed one.
pub(super) struct Several {
    sinks: Vec<Box<dyn Sink>>,
    failed: Option<usize>,
}

impl Several {
    pub(super) fn new(sinks: Vec<Box<dyn Sink>>) -> Self {
        Self { sinks, failed: None }
    }

    pub(super) fn add(&mut self, sink: Box<dyn Sink>) {
        self.sinks.push(sink);
    }

    pub(super) fn len(&self) -> usize {
        self.sinks.len()
    }

    /// Returns which one is finished last: the failed one, if there is one.
    pub(super) fn last(&self) -> usize {
        self.failed.unwrap_or(self.sinks.len() - 1)
    }

    pub(super) fn sink(&mut self, number: usize) -> &mut dyn Sink {
        &mut *self.sinks[number]
    }

    /// Passes a burst to one of them, or to the failed one if there is one.
    pub(super) fn transmit(&mut self, number: usize, burst: &Burst<'_>) -> Result<u64, PortError> {
        let number = self.failed.unwrap_or(number);
        let taken = self.sinks[number].transmit(burst);
        taken.map_err(|error| self.fail(number, error))
    }

    pub(super) fn finish(&mut self) -> Result<(), PortError> {
        match self.failed {
            Some(number) => self.sinks[number].finish(),
            None => self.each(|sink| sink.finish()),
        }
    }

    pub(super) fn flush(&mut self) -> Result<(), PortError> {
        match self.failed {
            Some(number) => self.sinks[number].flush(),
            None => self.each(|sink| sink.flush()),
        }
    }

    /// As [`Sink::flush_when_due`].
    pub(super) fn flush_when_due(&mut self) -> Result<bool, PortError> {
        let mut is_flushed = true;
        let mut flush = |sink: &mut dyn Sink| -> Result<(), PortError> {
            is_flushed &= sink.flush_when_due()?;
            Ok(())
        };
        match self.failed {
            Some(number) => flush(&mut *self.sinks[number])?,
            None => self.each(flush)?,
        }
        Ok(is_flushed)
    }

    pub(super) fn look_at_clock(&mut self) -> Result<(), PortError> {
        match self.failed {
            Some(_) => Ok(()),
            None => self.each(|sink| sink.look_at_clock()),
        }
    }

    pub(super) fn account(&self) -> PortAccount {
        let mut account = PortAccount::default();
        self.sinks.iter().for_each(|sink| account.add(sink.account()));
        account
    }

    pub(super) fn lost(&self) -> LostPackets {
        let mut lost = LostPackets::default();
        self.sinks.iter().for_each(|sink| lost.merge(&sink.lost()));
        lost
    }

    /// Calls `work` on each until one fails.
    fn each(
        &mut self,
        mut work: impl FnMut(&mut dyn Sink) -> Result<(), PortError>,
    ) -> Result<(), PortError> {
        for number in 0..self.sinks.len() {
            if let Err(error) = work(&mut *self.sinks[number]) {
                return Err(self.fail(number, error));
            }
        }
        Ok(())
    }

    /// Closes all but the failed one.
    #[cold]
    fn fail(&mut self, number: usize, error: PortError) -> PortError {
        if self.failed.is_none() {
            self.failed = Some(number);
            let others = (0..self.sinks.len()).filter(|&other| other != number);
            for other in others {
                // The first error is the one to report; packets lost by this one are counted.
                let _ = self.sinks[other].finish();
            }
        }
        error
    }
}
