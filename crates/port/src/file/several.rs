//! Several outputs that are one: those that take turns, and those of a link type each.
//!
//! Invariant: when one fails, the others are ended, and every further packet is counted by the one
//! that failed.

pub(super) mod links;
pub(super) mod stripes;

use burstline_log::Burst;

use crate::{LostPackets, PortAccount, PortError, Sink};

/// The outputs, and which of them has failed.
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

    pub(super) fn sink(&mut self, number: usize) -> &mut dyn Sink {
        &mut *self.sinks[number]
    }

    /// Gives a burst to one of them, or to the one that has failed.
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

    /// Does something with each until one fails.
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

    /// Ends all but the one that failed.
    #[cold]
    fn fail(&mut self, number: usize, error: PortError) -> PortError {
        if self.failed.is_none() {
            self.failed = Some(number);
            let others = (0..self.sinks.len()).filter(|&other| other != number);
            for other in others {
                // The first error is the one to tell; what this one loses is counted.
                let _ = self.sinks[other].finish();
            }
        }
        error
    }
}
