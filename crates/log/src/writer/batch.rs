//! Appends packets in sequence, filled in place, for loops over many packets.
//!
//! A packet's bytes and its desc are written through pointers. The compiler must assume that those
//! may point to the writer. So it loads and stores a writer's [`Edge`] for each packet. A batch has
//! a copy whose address is never taken, so it stays in registers. The writer gets its edge back
//! when a segment is full, when a desc is not enough, and at the end.

use std::ops::{Deref, DerefMut};

use super::{Appended, Edge, Meta, Room, Writer};
use crate::copy::copy_packet;

/// A [`Writer`] that gets many packets in sequence. If a batch is leaked, its latest packets may be
/// lost: they are in no log, and in no count.
#[derive(Debug)]
pub struct Batch<'w> {
    writer: &'w mut Writer,
    edge: Edge,
}

impl<'w> Batch<'w> {
    #[inline]
    pub(super) fn new(writer: &'w mut Writer) -> Self {
        Self { edge: writer.edge, writer }
    }

    /// Like [`Writer::append`].
    #[inline(always)]
    pub fn append(&mut self, packet: &[u8], meta: &Meta) -> Appended {
        let Some(room) = self.edge.room_after(packet.len()) else {
            let meta = *meta;
            let slowly = move |writer: &mut Writer| writer.append_slowly(packet, &meta);
            let (edge, appended) = apart(self.writer, self.edge, slowly);
            self.edge = edge;
            return appended;
        };
        // SAFETY: W2, and there is room, as in `Writer::append`.
        unsafe { copy_packet(packet, self.edge.at()) };
        self.commit(packet.len(), room, meta);
        Appended::Whole
    }

    /// Like [`Writer::reserve`].
    #[inline(always)]
    pub fn reserve(&mut self, length: usize) -> Option<BatchSlot<'_, 'w>> {
        let left = match self.edge.room_after(length) {
            Some(left) => left,
            None => {
                let make_room = move |writer: &mut Writer| writer.make_room(length);
                let (edge, left) = apart(self.writer, self.edge, make_room);
                self.edge = edge;
                left?
            }
        };
        let room = Room::new(self.edge.at(), length);
        Some(BatchSlot { room, length, left, batch: self })
    }

    /// Fills in `count` packets of `length` bytes each, in place. `fill` gets the number of a
    /// packet, in `[0, count)`, and its room, and returns its metadata. Returns the number of
    /// packets, which is less than `count` only if the log is full.
    ///
    /// Cost: some 15 instructions a packet besides `fill`: the room is checked once for all packets
    /// that fit, and not once per packet.
    ///
    /// # Panics
    /// If `length` is more than [`Writer::max_packet_bytes`].
    #[inline(always)]
    pub fn fill(
        &mut self,
        count: usize,
        length: usize,
        mut fill: impl FnMut(usize, &mut Room<'_>) -> Meta,
    ) -> usize {
        let mut done = 0;
        while done < count {
            let most = self.edge.fits(length, count - done);
            if most == 0 {
                let make_room = move |writer: &mut Writer| writer.make_room(length).is_some();
                let (edge, has_room) = apart(self.writer, self.edge, make_room);
                self.edge = edge;
                if !has_room {
                    break;
                }
                continue;
            }
            let at_once = self.writer.staged_most(length, most);
            let (most, staged) = match at_once {
                0 => (most, None),
                _ => {
                    let (staged, edge) = self.writer.enter_stage(self.edge);
                    self.edge = edge;
                    (at_once, Some(staged))
                }
            };
            let special = self.edge.fill(&mut done, most, length, &mut fill);
            if let Some(staged) = staged {
                let rest = special.map_or(0, |_| length);
                self.edge = self.writer.leave_stage(staged, self.edge, rest);
            }
            if let Some(meta) = special {
                let slowly = move |writer: &mut Writer| writer.commit_slowly(length, meta);
                (self.edge, ()) = apart(self.writer, self.edge, slowly);
                done += 1;
            }
        }
        done
    }

    /// Commits the packet whose `length` bytes are at the edge; `room` is left after it.
    #[inline(always)]
    fn commit(&mut self, length: usize, room: usize, meta: &Meta) {
        if !self.edge.commit(length, room, meta) {
            let meta = *meta;
            let slowly = move |writer: &mut Writer| writer.commit_slowly(length, meta);
            (self.edge, ()) = apart(self.writer, self.edge, slowly);
        }
    }
}

impl Drop for Batch<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.writer.edge = self.edge;
    }
}

/// [Room](Room) for one packet of a batch. Dropping it gives the room back.
#[derive(Debug)]
pub struct BatchSlot<'b, 'w> {
    room: Room<'b>,
    /// See [`Slot`](super::Slot).
    length: usize,
    /// See [`Slot`](super::Slot).
    left: usize,
    batch: &'b mut Batch<'w>,
}

impl BatchSlot<'_, '_> {
    /// Like [`Slot::commit`](super::Slot::commit).
    #[inline(always)]
    pub fn commit(self, meta: &Meta) {
        self.batch.commit(self.length, self.left, meta);
    }
}

impl<'b> Deref for BatchSlot<'b, '_> {
    type Target = Room<'b>;

    #[inline(always)]
    fn deref(&self) -> &Room<'b> {
        &self.room
    }
}

impl DerefMut for BatchSlot<'_, '_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.room
    }
}

/// Calls `act` on the writer and returns the edge afterwards. Both are passed by value, because the
/// batch's own edge has no address.
#[cold]
#[inline(never)]
fn apart<R>(writer: &mut Writer, edge: Edge, act: impl FnOnce(&mut Writer) -> R) -> (Edge, R) {
    writer.edge = edge;
    let result = act(writer);
    (writer.edge, result)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{Handoff, Log, LogConfig, Policy, Reader, ReaderConfig, Start};

    fn log() -> (Writer, Reader) {
        log_by(Handoff::Near)
    }

    pub(crate) fn log_by(handoff: Handoff) -> (Writer, Reader) {
        let config = LogConfig { handoff, ..LogConfig::small(5) };
        let (log, writer) = Log::create(config).unwrap();
        let seat = ReaderConfig { policy: Policy::Lossless, window: 1, start: Start::Now };
        (writer, log.attach(seat).unwrap())
    }

    /// Makes packet `number`, with its own length, time and flags. Every fifth is far in time or
    /// truncated, so its desc is not enough.
    fn packet(number: u64) -> (Vec<u8>, Meta) {
        let length = number as usize * 37 % 300;
        let mut meta = Meta::new(1_000 + number, length as u32, number as u8);
        meta.hash = number as u32 * 77;
        match number % 10 {
            3 => meta.time_ns += 1 << 40,
            8 => meta.original_length += 9,
            _ => {}
        }
        (vec![number as u8; length], meta)
    }

    /// Returns the next burst, if any. A reader of a far stream lets packets gather first.
    fn look(reader: &mut Reader) -> Option<crate::Burst<'_>> {
        while reader.lag() > 0 && reader.is_quiet() {}
        reader.next_burst()
    }

    fn seen(reader: &mut Reader) -> Vec<(Vec<u8>, String)> {
        let mut all = Vec::new();
        while let Some(burst) = look(reader) {
            all.extend(burst.packets().map(|packet| {
                let said = (packet.meta(), packet.original_length());
                (packet.bytes().to_vec(), format!("{said:?}"))
            }));
        }
        all
    }

    #[test]
    fn a_batch_does_what_a_writer_does_packet_by_packet() {
        batch_equals_writer(Handoff::Near);
    }

    #[test]
    fn what_goes_past_the_caches_arrives_as_what_goes_through_them() {
        batch_equals_writer(Handoff::Far);
    }

    /// Compares a batch that takes the way of `handoff` with a writer that goes the near one.
    fn batch_equals_writer(handoff: Handoff) {
        let (mut one_by_one, mut expected) = log();
        let (mut writer, mut reader) = log_by(handoff);
        assert_eq!(writer.way.goes_far(), handoff == Handoff::Far);
        for batch_of in (0..40).step_by(if cfg!(miri) { 13 } else { 1 }) {
            let numbers = batch_of * 31..batch_of * 31 + batch_of;
            let mut batch = writer.batch();
            for number in numbers {
                let (bytes, meta) = packet(number);
                assert_eq!(one_by_one.append(&bytes, &meta), Appended::Whole);
                if number % 2 == 0 {
                    assert_eq!(batch.append(&bytes, &meta), Appended::Whole);
                    continue;
                }
                if number % 3 == 0 {
                    let filled = batch.fill(1, bytes.len(), |_, room| {
                        room.write(0, &bytes);
                        meta
                    });
                    assert_eq!(filled, 1);
                    continue;
                }
                // A slot dropped first leaves nothing.
                batch.reserve(200).unwrap().write(0, &[0xee; 200]);
                let mut slot = batch.reserve(bytes.len()).unwrap();
                assert_eq!(slot.length(), bytes.len());
                slot.write(0, &bytes);
                slot.commit(&meta);
            }
            drop(batch);
            writer.publish();
            one_by_one.publish();
            let packets = seen(&mut reader);
            assert_eq!(packets.len() as u64, batch_of);
            assert_eq!(packets, seen(&mut expected));
        }
        // Not the segments, which may end earlier because of the dropped slots.
        let (one, other) = (one_by_one.statistics(), writer.statistics());
        assert_eq!((one.packets, one.bytes), (other.packets, other.bytes));
    }

    #[test]
    fn many_are_filled_in_over_the_ends_of_segments_and_the_special_among_them() {
        fill_many(Handoff::Near);
        fill_many(Handoff::Far);
    }

    fn fill_many(handoff: Handoff) {
        let (mut writer, mut reader) = log_by(handoff);
        let mut next = 0;
        for count in [0, 1, 40, 3, 57] {
            let mut batch = writer.batch();
            let filled = batch.fill(count, 90, |number, room| {
                let number = next + number as u64;
                room.write(0, &[number as u8; 90]);
                let mut meta = Meta::new(1_000 + number, 90, 3);
                meta.hash = number as u32;
                if number % 7 == 5 {
                    (meta.drops_before, meta.time_ns) = (number, 1 << 50);
                }
                meta
            });
            drop(batch);
            writer.publish();
            assert_eq!(filled, count);
            while let Some(burst) = look(&mut reader) {
                for packet in burst.packets() {
                    assert_eq!(packet.bytes(), [next as u8; 90]);
                    assert_eq!((packet.desc().hash(), packet.port()), (next as u32, 3));
                    let is_special = next % 7 == 5;
                    assert_eq!(packet.drops_before(), if is_special { next } else { 0 });
                    let time_ns = if is_special { 1 << 50 } else { 1_000 + next };
                    assert_eq!(packet.time_ns(), time_ns);
                    next += 1;
                }
            }
        }
        assert_eq!(
            (next, writer.statistics().packets, writer.statistics().bytes),
            (101, 101, 9_090)
        );
    }

    #[test]
    fn a_full_log_takes_what_there_is_room_for() {
        full_log(Handoff::Near);
        full_log(Handoff::Far);
    }

    fn full_log(handoff: Handoff) {
        let (mut writer, mut reader) = log_by(handoff);
        let fill = |writer: &mut Writer, count| {
            let mut asked = 0;
            let filled = writer.batch().fill(count, 100, |number, room| {
                assert_eq!(number, asked, "no packet is made that there is no room for");
                asked += 1;
                room.write(0, &[4; 100]);
                Meta::new(1, 100, 0)
            });
            writer.publish();
            assert_eq!(filled, asked);
            filled
        };
        let filled = fill(&mut writer, 10_000);
        assert!((100..1_000).contains(&filled) && fill(&mut writer, 1) == 0);
        assert_eq!(seen(&mut reader).len(), filled);
        assert_eq!(fill(&mut writer, 1), 1);
    }

    #[test]
    fn a_full_log_refuses_and_goes_on_when_there_is_room() {
        let (mut writer, mut reader) = log();
        let meta = Meta::new(7, 100, 0);
        let mut batch = writer.batch();
        let mut taken = 0;
        while batch.append(&[1; 100], &meta) == Appended::Whole {
            taken += 1;
        }
        assert!(batch.reserve(100).is_none() && batch.append(&[1; 100], &meta) == Appended::Full);
        drop(batch);
        assert!(taken > 100 && writer.statistics().packets == taken);
        assert!(writer.batch().reserve(60).is_none() && writer.reserve(60).is_none());
        assert_eq!(seen(&mut reader).len() as u64, taken);
        let mut batch = writer.batch();
        assert_eq!(batch.append(&[2; 100], &meta), Appended::Whole);
        drop(batch);
        writer.publish();
        assert_eq!(seen(&mut reader).len(), 1);
    }

    #[test]
    fn a_packet_that_no_segment_holds_is_cut() {
        let (mut writer, mut reader) = log();
        let meta = Meta::new(7, 9_000, 0);
        let mut batch = writer.batch();
        assert_eq!(batch.append(&[1; 9_000], &meta), Appended::Truncated);
        drop(batch);
        writer.publish();
        let most = writer.max_packet_bytes();
        let burst = reader.next_burst().unwrap();
        assert_eq!((burst.packet(0).length(), burst.packet(0).original_length()), (most, 9_000));
    }

    #[test]
    fn a_batch_that_is_leaked_takes_its_packets_along() {
        let (mut writer, mut reader) = log();
        let meta = Meta::new(7, 60, 0);
        assert_eq!(writer.append(&[1; 60], &meta), Appended::Whole);
        let mut batch = writer.batch();
        assert_eq!(batch.append(&[2; 60], &meta), Appended::Whole);
        std::mem::forget(batch);
        assert_eq!(writer.append(&[3; 60], &meta), Appended::Whole);
        writer.publish();
        let bytes: Vec<_> = seen(&mut reader).into_iter().map(|(bytes, _)| bytes[0]).collect();
        assert_eq!(bytes, [1, 3]);
        assert_eq!(writer.statistics().packets, 2);
    }
}
