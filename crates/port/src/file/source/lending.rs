//! Lends packets of a file in place in the window, and reports where they are in the file.
//!
//! ```text
//!  window   | segment 6: packets 900 to 1199 | segment 7: packets 1200 to ...
//!  lends    |--------- one burst ------------|---- the next
//! ```
//!
//! A burst has packets of one segment, so its [`Places`] are in one segment. Packets have the
//! numbers with which the file was written: packets lost to damage keep theirs.

use burstline_log::{SCRATCH_PACKETS, Scratch};

use super::FileSource;
use crate::{Lent, Places, PortError, PortState};

/// The state of a file's next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// Its time, in ns since 1970.
    At(u64),
    /// Unknown yet: ask again.
    Unknown,
    /// None yet, in a file that grows.
    Silent,
    /// No more packets.
    Over,
}

impl FileSource {
    /// Peeks at the next packet; the packets lent before are released.
    pub(super) fn head(&mut self) -> Result<Head, PortError> {
        self.unwanted_before = self.unwanted();
        match self.take(true) {
            Ok(located) => {
                self.pending = Some(located);
                Ok(Head::At(located.meta.time_ns))
            }
            Err(outcome) => Ok(match outcome? {
                PortState::Ended => Head::Over,
                PortState::Idle => Head::Silent,
                _ => Head::Unknown,
            }),
        }
    }

    /// As [`lend`](Source::lend), up to the first packet later than `until_ns`.
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
                // The decoder's fast path does not leave a segment.
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

    /// Returns the number of the last decoded packet, from 1.
    fn number(&self) -> u64 {
        self.decoded + self.selector.packets_passed + self.lost.total()
    }
}
