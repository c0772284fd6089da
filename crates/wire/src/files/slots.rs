//! Segmented sections: each slot is checked as a whole before any of its packets is delivered.
//!
//! ```text
//!  section's start + k * S            judge: checksum, sequence, first packet
//!  | slot k                           |
//!    sound     its packets are Checked; a gap in the numbers before it is reported
//!    torn      what an earlier write of the slot left whole is Checked, the rest is passed
//!    broken    packets that its worklist names are Doubtful; how many are missing comes later
//!    cut       the file ends here: packets are Unchecked
//! ```
//!
//! - S1. Only the start of a slot may be a section header; no packet's bytes are there.
//! - S2. Damage in one slot does not affect the next, which is judged at its own offset.
//! - S3. The packet numbers add up. Packets in sound slots, plus those of [`DamageKind::Corrupt`]
//!   and [`DamageKind::MissingSegments`], less [`DamageKind::OutOfOrder`], are the difference of
//!   two numbers in trailers.
//! - S4. Where another recording may have begun inside a slot, no packet gets an interface of this
//!   section until a slot has a trailer again ([`Aside`]).

use super::block_type::{INTERFACE, SECTION};
use super::blocks::MIN_BLOCK;
use super::chains::Chains;
use super::decoder::{Mode, Turn};
use super::gaps::Gaps;
use super::layout::{Aside, Layout, is_first};
use super::record::{Damage, DamageKind, Step, Trust};
use super::segment::{SegmentIndex, TAIL_BYTES, Trailer};
use super::{BYTE_ORDER_MAGIC, Decoder, Interface, MAX_NEED, Resolution, TABLE_BLOCK, word};
use crate::headers::LinkType;

/// Bytes of the block of an empty packet.
const EMPTY_PACKET: usize = 32;

/// State of the current segmented section.
#[derive(Debug)]
pub(super) struct Slots {
    pub(super) segment_bytes: usize,
    /// Absolute file offset of the end of the current slot.
    pub(super) end: u64,
    pub(super) state: State,
    /// Number that the next packet should have.
    next_packet: Option<u64>,
    /// Number that the next segment should have.
    next_sequence: u64,
    /// Packets missing so far.
    gaps: Gaps,
    broken: Option<Broken>,
    /// Where packets' blocks start according to the worklist of a broken slot, ascending.
    pub(super) listed: Vec<usize>,
    /// Results of following the blocks of a broken slot.
    pub(super) chains: Chains,
    /// Whether blocks since the last sound slot may have described interfaces or hidden some.
    is_unsettled: bool,
    /// Whether closing counts were seen, or their absence was reported.
    pub(super) is_closed: bool,
    /// Packets delivered after the last checksum.
    pub(super) unchecked: u64,
    /// Set where another recording may have begun, up to the next slot with a trailer.
    pub(super) aside: Option<Aside>,
}

/// State of the current slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Sound,
    /// Sound up to this absolute file offset.
    Torn(u64),
    Broken,
    Cut,
}

/// Consecutive broken slots.
#[derive(Clone, Copy, Debug)]
struct Broken {
    from: u64,
    segments: u64,
    /// Packets in them according to their trailers, or found in them.
    packets: u64,
    /// Whether the last of them had a trailer.
    says: bool,
}

impl Slots {
    fn new(segment_bytes: usize) -> Slots {
        Slots {
            segment_bytes,
            end: 0,
            state: State::Cut,
            next_packet: None,
            next_sequence: 0,
            gaps: Gaps::default(),
            broken: None,
            listed: Vec::new(),
            chains: Chains::default(),
            is_unsettled: false,
            is_closed: false,
            unchecked: 0,
            aside: None,
        }
    }

    /// Counts a packet that is delivered without a valid checksum.
    pub(super) fn count_packet(&mut self) {
        match (self.state, &mut self.broken) {
            (State::Broken, Some(broken)) if !broken.says => broken.packets += 1,
            (State::Cut, _) => self.unchecked += 1,
            _ => {}
        }
    }

    /// Returns the next report on the passed slots, if the section ends at `offset`.
    fn conclude(&mut self, offset: u64, is_described: bool) -> Option<Damage> {
        if let Some(broken) = self.broken.take() {
            // They may have held closing counts, but none for later packets.
            self.is_closed |= self.unchecked == 0;
            let kind = broken.told(broken.packets);
            return Some(Damage { offset, kind, skipped: 0 });
        }
        // Closing counts in a truncated slot do not cover its packets.
        if self.is_closed && self.unchecked == 0 || !is_described {
            return None;
        }
        self.is_closed = true;
        let kind = DamageKind::NotClosed { unchecked: std::mem::take(&mut self.unchecked) };
        Some(Damage { offset, kind, skipped: 0 })
    }

    /// Returns whether a trailer belongs to the next slot, with nothing to report before it.
    pub(super) fn is_next(&self, trailer: &Trailer) -> bool {
        let is_quiet = self.broken.is_none() && !self.is_unsettled;
        is_quiet
            && trailer.sequence == self.next_sequence
            && Some(trailer.first_packet) == self.next_packet
    }

    /// Returns whether a trailer may belong to the next slot or to a later one.
    pub(super) fn is_before(&self, trailer: &Trailer) -> bool {
        let is_quiet = self.broken.is_none() && !self.is_unsettled;
        is_quiet
            && trailer.sequence >= self.next_sequence
            && self.next_packet.is_some_and(|next| trailer.first_packet >= next)
    }

    /// Skips everything before a slot for which [`is_before`](Self::is_before) holds. Returns how
    /// many segments and packets that is.
    pub(super) fn pass_to(&mut self, trailer: &Trailer) -> (u64, u64) {
        let segments = trailer.sequence - self.next_sequence;
        let next_packet = self.next_packet.replace(trailer.first_packet);
        self.next_sequence = trailer.sequence;
        (segments, next_packet.map_or(0, |next| trailer.first_packet - next))
    }

    /// Passes a slot for which [`is_next`](Self::is_next) holds.
    pub(super) fn pass(&mut self, trailer: &Trailer) {
        self.next_sequence = trailer.sequence + 1;
        self.next_packet = Some(trailer.first_packet + u64::from(trailer.packets));
    }

    /// Returns what the numbers of a sound slot imply about earlier slots; one finding at most.
    fn discrepancy(&mut self, trailer: &Trailer) -> Option<DamageKind> {
        let first = trailer.first_packet;
        let next = self.next_packet.unwrap_or_else(|| self.start_before(trailer));
        let absent = trailer.sequence.saturating_sub(self.next_sequence);
        if first < next {
            return None;
        }
        let lost = first - next;
        if let Some(broken) = self.broken.take() {
            let packets = if absent == 0 { lost } else { lost.min(broken.packets) };
            self.next_packet = Some(next + packets);
            self.gaps.add(next..next + packets, true);
            return Some(broken.told(packets));
        }
        if lost == 0 && absent == 0 {
            return None;
        }
        self.gaps.add(next..first, false);
        (self.next_packet, self.next_sequence) = (Some(first), trailer.sequence);
        self.is_unsettled = true;
        Some(DamageKind::MissingSegments { segments: absent.max(1), packets: lost })
    }

    /// Returns the number of the file's first packet if nothing before a sound slot has it. It is 0
    /// in the first file of a recording, and anything in later files.
    fn start_before(&self, trailer: &Trailer) -> u64 {
        let first = trailer.first_packet;
        // Segment 0 has no packet.
        let slots = trailer.sequence.saturating_sub(1);
        let most = slots.saturating_mul((self.segment_bytes / EMPTY_PACKET) as u64);
        let found = self.broken.map_or(0, |broken| broken.packets);
        if first <= most { 0 } else { first.saturating_sub(found) }
    }

    /// Marks the slot as broken. `doubtful` is the readable part of it.
    fn break_slot(&mut self, at: u64, doubtful: Option<SegmentIndex<'_>>) {
        let says = doubtful.map(|index| index.packets());
        let broken =
            self.broken.get_or_insert(Broken { from: at, segments: 0, packets: 0, says: false });
        broken.segments += 1;
        broken.packets += u64::from(says.unwrap_or(0));
        broken.says = says.is_some();
        self.listed = doubtful.iter().flat_map(SegmentIndex::starts).collect();
        self.listed.sort_unstable();
        self.set_start(doubtful);
        self.next_sequence += 1;
        (self.state, self.is_unsettled) = (State::Broken, true);
    }

    /// Returns whether another recording may begin inside the current slot: it has no trailer.
    pub(super) fn may_hold_another(&self) -> bool {
        match self.state {
            State::Cut => true,
            State::Broken => self.broken.is_some_and(|broken| !broken.says),
            State::Sound | State::Torn(_) => false,
        }
    }

    /// Returns whether the end of the file cuts the current slot, and its `rest` ends with the
    /// trailer of a recording that begins later. One of this section has its number, even if bytes
    /// are missing. In version 1 a damaged trailer is not told from a sound one.
    pub(super) fn ends_in_another(&self, rest: &[u8]) -> bool {
        let tail = rest.len().checked_sub(TAIL_BYTES).and_then(|at| rest.get(at..));
        let tail = tail.filter(|_| self.state == State::Cut);
        let trailer = tail.and_then(Trailer::parse).filter(|trailer| trailer.version > 1);
        trailer.is_some_and(|trailer| {
            trailer.segment_bytes as usize != self.segment_bytes
                || trailer.sequence < self.next_sequence
        })
    }

    /// Takes the number of the file's first packet from a broken segment 0, or else from segment 1.
    /// A trailer's own checksum may hold even if its segment's does not.
    fn set_start(&mut self, doubtful: Option<SegmentIndex<'_>>) {
        let says = doubtful.map(|index| *index.trailer());
        let is_its = |says: &Trailer| says.version > 1 && says.sequence == self.next_sequence;
        if let Some(says) = says.filter(is_its).filter(|says| says.sequence <= 1) {
            self.next_packet = self.next_packet.or(Some(says.first_packet));
        }
    }

    /// Marks segment 0 as broken, which has no packet. `doubtful` is the readable part of it.
    fn break_header(&mut self, at: u64, doubtful: Option<SegmentIndex<'_>>) {
        self.set_start(doubtful);
        self.break_slot(at, None);
        self.broken.iter_mut().for_each(|broken| broken.says = true);
    }
}

impl Broken {
    fn told(&self, packets: u64) -> DamageKind {
        DamageKind::Corrupt { from: self.from, segments: self.segments, packets }
    }
}

impl Decoder {
    /// Returns how far the packet delivered last is verified.
    pub fn trust(&self) -> Trust {
        match self.slots.as_ref().map(|slots| slots.state) {
            Some(State::Sound | State::Torn(_)) => Trust::Checked,
            Some(State::Broken) => Trust::Doubtful,
            Some(State::Cut) | None => Trust::Unchecked,
        }
    }

    /// Examines a section header before it is parsed: begins a segmented or a plain section.
    pub(super) fn begin_section(&mut self, here: &[u8], at_end: bool) -> Option<Turn> {
        let layout = self.layout(here, at_end);
        let turn = self.begin_as(layout, here, at_end);
        if turn.is_none() {
            (self.slots, self.begun) = (None, Some(self.offset));
            self.has_plain = true;
        }
        turn
    }

    /// Examines the start of a file that is not a capture file: a recording whose first bytes are
    /// damaged still has its segments. `None` if it is not a recording.
    pub(super) fn begin_headless(&mut self, here: &[u8], at_end: bool) -> Option<Turn> {
        let layout = self.probe(here, at_end);
        self.begin_as(layout, here, at_end)
    }

    /// Begins a segmented section, or asks for the bytes that it needs. `None` if it is plain.
    fn begin_as(&mut self, layout: Layout, here: &[u8], at_end: bool) -> Option<Turn> {
        match layout {
            Layout::Plain => None,
            Layout::Need(bytes) => Some(Turn::need(bytes)),
            Layout::Segments(bytes) if here.len() < bytes && !at_end => Some(Turn::need(bytes)),
            Layout::Segments(bytes) => {
                self.begin_slots(bytes, here);
                Some(Turn::pass(0))
            }
        }
    }

    /// Begins a section with segments of `bytes` at a segment whose available bytes are `here`.
    fn begin_slots(&mut self, bytes: usize, here: &[u8]) {
        let mut slots = Slots::new(bytes);
        slots.end = self.offset + bytes as u64;
        self.begun = Some(self.offset);
        // Even if its header is damaged, it has neither the interfaces nor the byte order of the
        // section before.
        self.enter_section();
        self.swapped = false;
        self.mode = Mode::Careful;
        if let Some(slot) = here.get(..bytes) {
            match SegmentIndex::parse(slot) {
                Ok(index) if index.trailer().sequence == 0 => {
                    slots.state = State::Sound;
                    slots.next_packet = Some(index.trailer().first_packet);
                    slots.next_sequence = 1;
                    self.recorded.add(index.trailer());
                    self.mode = Mode::Blocks;
                }
                _ => slots.break_header(self.offset, SegmentIndex::doubtful(slot)),
            }
        }
        self.slots = Some(slots);
    }

    /// Decodes the slot at the start of `here`.
    pub(super) fn slot(&mut self, here: &[u8], at_end: bool) -> Turn {
        let Some(slots) = &mut self.slots else {
            self.mode = Mode::Blocks;
            return Turn::pass(0);
        };
        let own = slots.aside.as_ref().map_or(&self.section, |aside| &aside.own);
        let is_described = !own.is_empty();
        if here.len() < MIN_BLOCK as usize && !at_end {
            return Turn::need(MIN_BLOCK as usize);
        }
        let magic = [word(here, 8, false), word(here, 8, true)];
        let is_section = word(here, 0, false) == SECTION && magic.contains(&BYTE_ORDER_MAGIC);
        if here.is_empty() || is_section {
            if let Some(damage) = slots.conclude(self.offset, is_described) {
                return Turn::say(0, Step::Damage(damage));
            }
            if is_section {
                self.enter_section();
                self.slots = None;
            }
            self.mode = if is_section { Mode::Blocks } else { Mode::Ended };
            return Turn::pass(0);
        }
        let (bytes, table) = (slots.segment_bytes, word(here, 4, false));
        let is_table = word(here, 0, false) == TABLE_BLOCK
            && (MIN_BLOCK..=MAX_NEED as u32).contains(&table)
            && table.is_multiple_of(4);
        if is_table {
            slots.end = self.offset + u64::from(table);
            (slots.state, self.mode) = (State::Cut, Mode::Careful);
            return Turn::pass(0);
        }
        if here.len() < bytes && !at_end {
            return Turn::need(bytes);
        }
        slots.end = self.offset + bytes as u64;
        let Some(slot) = here.get(..bytes) else {
            // If the slot before has no trailer, another recording may lie across this one's start.
            let is_across = slots.may_hold_another();
            (slots.state, self.mode) = (State::Cut, Mode::Careful);
            if is_across {
                self.heed_end(here);
            }
            return Turn::pass(0);
        };
        if is_first(slot) {
            if let Some(damage) = slots.conclude(self.offset, is_described) {
                return Turn::say(0, Step::Damage(damage));
            }
            self.begin_slots(bytes, here);
            return Turn::pass(0);
        }
        self.judge_slot(slot)
    }

    /// Judges a whole slot.
    fn judge_slot(&mut self, slot: &[u8]) -> Turn {
        let Some(slots) = &mut self.slots else { return Turn::pass(0) };
        let (offset, say) = (self.offset, |kind, skipped: usize| {
            let damage = Damage { offset: self.offset, kind, skipped: skipped as u64 };
            Turn::say(skipped, Step::Damage(damage))
        });
        let doubtful = || SegmentIndex::doubtful(slot);
        // Its trailer says that the slot is one of this section.
        if let Some(aside) = slots.aside.take_if(|_| doubtful().is_some()) {
            self.section = aside.own;
        }
        let (index, is_torn) = match SegmentIndex::parse(slot) {
            Ok(index) => (index, false),
            Err(_) => match doubtful().filter(SegmentIndex::is_torn) {
                Some(index) => (index, true),
                None => {
                    slots.break_slot(offset, doubtful());
                    self.mode = Mode::Careful;
                    return Turn::pass(0);
                }
            },
        };
        let trailer = *index.trailer();
        if let Some(kind) = slots.discrepancy(&trailer) {
            return say(kind, 0);
        }
        let packets = trailer.first_packet..trailer.first_packet + u64::from(trailer.packets);
        let is_late = slots.next_packet.is_some_and(|next| packets.start < next);
        let filled = if is_late { slots.gaps.fill(&packets) } else { None };
        if is_late && filled.is_none() {
            return say(DamageKind::Repeated { sequence: trailer.sequence }, slot.len());
        }
        slots.next_packet = slots.next_packet.max(Some(packets.end));
        slots.next_sequence = slots.next_sequence.max(trailer.sequence + 1);
        slots.state = State::Sound;
        slots.is_unsettled |= is_late | is_torn;
        self.recorded.add(&trailer);
        self.mode = Mode::Blocks;
        if is_torn {
            slots.state = State::Torn(offset + u64::from(trailer.blocks_end));
            self.mode = Mode::Careful;
        }
        if std::mem::take(&mut slots.is_unsettled) {
            self.settle_interfaces(slot, &trailer);
        }
        let (sequence, packets) = (trailer.sequence, trailer.packets.into());
        match (is_late, is_torn) {
            (true, _) => {
                let corrupt = filled.unwrap_or(0);
                let kind = DamageKind::OutOfOrder { sequence, packets, corrupt };
                Turn::say(0, Step::Damage(Damage { offset, kind, skipped: 0 }))
            }
            (false, true) => {
                let kind = DamageKind::Torn { sequence, packets };
                Turn::say(0, Step::Damage(Damage { offset, kind, skipped: 0 }))
            }
            (false, false) => Turn::pass(0),
        }
    }

    /// Restores the interfaces described before a sound slot. Missing or broken slots may have
    /// described some, and what looks like a description may be part of a packet.
    fn settle_interfaces(&mut self, slot: &[u8], trailer: &Trailer) {
        let (mut at, mut own) = (0, 0);
        while at < trailer.blocks_end as usize {
            own += u32::from(word(slot, at, false) == INTERFACE);
            at += (word(slot, at + 4, false) as usize).max(MIN_BLOCK as usize);
        }
        let before = trailer.interfaces.saturating_sub(own) as usize;
        self.section.truncate(before);
        while self.section.len() < before {
            let known = self.section.first().map_or(LinkType::ETHERNET, |first| first.link);
            let mut interface = Interface::classic(known.0.into(), 0, Resolution::decimal(9));
            interface.name = format!("interface {}", self.section.len());
            if self.add_interface(interface).is_err() {
                break;
            }
        }
    }

    /// Returns the part of `here` that belongs to the current slot, and whether the slot ends
    /// there. `Err` is the turn to take if that part is empty.
    pub(super) fn within_slot<'a>(
        &mut self,
        here: &'a [u8],
        at_end: bool,
    ) -> Result<(&'a [u8], bool), Turn> {
        let Some(slots) = &self.slots else { return Ok((here, at_end)) };
        let end = match slots.state {
            State::Torn(blocks_end) => blocks_end,
            _ => slots.end,
        };
        if self.offset >= end || (here.is_empty() && at_end) {
            return Err(self.leave_slot(here, at_end));
        }
        let left = (end - self.offset) as usize;
        let cut = here.len() >= left;
        Ok((&here[..left.min(here.len())], at_end || cut))
    }

    /// Skips the rest of the current slot.
    pub(super) fn leave_slot(&mut self, here: &[u8], at_end: bool) -> Turn {
        let Some(slots) = &mut self.slots else { return Turn::pass(0) };
        // A block of a sound slot may reach past its end if another program wrote it.
        while slots.end < self.offset {
            slots.end += slots.segment_bytes as u64;
        }
        let left = (slots.end - self.offset) as usize;
        if here.len() < left && !at_end {
            return Turn::need(left);
        }
        self.mode = Mode::Slot;
        Turn::pass(left.min(here.len()))
    }

    /// Sets the units of an interface: in a segmented section its blocks do not determine them.
    pub(super) fn fix_units(&self, interface: &mut Interface) {
        if self.slots.as_ref().is_some_and(|slots| slots.aside.is_none()) {
            interface.resolution = Resolution::decimal(9);
        }
    }
}
