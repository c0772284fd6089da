//! What a sink was given, and what it has not lost of it.

use burstline_log::Burst;
use burstline_port::{PortError, Sink};

use crate::runtime::logs::tail::Tail;
use crate::runtime::{Span, Tally, tally};

/// The packets that a sink was given.
pub(crate) struct Given {
    /// Of it, what it has not lost since.
    taken: Tally,
    lost: u64,
    tail: Tail,
}

impl Default for Given {
    fn default() -> Self {
        Self { taken: Tally::default(), lost: 0, tail: Tail::new() }
    }
}

impl Given {
    /// What the sink was given and has not lost, as of the last call.
    pub(crate) fn taken(&self) -> Tally {
        self.taken
    }

    /// Gives it a burst.
    pub(crate) fn transmit(
        &mut self,
        burst: &Burst<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), PortError> {
        self.taken.add(&tally(burst, &mut Span::default()));
        for packet in burst.packets() {
            self.tail.push(packet.port(), packet.length(), packet.original_length());
        }
        let taken = sink.transmit(burst);
        if taken.as_ref().is_ok_and(|&taken| taken == burst.len() as u64) {
            return Ok(());
        }
        self.settle(sink);
        taken.map(drop)
    }

    /// Takes over what the sink says it has lost since the last time.
    pub(crate) fn settle(&mut self, sink: &dyn Sink) {
        let lost = sink.account().lost.total();
        for _ in self.lost..lost {
            if let Some((_, one)) = self.tail.take_back() {
                self.taken.remove(&one);
            }
        }
        self.lost = lost;
    }
}
