//! The source: reads, decodes, lends or appends.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use burstline_log::{Burst, Flags, MAX_PACKET_BYTES, Meta, SCRATCH_PACKETS, Scratch, Writer};
use burstline_wire::files::{
    Counters, DamageKind, Decoder, Direction, FileKind, FormatError, MAX_CAPTURED, Record, Step,
    Trust,
};

use super::input::{Input, Pulled};
use super::window::Window;
use super::{enter_interface, shown_path};
use crate::judge::Judge;
use crate::opened::Use;
use crate::{
    Address, Capabilities, Lent, Loss, OpenOptions, Port, PortAccount, PortError, PortInfo,
    PortState, PortTable, Received, Source, TimestampSource,
};

/// More packets are not counted as lost, whatever a hostile file claims: sums stay in 64 bits.
const MOST_LOST: u64 = 1 << 60;

const _: () = assert!(MAX_CAPTURED as usize <= MAX_PACKET_BYTES);

/// `epb_flags`: bits 16 to 31 are errors that the link layer saw.
/// Source: draft-ietf-opsawg-pcapng, section 4.3.1.
const LINK_ERRORS: u32 = 0xffff_0000;

/// A decoder that has seen so much of a file has refused it, or never will: the header of a classic
/// file. Source: draft-ietf-opsawg-pcap, section 4.
const LONGEST_HEADER_BYTES: usize = 24;

/// A packet that is decoded and lies in the window.
#[derive(Clone, Copy)]
struct Located {
    offset: usize,
    length: u32,
    meta: Meta,
}

/// What the window has next.
enum Next {
    Packet(Located),
    /// One that the filter does not want.
    Unwanted,
    /// Nothing before more is read.
    Empty,
    /// An error, or the end.
    Over,
}

/// A capture file, or a pipe that one comes through.
pub(super) struct FileSource {
    info: PortInfo,
    path: PathBuf,
    input: Input,
    window: Window,
    decoder: Decoder,
    judge: Judge,
    table: PortTable,
    /// The numbers in the table of the file's interfaces, in the file's order.
    ports: Vec<u8>,
    /// Whether the first bytes have been looked at.
    is_known: bool,
    /// Whether the last byte is in the window.
    is_read: bool,
    is_over: bool,
    /// Contiguous bytes that the decoder asked for last.
    needed: usize,
    /// Packets of the recording that are in broken segments, and in segments that are not there.
    corrupt: u64,
    missing: u64,
    untold: u64,
    unchecked: u64,
    /// To be said at the next call.
    error: Option<PortError>,
    /// Decoded, but the log had no room.
    pending: Option<Located>,
    decoded: u64,
    /// Packets that were not wanted when the call began.
    filtered_before: u64,
    account: PortAccount,
}

impl FileSource {
    pub(super) fn open(address: &Address, options: &OpenOptions) -> Result<Self, PortError> {
        let window_bytes = super::zstd::window_bytes(address)?;
        let path = shown_path(address.target(), "standard input");
        let fail = |error| PortError::Io { action: "open", path: path.clone(), error };
        let (input, metadata) = Input::open(address.target(), window_bytes).map_err(fail)?;
        options.files.enter(&path, &metadata, Use::Read)?;
        let window = Window::new().map_err(fail)?;
        let capabilities = Capabilities {
            can_wait: true,
            is_finite: true,
            tells_gaps: true,
            ..Capabilities::default()
        };
        let (name, timestamps) = (address.to_string(), TimestampSource::File);
        let decoder = if input.is_pipe() { Decoder::live() } else { Decoder::new() };
        let mut source = Self {
            info: PortInfo { name, capabilities, timestamps },
            path,
            input,
            window,
            decoder,
            judge: Judge::new(options),
            table: options.table.clone(),
            ports: Vec::new(),
            is_known: false,
            is_read: false,
            is_over: false,
            needed: 0,
            corrupt: 0,
            missing: 0,
            untold: 0,
            unchecked: 0,
            error: None,
            pending: None,
            decoded: 0,
            filtered_before: 0,
            account: PortAccount::default(),
        };
        if !source.input.is_pipe() {
            source.look_ahead()?;
        }
        Ok(source)
    }

    /// Reads the start of a regular file, so that one that is no capture is refused on opening, and
    /// a filter that does not fit what it begins with.
    fn look_ahead(&mut self) -> Result<(), PortError> {
        while !self.is_read && (!self.is_known || self.window.rest().len() < LONGEST_HEADER_BYTES) {
            self.refill()?;
        }
        let mut decoder = Decoder::new();
        if let Step::Refused(error) = decoder.next(self.window.rest(), &mut 0, self.is_read) {
            return Err(self.refused(error));
        }
        // So that a filter that does not fit is an error before anything is written.
        let mut known = decoder.interfaces().iter();
        known.try_for_each(|interface| self.judge.add_link(&self.info.name, interface.link))
    }

    /// Reads once. Says `Nothing` when a pipe has nothing now.
    fn refill(&mut self) -> Result<Pulled, PortError> {
        let (input, window) = (&mut self.input, &mut self.window);
        let pulled = match window.fill(self.needed, |place| input.pull(place)) {
            Ok(pulled) => pulled,
            Err(error) if self.input.is_compressed() => self.broken_stream(&error),
            Err(error) => {
                return Err(PortError::Io { action: "read", path: self.path.clone(), error });
            }
        };
        self.is_read |= pulled == Pulled::End;
        if !self.is_known && (self.is_read || self.window.rest().len() >= 4) {
            self.is_known = true;
            let kind = FileKind::detect(self.window.rest());
            if matches!(kind, FileKind::Gzip | FileKind::Zstd) {
                self.input.decompress(kind, self.window.rest());
                self.window.clear();
                self.is_read = false;
                return self.refill();
            }
        }
        Ok(pulled)
    }

    /// A compressed stream that breaks ends there; what came before is good.
    fn broken_stream(&mut self, error: &io::Error) -> Pulled {
        self.account.is_damaged = true;
        let path = self.path.display();
        let at = self.decoder.file_offset() + self.window.rest().len() as u64;
        self.account.note(|| {
            format!("{path}: compressed data broken after {at} decompressed bytes: {error}")
        });
        Pulled::End
    }

    fn refused(&self, error: FormatError) -> PortError {
        let mend = match error {
            FormatError::Empty | FormatError::HeaderCut { .. } => {
                "; did the capture end before it began?"
            }
            _ => "; expected pcap or pcapng, also in gzip or zstd",
        };
        let path = self.path.clone();
        // A compressed file that breaks at once has said more than that nothing came out of it.
        let named = format!("{}: ", path.display());
        let broken = self.account.notes.first().and_then(|note| note.strip_prefix(&named));
        let reason = broken.map_or_else(|| format!("{error}{mend}"), str::to_owned);
        PortError::NotACapture { path, reason }
    }

    /// The next packet of the window, unless it needs a closer look: then `take` must be asked.
    /// Cost: that of the decoder; no system call.
    #[inline(always)]
    fn take_ordinary(&mut self) -> Option<Located> {
        if self.is_over || self.pending.is_some() {
            return None;
        }
        loop {
            let (bytes, position) = self.window.split();
            let record = self.decoder.next_ordinary(bytes, position)?;
            if !self.judge.is_filtering() || self.wants(&record) {
                return self.locate_any(&record);
            }
        }
    }

    /// Asks the filter, and counts what it does not want.
    fn wants(&mut self, record: &Record) -> bool {
        // A packet of an interface that cannot be entered is let through: locating it says so.
        if record.interface as usize >= self.ports.len() && self.enter_interfaces().is_err() {
            return true;
        }
        let end = record.offset + record.captured_length as usize;
        let packet = &self.window.bytes()[record.offset..end];
        let lost = match record.has_options {
            true => self.decoder.options().drops_before.unwrap_or(0),
            false => 0,
        };
        let is_wanted = self.judge.wants(record.link, packet, record.original_length, lost);
        self.decoded += u64::from(!is_wanted);
        is_wanted
    }

    /// Locates a packet, also the first of its interface.
    #[inline(always)]
    fn locate_any(&mut self, record: &Record) -> Option<Located> {
        match self.ports.get(record.interface as usize) {
            Some(&port) => Some(self.locate(record, port)),
            None => self.locate_first(record),
        }
    }

    /// Locates the first packet of an interface. `None` when that cannot have a number.
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

    /// The next packet of the window, whatever it takes.
    #[cold]
    fn next(&mut self) -> Next {
        loop {
            let (bytes, position) = self.window.split();
            match self.decoder.next(bytes, position, self.is_read) {
                // In a broken segment, and counted when it is known how many are.
                Step::Packet(_) if self.decoder.trust() == Trust::Doubtful => {}
                Step::Packet(record) if self.judge.is_filtering() && !self.wants(&record) => {
                    return Next::Unwanted;
                }
                Step::Packet(record) => {
                    return self.locate_any(&record).map_or(Next::Over, Next::Packet);
                }
                Step::NeedMore { bytes } => {
                    self.needed = bytes;
                    return Next::Empty;
                }
                Step::Damage(damage) => {
                    self.account.is_damaged = true;
                    self.count_damage(&damage.kind);
                    let path = self.path.display();
                    self.account.note(|| format!("{path}: {damage}"));
                }
                Step::Refused(error) => {
                    let error = self.refused(error);
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

    /// Counts packets that are not delivered, by the numbers in the recording.
    fn count_damage(&mut self, kind: &DamageKind) {
        let (cause, packets) = match *kind {
            DamageKind::Corrupt { packets, .. } => (&mut self.corrupt, packets),
            DamageKind::MissingSegments { packets, .. } => (&mut self.missing, packets),
            DamageKind::OutOfOrder { packets, .. } => {
                return self.missing -= packets.min(self.missing);
            }
            DamageKind::NotClosed { unchecked } => return self.unchecked += unchecked,
            _ => return,
        };
        for count in [cause, &mut self.untold] {
            *count = count.saturating_add(packets).min(MOST_LOST);
        }
    }

    /// Packets that sound segments say they have, and that are not there.
    fn miscounted(&self) -> i64 {
        let said = self.decoder.recorded().packets + self.unchecked;
        let is_known = self.is_over && self.decoder.is_segmented();
        if is_known { said as i64 - self.decoded as i64 } else { 0 }
    }

    /// Says what the file says was lost before it was written.
    fn note_losses(&mut self) {
        for interface in self.decoder.interfaces() {
            let Counters { missed, lost, .. } = interface.counters;
            let (missed, lost) = (missed.unwrap_or(0), lost.unwrap_or(0));
            if missed > 0 || lost > 0 {
                let (path, name) = (self.path.display(), &interface.name);
                self.account.note(|| {
                    let what = format!("ifdrop {missed}, osdrop {lost}");
                    format!("{path}: {name} lost packets before this file: {what}")
                });
            }
        }
    }

    #[cold]
    fn end(&mut self, error: Option<PortError>) -> Next {
        self.is_over = true;
        self.error = error;
        Next::Over
    }

    /// Gives a number to each interface that the decoder has met since the last time.
    #[cold]
    fn enter_interfaces(&mut self) -> Result<(), PortError> {
        for interface in &self.decoder.interfaces()[self.ports.len()..] {
            let (name, link) = (&interface.name, interface.link);
            self.judge.add_link(&self.info.name, link)?;
            self.ports.push(enter_interface(&self.table, name, link, &self.path)?);
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
        let window = &self.window;
        let bytes = || &window.bytes()[record.offset..][..length as usize];
        self.judge.describe(record.link, &mut meta, bytes);
        Located { offset: record.offset, length, meta }
    }

    #[cold]
    fn read_options(&self, meta: &mut Meta) {
        let options = self.decoder.options();
        meta.drops_before = options.drops_before.unwrap_or(0);
        if options.direction() == Some(Direction::Outbound) {
            meta.flags = meta.flags.union(Flags::OUTGOING);
        }
        if options.flags.unwrap_or(0) & LINK_ERRORS != 0 {
            meta.flags = meta.flags.union(Flags::DAMAGED);
        }
    }

    /// The next packet, after reading if `may_read`. `Err` is the state to return with.
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
                    // A window without a packet that is wanted is enough for one call.
                    Next::Empty if !may_read || self.judge.filtered() > self.filtered_before => {
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
        let offered = self.decoded.saturating_add_signed(self.miscounted());
        let mut account = PortAccount {
            offered: offered + self.corrupt + self.missing,
            in_flight: u64::from(self.pending.is_some()),
            ..self.account.clone()
        };
        let lost = [(Loss::Corrupt, self.corrupt), (Loss::MissingSegments, self.missing)];
        let named = lost.into_iter().filter(|(_, packets)| *packets > 0);
        named.for_each(|(cause, packets)| account.lost.add(cause, packets));
        self.judge.enter_into(&mut account);
        account
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        self.input.readiness()
    }
}

impl Source for FileSource {
    /// One `read` of 256 KiB for each window of packets; a call that has packets does not read.
    fn receive(&mut self, writer: &mut Writer, budget: u64) -> Result<Received, PortError> {
        let mut packets = 0;
        self.filtered_before = self.judge.filtered();
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
            let bytes = &self.window.bytes()[located.offset..end];
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

    /// As `receive`; the packets stay in the window.
    fn lend<'a>(
        &'a mut self,
        scratch: &'a mut Scratch,
        budget: u64,
    ) -> Result<Lent<'a>, PortError> {
        scratch.clear();
        let first_packet = self.decoded - self.judge.filtered() - u64::from(self.pending.is_some());
        self.filtered_before = self.judge.filtered();
        let budget = budget.min(SCRATCH_PACKETS as u64) as usize;
        let mut state = if budget == 0 { PortState::Blocked } else { PortState::Busy };
        while scratch.len() < budget {
            match self.take(scratch.is_empty()) {
                Ok(located) => {
                    scratch.push(located.offset as u32, located.length, &located.meta);
                }
                Err(outcome) => {
                    state = outcome?;
                    break;
                }
            }
        }
        Ok(Lent { burst: scratch.burst(self.window.bytes(), first_packet), state })
    }

    fn lent<'a>(&'a self, scratch: &'a mut Scratch) -> Option<Burst<'a>> {
        Some(scratch.burst(self.window.bytes(), 0))
    }
}
