//! Adopts packets that a device writes by DMA.
//!
//! ```text
//! base           device ->                     <- writer      top
//! | head | packet | head | packet |   free   | desc 1 | desc 0 |
//!          ^ adopted: a desc, no copy
//! ```
//!
//! The writer hands out segments, one ahead of the open one, and appends nothing itself. It makes
//! descs for the packets that the device reports as written, and publishes them like any others.
//! The bytes between packets do not matter, because a desc may point anywhere in its segment.

use super::{DESC_BYTES, Meta, Writer};
use crate::desc::{Desc, FACTS_BYTES, Flags, align_up};
use crate::head::{HEAD_BYTES, Head, RARE};

/// A segment that was handed out to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandedOut {
    /// Its start, from the start of the log's [packet memory](crate::Log::packet_memory).
    pub at: usize,
    /// Its size for packets and descs together, in bytes.
    pub bytes: usize,
}

/// The result of adopting packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// The number of packets.
    pub packets: u64,
    /// The offset of the next head in the segment.
    pub end: usize,
    /// Whether the device continues in the next segment.
    pub is_over: bool,
}

impl Writer {
    /// Takes the segment that will be opened next, for a device to write packets into. The device
    /// may start immediately, although packets are adopted only once the segment is
    /// [open](Self::turn). `None` if no segment is free or one is already handed out; retry later.
    ///
    /// Cost: that of [`append`](Self::append) once a segment.
    pub fn hand_out(&mut self) -> Option<HandedOut> {
        if self.ahead.is_some() {
            return None;
        }
        self.ahead = self.take_segment();
        let (segment, _) = self.ahead?;
        Some(HandedOut { at: segment as usize * self.segment_bytes, bytes: self.top })
    }

    /// Seals the open segment, if any, and opens the one that was handed out. Returns false, and
    /// does nothing, if none was.
    pub fn turn(&mut self) -> bool {
        self.ahead.is_some() && self.roll()
    }

    /// Makes descs of up to `most` packets in the open segment, which was handed out. Their
    /// [heads](Head) are at `from` and above, before `limit`, or before the head that ends the
    /// segment. All get `port`. Readers see them after [`publish`](Self::publish).
    ///
    /// Cost: some 25 instructions a packet; only the head of a packet is read. Nothing is
    /// prefetched: descs go to lines that this core has just used.
    ///
    /// # Safety
    /// From `from` up to `limit`, or up to a head that ends it, the segment consists of heads, back
    /// to back. Each is followed by its packet and the room that belongs to the packet. All of that
    /// is written, and from now on only this log writes to it. Only this writer uses the end of the
    /// segment, 16 bytes for each packet.
    ///
    /// # Panics
    /// If a packet is not between those adopted before and the descs.
    #[inline]
    pub unsafe fn adopt(&mut self, from: usize, limit: usize, most: u64, port: u8) -> Adopted {
        assert!(self.edge.low() <= from && from.is_multiple_of(HEAD_BYTES), "heads from {from} on");
        let mut adopted = Adopted { packets: 0, end: from, is_over: false };
        loop {
            // SAFETY: guaranteed by the caller, here and below; all before `end` is already
            // adopted.
            unsafe { self.adopt_near(&mut adopted, limit, most, port) };
            let is_done = adopted.end >= limit.min(self.edge.high()) || adopted.packets == most;
            // SAFETY: the caller guarantees that heads and packets up to `limit` are written; `end`
            // is the end of the last adopted packet.
            if is_done || !unsafe { self.adopt_rare(&mut adopted, port) } {
                return adopted;
            }
        }
    }

    /// Like `adopt`, up to the first head that carries more than a time within the segment, length
    /// and hash.
    ///
    /// # Safety
    /// As for [`adopt`](Self::adopt).
    #[inline(always)]
    unsafe fn adopt_near(&mut self, adopted: &mut Adopted, limit: usize, most: u64, port: u8) {
        // The first packet of a segment starts its clock.
        let is_first = self.edge.high() == self.top;
        let limit = if is_first { 0 } else { limit.min(self.edge.high()) };
        let (base, base_time_ns) = (self.edge.base(), self.edge.base_time_ns);
        // In registers, because the pointer that descs are written through might alias this writer.
        let (mut at, mut high, mut bytes) = (adopted.end, self.edge.high(), self.edge.bytes);
        let first = Desc::new(HEAD_BYTES as u32, 0, port, Flags::NONE);
        let floor = high.saturating_sub((most - adopted.packets) as usize * DESC_BYTES);
        while at < limit && high > floor {
            // SAFETY: `at` is a multiple of 16 below `limit`, which is in the segment, and a head
            // is written there.
            let [time_ns, second] = unsafe { base.add(at).cast::<[u64; 2]>().read() };
            if second & RARE != 0 {
                break;
            }
            let length = second & 0xffff;
            let desc = first.moved(at, length);
            at += HEAD_BYTES + align_up(length as usize);
            high -= DESC_BYTES;
            let delta = time_ns.wrapping_sub(base_time_ns) as u32; // the head says it is not far
            // SAFETY: above `floor`, and above all heads that were read, since each packet takes at
            // least 16 bytes below. So these 16 bytes are in the segment, above what was published,
            // and the writer's (W2). `base` is aligned to a segment, and `high` to 16.
            unsafe { base.add(high).cast::<Desc>().write(desc.with((second >> 32) as u32, delta)) };
            bytes += length;
        }
        if at > high {
            misplaced(at, high);
        }
        adopted.packets += ((self.edge.high() - high) / DESC_BYTES) as u64;
        adopted.end = at;
        self.edge.set(at, high);
        self.edge.bytes = bytes;
    }

    /// Like `adopt`, for one head of any kind. Returns false if it ends the segment.
    ///
    /// # Safety
    /// As for [`adopt`](Self::adopt).
    #[cold]
    #[inline(never)]
    unsafe fn adopt_rare(&mut self, adopted: &mut Adopted, port: u8) -> bool {
        let from = adopted.end;
        // SAFETY: `from` is a multiple of 16 in the segment, and the caller guarantees that a head
        // is written there.
        let words = unsafe { self.edge.base().add(from).cast::<[u64; 2]>().read() };
        let Some(head) = Head::read(words) else {
            (adopted.end, adopted.is_over) = (from + HEAD_BYTES, true);
            return false;
        };
        let (offset, length) = (from + HEAD_BYTES, usize::from(head.length));
        let room = offset + align_up(length) + FACTS_BYTES + DESC_BYTES;
        assert!(room <= self.edge.high(), "{length} bytes at {offset} have no room for facts");
        self.edge.set(offset, self.edge.high());
        let meta = Meta { hash: head.hash, ..Meta::new(head.time_ns, head.length.into(), port) };
        self.commit_slowly(length, meta);
        let end = from + head.stride();
        assert!(self.edge.low() <= end, "a packet of {} ns has no room to say so", head.time_ns);
        self.edge.set(end, self.edge.high());
        (adopted.end, adopted.packets) = (end, adopted.packets + 1);
        true
    }
}

/// Out of line, so that both values stay in registers until then.
#[cold]
#[inline(never)]
fn misplaced(at: usize, high: usize) -> ! {
    panic!("packets up to {at} are in the worklist from {high} on");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Log, LogConfig, ReaderConfig};

    fn log() -> (Log, Writer) {
        Log::create(LogConfig::small(5)).unwrap()
    }

    fn device_writes(log: &Log, at: usize, bytes: &[u8]) {
        let (start, extent) = log.packet_memory();
        assert!(at + bytes.len() <= extent);
        // SAFETY: inside the memory, checked above, and handed out; the test adopts it later.
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
            // The third is five seconds late, and is followed by room for facts.
            let (mut at, times) = (0, [7, 8, 5_000_000_008, 9]);
            for (number, time_ns) in times.into_iter().enumerate() {
                let head = Head { time_ns, hash: 77, length: 60, is_far: number == 2 };
                let words = head.words();
                let words = [words[0].to_ne_bytes(), words[1].to_ne_bytes()].concat();
                device_writes(&log, place.at + at, &words);
                device_writes(&log, place.at + at + HEAD_BYTES, &[round + number as u8; 60]);
                at += head.stride();
            }
            let end = [Head::END[0].to_ne_bytes(), Head::END[1].to_ne_bytes()].concat();
            device_writes(&log, place.at + at, &end);
            // SAFETY: they are written, and not touched until the segment is handed out again.
            let adopted =
                unsafe { [writer.adopt(0, at + 16, 1, 3), writer.adopt(80, at + 16, 9, 3)] };
            let first = Adopted { packets: 1, end: 80, is_over: false };
            assert_eq!(adopted, [first, Adopted { packets: 3, end: at + 16, is_over: true }]);
            writer.publish();
            let burst = reader.next_burst().unwrap();
            assert_eq!(burst.first_packet(), u64::from(round) * 4);
            for ((packet, number), time_ns) in burst.packets().zip(round..).zip(times) {
                assert_eq!(packet.bytes(), [number; 60]);
                assert_eq!((packet.time_ns(), packet.desc().hash()), (time_ns, 77));
                assert_eq!(packet.port(), 3);
            }
        }
        assert_eq!(writer.statistics().bytes, 20 * 4 * 60);
    }

    #[test]
    #[should_panic(expected = "are in the worklist")]
    fn a_packet_in_the_worklist_is_refused() {
        let (log, mut writer) = log();
        let place = writer.hand_out().unwrap();
        assert!(writer.turn());
        for (at, length) in [(0, 60), (80, 4090)] {
            let head = Head { time_ns: 1, hash: 0, length, is_far: false };
            let words = head.words();
            let words = [words[0].to_ne_bytes(), words[1].to_ne_bytes()].concat();
            device_writes(&log, place.at + at, &words);
        }
        // SAFETY: `adopt` panics before it uses the packets.
        unsafe { writer.adopt(0, 96, 2, 0) };
    }
}
