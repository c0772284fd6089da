//! The decoder: two fast paths for ordinary records, and a slow path for everything else.

use super::chains::DeadEnds;
use super::classic::Classic;
use super::record::{Damage, DamageKind, PacketOptions, Record, Step};
use super::segment::Recorded;
use super::slots::Slots;
use super::{
    BYTE_ORDER_MAGIC, FileKind, FormatError, Interface, MAX_CAPTURED, Resolution, Section,
    block_type, word,
};
use crate::headers::LinkType;

/// Finds the packets of a capture file in the chunks that its caller reads; see the module essay.
///
/// ```
/// use burstline_wire::files::{Decoder, PacketToWrite, PcapNsEncoder, Step};
/// use burstline_wire::headers::LinkType;
///
/// let (encoder, mut file) = (PcapNsEncoder::new(LinkType::ETHERNET, 262_144), [0; 128]);
/// let mut end = encoder.header(&mut file);
/// end += encoder.packet(&mut file[end..], &PacketToWrite::new(b"hello", 7)).unwrap();
///
/// let (mut decoder, mut position) = (Decoder::new(), 0);
/// let Step::Packet(record) = decoder.next(&file[..end], &mut position, true) else { panic!() };
/// assert_eq!(&file[record.offset..][..record.captured_length as usize], b"hello");
/// assert_eq!(decoder.next(&file[..end], &mut position, true), Step::End);
/// ```
#[derive(Debug)]
pub struct Decoder {
    pub(super) mode: Mode,
    /// Whether the current file or section was written big-endian.
    pub(super) swapped: bool,
    pub(super) live: bool,
    pub(super) classic: Classic,
    /// The interfaces of the current section, by their number there.
    pub(super) section: Vec<SectionInterface>,
    /// Those of the previous section, if it was plain, for packets whose interface is only
    /// described after them.
    pub(super) before: Vec<SectionInterface>,
    pub(super) section_start: u64,
    /// Absolute file offset of `position`.
    pub(super) offset: u64,
    /// Where and why the current scan began.
    pub(super) lost: Option<(u64, DamageKind)>,
    /// What scans of a plain file have learned of blocks ahead: those behind section headers.
    pub(super) dead_ends: DeadEnds,
    /// Those behind rivals of what a scan has found.
    pub(super) rival_ends: DeadEnds,
    /// Before this file offset of a plain file, no section header is believed: blocks that were
    /// found after damage lead from it to a bad one.
    pub(super) doubtful_to: u64,
    pub(super) interfaces: Vec<Interface>,
    /// What the section headers said, in order of appearance.
    pub(super) sections: Vec<Section>,
    pub(super) options: PacketOptions,
    pub(super) recorded: Recorded,
    /// What is known of the current section, if it is segmented.
    pub(super) slots: Option<Slots>,
    /// File offset of the last section header that was examined.
    pub(super) begun: Option<u64>,
    pub(super) has_plain: bool,
    /// Sections that were searched for segments in full.
    pub(super) probes: u64,
    /// Bytes of the blocks so far that were longer than
    /// [`MAX_CONTIGUOUS`](super::MAX_CONTIGUOUS).
    pub(super) long_bytes: u64,
}

/// What the decoder is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// At the first byte of the file.
    Start,
    /// At a record header of a classic file.
    Classic,
    /// At a block.
    Blocks,
    /// At a block of a slot whose checksum does not hold: no fast path.
    Careful,
    /// At the start of a slot of a segmented section.
    Slot,
    /// Looking for the next record after damage in a classic file.
    ScanClassic,
    /// Looking for the next block after damage.
    ScanBlocks,
    /// Nothing follows.
    Ended,
}

/// What the fast path needs to know about an interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct SectionInterface {
    /// Index into `Decoder::interfaces`.
    pub(super) index: u32,
    pub(super) link: LinkType,
    /// Ticks to ns, or 0 for the slow conversion.
    pub(super) multiplier: u64,
    pub(super) resolution: Resolution,
    pub(super) snapshot_length: u32,
}

impl SectionInterface {
    /// An interface whose description is malformed: its packets have no known interface.
    pub(super) const UNKNOWN: Self = Self {
        index: u32::MAX,
        link: LinkType(0),
        multiplier: 0,
        resolution: Resolution::decimal(6),
        snapshot_length: 0,
    };
}

/// One turn of the slow path: bytes to skip, and a step to report, if any.
pub(super) struct Turn {
    pub(super) pass: usize,
    pub(super) step: Option<Step>,
}

impl Turn {
    pub(super) fn pass(pass: usize) -> Turn {
        Turn { pass, step: None }
    }

    pub(super) fn say(pass: usize, step: Step) -> Turn {
        Turn { pass, step: Some(step) }
    }

    pub(super) fn need(bytes: usize) -> Turn {
        Turn::say(0, Step::NeedMore { bytes })
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// Creates a decoder for a file: a classic record is delivered once its successor has been
    /// seen.
    pub fn new() -> Self {
        Decoder {
            mode: Mode::Start,
            swapped: false,
            live: false,
            classic: Classic::new(false, false, LinkType(0)),
            section: Vec::new(),
            before: Vec::new(),
            section_start: 0,
            offset: 0,
            lost: None,
            dead_ends: DeadEnds::default(),
            rival_ends: DeadEnds::default(),
            doubtful_to: 0,
            interfaces: Vec::new(),
            sections: Vec::new(),
            options: PacketOptions::default(),
            recorded: Recorded::default(),
            slots: None,
            begun: None,
            has_plain: false,
            probes: 0,
            long_bytes: 0,
        }
    }

    /// Creates a decoder for a live pipe: the last record of a chunk does not wait for its
    /// successor.
    pub fn live() -> Self {
        Decoder { live: true, ..Self::new() }
    }

    /// Decodes what is at `chunk[*position..]` and moves `position` past it.
    ///
    /// `chunk` must continue where the previous call left `position`: on [`Step::NeedMore`] the
    /// caller keeps the bytes from `position` on and appends to them. `at_end` says that no byte
    /// follows the chunk; once true, it must stay true.
    ///
    /// Cost: no allocation; some 30 cycles for a pcap record or an Enhanced Packet Block without
    /// options. That holds if it is whole in the chunk and the next header follows.
    ///
    /// # Panics
    /// If `*position > chunk.len()`.
    #[inline]
    pub fn next(&mut self, chunk: &[u8], position: &mut usize, at_end: bool) -> Step {
        match self.next_ordinary(chunk, position) {
            Some(record) => Step::Packet(record),
            None => self.slow(chunk, position, at_end),
        }
    }

    /// Like [`next`](Self::next) for an ordinary packet; otherwise returns `None`, and the caller
    /// must call `next`. For loops: it is inlined and returns only a record, which stays in
    /// registers.
    #[inline(always)]
    pub fn next_ordinary(&mut self, chunk: &[u8], position: &mut usize) -> Option<Record> {
        // The byte order is a constant in each of the four arms, so words need no runtime test.
        let (record, bytes) = match (self.mode, self.swapped) {
            (Mode::Classic, false) => self.short_classic::<false>(chunk, *position)?,
            (Mode::Classic, true) => self.short_classic::<true>(chunk, *position)?,
            (Mode::Blocks, false) => self.short_block::<false>(chunk, *position)?,
            (Mode::Blocks, true) => self.short_block::<true>(chunk, *position)?,
            _ => return None,
        };
        *position += bytes;
        self.offset += bytes as u64;
        Some(record)
    }

    /// Returns the interfaces known so far, over all sections, in order of appearance.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Returns what the section headers so far have said, in order of appearance: each once, and at
    /// most [`MAX_SECTIONS`](super::MAX_SECTIONS).
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// Returns the options of the packet delivered last; valid if its `has_options` is set.
    pub fn options(&self) -> &PacketOptions {
        &self.options
    }

    /// Returns the totals from the trailers of sound segments passed so far.
    pub fn recorded(&self) -> &Recorded {
        &self.recorded
    }

    /// Returns whether the whole file so far is segmented. Then [`recorded`](Self::recorded) counts
    /// all packets that were delivered as [`Trust::Checked`](super::Trust::Checked).
    pub fn is_segmented(&self) -> bool {
        self.recorded.segments > 0 && !self.has_plain
    }

    /// Returns the absolute file offset of the next byte to decode.
    pub fn file_offset(&self) -> u64 {
        self.offset
    }

    /// Returns a record with a plausible successor, or `None` if the slow path has to judge.
    #[inline(always)]
    fn short_classic<const SWAPPED: bool>(
        &mut self,
        chunk: &[u8],
        at: usize,
    ) -> Option<(Record, usize)> {
        let classic = &self.classic;
        let head = classic.header(chunk.get(at..)?, SWAPPED)?;
        if head.captured > MAX_CAPTURED || head.original == 0 {
            return None;
        }
        let bytes = classic.header_bytes + head.captured as usize;
        let next = classic.header(chunk.get(at + bytes..)?, SWAPPED)?;
        if !next.is_plausible(classic.fractions, head.seconds) {
            return None;
        }
        let record = classic.record(head, at);
        self.classic.last_seconds = Some(head.seconds);
        Some((record, bytes))
    }

    /// Returns an Enhanced Packet Block without options, whose lengths agree and which another one
    /// follows, or `None` if the slow path has to judge.
    #[inline(always)]
    fn short_block<const SWAPPED: bool>(&self, chunk: &[u8], at: usize) -> Option<(Record, usize)> {
        let head: &[u8; 28] = chunk.get(at..)?.first_chunk()?;
        let read = |at| word(head, at, SWAPPED);
        let (length, captured) = (read(4), read(20));
        if read(0) != block_type::ENHANCED_PACKET
            || captured > MAX_CAPTURED
            || length != 32 + ((captured + 3) & !3)
        {
            return None;
        }
        let end: &[u8; 8] = chunk.get(at + length as usize - 4..)?.first_chunk()?;
        if word(end, 0, SWAPPED) != length || word(end, 4, SWAPPED) != block_type::ENHANCED_PACKET {
            return None;
        }
        let interface = self.section.get(read(8) as usize)?;
        if interface.multiplier == 0 {
            return None;
        }
        let ticks = u64::from(read(12)) << 32 | u64::from(read(16));
        let record = Record {
            offset: at + 28,
            time_ns: ticks.saturating_mul(interface.multiplier),
            captured_length: captured,
            original_length: read(24),
            interface: interface.index,
            link: interface.link,
            has_options: false,
            timed: true,
        };
        Some((record, length as usize))
    }

    /// Takes turns until one yields a step. Each turn skips bytes, changes the mode, or yields a
    /// step.
    #[cold]
    #[inline(never)]
    fn slow(&mut self, chunk: &[u8], position: &mut usize, at_end: bool) -> Step {
        loop {
            let here = &chunk[*position..];
            let turn = match self.mode {
                Mode::Start => self.start(here, at_end),
                Mode::Classic => self.classic(here, at_end),
                Mode::Blocks | Mode::Careful => self.block(here, at_end),
                Mode::Slot => self.slot(here, at_end),
                Mode::ScanClassic => self.scan_classic(here, at_end),
                Mode::ScanBlocks => self.scan_blocks(here, at_end),
                Mode::Ended => Turn::say(here.len(), Step::End),
            };
            let start = *position;
            *position += turn.pass;
            self.offset += turn.pass as u64;
            match turn.step {
                Some(Step::Packet(record)) => {
                    if let Some(slots) = &mut self.slots {
                        slots.count_packet();
                    }
                    return Step::Packet(Record { offset: record.offset + start, ..record });
                }
                Some(step) => return step,
                None => {}
            }
        }
    }

    fn start(&mut self, here: &[u8], at_end: bool) -> Turn {
        let needed = match FileKind::detect(here) {
            FileKind::Pcap { .. } => 24,
            FileKind::Pcapng => 12,
            _ => 4,
        };
        if here.len() < needed && !at_end {
            return Turn::need(needed);
        }
        let cut = FormatError::HeaderCut { length: here.len(), needed };
        match FileKind::detect(here) {
            FileKind::Empty => self.refuse(FormatError::Empty),
            kind @ (FileKind::Gzip | FileKind::Zstd) => {
                self.refuse(FormatError::Compressed { kind })
            }
            FileKind::Unknown => {
                let headless = self.begin_headless(here, at_end);
                headless.unwrap_or_else(|| self.refuse(FormatError::not_capture(here)))
            }
            FileKind::Pcap { .. } | FileKind::Pcapng if here.len() < needed => self.refuse(cut),
            FileKind::Pcapng => {
                self.swapped = word(here, 8, true) == BYTE_ORDER_MAGIC;
                if word(here, 8, self.swapped) != BYTE_ORDER_MAGIC {
                    let magic = word(here, 8, false);
                    let headless = self.begin_headless(here, at_end);
                    return headless
                        .unwrap_or_else(|| self.refuse(FormatError::ByteOrder { magic }));
                }
                self.mode = Mode::Blocks;
                Turn::pass(0)
            }
            FileKind::Pcap { nanoseconds, swapped, modified } => {
                let resolution = Resolution::decimal(if nanoseconds { 9 } else { 6 });
                let (snaplen, link) = (word(here, 16, swapped), word(here, 20, swapped));
                self.swapped = swapped;
                self.classic = Classic::new(nanoseconds, modified, LinkType(link as u16));
                self.interfaces.push(Interface::classic(link, snaplen, resolution));
                self.mode = Mode::Classic;
                Turn::pass(24)
            }
        }
    }

    fn refuse(&mut self, error: FormatError) -> Turn {
        self.mode = Mode::Ended;
        Turn::say(0, Step::Refused(error))
    }

    /// Ends the current scan: reports what was lost and continues decoding in `mode`.
    pub(super) fn found(&mut self, pass: usize, mode: Mode) -> Turn {
        let here = self.offset + pass as u64;
        self.mode = mode;
        let (offset, kind) = self.lost.take().unwrap_or((here, DamageKind::BrokenChain));
        Turn::say(pass, Step::Damage(Damage { offset, kind, skipped: here - offset }))
    }
}
