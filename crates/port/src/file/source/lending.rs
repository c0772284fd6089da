//! Lending packets of a file where they lie in the window, and saying where they lie in the file.
//!
//! ```text
//!  window   | segment 6: packets 900 to 1199 | segment 7: packets 1200 to ...
//!  lends    |--------- one burst ------------|---- the next
//! ```
//!
//! A burst has packets of one segment, so its [`Places`] are those of one. Packets are numbered as
//! the file had them when it was written: what damage has taken keeps its numbers.

use burstline_log::{SCRATCH_PACKETS, Scratch};

use super::FileSource;
use crate::{Lent, Places, PortError, PortState};

/// What is known of the next packet of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// Its time, in ns since 1970.
    At(u64),
    /// Nothing yet: ask again.
    Unknown,
    /// There is none.
    Over,
}

impl FileSource {
    /// Looks at the next packet, which stays the next; what was lent before is done with.
    pub(super) fn head(&mut self) -> Result<Head, PortError> {
        self.unwanted_before = self.unwanted();
        match self.take(true) {
            Ok(located) => {
                self.pending = Some(located);
                Ok(Head::At(located.meta.time_ns))
            }
            Err(outcome) => Ok(match outcome? {
                PortState::Ended => Head::Over,
                _ => Head::Unknown,
            }),
        }
    }

    /// As [`lend`](Source::lend), up to the first packet but one that is later than `until_ns`.
    pub(super) fn lend_until<'a>(
        &'a mut self,
        scratch: &'a mut Scratch,
        budget: u64,
        until_ns: u64,
    ) -> Result<Lent<'a>, PortError> {
        scratch.clear();
        let first_packet = self.decoded - self.unwanted() - u64::from(self.pending.is_some());
        self.unwanted_before = self.unwanted();
        let budget = budget.min(SCRATCH_PACKETS as u64) as usize;
        let mut state = if budget == 0 { PortState::Blocked } else { PortState::Busy };
        self.numbers.clear();
        let (mut first, mut segment) = (0, None);
        while scratch.len() < budget {
            let is_first = scratch.is_empty();
            let (taken, is_elsewhere) = match self.take_ordinary() {
                // The decoder's short path does not leave a segment.
                Some(located) => (Ok(located), false),
                None => {
                    let taken = self.take_slowly(is_first);
                    (taken, self.reader.decoder.segment_number() != segment)
                }
            };
            let located = match taken {
                Ok(located) => located,
                Err(outcome) => {
                    state = outcome?;
                    break;
                }
            };
            if is_first {
                (first, segment) = (self.number(), self.reader.decoder.segment_number());
            } else if is_elsewhere || located.meta.time_ns > until_ns {
                self.pending = Some(located);
                break;
            }
            if self.is_choosing {
                self.numbers.push(self.number());
            }
            scratch.push(located.offset as u32, located.length, &located.meta);
        }
        let burst = scratch.burst(self.reader.window.bytes(), first_packet);
        let places = self.reader.has_name().then(|| Places {
            file: Some(0),
            segment,
            first,
            numbers: &self.numbers,
        });
        Ok(Lent { burst, state, places })
    }

    /// The number of the packet that was decoded last, from 1.
    fn number(&self) -> u64 {
        self.decoded + self.selector.packets_passed + self.lost.total()
    }
}
