//! pcapng blocks: each has its total length at both ends, so damage is detected immediately.

use super::block_scan::Candidate;
use super::block_type::{
    CUSTOM, CUSTOM_NO_COPY, DECRYPTION_SECRETS, ENHANCED_PACKET, INTERFACE, NAME_RESOLUTION,
    OBSOLETE_PACKET, SECTION, SIMPLE_PACKET, STATISTICS,
};
use super::decoder::{SectionInterface, Turn};
use super::interface::{Counters, Interface, Section};
use super::options::{Malformed, packet_options};
use super::record::{Damage, DamageKind, PacketOptions, Record, Step};
use super::{
    BYTE_ORDER_MAGIC, CLOSING_BLOCK, Decoder, MAX_BLOCK, MAX_CAPTURED, MAX_CONTIGUOUS,
    MAX_INTERFACES, MAX_SECTIONS, TABLE_BLOCK, half, word,
};

/// Shortest block: type and two lengths.
pub(super) const MIN_BLOCK: u32 = 12;

/// Bytes of long blocks with wrong lengths that a file may have anywhere.
const FREE_LONG_BYTES: u64 = 4 * MAX_BLOCK as u64;

/// Location of a packet in its block's body, and what the block says about it.
struct Found {
    interface: u32,
    ticks: Option<u64>,
    captured: u32,
    original: u32,
    /// Offset of the packet in the body.
    start: usize,
    /// Drop count of the obsolete Packet Block.
    drops: Option<u64>,
}

/// Returns whether this decoder knows blocks of this type.
pub(super) fn is_known(block_type: u32) -> bool {
    is_read_whole(block_type)
        || matches!(
            block_type,
            NAME_RESOLUTION
                | DECRYPTION_SECRETS
                | CUSTOM
                | CUSTOM_NO_COPY
                | CLOSING_BLOCK
                | TABLE_BLOCK
        )
}

/// Returns whether blocks of this type are parsed, so that they must be contiguous in the chunk.
fn is_read_whole(block_type: u32) -> bool {
    matches!(
        block_type,
        SECTION | INTERFACE | OBSOLETE_PACKET | SIMPLE_PACKET | STATISTICS | ENHANCED_PACKET
    )
}

impl Decoder {
    /// Whether a section header here leads to a bad block, in a file without slots.
    fn is_stray(&self) -> bool {
        self.slots.is_none() && self.offset < self.doubtful_to
    }

    /// Decodes the block at the start of `here`.
    pub(super) fn block(&mut self, here: &[u8], at_end: bool) -> Turn {
        let (here, at_end) = match self.within_slot(here, at_end) {
            Ok(within) => within,
            Err(turn) => return turn,
        };
        if here.len() < MIN_BLOCK as usize {
            return match (here.len(), at_end) {
                (0, true) => Turn::say(0, Step::End),
                (_, true) => self.lose_block(here, self.cut_short(here, MIN_BLOCK as usize)),
                (_, false) => Turn::need(MIN_BLOCK as usize),
            };
        }
        let block_type = word(here, 0, self.swapped);
        let mut swapped = self.swapped;
        if block_type == SECTION {
            swapped = word(here, 8, true) == BYTE_ORDER_MAGIC;
            if word(here, 8, swapped) != BYTE_ORDER_MAGIC {
                let kind = DamageKind::ByteOrder { magic: word(here, 8, false) };
                return self.lose_block(here, kind);
            }
            if self.begun != Some(self.offset) && !self.is_stray() {
                if self.slots.is_some() {
                    self.set_aside(self.offset + u64::from(word(here, 4, swapped)));
                    return self.lose_block(here, DamageKind::StraySection);
                }
                if let Some(turn) = self.begin_section(here, at_end) {
                    return turn;
                }
            }
        }
        let length = word(here, 4, swapped);
        if let Err(kind) = self.length_is_possible(block_type, length, self.offset) {
            return self.lose_block(here, kind);
        }
        let bytes = length as usize;
        if self.slots.is_some() {
            if block_type == CLOSING_BLOCK && here.len() == bytes && at_end {
                return self.leave_slot(here, at_end);
            }
        } else if length > MAX_CONTIGUOUS
            && !self.may_ask_for_long(length, at_end || here.len() >= bytes)
        {
            return self.lose_block(here, DamageKind::BlockLength { block_type, length });
        }
        if here.len() < bytes {
            return if at_end { self.cut_block(here, bytes) } else { Turn::need(bytes) };
        }
        let trailing = word(here, bytes - 4, swapped);
        if trailing != length {
            let kind = DamageKind::LengthMismatch { leading: length, trailing };
            return self.lose_block(here, kind);
        }
        if block_type == SECTION && self.begun != Some(self.offset) && self.is_stray() {
            // It is not searched behind it: its lengths were right when its chain was followed.
            let kind = DamageKind::StraySection;
            let damage = Damage { offset: self.offset, kind, skipped: length.into() };
            return Turn::say(bytes, Step::Damage(damage));
        }
        if let Some(turn) = self.pass_torn(here, bytes, at_end) {
            return turn;
        }
        self.swapped = swapped;
        match self.body(block_type, &here[8..bytes - 4]) {
            Ok(None) => Turn::pass(bytes),
            Ok(Some(record)) => Turn::say(bytes, Step::Packet(record)),
            Err(kind) => {
                let (offset, skipped) = (self.offset, u64::from(length));
                Turn::say(bytes, Step::Damage(Damage { offset, kind, skipped }))
            }
        }
    }

    /// Passes a packet block of a plain file whose lengths agree by chance: its start belongs to
    /// one packet, its end to another, and the packets between them are not lost.
    ///
    /// Cost: two words of the next block. A pipe may stay silent there, so it is not checked.
    fn pass_torn(&mut self, here: &[u8], bytes: usize, at_end: bool) -> Option<Turn> {
        let block_type = word(here, 0, self.swapped);
        let is_packet = matches!(block_type, ENHANCED_PACKET | SIMPLE_PACKET | OBSOLETE_PACKET);
        if !is_packet || self.live || self.slots.is_some() {
            return None;
        }
        let behind = &here[bytes..];
        let (next, length) = (word(behind, 0, self.swapped), word(behind, 4, self.swapped));
        if is_known(next) && (MIN_BLOCK..=MAX_BLOCK).contains(&length) {
            return None;
        }
        match self.is_torn(here, bytes, at_end) {
            Candidate::Yes => {
                let kind = DamageKind::BlockLength { block_type, length: bytes as u32 };
                Some(self.lose_block(here, kind))
            }
            Candidate::No => None,
            Candidate::Need(bytes) => Some(Turn::need(bytes)),
        }
    }

    /// Returns whether a block of this type and length is possible at this file offset.
    pub(super) fn length_is_possible(
        &self,
        kind: u32,
        length: u32,
        offset: u64,
    ) -> Result<(), DamageKind> {
        if kind == 0 && length == 0 {
            return Err(DamageKind::Zeroed);
        }
        let limit = if is_read_whole(kind) { MAX_CONTIGUOUS } else { MAX_BLOCK };
        if length < MIN_BLOCK || !length.is_multiple_of(4) || length > limit {
            return Err(DamageKind::BlockLength { block_type: kind, length });
        }
        match &self.slots {
            Some(slots) if offset + u64::from(length) > slots.end => {
                Err(DamageKind::CrossesSegment { length })
            }
            _ => Ok(()),
        }
    }

    /// Returns whether a block of more than [`MAX_CONTIGUOUS`] bytes may be asked for. Each must be
    /// contiguous before its end is checked, and the lengths of a hostile file may all be wrong.
    /// The long blocks of a sound file have no more bytes than the file so far.
    fn may_ask_for_long(&mut self, length: u32, is_here: bool) -> bool {
        let may = self.long_bytes <= FREE_LONG_BYTES + self.offset;
        if may && is_here {
            self.long_bytes += u64::from(length);
        }
        may
    }

    /// Notes a block of `bytes` bytes that the end of the file cuts.
    fn cut_block(&mut self, here: &[u8], bytes: usize) -> Turn {
        let kind = self.cut_short(here, bytes);
        if self.slots.is_none() {
            return self.lose_block(here, kind);
        }
        // The rest is this block's. It may be a packet, and a packet may contain blocks.
        let damage = Damage { offset: self.offset, kind, skipped: here.len() as u64 };
        Turn::say(here.len(), Step::Damage(damage))
    }

    /// Parses the body of a block whose lengths agree.
    fn body(&mut self, block_type: u32, body: &[u8]) -> Result<Option<Record>, DamageKind> {
        let malformed = |_: Malformed| DamageKind::MalformedBlock { block_type };
        match block_type {
            ENHANCED_PACKET => self.enhanced(body).map(Some),
            SIMPLE_PACKET => self.simple(body).map(Some),
            OBSOLETE_PACKET => self.obsolete(body).map(Some),
            SECTION => {
                self.enter_section();
                if self.sections.len() < MAX_SECTIONS {
                    let section = Section::parse(body, self.swapped);
                    if !self.sections.contains(&section) {
                        self.sections.push(section);
                    }
                }
                Ok(None)
            }
            INTERFACE if !self.may_describe() => Ok(None),
            INTERFACE => {
                let interface = Interface::parse(body, self.swapped).map_err(malformed);
                let added = interface.and_then(|mut interface| {
                    self.fix_units(&mut interface);
                    self.add_interface(interface)
                });
                match &added {
                    Ok(()) => self.note_description(body.len() as u64 + u64::from(MIN_BLOCK)),
                    Err(_) => self.pass_interface(),
                }
                added.map(|()| None)
            }
            STATISTICS => {
                let options = body.get(12..).ok_or(Malformed).map_err(malformed)?;
                let counters = Counters::parse(options, self.swapped).map_err(malformed)?;
                let interface = self.interface(word(body, 0, self.swapped))?;
                self.interfaces[interface.index as usize].counters = counters;
                if let Some(slots) = self.slots.as_mut().filter(|slots| slots.aside.is_none()) {
                    slots.is_closed = true;
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    fn enhanced(&mut self, body: &[u8]) -> Result<Record, DamageKind> {
        let read = |at| word(body, at, self.swapped);
        let found = Found {
            interface: read(0),
            ticks: Some(u64::from(read(4)) << 32 | u64::from(read(8))),
            captured: read(12),
            original: read(16),
            start: 20,
            drops: None,
        };
        self.packet(ENHANCED_PACKET, body, found)
    }

    fn obsolete(&mut self, body: &[u8]) -> Result<Record, DamageKind> {
        let read = |at| word(body, at, self.swapped);
        let drops = half(body, 2, self.swapped);
        let found = Found {
            interface: half(body, 0, self.swapped).into(),
            ticks: Some(u64::from(read(4)) << 32 | u64::from(read(8))),
            captured: read(12),
            original: read(16),
            start: 20,
            drops: (drops != u16::MAX).then_some(drops.into()),
        };
        self.packet(OBSOLETE_PACKET, body, found)
    }

    fn simple(&mut self, body: &[u8]) -> Result<Record, DamageKind> {
        let original = word(body, 0, self.swapped);
        let snapshot = match self.interface(0)?.snapshot_length {
            0 => u32::MAX,
            length => length,
        };
        // The block has no captured length: take all its bytes that the snapshot length allows.
        let room = body.len().saturating_sub(4) as u32;
        let captured = original.min(snapshot);
        let captured = if captured > room { original.min(room) } else { captured };
        let found = Found { interface: 0, ticks: None, captured, original, start: 4, drops: None };
        self.packet(SIMPLE_PACKET, body, found)
    }

    /// Checks a packet against its block's body and reads its options.
    fn packet(&mut self, kind: u32, body: &[u8], found: Found) -> Result<Record, DamageKind> {
        let Found { captured, start, .. } = found;
        let room = body.len().saturating_sub(start) as u32;
        if captured > room.min(MAX_CAPTURED) {
            let limit = room.min(MAX_CAPTURED);
            return Err(DamageKind::CapturedLength { captured, limit });
        }
        let malformed = DamageKind::MalformedBlock { block_type: kind };
        if body.len() < start {
            return Err(malformed);
        }
        let behind = start + (captured as usize).next_multiple_of(4);
        let options = body.get(behind..).ok_or(malformed)?;
        let interface = self.interface(found.interface)?;
        let has_options = kind != SIMPLE_PACKET && (!options.is_empty() || found.drops.is_some());
        if has_options {
            let mut read = packet_options(options, self.swapped).map_err(|_| malformed)?;
            if kind == OBSOLETE_PACKET {
                // Only flags (2) and hash (3) have the same meaning in its options.
                read = PacketOptions { flags: read.flags, hash: read.hash, ..Default::default() };
                read.drops_before = found.drops;
            }
            self.options = read;
        }
        Ok(Record {
            offset: 8 + start,
            time_ns: found.ticks.map_or(0, |ticks| interface.resolution.to_ns(ticks)),
            captured_length: captured,
            original_length: found.original,
            interface: interface.index,
            link: interface.link,
            has_options,
            timed: found.ticks.is_some(),
        })
    }

    fn interface(&self, number: u32) -> Result<SectionInterface, DamageKind> {
        let unknown = DamageKind::UnknownInterface { interface: number };
        let late = || self.before.get(number as usize).filter(|_| self.slots.is_none());
        let found = self.section.get(number as usize).or_else(late).copied();
        found.filter(|found| found.index != SectionInterface::UNKNOWN.index).ok_or(unknown)
    }

    /// Skips the description of an interface that is not kept, so that later interfaces have the
    /// right numbers. A segmented section takes the numbers from its trailers.
    fn pass_interface(&mut self) {
        if self.slots.is_none() && self.section.len() < MAX_INTERFACES {
            self.section.push(SectionInterface::UNKNOWN);
        }
    }

    /// Keeps an interface. If the previous section had it under the same number, it is the same
    /// interface, so concatenated files do not fill the list.
    pub(super) fn add_interface(&mut self, interface: Interface) -> Result<(), DamageKind> {
        let number = self.section.len();
        let known = (self.interfaces.iter().enumerate().skip(number))
            .find(|(_, known)| known.describes_same(&interface))
            .map(|(index, _)| index)
            .filter(|&index| !self.section.iter().any(|taken| taken.index as usize == index));
        // A number after the last one kept would belong to another interface.
        let index = match known.filter(|_| number < MAX_INTERFACES) {
            Some(index) => index,
            None if number.max(self.interfaces.len()) < MAX_INTERFACES => {
                self.interfaces.push(interface.clone());
                self.interfaces.len() - 1
            }
            None => {
                return Err(DamageKind::TooManyInterfaces { limit: MAX_INTERFACES as u32 });
            }
        };
        self.section.push(SectionInterface {
            index: index as u32,
            link: interface.link,
            multiplier: interface.resolution.multiplier(),
            resolution: interface.resolution,
            snapshot_length: interface.snapshot_length,
        });
        Ok(())
    }
}
