//! Lines: short packets, complete except for a number, a time and a checksum.
//!
//! ```text
//!  0            checksum_at                    number_at        length  64
//!  | headers ... | checksum | ... magic, check, stream | number, time | 0 |
//!   \________________ one copy of 64 bytes: four stores _______________/
//!                  2 bytes                               8 and 2 bytes   over it
//! ```
//!
//! A 64-byte frame has 60 bytes here and 64 in a log, a cache line. Its flow's bytes are copied by
//! four stores of 16, regardless of the length. Only the number and the time are added to its
//! checksum. There is no pass over bytes and no branch except for room.

use burstline_log::{PACKET_ALIGNMENT, Slot};
use burstline_sys::prefetch::LINE_BYTES;
use burstline_wire::checksum::fold;
use burstline_wire::mark;

use super::flow::{Flow, Moment, NUMBER_AT};
use super::headers::transport_checksum;

/// Lengths of packets that fit a line.
const LENGTHS: std::ops::RangeInclusive<u32> =
    (LINE_BYTES - PACKET_ALIGNMENT + 1) as u32..=LINE_BYTES as u32;

/// The constant bytes of a flow's packets. Its size is five pieces of 16 bytes, so that as many as
/// possible fit into the L1 cache.
#[derive(Clone)]
#[repr(C, align(16))]
pub(super) struct Line {
    bytes: [u8; LINE_BYTES],
    pub(super) hash: u32,
    /// The checksum's partial sum, without number and time.
    sum: u32,
    /// Length without FCS.
    length: u8,
    checksum_at: u8,
    number_at: u8,
    is_tcp: bool,
}

impl Line {
    /// Creates the line of a flow with a fixed length and a mark; `None` if its packets do not fit
    /// a line.
    pub(super) fn of(flow: &Flow, arena: &[u8]) -> Option<Self> {
        let length = flow.length().filter(|length| LENGTHS.contains(length))?;
        let image = flow.image(arena);
        let is_whole = image.len() == length as usize && flow.is_marked(length);
        let mark_at = mark::offset(image.len()).filter(|_| is_whole)?;
        let mut bytes = [0; LINE_BYTES];
        bytes[..image.len()].copy_from_slice(image);
        Some(Self {
            bytes,
            hash: flow.hash,
            sum: flow.transport_sum(),
            length: length as u8,
            checksum_at: flow.shape().checksum_at() as u8,
            number_at: (mark_at + NUMBER_AT) as u8,
            is_tcp: flow.shape().is_tcp,
        })
    }

    /// Returns the length of each packet, without FCS.
    #[inline]
    pub(super) fn length(&self) -> u32 {
        self.length.into()
    }

    /// Builds packet number `sequence` in a slot of its length.
    #[inline(always)] // inlined, the writer's words stay in registers
    pub(super) fn put(&self, slot: &mut Slot<'_>, sequence: u32, moment: &Moment) {
        slot.write_array(0, &self.bytes);
        let number_at = usize::from(self.number_at);
        slot.write_array(number_at, &moment.first_bytes(sequence));
        slot.write_array(number_at + 8, &moment.last_bytes());
        let sum = self.sum + moment.sum_with(sequence);
        let checksum = transport_checksum(fold(sum).into(), self.is_tcp);
        slot.write_array(self.checksum_at.into(), &checksum.to_be_bytes());
    }
}

const _: () = assert!(size_of::<Line>() == 5 * 16);

#[cfg(test)]
mod tests {
    use super::super::flow::tests::{fixed, kinds};
    use super::*;
    use burstline_log::{Log, LogConfig, Meta, ReaderConfig};

    #[test]
    fn a_line_makes_what_its_flow_makes_wherever_there_is_one() {
        let (log, mut writer) = Log::create(LogConfig::default()).unwrap();
        let mut reader = log.attach(ReaderConfig::default()).unwrap();
        let (mut lines, sequence) = (0, 0xfedc_ba98);
        for (headers, shape) in kinds() {
            for length in headers.len()..80 {
                let (flow, arena) = fixed(&headers, shape, length);
                let Some(line) = Line::of(&flow, &arena) else { continue };
                lines += 1;
                for time_ns in [0, 0x1234_5678_9abc_def0, u64::MAX] {
                    let moment = Moment::new(time_ns);
                    let mut expected = vec![0; length];
                    flow.build(&arena, &mut &mut expected[..], length, sequence, &moment);
                    let mut slot = writer.reserve(length).unwrap();
                    line.put(&mut slot, sequence, &moment);
                    slot.commit(&Meta::new(7, line.length(), 0));
                    writer.publish();
                    let burst = reader.next_burst().unwrap();
                    assert_eq!(burst.packet(0).bytes(), expected, "{shape:?} {length}");
                }
            }
        }
        // UDP over IPv4 from 60 bytes, and from 64 with a tag.
        assert!(lines >= 6, "{lines}");
    }
}
