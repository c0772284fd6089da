//! Packets that somebody else writes: a device that masters memory.
//!
//! ```text
//! base           device ->                     <- writer      top
//! | head | packet | head | packet |   free   | desc 1 | desc 0 |
//!          ^ adopted: a desc, no copy
//! ```
//!
//! The writer hands segments out, one ahead of the open one, and appends nothing. Of what the
//! device says is written the writer makes descs, and publishes those as any others. What lies
//! between packets is nobody's business: a desc may point anywhere in its segment.

use burstline_sys::prefetch;

use super::{DESC_BYTES, Meta, PREFETCH_DESC_BYTES, Writer};
use crate::desc::{Desc, FACTS_BYTES, Flags, MAX_PACKET_BYTES, PACKET_ALIGNMENT, align_up};

/// A segment that was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandedOut {
    /// Where it begins, from the start of the log's [packet memory](crate::Log::packet_memory).
    pub at: usize,
    /// Bytes for packets and descs together.
    pub bytes: usize,
}

/// A packet that somebody else has written.
#[derive(Clone, Copy, Debug)]
pub struct Foreign {
    /// Where it begins, from the start of the segment: a multiple of 16.
    pub offset: usize,
    /// Its bytes.
    pub length: usize,
    /// What is known of it.
    pub meta: Meta,
}

impl Writer {
    /// Takes the segment that will be open next, for somebody else to write packets into: at once,
    /// although packets are adopted only when it is [open](Self::turn). `None`: there is none to be
    /// had, or one was taken already; it may be tried again.
    ///
    /// Cost: as what [`append`](Self::append) does once a segment.
    pub fn hand_out(&mut self) -> Option<HandedOut> {
        if self.ahead.is_some() {
            return None;
        }
        self.ahead = self.take_segment();
        let (segment, _) = self.ahead?;
        Some(HandedOut { at: segment as usize * self.segment_bytes, bytes: self.top })
    }

    /// Seals the open segment, if any, and opens the one that was handed out. False, and nothing is
    /// done: none was.
    pub fn turn(&mut self) -> bool {
        self.ahead.is_some() && self.roll()
    }

    /// Makes descs of packets in the open segment, which was handed out, as `next` tells of them, up
    /// to the first `None`. Readers see them after [`publish`](Self::publish). A packet whose time
    /// is not within 2^32 ns after the segment's first, or which is not whole, has
    /// [`FACTS_BYTES`] free behind it, for the writer to fill.
    ///
    /// Cost: a store of 16 bytes a packet, and what `next` does.
    ///
    /// # Safety
    /// The bytes of each packet are written, and, with those behind it that are for facts, nobody
    /// writes or has references to them from now on but by this log. Nobody but this writer has
    /// anything to do with the end of the segment, from 16 bytes for each packet so far on.
    ///
    /// # Panics
    /// If a packet is not behind the one before it and in front of the descs, at a multiple of 16.
    #[inline(always)] // `next` is a handful of instructions
    pub unsafe fn adopt(&mut self, mut next: impl FnMut() -> Option<Foreign>) -> u64 {
        let mut packets = 0;
        // In registers: a desc is written through a pointer that might point to this writer.
        let (mut low, mut high, mut bytes) = (self.low, self.high, self.bytes);
        while let Some(Foreign { offset, length, meta }) = next() {
            let end = offset + align_up(length);
            let is_there = low <= offset && offset < self.top && end + DESC_BYTES <= high;
            let is_right = length <= MAX_PACKET_BYTES && offset.is_multiple_of(PACKET_ALIGNMENT);
            assert!(is_there && is_right, "{length} bytes at {offset}, after {low}, below {high}");
            packets += 1;
            let delta = meta.time_ns.wrapping_sub(self.base_time_ns);
            if delta > u64::from(u32::MAX) || !meta.is_plain(length as u32) {
                assert!(end + FACTS_BYTES + DESC_BYTES <= high, "no room for facts at {end}");
                (self.low, self.high, self.bytes) = (offset, high, bytes);
                self.commit_slowly(length, meta);
                (low, high, bytes) = (self.low, self.high, self.bytes);
                continue;
            }
            let flags = meta.flags.without(Flags::FACTS);
            let desc = Desc::new(offset as u32, length as u32, meta.port, flags);
            high -= DESC_BYTES;
            // SAFETY: as just checked, these 16 bytes are above all packets and below the other
            // descs, where by the caller's word only this writer writes (W2); `base` is aligned to
            // a segment and `high` to 16.
            unsafe {
                let at = self.base.add(high).cast::<Desc>();
                at.write(desc.with(meta.hash, delta as u32));
            }
            let ahead = self.base.as_ptr().wrapping_add(high).wrapping_sub(PREFETCH_DESC_BYTES);
            prefetch::to_write(ahead);
            (low, bytes) = (end, bytes + length as u64);
        }
        (self.low, self.high, self.bytes) = (low, high, bytes);
        packets
    }
}

#[cfg(test)]
mod tests {
    use burstline_sys::memory::PageChoice;

    use super::*;
    use crate::{Log, LogConfig, ReaderConfig};

    fn log() -> (Log, Writer) {
        let (bytes, pages) = (5 * 4096, PageChoice::Size4K);
        Log::create(LogConfig { bytes, segment_bytes: 4096, pages, ..LogConfig::default() })
            .unwrap()
    }

    /// Writes `bytes` where a device would.
    fn device_writes(log: &Log, at: usize, bytes: &[u8]) {
        let (start, extent) = log.packet_memory();
        assert!(at + bytes.len() <= extent);
        // SAFETY: inside, as just checked, and handed out; the test adopts it later.
        unsafe { start.add(at).as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    #[test]
    fn what_a_device_wrote_is_read_where_it_lies() {
        let (log, mut writer) = log();
        let mut reader = log.attach(ReaderConfig::default()).unwrap();
        for round in 0..20_u8 {
            let place = writer.hand_out().unwrap();
            assert!(place.bytes == 4096 && writer.hand_out().is_none(), "one ahead");
            assert!(writer.turn() && !writer.turn());
            // The third is five seconds late, and has facts behind it.
            let times = [7, 8, 5_000_000_008, 9];
            let offsets = [16, 96, 176, 304];
            for offset in offsets {
                device_writes(&log, place.at + offset, &[round + offset as u8; 60]);
            }
            let mut packets = offsets.into_iter().zip(times).map(|(offset, time_ns)| {
                let meta = Meta { hash: 77, ..Meta::new(time_ns, 60, 3) };
                Foreign { offset, length: 60, meta }
            });
            // SAFETY: they are written, and left alone until the segment is handed out again.
            assert_eq!(unsafe { writer.adopt(|| packets.next()) }, 4);
            writer.publish();
            let burst = reader.next_burst().unwrap();
            assert_eq!(burst.first_packet(), u64::from(round) * 4);
            for ((packet, offset), time_ns) in burst.packets().zip(offsets).zip(times) {
                assert_eq!(packet.bytes(), [round + offset as u8; 60]);
                assert_eq!((packet.time_ns(), packet.desc().hash()), (time_ns, 77));
            }
        }
        assert_eq!(writer.statistics().bytes, 20 * 4 * 60);
    }

    #[test]
    #[should_panic(expected = "16 bytes at 4080")]
    fn a_packet_in_the_worklist_is_refused() {
        let (_log, mut writer) = log();
        assert!(writer.hand_out().is_some() && writer.turn());
        let foreign = Foreign { offset: 4080, length: 16, meta: Meta::new(0, 16, 0) };
        // SAFETY: it is refused.
        unsafe { writer.adopt(|| Some(foreign)) };
    }
}
