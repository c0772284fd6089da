//! The source of a capture file: reads, decodes, lends or appends.

mod accounting;
pub(super) mod catalogue;
pub(super) mod index;
pub(super) mod interfaces;
mod lending;
pub(super) mod reader;
pub(super) mod selection;
pub(super) mod set;

use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use burstline_log::{Burst, Flags, MAX_PACKET_BYTES, Meta, Scratch, Writer};
use burstline_wire::files::{Damage, Direction, LostPackets, MAX_CAPTURED, Record, Step, Trust};

use super::input::Pulled;
use crate::judge::Judge;
use crate::{
    Address, Lent, OpenOptions, Port, PortAccount, PortError, PortInfo, PortState, Received, Source,
};
use index::{Index, Run};
use interfaces::Interfaces;
use reader::CaptureReader;
use selection::Selector;
use set::info_of;

const _: () = assert!(MAX_CAPTURED as usize <= MAX_PACKET_BYTES);

/// `epb_flags`: bits 16 to 31 are errors that the link layer saw.
/// Source: draft-ietf-opsawg-pcapng, section 4.3.1.
const LINK_ERRORS: u32 = 0xffff_0000;

/// A decoded packet in the window.
#[derive(Clone, Copy)]
struct Located {
    offset: usize,
    length: u32,
    meta: Meta,
}

/// The next element of the window.
enum Next {
    Packet(Located),
    /// A packet that the filter rejects.
    Unwanted,
    /// No packet before more is read.
    Empty,
    /// An error or the end.
    Over,
}

/// A capture file, or a pipe with one, as a source.
pub(super) struct FileSource {
    info: PortInfo,
    reader: CaptureReader,
    judge: Judge,
    selector: Selector,
    /// Whether some packets may be unwanted.
    is_choosing: bool,
    index: Option<Index>,
    interfaces: Interfaces,
    /// Whether the recording may still be in progress, so that a missing end is not damage.
    may_be_open: bool,
    /// The table's numbers of the file's interfaces, in the file's order.
    ports: Vec<u8>,
    is_over: bool,
    /// Packets of the recording in broken segments, and in missing segments.
    lost: LostPackets,
    /// The part of them that no packet has reported in its `drops_before`.
    untold: u64,
    /// Delivered packets that no checksum covers yet.
    unchecked: u64,
    /// An error to return from the next call.
    error: Option<PortError>,
    /// A decoded packet that did not fit into the log, or whose turn has not come.
    pending: Option<Located>,
    decoded: u64,
    /// Unwanted packets before the current call.
    unwanted_before: u64,
    /// Numbers of the packets lent last, if some may have been left out.
    numbers: Vec<u64>,
    account: PortAccount,
}

impl FileSource {
    pub(super) fn open(address: &Address, options: &OpenOptions) -> Result<Self, PortError> {
        let window_bytes = super::zstd::window_bytes(address)?;
        let reader = CaptureReader::open_within(address.target(), window_bytes, &options.files)?;
        let interfaces = Interfaces::of_file(&options.table);
        Self::of(reader, address.to_string(), options, interfaces)
    }

    /// Creates the source of an open file, under a name.
    fn of(
        reader: CaptureReader,
        name: String,
        options: &OpenOptions,
        interfaces: Interfaces,
    ) -> Result<Self, PortError> {
        let (judge, selector) =
            (Judge::new(options), Selector::new(&options.selection, options.hash));
        let mut source = Self {
            info: info_of(name),
            is_choosing: judge.is_filtering() || selector.is_choosing,
            index: None,
            reader,
            judge,
            selector,
            interfaces,
            may_be_open: options.selection.may_be_open,
            ports: Vec::new(),
            is_over: false,
            lost: LostPackets::default(),
            untold: 0,
            unchecked: 0,
            error: None,
            pending: None,
            decoded: 0,
            unwanted_before: 0,
            numbers: Vec::new(),
            account: PortAccount::default(),
        };
        source.hear_broken();
        source.reader.want_times(options.selection.from_ns, options.selection.to_ns);
        if source.selector.is_choosing {
            let stamp = source.reader.stamp();
            source.index = stamp.and_then(|stamp| Index::load(source.reader.path(), stamp));
        }
        // Compile the filter now, so that an unsuitable one fails before anything is written.
        let links = source.reader.first_links();
        links.into_iter().try_for_each(|link| source.judge.add_link(&source.info.name, link))?;
        Ok(source)
    }

    /// Notes that a compressed stream ended early.
    fn hear_broken(&mut self) {
        if let Some(text) = self.reader.hear_broken() {
            // While it is being written, that is only the end that it does not have yet.
            self.account.is_damaged |= !self.reader.is_stream_end_to_come();
            let path = self.reader.path().display();
            self.account.note(|| format!("{path}: {text}"));
        }
    }

    /// Reads once.
    fn refill(&mut self) -> Result<Pulled, PortError> {
        if self.selector.is_choosing && !self.reader.is_growing() {
            self.pass_ahead()?;
        }
        let pulled = self.reader.refill();
        self.hear_broken();
        pulled
    }

    /// Returns the packets that were read but are unwanted.
    fn unwanted(&self) -> u64 {
        self.judge.filtered() + self.selector.unwanted
    }

    /// Skips what cannot contain a wanted packet: segments by their trailers and worklists, runs of
    /// a plain file by its index.
    #[cold]
    fn pass_ahead(&mut self) -> Result<(), PortError> {
        let Self { reader, selector, .. } = self;
        let choose = &*selector;
        let (segments, packets) =
            reader.pass_segments(|trailer, summary| choose.wants_segment(trailer, summary))?;
        selector.passed += segments;
        selector.packets_passed += packets;
        let Some(index) = &self.index else { return Ok(()) };
        let at = self.reader.decoder.file_offset();
        let first = index.runs.partition_point(|run| run.bytes[1] <= at);
        let is_passed =
            |run: &&Run| run.is_steady && !self.selector.wants_block(run.times_ns, &run.hashes);
        let passed = index.runs[first..].iter().take_while(is_passed).count();
        let Some(last) = index.runs[first..first + passed].last() else { return Ok(()) };
        let behind = last.first_packet + u64::from(last.packets);
        let here = self.decoded + self.selector.packets_passed;
        // An index with other counts belongs to another file.
        let is_in_step = (index.runs[first].first_packet..=behind).contains(&here);
        if is_in_step && self.reader.jump(last.bytes[1])? {
            self.selector.passed += passed as u64;
            self.selector.packets_passed += behind - here;
        } else {
            self.index = None;
        }
        Ok(())
    }

    /// Returns the next packet of the window, unless it needs special handling: then call `take`.
    /// Cost: that of the decoder; no system call.
    #[inline(always)]
    fn take_ordinary(&mut self) -> Option<Located> {
        if self.is_over || self.pending.is_some() {
            return None;
        }
        loop {
            let record = self.reader.next_ordinary()?;
            if !self.is_choosing || self.wants(&record) {
                return self.locate_any(&record);
            }
        }
    }

    /// Applies the filter, and counts unwanted packets.
    fn wants(&mut self, record: &Record) -> bool {
        // A packet of an interface that cannot be registered passes: locating it reports the error.
        if record.interface as usize >= self.ports.len() && self.enter_interfaces().is_err() {
            return true;
        }
        let packet = self.reader.packet(record);
        let lost = match record.has_options {
            true => self.reader.decoder.options().drops_before.unwrap_or(0),
            false => 0,
        };
        let is_wanted = (!self.selector.is_choosing || {
            let is_of_it = self.selector.interface().is_none_or(|wanted| {
                let known = self.reader.decoder.interfaces().get(record.interface as usize);
                let name = known.map_or("", |interface| &interface.name);
                interfaces::name(name, self.reader.path()) == wanted
            });
            self.selector.wants(record.link, record.time_ns, is_of_it, packet)
        }) && self.judge.wants(record.link, packet, record.original_length, lost);
        self.decoded += u64::from(!is_wanted);
        is_wanted
    }

    /// Locates a packet, including the first of an interface.
    #[inline(always)]
    fn locate_any(&mut self, record: &Record) -> Option<Located> {
        match self.ports.get(record.interface as usize) {
            Some(&port) => Some(self.locate(record, port)),
            None => self.locate_first(record),
        }
    }

    /// Locates the first packet of an interface. `None` if the interface cannot get a number.
    #[cold]
    fn locate_first(&mut self, record: &Record) -> Option<Located> {
        match self.enter_interfaces() {
            Ok(()) => {
                let port = self.ports[record.interface as usize];
                Some(self.locate(record, port))
            }
            Err(error) => {
                self.end(Some(error));
                None
            }
        }
    }

    /// Returns the next packet of the window, including all special cases.
    #[cold]
    fn next(&mut self) -> Next {
        loop {
            match self.reader.step() {
                // In a broken segment, whose packets are counted when their number is known.
                Step::Packet(_) if self.reader.decoder.trust() == Trust::Doubtful => {}
                Step::Packet(record) if self.is_choosing && !self.wants(&record) => {
                    return Next::Unwanted;
                }
                Step::Packet(record) => {
                    return self.locate_any(&record).map_or(Next::Over, Next::Packet);
                }
                Step::NeedMore { .. } => return Next::Empty,
                Step::Damage(damage) => {
                    self.account.is_damaged |= !self.is_end_to_come(&damage);
                    self.count_damage(&damage.kind);
                    let path = self.reader.path().display();
                    self.account.note(|| format!("{path}: {damage}"));
                }
                Step::Refused(error) => {
                    let error = self.reader.refused(error);
                    return self.end(Some(error));
                }
                Step::End => {
                    self.note_losses();
                    let error = self.enter_interfaces().err();
                    return self.end(error);
                }
            }
        }
    }

    #[cold]
    fn end(&mut self, error: Option<PortError>) -> Next {
        self.is_over = true;
        self.error = error;
        Next::Over
    }

    /// Whether damage is only the end that a recording in progress does not have yet.
    fn is_end_to_come(&self, damage: &Damage) -> bool {
        self.reader.is_open_end(damage) && self.may_be_open || self.reader.is_end_to_come(damage)
    }

    /// Registers the interfaces that the decoder has met since the last call.
    #[cold]
    fn enter_interfaces(&mut self) -> Result<(), PortError> {
        let path = self.reader.path();
        for interface in &self.reader.decoder.interfaces()[self.ports.len()..] {
            let (name, link) = (&interface.name, interface.link);
            self.judge.add_link(&self.info.name, link)?;
            let (port, note) = self.interfaces.enter(name, link, path)?;
            self.ports.push(port);
            if let Some(note) = note {
                self.account.note(|| format!("{}: {note}", path.display()));
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn locate(&mut self, record: &Record, port: u8) -> Located {
        self.decoded += 1;
        let length = self.judge.keep(record.captured_length, record.original_length);
        let mut meta = Meta::new(record.time_ns, record.original_length, port);
        if record.has_options {
            self.read_options(&mut meta);
        }
        meta.drops_before += std::mem::take(&mut self.untold);
        let window = &self.reader.window;
        let bytes = || &window.bytes()[record.offset..][..length as usize];
        self.judge.describe(record.link, &mut meta, bytes);
        Located { offset: record.offset, length, meta }
    }

    #[cold]
    fn read_options(&self, meta: &mut Meta) {
        let options = self.reader.decoder.options();
        meta.drops_before = options.drops_before.unwrap_or(0);
        if options.direction() == Some(Direction::Outbound) {
            meta.flags = meta.flags.union(Flags::OUTGOING);
        }
        if options.flags.unwrap_or(0) & LINK_ERRORS != 0 {
            meta.flags = meta.flags.union(Flags::DAMAGED);
        }
    }

    /// Returns the next packet, after reading if `may_read`. `Err` is the state to return with.
    #[inline(always)]
    fn take(&mut self, may_read: bool) -> Result<Located, Result<PortState, PortError>> {
        match self.take_ordinary() {
            Some(located) => Ok(located),
            None => self.take_slowly(may_read),
        }
    }

    #[cold]
    fn take_slowly(&mut self, may_read: bool) -> Result<Located, Result<PortState, PortError>> {
        if let Some(located) = self.pending.take() {
            return Ok(located);
        }
        loop {
            if !self.is_over {
                match self.next() {
                    Next::Packet(located) => return Ok(located),
                    Next::Unwanted => match self.take_ordinary() {
                        Some(located) => return Ok(located),
                        None => continue,
                    },
                    // One window without a wanted packet is enough for a call.
                    Next::Empty if !may_read || self.unwanted() > self.unwanted_before => {
                        return Err(Ok(PortState::Busy));
                    }
                    Next::Empty => match self.refill() {
                        Ok(Pulled::Nothing) => return Err(Ok(PortState::Idle)),
                        Ok(_) => continue,
                        Err(error) => return Err(Err(error)),
                    },
                    Next::Over => {}
                }
            }
            return match self.error.take() {
                Some(error) if may_read => Err(Err(error)),
                Some(error) => {
                    self.error = Some(error);
                    Err(Ok(PortState::Busy))
                }
                None => Err(Ok(PortState::Ended)),
            };
        }
    }
}

impl Port for FileSource {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn account(&self) -> PortAccount {
        self.current_account()
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        self.reader.input().readiness()
    }
}

impl Source for FileSource {
    /// Cost: one `read` of 256 KiB per window of packets; a call that has packets does not read.
    fn receive(&mut self, writer: &mut Writer, budget: u64) -> Result<Received, PortError> {
        let mut packets = 0;
        self.unwanted_before = self.unwanted();
        let mut state = if budget == 0 { PortState::Blocked } else { PortState::Busy };
        while packets < budget {
            let located = match self.take(packets == 0) {
                Ok(located) => located,
                Err(outcome) => {
                    state = outcome?;
                    break;
                }
            };
            let end = located.offset + located.length as usize;
            let bytes = &self.reader.window.bytes()[located.offset..end];
            let appended = writer.append(bytes, &located.meta);
            if !self.account.copied(appended, bytes.len(), &located.meta, writer) {
                self.pending = Some(located);
                state = PortState::Blocked;
                break;
            }
            packets += 1;
        }
        Ok(Received { packets, state })
    }

    /// As `receive`, but the packets stay in the window.
    fn lend<'a>(
        &'a mut self,
        scratch: &'a mut Scratch,
        budget: u64,
    ) -> Result<Lent<'a>, PortError> {
        self.lend_until(scratch, budget, u64::MAX)
    }

    fn files(&self) -> Vec<PathBuf> {
        let path = self.reader.has_name().then(|| self.reader.path().to_owned());
        path.into_iter().collect()
    }

    fn lent<'a>(&'a self, scratch: &'a mut Scratch) -> Option<Burst<'a>> {
        Some(scratch.burst(self.reader.window.bytes(), 0))
    }
}
