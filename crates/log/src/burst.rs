//! A burst: a run of consecutive descs and the bytes they point to, lent for a while.
//!
//! ```text
//! bytes     | packet 0 | packet 1 | packet 2 |           worklist (in memory: newest first)
//!             ^----------.                                | desc 2 | desc 1 | desc 0 |
//!                        '-- offset, length ------------------------------------'
//! ```
//!
//! The same type describes packets of a log and packets in a file's buffer, a kernel block or a
//! frame. A burst is always a worklist over bytes, contiguous or not.

mod plain;

use std::marker::PhantomData;
use std::ptr::NonNull;

use burstline_sys::prefetch;

use crate::desc::{Desc, FACTS_BYTES, Facts, Flags, align_up};
use crate::writer::Meta;

pub use plain::{PlainPacket, PlainPackets};

/// How many packets ahead of the current one the first cache line is prefetched. A log's packets
/// come from another core's cache. Without prefetching, a core has too few of these requests in
/// flight (Decision 0021).
const AHEAD: usize = 24;

/// The memory that descs' offsets count from.
///
/// # Invariants
/// L1. `[start, start + bytes)` is mapped for `'a`, and nobody writes to the bytes or facts that a
/// desc of the burst points to. Other bytes may change, so there is no slice of the whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    start: NonNull<u8>,
    bytes: usize,
    lent: PhantomData<&'a [u8]>,
}

// SAFETY: by L1, sharing a `Place` is as safe as sharing a `&[u8]` of each packet.
unsafe impl Send for Place<'_> {}
// SAFETY: by L1, sharing a `Place` is as safe as sharing a `&[u8]` of each packet.
unsafe impl Sync for Place<'_> {}

impl<'a> Place<'a> {
    /// Returns a place that covers all of `bytes`, which nobody writes.
    pub(crate) fn whole(bytes: &'a [u8]) -> Self {
        Self { start: NonNull::from(bytes).cast(), bytes: bytes.len(), lent: PhantomData }
    }

    /// Returns a place in memory that this crate does not own, such as a driver's.
    ///
    /// # Safety
    /// L1, for as long as `'a` lasts.
    pub(crate) unsafe fn held(start: NonNull<u8>, bytes: usize) -> Self {
        Self { start, bytes, lent: PhantomData }
    }

    /// Returns the bytes that a desc of the burst points to; empty if they are out of bounds.
    #[inline(always)]
    fn bytes_of(&self, desc: Desc) -> &'a [u8] {
        let bytes = self.get(desc.offset() as usize, desc.length() as usize);
        bytes.unwrap_or(&[])
    }

    /// Returns the bytes that a desc of the burst points to, without a bounds check.
    ///
    /// # Safety
    /// The bytes are inside the place.
    #[inline(always)]
    pub(crate) unsafe fn inside(&self, desc: Desc) -> &'a [u8] {
        let (offset, length) = (desc.offset() as usize, desc.length() as usize);
        // SAFETY: inside the mapping, as the caller guarantees; by L1 nobody writes there.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(offset), length) }
    }

    /// Returns the address that offsets count from.
    pub(crate) fn start(&self) -> *const u8 {
        self.start.as_ptr()
    }

    /// Prefetches the first line of a packet.
    #[inline(always)]
    fn ask_for(&self, desc: Desc) {
        prefetch::to_read(self.start.as_ptr().wrapping_add(desc.offset() as usize));
    }

    /// Up to `length` bytes from `offset` on, for a desc of the burst or its facts.
    #[inline]
    fn get(&self, offset: usize, length: usize) -> Option<&'a [u8]> {
        if offset.checked_add(length)? > self.bytes {
            return None;
        }
        // SAFETY: the bytes are inside the mapping, checked above; by L1 nobody writes there.
        Some(unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(offset), length) })
    }
}

/// A run of packets, borrowed from a reader or a port.
#[derive(Clone, Copy, Debug)]
pub struct Burst<'a> {
    place: Place<'a>,
    /// In memory order, which is the reverse of packet order.
    worklist: &'a [Desc],
    base_time_ns: u64,
    first_packet: u64,
    facts: FactsAt<'a>,
}

/// Where the facts of a burst's packets are stored. Few packets have any.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FactsAt<'a> {
    /// After each packet's bytes, aligned. The first `plain` packets are known to be plain and
    /// inside the place; the others must be checked.
    Behind { plain: u32 },
    /// In a list by index from the worklist's end, ascending; the burst starts at `skipped`.
    /// `is_in_frames`: the place is a set of frames, of which some are held. The flag is in this
    /// variant because it takes no room here.
    Aside { list: &'a [(u32, Facts)], skipped: u32, is_in_frames: bool },
    /// Behind each packet's bytes, in a place of several logs. Some of its segments are pinned, and
    /// others are written.
    Woven,
}

impl<'a> Burst<'a> {
    /// `worklist` is in memory order: its last entry is the burst's first packet.
    ///
    /// # Safety
    /// L1 of `place` holds for these descs, except those that point outside. If `facts` says that
    /// the first packets are plain, their descs point into the place and have no facts.
    pub(crate) unsafe fn new(
        place: Place<'a>,
        worklist: &'a [Desc],
        base_time_ns: u64,
        first_packet: u64,
        facts: FactsAt<'a>,
    ) -> Self {
        Self { place, worklist, base_time_ns, first_packet, facts }
    }

    /// Returns how many packets it has.
    #[inline]
    pub fn len(&self) -> usize {
        self.worklist.len()
    }

    /// Returns whether it has none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.worklist.is_empty()
    }

    /// Returns the number of its first packet, counted over the life of the log or port.
    pub fn first_packet(&self) -> u64 {
        self.first_packet
    }

    /// Returns the same packets, renumbered from `first_packet`.
    pub fn numbered(self, first_packet: u64) -> Self {
        Self { first_packet, ..self }
    }

    /// Returns whether its packets are in frames, of which some are held and others written. The
    /// segments of several logs are such frames, too.
    pub(crate) fn is_in_frames(&self) -> bool {
        matches!(self.facts, FactsAt::Aside { is_in_frames: true, .. } | FactsAt::Woven)
    }

    /// Returns whether it was lent by a log, with facts behind the packets, and not woven.
    pub(crate) fn is_of_log(&self) -> bool {
        matches!(self.facts, FactsAt::Behind { .. })
    }

    /// Returns the memory that holds its packets.
    pub(crate) fn place(&self) -> Place<'a> {
        self.place
    }

    /// Returns a burst of the packets of `worklist`, in the same memory.
    ///
    /// # Safety
    /// As for [`new`](Self::new). If this burst is in frames, `worklist` may point only to bytes
    /// that this burst's descs point to. Otherwise L1 holds in all of the place.
    pub(crate) unsafe fn described_by(
        &self,
        worklist: &'a [Desc],
        base_time_ns: u64,
        first_packet: u64,
        facts: FactsAt<'a>,
    ) -> Self {
        Self { place: self.place, worklist, base_time_ns, first_packet, facts }
    }

    /// Returns the descs in memory order: the newest packet's first.
    #[inline]
    pub fn worklist(&self) -> &'a [Desc] {
        self.worklist
    }

    /// Returns the time that the descs' deltas count from, in ns since 1970.
    #[inline]
    pub fn base_time_ns(&self) -> u64 {
        self.base_time_ns
    }

    /// Returns the address that the descs' offsets count from, for code that does its own
    /// arithmetic. In a reader's burst, where facts follow each packet, `[0, extent)` from this
    /// address does not change while the burst is lent. In a [woven](crate::Weave) one, only its
    /// packets do not.
    #[inline]
    pub fn start(&self) -> NonNull<u8> {
        self.place.start
    }

    /// Returns the size of the packets' memory in bytes: offsets are in `[0, extent)`.
    pub fn extent(&self) -> usize {
        self.place.bytes
    }

    /// Returns packet `index`, in `[0, len)`.
    #[inline]
    pub fn packet(&self, index: usize) -> Packet<'a> {
        let desc = self.worklist[self.worklist.len() - 1 - index];
        Packet { desc, index: index as u32, burst: *self }
    }

    /// Iterates over the packets in order of arrival. Cost: a bounds check a packet, no allocation.
    #[inline]
    pub fn packets(&self) -> Packets<'a> {
        Packets { burst: *self, left: self.worklist, index: 0 }
    }

    /// Prefetches the first line of the packet that is [`AHEAD`] behind the one before `left`.
    #[inline(always)]
    fn ask_ahead(&self, left: &[Desc]) {
        if let Some(at) = left.len().checked_sub(AHEAD) {
            self.place.ask_for(left[at]);
        }
    }

    /// Iterates over the packets at its start, up to the first that has [`Facts`] or points
    /// outside. A [`PlainPacket`] carries only the fields that ordinary packets need.
    ///
    /// Cost: no checks in a log of this process. Otherwise some four instructions a desc, done some
    /// dozens of descs ahead of the packet.
    #[inline]
    pub fn plain_packets(&self) -> PlainPackets<'a> {
        PlainPackets::new(self)
    }

    /// Returns packet `index`, in `[0, len)`, if it is plain: see
    /// [`plain_packets`](Self::plain_packets).
    #[inline(always)]
    pub fn plain_packet(&self, index: usize) -> Option<PlainPacket<'a>> {
        let desc = self.worklist[self.worklist.len() - 1 - index];
        if desc.flags().contains(Flags::FACTS) {
            return None;
        }
        let bytes = self.place.get(desc.offset() as usize, desc.length() as usize)?;
        let time_ns = self.base_time_ns.wrapping_add(desc.time_delta_ns().into());
        Some(PlainPacket { desc, bytes, time_ns })
    }

    /// Returns the totals of its packets; `None` if it is empty or any packet has [`Facts`]. Cost:
    /// some six instructions a packet if all have the same time, else eleven.
    pub fn plain_sum(&self) -> Option<PlainSum> {
        let &first = self.worklist.first()?;
        let (mut any, mut differ, mut bytes, mut late) = (0, 0, 0, 0);
        for desc in self.worklist {
            let [place, flow] = desc.words();
            any |= place;
            differ |= place ^ first.words()[0];
            late |= flow;
            bytes += u64::from(desc.length());
        }
        let has_facts = Desc::from_words([any, 0]).flags().contains(Flags::FACTS);
        if has_facts {
            return None;
        }
        let is_one = Desc::from_words([differ, 0]).port() == 0;
        let port = is_one.then(|| first.port());
        let (mut first, mut last) = (0, 0);
        if Desc::from_words([0, late]).time_delta_ns() != 0 {
            let deltas = self.worklist.iter().map(Desc::time_delta_ns);
            (first, last) = deltas
                .fold((u32::MAX, 0), |(first, last), delta| (first.min(delta), last.max(delta)));
        }
        let at = |delta: u32| self.base_time_ns.wrapping_add(delta.into());
        Some(PlainSum { bytes, port, first_ns: at(first), last_ns: at(last) })
    }

    /// Splits into the first `count` packets, in `[0, len]`, and the rest.
    pub fn split_at(&self, count: usize) -> (Self, Self) {
        let (rest, first) = self.worklist.split_at(self.worklist.len() - count);
        let facts = match self.facts {
            FactsAt::Behind { plain } => {
                FactsAt::Behind { plain: plain.saturating_sub(count as u32) }
            }
            FactsAt::Aside { list, skipped, is_in_frames } => {
                FactsAt::Aside { list, skipped: skipped + count as u32, is_in_frames }
            }
            FactsAt::Woven => FactsAt::Woven,
        };
        let first_packet = self.first_packet + count as u64;
        (Self { worklist: first, ..*self }, Self { worklist: rest, facts, first_packet, ..*self })
    }
}

impl FactsAt<'_> {
    /// Returns the facts of packet `index` of the burst, whose `desc` says that it has some.
    ///
    /// The functions called here take a few words each, not a burst. A burst, passed by value or by
    /// reference, would be stored in memory for each packet of a loop, although few packets have
    /// facts. Those stores, and loads waiting for them, were once three of four instructions of a
    /// hand-off.
    #[inline(always)]
    fn find(&self, place: Place<'_>, desc: Desc, index: u32) -> Option<Facts> {
        match *self {
            FactsAt::Behind { .. } | FactsAt::Woven => {
                facts_behind(place, desc.offset(), desc.length())
            }
            FactsAt::Aside { list, skipped, .. } => facts_aside(list, index + skipped),
        }
    }
}

#[cold]
#[inline(never)]
fn facts_behind(place: Place<'_>, offset: u32, length: u32) -> Option<Facts> {
    let at = align_up(offset as usize + length as usize);
    Facts::read(place.get(at, FACTS_BYTES)?)
}

#[cold]
#[inline(never)]
fn facts_aside(list: &[(u32, Facts)], wanted: u32) -> Option<Facts> {
    let at = list.binary_search_by_key(&wanted, |&(index, _)| index).ok()?;
    Some(list[at].1)
}

/// Totals of a run of plain packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainSum {
    /// Bytes of all packets, which equal the bytes on the wire, without FCS.
    pub bytes: u64,
    /// The port of all packets; `None` if they differ.
    pub port: Option<u8>,
    /// The earliest time, in ns since 1970.
    pub first_ns: u64,
    /// The latest time.
    pub last_ns: u64,
}

/// One packet of a burst.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    desc: Desc,
    index: u32,
    burst: Burst<'a>,
}

impl<'a> Packet<'a> {
    /// Its bytes, as on the wire, without FCS. Empty if the desc points outside the burst, which
    /// only a broken writer in another process can cause.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.burst.place.bytes_of(self.desc)
    }

    /// Returns the number of its bytes stored here.
    #[inline]
    pub fn length(&self) -> usize {
        self.desc.length() as usize
    }

    /// Its worklist entry.
    #[inline]
    pub fn desc(&self) -> Desc {
        self.desc
    }

    /// Returns the port it came from.
    #[inline]
    pub fn port(&self) -> u8 {
        self.desc.port()
    }

    /// When it arrived, in ns since 1970.
    #[inline]
    pub fn time_ns(&self) -> u64 {
        if self.has_facts()
            && let Some(facts) = self.find_facts()
        {
            return facts.time_ns;
        }
        self.burst.base_time_ns.wrapping_add(self.desc.time_delta_ns().into())
    }

    /// Its length on the wire, in bytes without FCS; more than [`length`](Self::length) if it was
    /// truncated.
    #[inline]
    pub fn original_length(&self) -> usize {
        if self.has_facts()
            && let Some(facts) = self.find_facts()
        {
            return facts.original_length as usize;
        }
        self.length()
    }

    /// Returns the number of packets that its port lost just before it.
    #[inline]
    pub fn drops_before(&self) -> u64 {
        if self.has_facts()
            && let Some(facts) = self.find_facts()
        {
            return facts.drops_before;
        }
        0
    }

    /// Returns its metadata, for appending it to another log or scratch.
    #[inline]
    pub fn meta(&self) -> Meta {
        Meta {
            time_ns: self.time_ns(),
            drops_before: self.drops_before(),
            original_length: self.original_length() as u32,
            hash: self.desc.hash(),
            port: self.desc.port(),
            flags: self.desc.flags().without(Flags::FACTS),
        }
    }

    /// Returns its facts, if it has any. Cost for the others: one test of a flag.
    #[inline]
    pub fn facts(&self) -> Option<Facts> {
        if self.has_facts() { self.find_facts() } else { None }
    }

    #[inline(always)]
    fn has_facts(&self) -> bool {
        self.desc.flags().contains(Flags::FACTS)
    }

    #[inline(always)]
    fn find_facts(&self) -> Option<Facts> {
        self.burst.facts.find(self.burst.place, self.desc, self.index)
    }
}

/// Iterator over the packets of a burst.
#[derive(Clone, Debug)]
pub struct Packets<'a> {
    burst: Burst<'a>,
    /// Descs of the packets not yet returned; the next one is last.
    left: &'a [Desc],
    index: u32,
}

impl<'a> Iterator for Packets<'a> {
    type Item = Packet<'a>;

    #[inline]
    fn next(&mut self) -> Option<Packet<'a>> {
        let (&desc, left) = self.left.split_last()?;
        self.left = left;
        self.burst.ask_ahead(left);
        let index = self.index;
        self.index += 1;
        Some(Packet { desc, index, burst: self.burst })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left.len(), Some(self.left.len()))
    }
}

impl ExactSizeIterator for Packets<'_> {}
