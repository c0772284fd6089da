//! The writer: appends packets to the open segment, publishes them, takes the next segment.
//!
//! ```text
//! base           low ->              <- high            top        base + S
//! | packet | packet |      free      | desc 2 | desc 1 | desc 0 | column |
//! ```
//! Most logs have no [column](crate::bucket_of), and their `top` is `S`.
//!
//! Invariants:
//! - W1: while `open` is some, the segment is in no reader's pins (it came from `Reuse::take`). Or
//!   it is only in later pins, whose readers stay below the published count.
//! - W2: bytes of the open segment at and above `low`, and below `high`, belong to the writer
//!   alone; `low <= high <= top`, all within `[0, S]`, all multiples of 16. So do the bytes of the
//!   column for unpublished packets. In a segment that was [handed out](Writer::hand_out), those
//!   below the descs belong to a device until they are adopted.
//! - W3: published bytes are never written again until the segment is taken anew.
//!
//! The writer never makes a reference to packet memory. It copies through raw pointers, because
//! readers hold shared slices of the same segment below the published count.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use burstline_sys::clock;

use crate::control::Ending;
use crate::copy::{copy_packet, stream_packet};
use crate::desc::{Desc, FACTS_BYTES, Facts, Flags, align_up};
use crate::handoff::Way;
use crate::log::Shared;
use crate::protocol;
use crate::reuse::{Reuse, Seat};
use crate::seat::SeatEntry;
use crate::wake::Waker;
use crate::watermark::Watermark;

mod adopt;
mod batch;
mod edge;
mod gather;
mod patience;
mod slot;
mod stage;

pub use adopt::{Adopted, HandedOut};
pub use batch::{Batch, BatchSlot};
use edge::{Edge, LONGEST};
pub use gather::Strand;
use patience::Patience;
pub use slot::{Room, Slot};
use stage::Stage;

const DESC_BYTES: usize = size_of::<Desc>();

/// Metadata of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Meta {
    /// When it arrived, in ns since 1970.
    pub time_ns: u64,
    /// Packets that its port lost just before it.
    pub drops_before: u64,
    /// Its length on the wire, without FCS, in bytes.
    pub original_length: u32,
    /// Its flow hash, of the log's kind.
    pub hash: u32,
    /// The port it came from.
    pub port: u8,
    /// Its flags; [`Flags::FACTS`] is set by the log and ignored here.
    pub flags: Flags,
}

impl Meta {
    /// Metadata of a packet of `length` bytes, not truncated, that arrived at `time_ns`.
    #[inline]
    pub fn new(time_ns: u64, length: u32, port: u8) -> Self {
        let (flags, hash) = (Flags::NONE, 0);
        Self { time_ns, drops_before: 0, original_length: length, hash, port, flags }
    }

    /// Returns whether a desc can hold all of it, except perhaps the time.
    #[inline]
    pub(crate) fn is_plain(&self, length: u32) -> bool {
        self.original_length == length && self.drops_before == 0
    }

    pub(crate) fn facts(&self) -> Facts {
        Facts::new(self.time_ns, self.drops_before, self.original_length)
    }
}

/// The result of appending a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Appended {
    /// The packet is in the log.
    Whole,
    /// It was longer than a segment can hold: its start is in the log, with its original length.
    Truncated,
    /// Lossless readers or pins hold every segment. Nothing was stored; the caller may retry.
    Full,
}

/// A writer's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriterStatistics {
    /// Packets stored.
    pub packets: u64,
    /// Bytes stored of them.
    pub bytes: u64,
    /// Packets stored truncated.
    pub truncated: u64,
    /// Number of times a packet was refused because the log was full.
    pub full: u64,
    /// Segments opened.
    pub segments: u64,
    /// Different segments used: the largest working set.
    pub segments_high_water: u32,
    /// Lossless readers that exceeded the deadline, or their user's budget, and are now lossy.
    pub demoted: u64,
}

#[derive(Clone, Copy)]
struct Open {
    segment: u32,
    mark: Watermark,
}

/// The only writer of a log. Aligned to its own cache lines, even in one struct with a reader.
#[repr(align(128))]
pub struct Writer {
    pub(crate) edge: Edge,
    /// The edge's `high` at the last publish.
    published_high: usize,
    /// The number of the open segment's first packet.
    first_packet: u64,
    pub(crate) segment_bytes: usize,
    pub(crate) top: usize,
    open: Option<Open>,
    /// The segment to open next, if it was already taken, and the time of that.
    ahead: Option<(u32, u64)>,
    reuse: Reuse,
    waker: Waker,
    patience: Patience,
    /// Whether packets were streamed since the last publish.
    has_streamed: bool,
    way: Way,
    /// The memory where packets are filled in before they are streamed.
    stage: Option<Box<Stage>>,
    ending: Ending,
    statistics: WriterStatistics,
    pub(crate) shared: Arc<Shared>,
}

// SAFETY: `base` points into memory that `shared` keeps mapped, and only the owner of the writer
// writes through it.
unsafe impl Send for Writer {}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let geometry = *shared.memory.control.geometry();
        Self {
            edge: Edge::none(geometry.top()),
            published_high: geometry.top(),
            first_packet: 0,
            segment_bytes: geometry.segment_bytes,
            top: geometry.top(),
            open: None,
            ahead: None,
            reuse: Reuse::new(geometry.segment_count)
                .cycling(shared.config.cycle())
                .keeping(shared.config.keep_ns),
            waker: Waker::new(),
            patience: Patience::new(shared.config.lossless_deadline_ns),
            has_streamed: false,
            way: Way::new(shared.config.handoff, geometry.segment_count, geometry.segment_bytes),
            stage: None,
            ending: Ending::Final,
            statistics: WriterStatistics::default(),
            shared,
        }
    }

    /// Returns the longest packet that a segment of this log can hold, in bytes.
    pub fn max_packet_bytes(&self) -> usize {
        (self.top - DESC_BYTES - FACTS_BYTES).min(LONGEST)
    }

    /// Returns its counters.
    pub fn statistics(&self) -> WriterStatistics {
        WriterStatistics {
            packets: self.first_packet + u64::from(self.count()),
            bytes: self.edge.bytes,
            segments_high_water: self.reuse.high_water(),
            ..self.statistics
        }
    }

    /// Copies a packet into the log. Readers see it after [`publish`](Self::publish), or when its
    /// segment is full.
    ///
    /// Cost: one copy of the bytes and one store of 16 bytes; no atomics, no system call. Per
    /// segment: a store, a lock that is only tried, a fence, a load per pin.
    #[inline(always)] // otherwise the compiler calls it, and passes `meta` in memory
    pub fn append(&mut self, packet: &[u8], meta: &Meta) -> Appended {
        let length = packet.len();
        let Some(room) = self.edge.room_after(length) else {
            return self.append_slowly(packet, meta);
        };
        // SAFETY: W2, `length` bytes from `low` are free and belong to the writer. The source is a
        // slice and cannot overlap them, since no slice of unpublished bytes exists.
        unsafe { copy_packet(packet, self.edge.at()) };
        self.commit(length, room, meta);
        Appended::Whole
    }

    /// Reserves room for a packet of `length` bytes, to be filled in place; `None` if the log is
    /// full. `length` must be in `[0, max_packet_bytes]`.
    #[inline]
    pub fn reserve(&mut self, length: usize) -> Option<Slot<'_>> {
        let room = match self.edge.room_after(length) {
            Some(room) => room,
            None => self.make_room(length)?,
        };
        Some(Slot::new(self, length, room))
    }

    /// Begins a batch: appends many packets in sequence at fewer instructions each. Except for full
    /// segments, nothing is [published](Self::publish) before the batch is dropped.
    #[inline]
    pub fn batch(&mut self) -> Batch<'_> {
        Batch::new(self)
    }

    /// Makes all appended packets visible to readers, and wakes up sleeping ones. Call it once
    /// after each receive poll: calling it once per packet costs two thirds of the rate.
    ///
    /// Cost: one store, one load per reader; a system call only if a reader sleeps.
    #[inline]
    pub fn publish(&mut self) {
        if self.edge.high() != self.published_high {
            self.publish_count();
            self.waker.wake(&self.shared);
        }
    }

    /// Says whether the source of the packets can wait, as a file can; at first it cannot. A slow
    /// lossless reader then costs no packet: each time it may hold up the writer until its
    /// deadline. Otherwise these times add up, as [`Log::attach_remote_for`] says.
    ///
    /// [`Log::attach_remote_for`]: crate::Log::attach_remote_for
    pub fn set_source_waits(&mut self, source_waits: bool) {
        self.patience.set_source_waits(source_waits);
    }

    /// Publishes the rest and tells the readers that the log ended, and why. Dropping the writer
    /// instead means [`Ending::Final`].
    pub fn finish(mut self, ending: Ending) {
        self.ending = ending;
    }

    /// Returns the number of packets in the open segment.
    fn count(&self) -> u32 {
        ((self.top - self.edge.high()) / DESC_BYTES) as u32
    }

    fn publish_count(&mut self) {
        let Some(Open { segment, mark }) = self.open else { return };
        self.show(segment, mark.with_count(self.count()));
    }

    /// Publishes the packets of the open segment.
    #[inline]
    fn show(&mut self, segment: u32, mark: Watermark) {
        let has_column = self.top < self.segment_bytes;
        let news = (self.top - self.published_high) / DESC_BYTES..self.count() as usize;
        if has_column {
            self.write_column(news.clone());
        }
        let control = &self.shared.memory.control;
        match mem::take(&mut self.has_streamed) {
            true => protocol::publish_streamed(control, segment, mark),
            false => protocol::publish(control, segment, mark),
        }
        if has_column {
            self.count_buckets(news);
        }
        self.published_high = self.edge.high();
    }

    /// Commits the packet whose `length` bytes are at `low`; `room` is left after it.
    #[inline(always)]
    fn commit(&mut self, length: usize, room: usize, meta: &Meta) {
        if !self.edge.commit(length, room, meta) {
            self.commit_slowly(length, *meta);
        }
    }

    /// Like `commit`, for a streamed packet. It offers no room, so the next packet takes this path,
    /// too.
    fn commit_far(&mut self, length: usize, meta: &Meta) {
        if !self.edge.commit_far(length, meta) {
            self.commit_slowly(length, *meta);
        }
        self.edge.offer_none();
    }

    /// Like `commit`, for a segment's first packet, for packets with facts, and if prefetched lines
    /// would be in the way. Takes `meta` by value and is out of line, so that the fast path never
    /// has to store `meta` in memory.
    #[cold]
    #[inline(never)]
    fn commit_slowly(&mut self, length: usize, meta: Meta) {
        if self.count() == 0 {
            self.start_clock(meta.time_ns);
        }
        let mut end = self.edge.low() + align_up(length);
        let mut flags = meta.flags.without(Flags::FACTS);
        let delta = meta.time_ns.wrapping_sub(self.edge.base_time_ns);
        if delta > u64::from(u32::MAX) || !meta.is_plain(length as u32) {
            // SAFETY: W2, the edge's E1 kept `FACTS_BYTES` behind the packet free, and `end` is
            // aligned to 16.
            unsafe { self.edge.base().add(end).cast::<Facts>().write(meta.facts()) };
            flags = flags.union(Flags::FACTS);
            self.note_special();
            end += FACTS_BYTES;
        }
        self.edge.push(length, &meta, flags, end);
    }

    /// Records that the packet that is about to get its desc has facts.
    fn note_special(&self) {
        let Some(open) = &self.open else { return };
        let line = self.shared.memory.control.line(open.segment);
        if line.first_special.load(Relaxed) > self.count() {
            line.first_special.store(self.count(), Relaxed); // ordered by the publish that follows
        }
    }

    fn start_clock(&mut self, time_ns: u64) {
        self.edge.base_time_ns = time_ns;
        if let Some(open) = &self.open {
            let line = self.shared.memory.control.line(open.segment);
            line.base_time_ns.store(time_ns, Relaxed); // ordered by the publish that follows (E1)
        }
    }

    #[cold]
    fn append_slowly(&mut self, packet: &[u8], meta: &Meta) -> Appended {
        let most = self.max_packet_bytes();
        let kept = &packet[..packet.len().min(most)];
        let Some(room) = self.make_room(kept.len()) else { return Appended::Full };
        if self.way.goes_far() {
            // SAFETY: W2, `make_room` has left this many bytes from `low` on free, up to the next
            // multiple of 16: packets and room are aligned to that. They belong to the writer. No
            // slice of unpublished bytes exists, so the source is elsewhere.
            unsafe { stream_packet(kept, self.edge.at()) };
            self.has_streamed = true;
            self.commit_far(kept.len(), meta);
        } else {
            // SAFETY: W2, `make_room` has left this many bytes from `low` on free, and they belong
            // to the writer; no slice of unpublished bytes exists, so the source is elsewhere.
            unsafe { copy_packet(kept, self.edge.at()) };
            self.commit(kept.len(), room, meta);
        }
        if kept.len() == packet.len() {
            return Appended::Whole;
        }
        self.statistics.truncated += 1;
        Appended::Truncated
    }

    /// Makes room for a packet of `length` bytes, in the open segment or the next. Returns the room
    /// left after it; `None` if no segment is free.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, length: usize) -> Option<usize> {
        let most = self.max_packet_bytes();
        assert!(length <= most, "a packet of {length} bytes is longer than the maximum, {most}");
        self.edge.measure();
        if let Some(room) = self.edge.room_after(length) {
            return Some(room);
        }
        if !self.roll() {
            return None;
        }
        self.edge.room_after(length)
    }

    /// Seals the open segment, if any, and opens the next. Returns false if no segment is free.
    #[cold]
    fn roll(&mut self) -> bool {
        self.seal();
        let taken = self.ahead.take().or_else(|| self.take_segment());
        // The lock is already released, or was not free. That is sound because the newest segment
        // is never retired (`Reuse`, I3): a reader that attaches in between starts at the previous
        // one.
        if let Some((segment, now_ns)) = taken {
            self.start_segment(segment, now_ns);
        }
        taken.is_some()
    }

    /// Takes a segment that no reader needs any more. Returns it and the time it was taken. While
    /// a reader comes or goes, takes one that was retired before, or a spare; waits for that reader
    /// only if there is none.
    fn take_segment(&mut self) -> Option<(u32, u64)> {
        let shared = Arc::clone(&self.shared);
        let control = &shared.memory.control;
        let now_ns = if self.reuse.has_history() { clock::monotonic_ns() } else { 0 };
        let seats = match shared.try_lock() {
            Some(seats) => seats,
            None => match self.reuse.take_retired(control, self.waker.pages(), now_ns) {
                Some(segment) => return Some((segment, now_ns)),
                None => shared.lock(),
            },
        };
        // Before anything is retired: `take_retired` relies on it.
        self.waker.note(&shared, &seats);
        let (patience, demoted) = (&mut self.patience, &mut self.statistics.demoted);
        let is_over = |seat: &Arc<SeatEntry>| {
            let is_over = patience.is_over(seat);
            if is_over {
                seat.demote(control);
                *demoted += 1;
            }
            is_over
        };
        self.way.look(seats.iter().find(|seat| seat.is_lossless()).map(|seat| &seat.page));
        let taken = self.reuse.take(control, &seats, now_ns, is_over);
        control.oldest().store(self.reuse.oldest(), Relaxed); // a hint; exact under the lock
        self.patience.end_look(&seats, taken.is_some());
        drop(seats);
        self.statistics.full += u64::from(taken.is_none());
        taken.map(|segment| (segment, now_ns))
    }

    fn start_segment(&mut self, segment: u32, now_ns: u64) {
        let memory = &self.shared.memory;
        let sequence = self.reuse.newest();
        // A time that no packet has, so that the first packet takes the slow path and sets the
        // clock. (If a packet does have it, its delta is 0, which is right.)
        self.edge.base_time_ns = u64::MAX;
        let line = memory.control.line(segment);
        line.base_time_ns.store(u64::MAX, Relaxed);
        line.first_packet.store(self.first_packet, Relaxed);
        line.first_special.store(u32::MAX, Relaxed);
        line.opened_ns.store(now_ns, Relaxed);
        self.way.open_segment();
        line.is_far.store(self.way.goes_far().into(), Relaxed);
        self.tell_buckets(segment);
        if let Some(shortest_ns) = self.reuse.shortest_ns() {
            self.shared.shortest_ns.store(shortest_ns, Relaxed); // a statistic
        }
        protocol::open(&memory.control, sequence, segment);
        // SAFETY: the segment is in `[0, segment_count)`, so its start is inside the region.
        let base = unsafe { memory.packets.add(segment as usize * self.segment_bytes) };
        self.edge.open(base, self.top);
        self.open = Some(Open { segment, mark: Watermark::open(sequence) });
        self.statistics.segments += 1;
        self.shared.far_segments.fetch_add(self.way.goes_far().into(), Relaxed); // a statistic
    }

    fn seal(&mut self) {
        let Some(open) = self.open.take() else { return };
        let mark = open.mark.with_count(self.count()).sealed();
        self.show(open.segment, mark);
        self.waker.wake(&self.shared);
        self.first_packet += u64::from(self.count());
        self.edge.set(self.top, self.top);
        self.published_high = self.edge.high();
    }
}

impl Drop for Writer {
    /// Publishes the rest and tells the readers that the log ended.
    fn drop(&mut self) {
        self.seal();
        self.shared.memory.control.close(self.ending);
        self.waker.wake(&self.shared);
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("statistics", &self.statistics()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watermark::MAX_SEQUENCE;
    use crate::{Log, LogConfig, ReaderConfig, Start};

    /// While a reader comes or goes, the writer goes on with what it retired before, and spares.
    #[test]
    fn segments_are_taken_while_another_thread_has_the_seats() {
        let rotating = LogConfig { cycle_bytes: Some(8 * 4096), ..LogConfig::small(16) };
        let (log, mut writer) = Log::create(rotating).unwrap();
        let mut reader = log.attach(ReaderConfig { window: 2, ..Default::default() }).unwrap();
        let mut number = 0_u8;
        let mut fill = |writer: &mut Writer| {
            number += 1; // two packets of this size do not fit into a segment
            let bytes = [number; 3000];
            assert_eq!(writer.append(&bytes, &Meta::new(number.into(), 3000, 0)), Appended::Whole);
            writer.publish();
        };
        for _ in 0..20 {
            fill(&mut writer);
            assert_eq!(reader.next_burst().unwrap().len(), 1);
        }
        fill(&mut writer);
        let held = reader.next_burst().unwrap();
        {
            // Waiting for it on this thread would deadlock.
            let _seats = log.shared.lock();
            for _ in 0..10 {
                fill(&mut writer);
            }
        }
        assert!(*held.packet(0).bytes() == [21; 3000]);
        let late = ReaderConfig { start: Start::Oldest, ..Default::default() };
        let mut late = log.attach(late).unwrap();
        assert!(late.next_burst().unwrap().packet(0).time_ns() <= 21, "nothing was retired");
        for number in 22..=31 {
            assert!(*reader.next_burst().unwrap().packet(0).bytes() == [number; 3000]);
        }
    }

    /// All counters are close to their limits: the packed words truncate none of them.
    #[test]
    fn counters_near_their_ends() {
        let (log, mut writer) = Log::create(LogConfig::small(5)).unwrap();
        writer.reuse = Reuse::starting_at(5, MAX_SEQUENCE - 20);
        writer.first_packet = u64::MAX - 2_000;
        let meta = Meta::new(u64::MAX, 100, 255);
        assert_eq!(writer.append(&[1; 100], &meta), Appended::Whole);
        writer.publish();
        let mut reader = log.attach(ReaderConfig::default()).unwrap();
        let mut stopped = log.attach(ReaderConfig::default()).unwrap();
        let mut read = reader.next_burst().unwrap().len();
        assert_eq!(stopped.next_burst().unwrap().len(), 1);
        for _ in 1..600 {
            assert_eq!(writer.append(&[1; 100], &meta), Appended::Whole);
            writer.publish();
            let burst = reader.next_burst().unwrap();
            assert_eq!(burst.packet(0).time_ns(), u64::MAX);
            assert_eq!(burst.first_packet(), u64::MAX - 2_000 + read as u64);
            read += burst.len();
        }
        drop(writer);
        while let Some(burst) = stopped.next_burst() {
            assert!(burst.packets().all(|packet| packet.bytes() == [1; 100]));
        }
        let statistics = stopped.statistics();
        assert_eq!((read, statistics.delivered + statistics.missed), (600, 600));
        assert!(statistics.missed > 0 && stopped.is_finished());
    }
}
