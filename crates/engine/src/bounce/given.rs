//! What a sink was given, and what it has not lost of it.

use burstline_log::Burst;
use burstline_port::{PortError, Sink};

use crate::runtime::{Span, Tally, tally};

/// The packets that a sink was given.
#[derive(Default)]
pub(crate) struct Given(Tally);

impl Given {
    /// What the sink was given and has not lost.
    pub(crate) fn taken(&self, sink: &dyn Sink) -> Tally {
        self.0.without(&sink.lost().total())
    }

    /// Gives it a burst.
    pub(crate) fn transmit(
        &mut self,
        burst: &Burst<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), PortError> {
        self.0.add(&tally(burst, &mut Span::default()));
        sink.transmit(burst).map(drop)
    }
}
