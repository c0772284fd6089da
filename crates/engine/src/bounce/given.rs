//! The packets given to a sink, less those it has lost.

use burstline_log::Burst;
use burstline_port::{PortError, Sink};

use crate::runtime::{Span, Tally, tally};

/// Tally of the packets given to a sink.
#[derive(Default)]
pub(crate) struct Given(Tally);

impl Given {
    /// Returns the packets given to the sink that it has not lost.
    pub(crate) fn taken(&self, sink: &dyn Sink) -> Tally {
        self.0.without(&sink.lost().total())
    }

    /// Gives a burst to the sink.
    pub(crate) fn transmit(
        &mut self,
        burst: &Burst<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), PortError> {
        self.0.add(&tally(burst, &mut Span::default()));
        sink.transmit(burst).map(drop)
    }
}
