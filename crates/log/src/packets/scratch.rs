//! A worklist for packets that are not copied into a log.
//!
//! A port that lends packets does not copy them. The bytes stay in its file buffer, kernel block or
//! frame, and only the descs are built, here. The scratch is reused for every burst, so it stays in
//! the first cache level: 1,024 descs are 16 KiB.

use std::ptr::NonNull;

use crate::burst::{Burst, FactsAt, Packet, Place};
use crate::desc::{Desc, FACTS_BYTES, Facts, Flags, MAX_PACKET_BYTES};
use crate::frames::{FrameSource, Frames, Turn};
use crate::writer::Meta;

/// The most packets of one lent burst.
pub const SCRATCH_PACKETS: usize = 1024;

/// Memory for the worklist of one lent burst.
#[derive(Debug)]
pub struct Scratch {
    /// Filled from the end to the start, as in a segment.
    worklist: Box<[Desc; SCRATCH_PACKETS]>,
    len: usize,
    base_time_ns: u64,
    facts: Vec<(u32, Facts)>,
    /// The burst that [`select`](Self::select) chose from; `None` if it was in frames.
    origin: Option<Origin>,
    /// The number of packets, from the first on, that a source gave and that are held in this turn.
    taken: Option<(Turn, usize)>,
}

/// Identity of a burst: the address of its worklist, and its packets' numbers. A port chooses the
/// numbers, so a match only makes it likely that the packets are the right ones. The memory safety
/// of the descs does not depend on it (see [`Scratch::selected`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Origin {
    worklist: usize,
    len: usize,
    first_packet: u64,
}

impl Origin {
    fn of(burst: &Burst<'_>) -> Self {
        let worklist = burst.worklist();
        let (worklist, len) = (worklist.as_ptr().addr(), worklist.len());
        Self { worklist, len, first_packet: burst.first_packet() }
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Scratch {
    /// Creates an empty scratch of 16 KiB.
    pub fn new() -> Self {
        let worklist = Box::new([Desc::default(); SCRATCH_PACKETS]);
        let facts = Vec::with_capacity(SCRATCH_PACKETS / FACTS_BYTES);
        Self { worklist, len: 0, base_time_ns: 0, facts, origin: None, taken: None }
    }

    /// Forgets the last burst.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
        self.facts.clear();
        (self.origin, self.taken) = (None, None);
    }

    /// Returns the number of packets it describes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether it describes no packet.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether it has no room for another packet.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len == SCRATCH_PACKETS
    }

    /// Describes a packet of `length` bytes at `offset` from the base of the future burst. The
    /// scratch must not be full.
    #[inline]
    pub fn push(&mut self, offset: u32, length: u32, meta: &Meta) {
        if self.len == 0 {
            self.base_time_ns = meta.time_ns;
        }
        let delta = meta.time_ns.wrapping_sub(self.base_time_ns);
        let is_plain = meta.is_plain(length) && delta <= u64::from(u32::MAX);
        let flags = if is_plain { meta.flags.without(Flags::FACTS) } else { self.push_facts(meta) };
        let desc = Desc::new(offset, length, meta.port, flags).with(meta.hash, delta as u32);
        self.len += 1;
        self.worklist[SCRATCH_PACKETS - self.len] = desc;
    }

    /// Takes up to `most` packets of up to `longest` bytes from a source and describes them. The
    /// source handles truncated packets in another way. All get the time, port and flags of `meta`,
    /// and no hash. Returns the number of packets. Cost: some 30 instructions a packet.
    pub fn take_plain(
        &mut self,
        source: &mut impl FrameSource,
        most: usize,
        longest: u32,
        meta: &Meta,
    ) -> usize {
        if self.len == 0 {
            self.base_time_ns = meta.time_ns;
        }
        let delta = meta.time_ns.wrapping_sub(self.base_time_ns);
        let Ok(delta) = u32::try_from(delta) else { return 0 };
        let (longest, flags) =
            (longest.min(MAX_PACKET_BYTES as u32), meta.flags.without(Flags::FACTS));
        let free = &mut self.worklist[..SCRATCH_PACKETS - self.len];
        let mut places = free.iter_mut().rev();
        let taken = source.take_plain(most.min(places.len()), longest, |offset, length| {
            if let Some(place) = places.next() {
                *place = Desc::new(offset, length, meta.port, flags).with(0, delta);
            }
        });
        let turn = source.frames().turn();
        let are_all_taken = match self.taken {
            None => self.len == 0,
            Some(before) => before == (turn, self.len),
        };
        self.len += taken;
        if are_all_taken {
            self.taken = Some((turn, self.len));
        }
        taken
    }

    /// Replaces its contents with `count` packets, at most [`SCRATCH_PACKETS`]. `fill` writes the
    /// descs, the first packet's last, without facts and with times after `base_time_ns`. If it
    /// returns false, no packet is described. Returns the result of `fill`.
    #[inline]
    pub fn describe(
        &mut self,
        count: usize,
        base_time_ns: u64,
        fill: impl FnOnce(&mut [Desc]) -> bool,
    ) -> bool {
        self.clear();
        let is_filled = fill(&mut self.worklist[SCRATCH_PACKETS - count..]);
        if is_filled {
            (self.len, self.base_time_ns) = (count, base_time_ns);
        }
        is_filled
    }

    #[cold]
    fn push_facts(&mut self, meta: &Meta) -> Flags {
        self.facts.push((self.len as u32, meta.facts()));
        meta.flags.union(Flags::FACTS)
    }

    /// Returns the burst of all described packets, in `bytes`.
    pub fn burst<'a>(&'a self, bytes: &'a [u8], first_packet: u64) -> Burst<'a> {
        let worklist = &self.worklist[SCRATCH_PACKETS - self.len..];
        let facts = FactsAt::Aside { list: &self.facts, skipped: 0, is_in_frames: false };
        // SAFETY: nobody writes `bytes` while they are borrowed; `facts` claims no plain packet.
        unsafe { Burst::new(Place::whole(bytes), worklist, self.base_time_ns, first_packet, facts) }
    }

    /// Returns the burst of all described packets, in memory of `extent` bytes from `start` on. A
    /// device keeps writing there, beside these packets.
    ///
    /// # Safety
    /// While `'a` lasts, the memory is mapped, and nobody writes the bytes that a desc points to.
    pub unsafe fn burst_in_memory<'a>(
        &'a self,
        start: NonNull<u8>,
        extent: usize,
        first_packet: u64,
    ) -> Burst<'a> {
        let worklist = &self.worklist[SCRATCH_PACKETS - self.len..];
        let facts = FactsAt::Aside { list: &self.facts, skipped: 0, is_in_frames: true };
        // SAFETY: the caller guarantees L1 for these descs; `facts` claims no plain packet.
        unsafe {
            let place = Place::held(start, extent);
            Burst::new(place, worklist, self.base_time_ns, first_packet, facts)
        }
    }

    /// Describes again those packets of `burst` for which `pick` returns metadata and the number of
    /// bytes to keep. The bytes are not moved. `burst` has up to [`SCRATCH_PACKETS`]. Cost: some ns
    /// a packet.
    pub fn select<'a>(
        &'a mut self,
        burst: &Burst<'a>,
        first_packet: u64,
        mut pick: impl FnMut(&Packet<'a>) -> Option<(u32, Meta)>,
    ) -> Burst<'a> {
        assert!(burst.len() <= SCRATCH_PACKETS, "{} packets", burst.len());
        self.clear();
        for packet in burst.packets() {
            if let Some((kept, meta)) = pick(&packet) {
                let desc = packet.desc();
                self.push(desc.offset(), desc.length().min(kept), &meta);
            }
        }
        self.origin = (!burst.is_in_frames()).then(|| Origin::of(burst));
        // SAFETY: each desc begins where one of the burst's does, and is no longer.
        unsafe { self.described(burst, first_packet) }
    }

    /// Returns again what [`select`](Self::select) chose from `burst`, numbered from 0; empty for
    /// any other burst.
    ///
    /// Also empty for a burst in frames. Frames are given back one by one, no number says which are
    /// held, and the others are being written. The place of any other burst does not change while
    /// it is lent. Descs that point outside of that place have no bytes.
    pub fn selected<'a>(&'a self, burst: &Burst<'a>) -> Burst<'a> {
        match self.origin == Some(Origin::of(burst)) && !burst.is_in_frames() {
            // SAFETY: the burst is not in frames, so nobody writes in its place.
            true => unsafe { self.described(burst, 0) },
            false => burst.split_at(0).0,
        }
    }

    /// # Safety
    /// If `burst` is in frames, everything described here is inside its packets.
    unsafe fn described<'a>(&'a self, burst: &Burst<'a>, first_packet: u64) -> Burst<'a> {
        let worklist = &self.worklist[SCRATCH_PACKETS - self.len..];
        let is_in_frames = burst.is_in_frames();
        let facts = FactsAt::Aside { list: &self.facts, skipped: 0, is_in_frames };
        // SAFETY: guaranteed by the caller; `facts` claims no plain packet.
        unsafe { burst.described_by(worklist, self.base_time_ns, first_packet, facts) }
    }

    /// Returns the burst of all described packets, in frames that are held. Descs of other memory
    /// get no bytes. Cost: a bit a packet, except for packets that [`take_plain`](Self::take_plain)
    /// described and the source has not given back.
    pub fn burst_in_frames<'a>(
        &'a mut self,
        frames: &'a impl Frames,
        first_packet: u64,
    ) -> Burst<'a> {
        let holds = |offset, length| frames.holds(offset, length);
        let known = self.taken.filter(|&(turn, _)| turn == frames.turn());
        let known = known.map_or(0, |(_, packets)| packets);
        // SAFETY: by F1 the memory is mapped, and by F2 nobody writes what `holds` accepts. The
        // burst asks `holds` for each desc, except the `known` ones. Those were accepted, or shown
        // (F4), in this turn (F3).
        let place = unsafe { Place::held(frames.start(), frames.extent()) };
        // SAFETY: F1 and F2 as above cover a packet that `holds` accepts, now or, if it is `known`,
        // earlier in this turn.
        unsafe { self.burst_where(place, first_packet, known, holds) }
    }

    /// Returns the burst of all described packets in `[start, start + bytes)` that `holds` accepts.
    /// `holds` gets a packet's offset and length, the last packet first. Other descs get no bytes.
    ///
    /// # Safety
    /// While the burst lives, the bytes that `holds` accepts are inside that range and readable,
    /// and nobody writes to them.
    pub unsafe fn burst_of_held<'a>(
        &'a mut self,
        start: NonNull<u8>,
        bytes: usize,
        first_packet: u64,
        holds: impl FnMut(u32, u32) -> bool,
    ) -> Burst<'a> {
        // SAFETY: the caller guarantees this for all that `holds` accepts.
        unsafe { self.burst_where(Place::held(start, bytes), first_packet, 0, holds) }
    }

    /// Removes the bytes of every desc that `holds` rejects, except for the first `known` packets.
    ///
    /// # Safety
    /// L1 of `place` holds for what `holds` accepts and for the first `known` packets.
    unsafe fn burst_where<'a>(
        &'a mut self,
        place: Place<'a>,
        first_packet: u64,
        known: usize,
        mut holds: impl FnMut(u32, u32) -> bool,
    ) -> Burst<'a> {
        let worklist = &mut self.worklist[SCRATCH_PACKETS - self.len..];
        for desc in worklist.iter_mut().take(self.len - known) {
            if !holds(desc.offset(), desc.length()) {
                *desc = Desc::new(0, 0, desc.port(), desc.flags());
            }
        }
        let facts = FactsAt::Aside { list: &self.facts, skipped: 0, is_in_frames: true };
        // SAFETY: each desc has no bytes or meets the guarantee; no packet is said to be plain.
        unsafe { Burst::new(place, worklist, self.base_time_ns, first_packet, facts) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::burst::PlainSum;

    /// Makes twenty packets of ten bytes from `start` on, each filled with its number.
    fn packets(start: u8) -> (Vec<u8>, Scratch) {
        let mut scratch = Scratch::new();
        for number in 0..20 {
            scratch.push(number * 10, 10, &Meta::new(number.into(), 10, 0));
        }
        ((0..20).flat_map(|number| [start + number; 10]).collect(), scratch)
    }

    fn firsts(burst: &Burst<'_>) -> Vec<u8> {
        burst.packets().filter_map(|packet| packet.bytes().first().copied()).collect()
    }

    /// Selects the packets with even numbers and gives them another port.
    fn select_even<'a>(choice: &'a mut Scratch, burst: &Burst<'a>) -> usize {
        let chosen = choice.select(burst, 0, |packet| {
            let is_even = packet.time_ns().is_multiple_of(2);
            is_even.then(|| (5, Meta { port: 7, ..packet.meta() }))
        });
        assert!(chosen.packets().all(|packet| packet.port() == 7 && packet.bytes().len() == 5));
        chosen.len()
    }

    #[test]
    fn what_was_selected_is_there_once_more() {
        let (bytes, scratch) = packets(0);
        let (burst, mut choice) = (scratch.burst(&bytes, 40), Scratch::new());
        assert_eq!(select_even(&mut choice, &burst), 10);
        let again = choice.selected(&burst);
        assert_eq!(firsts(&again), [0, 2, 4, 6, 8, 10, 12, 14, 16, 18]);
        for other in [burst.numbered(41), burst.split_at(19).0, burst.split_at(1).1] {
            assert!(choice.selected(&other).is_empty(), "it is another one");
        }
        assert!(Scratch::new().selected(&burst).is_empty());
    }

    #[test]
    fn packets_are_described_at_once_or_not_at_all() {
        let (bytes, mut scratch) = packets(0);
        assert!(!scratch.describe(3, 7, |_| false) && scratch.is_empty());
        let fill = |descs: &mut [Desc]| {
            for (index, desc) in descs.iter_mut().rev().enumerate() {
                *desc = Desc::new(index as u32 * 10, 10, 1, Flags::default());
            }
            true
        };
        assert!(scratch.describe(3, 7, fill));
        let burst = scratch.burst(&bytes, 0);
        assert_eq!((firsts(&burst), burst.packet(2).time_ns()), (vec![0, 1, 2], 7));
        assert_eq!(
            burst.plain_sum(),
            Some(PlainSum { bytes: 30, port: Some(1), first_ns: 7, last_ns: 7 })
        );
    }

    #[test]
    fn a_sum_of_several_ports_has_none() {
        let mut scratch = Scratch::new();
        for (number, port) in (0..).zip([6, 7, 6]) {
            scratch.push(0, 10, &Meta::new(5 - number, 10, port));
        }
        let expected = PlainSum { bytes: 30, port: None, first_ns: 5, last_ns: 5 };
        // A time before the first packet's is stored as facts.
        assert_eq!(scratch.burst(&[0; 10], 0).plain_sum(), None);
        let (first, _) = scratch.burst(&[0; 10], 0).split_at(1);
        assert_eq!(first.plain_sum().map(|sum| (sum.port, sum.bytes)), Some((Some(6), 10)));
        scratch.clear();
        for port in [6, 7, 6] {
            scratch.push(0, 10, &Meta::new(5, 10, port));
        }
        assert_eq!(scratch.burst(&[0; 10], 0).plain_sum(), Some(expected));
    }

    /// Frames of which the first half is held.
    struct Half<'a>(&'a [u8], crate::Turns);

    // SAFETY: F1 to F3: the bytes are borrowed for as long as this lives, and nobody writes to
    // them; `holds` accepts only what is inside, and always the same.
    unsafe impl Frames for Half<'_> {
        fn start(&self) -> NonNull<u8> {
            NonNull::from(self.0).cast()
        }

        fn extent(&self) -> usize {
            self.0.len()
        }

        fn holds(&self, offset: u32, length: u32) -> bool {
            (offset + length) as usize <= self.0.len() / 2
        }

        fn turn(&self) -> crate::Turn {
            self.1.now()
        }
    }

    #[test]
    fn of_frames_only_those_held_are_lent() {
        let (bytes, mut scratch) = packets(0);
        let frames = Half(&bytes, crate::Turns::new());
        let burst = scratch.burst_in_frames(&frames, 40);
        assert_eq!((burst.len(), firsts(&burst)), (20, (0..10).collect()));
        let (_, mut scratch) = packets(0);
        let start = NonNull::from(&bytes[..]).cast();
        let is_late = |offset: u32, _: u32| offset >= 150;
        // SAFETY: all 20 packets are in `bytes`, which nobody writes to.
        let burst = unsafe { scratch.burst_of_held(start, bytes.len(), 0, is_late) };
        assert_eq!((burst.len(), firsts(&burst)), (20, (15..20).collect()));
    }

    #[test]
    fn numbers_that_lie_cannot_lend_what_is_not_there() {
        let (bytes, mut scratch) = packets(0);
        let mut choice = Scratch::new();
        select_even(&mut choice, &scratch.burst(&bytes, 40));
        // Another burst with the same worklist address, length and number, over fewer bytes.
        scratch.clear();
        (0..20).for_each(|number| scratch.push(0, 1, &Meta::new(number, 1, 0)));
        let fewer = vec![99; 45];
        let burst = scratch.burst(&fewer, 40);
        let again = choice.selected(&burst);
        assert_eq!(again.len(), 10);
        assert_eq!(firsts(&again), [99, 99, 99], "those within, and nothing beyond");
    }
}
