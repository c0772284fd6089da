//! The counters of a conversation, and its TCP state: handshake, sequence numbers, close.
//!
//! Index 0 is the end with the smaller address and port, 1 the other, no matter which end sent the
//! first packet.

use super::sight::{Segment, Sight};
use crate::record::EndReason;

pub(super) const FIN: u8 = 0x01;
pub(super) const SYN: u8 = 0x02;
pub(super) const RST: u8 = 0x04;
pub(super) const ACK: u8 = 0x10;

/// Bits of `Counts::state`. FINs and known sequence numbers have one for each end.
const SAW_FIN: u8 = 0x01;
const SAW_RST: u8 = 0x04;
const SAW_SYN: u8 = 0x08;
const SAW_SYN_ACK: u8 = 0x10;
/// The handshake is complete, or cannot be measured.
pub(super) const SHOOK: u8 = 0x20;
const HAS_SEQUENCE: u8 = 0x40;

/// The counters; the second cache line. Index 0 is the smaller end's packets, 1 the larger's.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
pub(super) struct Counts {
    pub(super) packets: [u64; 2],
    pub(super) bytes: [u64; 2],
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
    /// One past the highest byte sent.
    sequence: [u32; 2],
    pub(super) retransmissions: u32,
    pub(super) flags: [u8; 2],
    pub(super) state: u8,
    /// Which end sent the SYN.
    opener: u8,
}

impl Counts {
    #[inline(always)]
    pub(super) fn packets(&self) -> u64 {
        self.packets[0] + self.packets[1]
    }

    /// Returns the distance in time from the latest packet, in either direction: a clock may be set
    /// back.
    #[inline(always)]
    pub(super) fn gap(&self, time_ns: u64) -> u64 {
        self.last_ns.abs_diff(time_ns)
    }

    /// Returns how the connection was closed, if it was.
    #[inline(always)]
    pub(super) fn closed(&self) -> Option<EndReason> {
        const BOTH: u8 = SAW_FIN | SAW_FIN << 1;
        if self.state & (SAW_RST | BOTH) == 0 {
            None
        } else if self.state & SAW_RST != 0 {
            Some(EndReason::Rst)
        } else {
            (self.state & BOTH == BOTH).then_some(EndReason::Fin)
        }
    }

    /// Returns the counts of the next record in the same slot. The connection only continues after
    /// the active timeout: after any other end the sweep, if it comes first, frees the slot.
    pub(super) fn continued(&self, reason: EndReason) -> Self {
        if reason != EndReason::Active {
            return Self::default();
        }
        // An unfinished handshake spans two records and belongs to neither.
        let state = self.state | SHOOK;
        Self { sequence: self.sequence, state, opener: self.opener, ..Self::default() }
    }

    /// Follows one end's sequence numbers.
    #[inline(always)]
    pub(super) fn follow(&mut self, segment: &Segment, from: usize) {
        let flags = segment.flags;
        if flags & RST != 0 {
            self.state |= SAW_RST;
            return;
        }
        let length = segment.bytes + u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
        if flags & FIN != 0 {
            self.state |= SAW_FIN << from;
        }
        if length == 0 {
            return;
        }
        let end = segment.sequence.wrapping_add(length);
        // One bit for each end: 0x40, 0x80.
        let known = HAS_SEQUENCE << from;
        let next = &mut self.sequence[from];
        let is_ahead = end.wrapping_sub(*next) as i32 > 0;
        if self.state & known == 0 || is_ahead || flags & SYN != 0 && end != *next {
            self.state |= known;
            *next = end;
            return;
        }
        // A keep-alive repeats at most the last byte. Source: RFC 9293, section 3.8.4.
        let is_probe = length == 1 && flags & (SYN | FIN) == 0 && end == *next;
        if !is_probe {
            self.retransmissions += 1;
        }
    }

    /// Follows the handshake.
    #[inline(never)]
    pub(super) fn shake(&mut self, segment: &Segment, sight: &Sight, rtt_ns: &mut u64) {
        let from = sight.from as u8;
        let is_opener = self.opener == from;
        match segment.flags & (SYN | ACK) {
            SYN if self.state & SAW_SYN == 0 && self.packets() == 1 => {
                (self.state, self.opener) = (self.state | SAW_SYN, from);
            }
            kind if kind == SYN | ACK
                && self.state & (SAW_SYN | SAW_SYN_ACK) == SAW_SYN
                && !is_opener =>
            {
                self.state |= SAW_SYN_ACK;
            }
            ACK if self.state & SAW_SYN_ACK != 0 && is_opener => {
                self.state |= SHOOK;
                // The SYN was the first packet of the record.
                *rtt_ns = sight.time_ns.saturating_sub(self.first_ns);
            }
            ACK if self.state & SAW_SYN_ACK != 0 => {}
            // A repeated SYN, or its start was not seen.
            _ => self.state |= SHOOK,
        }
    }
}
