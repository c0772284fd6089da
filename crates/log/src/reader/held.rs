//! Bursts that are kept beyond the next call.

use std::sync::Arc;

use super::{Found, Reader, lend};
use crate::burst::{Burst, FactsAt};
use crate::desc::Desc;
use crate::log::Memory;
use crate::seat::SeatHandle;

impl Reader {
    /// Like [`next_burst`](Self::next_burst), but the burst lives until it is dropped, on any
    /// thread. At most `window` segments can be held at the same time. Additional cost for a part
    /// of a log: an allocation.
    pub fn hold_burst(&mut self) -> Option<HeldBurst> {
        let (found, own) = match self.part.is_some() {
            true => {
                let found = self.find_part(u64::MAX)?;
                (found, self.part.as_ref().map(|part| part.keep(std::mem::take(&mut self.last))))
            }
            false => (self.advance()?, None),
        };
        self.seat.add_hold(found.current.slot.into());
        let (memory, seat) = (Arc::clone(&self.memory), Arc::clone(&self.seat));
        Some(HeldBurst { memory, seat, found, own })
    }
}

/// A burst that is kept beyond the next call. Its segment stays pinned until it is dropped.
pub struct HeldBurst {
    memory: Arc<Memory>,
    seat: Arc<SeatHandle>,
    found: Found,
    /// For a part of a log: the worklist of its packets, and the number of the first.
    own: Option<(Box<[Desc]>, u64)>,
}

impl HeldBurst {
    /// Returns the packets.
    pub fn burst(&self) -> Burst<'_> {
        // SAFETY: `to` came from the watermark, and this value holds the pin (R2).
        let burst = unsafe { lend(&self.memory, &self.found) };
        match &self.own {
            Some((worklist, first_packet)) => {
                let (time_ns, facts) = (burst.base_time_ns(), FactsAt::Behind { plain: 0 });
                // SAFETY: all of the place is published and pinned; `facts` claims no plain packet.
                unsafe { burst.described_by(worklist, time_ns, *first_packet, facts) }
            }
            None => burst,
        }
    }
}

impl Drop for HeldBurst {
    fn drop(&mut self) {
        self.seat.drop_hold(self.found.current.slot.into());
    }
}
