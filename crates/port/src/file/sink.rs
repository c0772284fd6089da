//! The sink: maps packets to interfaces and blocks of the file, and tracks which of them are safe.

mod begin;
mod counts;
mod failure;
mod files;
mod idle;
mod runs;

use std::collections::VecDeque;
use std::io;

use burstline_log::{Burst, Flags, Packet};
use burstline_sys::direct::{QueueMode, WriteQueue};
use burstline_wire::files::{
    Direction, EncodeError, InterfaceDescription, LossCause, MAX_CAPTURED, PacketToWrite,
    PcapngEncoder, SectionDescription,
};
use burstline_wire::hash::FlowHasher;
use burstline_wire::headers::LinkType;

use super::layout::{Format, Layout, Target};
use super::plain::Plain;
use super::recording::{Made, Mark, Resumed};
use super::segmented::{SKETCHED, Segmented, slots};
use crate::{
    Address, Capabilities, InterfaceTotals, Loss, LossKind, LostPackets, OpenOptions, Port,
    PortAccount, PortError, PortInfo, PortTable, Sink, TableEntry, Tally, TimestampSource,
};
pub(super) use counts::{ClosedFiles, ClosingCounts};
use failure::Failure;
use files::Files;
use idle::Idle;

/// The longest interface name that is written, in bytes.
const MAX_NAME_BYTES: usize = 256;

/// Buffer size for a section block without a comment.
const SECTION_BYTES_MAX: usize = 512;

/// Describes the section of a file.
fn section(comment: &str) -> SectionDescription<'_> {
    SectionDescription {
        comment,
        os: std::env::consts::OS,
        application: concat!("burstline ", env!("CARGO_PKG_VERSION")),
        ..SectionDescription::default()
    }
}

/// The state of a job's port in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Described {
    NotYet,
    As(u32),
    /// Not in the file, because its link type differs.
    Not,
}

/// An interface of the file.
#[derive(Clone, Copy, Debug)]
struct InFile {
    /// Its number in the job.
    port: u8,
    /// Its packets in the body.
    tally: Tally,
}

/// The state of the current file. Its link type is unknown until the first packet.
enum Body {
    /// The next of several files: named after its first packet.
    Unopened,
    Opened(Target),
    Segmented(Box<Segmented>),
    Plain(Box<Plain>),
    Closed,
    /// An output that failed and takes no more packets.
    Failed(Failure),
}

/// A sink that writes one capture file, a pipe, or several files in sequence.
pub(super) struct FileSink {
    info: PortInfo,
    layout: Layout,
    files: Files,
    body: Body,
    /// Buffers for the next file, allocated while the process may have the right to lock memory.
    queue: Option<WriteQueue>,
    link: LinkType,
    /// Computes the hashes for sketches, if packets lack them.
    hasher: Option<FlowHasher>,
    snapshot_bytes: u32,
    table: PortTable,
    described: [Described; PortTable::MAX_ENTRIES],
    /// The interfaces of the file, in its order.
    interfaces: Vec<InFile>,
    /// By port of the job: losses for the next packet to report, besides its own `drops_before`.
    gaps: [u64; PortTable::MAX_ENTRIES],
    /// By port of the job: those of the gaps that this job's own reader of a log has missed.
    overruns: [u64; PortTable::MAX_ENTRIES],
    /// By port of the job: losses that its packets in the file have reported.
    told: [u64; PortTable::MAX_ENTRIES],
    totals: Vec<InterfaceTotals>,
    /// What is in the closing counts of earlier files.
    closed: ClosedFiles,
    /// Whether there may be other files, with closing counts that add up.
    is_one_of_several: bool,
    idle: Idle,
    /// Packets in the body.
    accepted: u64,
    /// Packets in earlier files.
    accepted_before: u64,
    /// The recording that the next file continues.
    resumed: Option<Resumed>,
    first_packet: u64,
    latest_ns: u64,
    /// How far the file is written, without the bytes.
    written: Mark,
    /// The marks after each write in progress, in order: the packets by interface up to there. The
    /// body knows where the writes end in the file; the number of packets links the two.
    under_way: VecDeque<Mark>,
    lost: LostPackets,
    account: PortAccount,
}

impl FileSink {
    pub(super) fn open(address: &Address, options: &OpenOptions) -> Result<Self, PortError> {
        let rotation = options.output.rotation;
        let layout = Layout::parse(address, rotation.and_then(|rotation| rotation.bytes))?;
        let (files, body) = Files::open(address.target(), &layout, options)?;
        let takes_segments = matches!(body, Body::Unopened | Body::Opened(Target::Segments(_)));
        let queue = match takes_segments && layout.has_places() {
            true => Some(slots::queue(layout.segment_bytes).map_err(|error| PortError::Io {
                action: "allocate buffers for",
                path: layout.path.clone(),
                error,
            })?),
            false => None,
        };
        let mut account = PortAccount::default();
        // The user may be able to allow io_uring, which is faster.
        if let Some(mode @ QueueMode::Plain { .. }) = queue.as_ref().map(WriteQueue::mode) {
            account.hint(|| format!("{}: {mode}", layout.path.display()));
        }
        let capabilities = Capabilities::default();
        let (name, timestamps) = (address.to_string(), TimestampSource::File);
        let mut sink = Self {
            info: PortInfo { name, capabilities, timestamps },
            layout,
            files,
            body,
            queue,
            link: LinkType::ETHERNET,
            hasher: (options.hash != SKETCHED).then(|| FlowHasher::new(SKETCHED)),
            snapshot_bytes: options.snapshot_bytes.unwrap_or(MAX_CAPTURED).min(MAX_CAPTURED),
            table: options.table.clone(),
            described: [Described::NotYet; PortTable::MAX_ENTRIES],
            interfaces: Vec::new(),
            gaps: [0; PortTable::MAX_ENTRIES],
            overruns: [0; PortTable::MAX_ENTRIES],
            told: [0; PortTable::MAX_ENTRIES],
            totals: Vec::new(),
            closed: ClosedFiles::default(),
            is_one_of_several: rotation.is_some(),
            idle: Idle::default(),
            accepted: 0,
            accepted_before: 0,
            first_packet: options.output.resumed.as_ref().map_or(0, |old| old.first_packet),
            resumed: options.output.resumed.clone(),
            latest_ns: 0,
            written: Mark::default(),
            under_way: VecDeque::new(),
            lost: LostPackets::default(),
            account,
        };
        sink.begin_pipe();
        Ok(sink)
    }

    /// Writes the section header into a pipe before the first interface. Its reader may wait for
    /// that, as dumpcap does, and the first packet may come late. An error will recur with the
    /// packets.
    fn begin_pipe(&mut self) {
        let Body::Opened(Target::Stream(output)) = &mut self.body else { return };
        let is_pipe = matches!(output.share(), Ok(None)) && !output.is_compressed();
        if self.layout.format != Format::Pcapng || !is_pipe {
            return;
        }
        let mut room = [0; SECTION_BYTES_MAX];
        let mut encoder = PcapngEncoder::new(self.link, self.snapshot_bytes);
        if let Ok(filled) = encoder.section(&mut room, &section("")) {
            let _ = output.write(&room[..filled]);
        }
    }

    /// Returns the open file, if it is a regular one.
    pub(super) fn current(&self) -> Option<&Made> {
        self.files.current()
    }

    /// Returns the size of a segment, if the file has any.
    pub(super) fn segment_bytes(&self) -> u64 {
        self.layout.segment_bytes as u64
    }

    /// Writes a packet into the file. `Ok(false)` if it was dropped, and counted.
    #[inline]
    fn put(&mut self, packet: &Packet<'_>) -> io::Result<bool> {
        let interface = match self.described[usize::from(packet.port())] {
            Described::As(interface) => interface,
            _ => match self.describe(packet.port())? {
                Some(interface) => interface,
                None => {
                    self.drop_one(Loss::LinkMismatch, packet);
                    return Ok(false);
                }
            },
        };
        let desc = packet.desc();
        let is_outgoing = desc.flags().contains(Flags::OUTGOING);
        let (port, time_ns) = (usize::from(packet.port()), packet.time_ns());
        let drops_before = packet.drops_before().saturating_add(self.gaps[port]);
        let to_write = PacketToWrite {
            bytes: packet.bytes(),
            original_length: packet.original_length() as u32,
            time_ns,
            interface,
            direction: is_outgoing.then_some(Direction::Outbound),
            drops_before,
            queue: None,
            hash: match (&self.body, &mut self.hasher) {
                (Body::Segmented(_), Some(hasher)) => Some(hasher.hash(self.link, packet.bytes())),
                _ => Some(desc.hash()),
            },
        };
        let put = match &mut self.body {
            Body::Segmented(body) => body.packet(&to_write)?,
            Body::Plain(body) => body.packet(&to_write)?,
            _ => return Ok(false),
        };
        self.note_written();
        if let Err(error) = put {
            if self.lost.losses().of(Loss::TooLong) == 0 {
                self.account.note(|| format!("{error}; segment=1M fits every packet"));
            }
            self.drop_one(Loss::TooLong, packet);
            // The next packet reports these losses.
            self.gaps[port] = drops_before;
            return Ok(false);
        }
        self.latest_ns = self.latest_ns.max(time_ns);
        self.accepted += 1;
        self.gaps[port] = 0;
        self.told[port] = self.told[port].saturating_add(drops_before);
        let overrun = std::mem::take(&mut self.overruns[port]);
        if overrun > 0
            && let Body::Segmented(body) = &mut self.body
        {
            body.name_overrun(overrun);
        }
        self.interfaces[interface as usize].tally.add(&Tally::one(packet));
        Ok(true)
    }

    #[cold]
    fn drop_one(&mut self, cause: Loss, packet: &Packet<'_>) {
        self.lost.add_packet(cause, packet);
        if let Body::Segmented(body) = &mut self.body {
            body.count_losses(LossCause::Drop, 1);
        }
    }

    /// Counts packets that come when the last file takes no more.
    #[cold]
    fn refuse(&mut self, cause: Loss, rest: &Burst<'_>) {
        self.lost.add_burst(cause, rest);
        if let Body::Segmented(body) = &mut self.body
            && cause.kind() == LossKind::Full
        {
            body.count_losses(LossCause::Full, rest.len() as u64);
        }
    }

    /// Describes an interface before its first packet. `None` if it cannot be in this file.
    #[cold]
    fn describe(&mut self, port: u8) -> io::Result<Option<u32>> {
        if self.described[usize::from(port)] == Described::Not {
            return Ok(None);
        }
        let unknown = || TableEntry { name: format!("port {port}"), link: self.link };
        let entry = self.table.entries_from(port.into()).into_iter().next();
        let entry = entry.unwrap_or_else(unknown);
        let name = &entry.name[..entry.name.floor_char_boundary(MAX_NAME_BYTES)];
        let description = InterfaceDescription::new(entry.link, name);
        let outcome = match &mut self.body {
            Body::Opened(_) => self.start(&description).map(Ok)?,
            _ if entry.link != self.link => {
                let (file, interface) = (self.link.0, entry.link.0);
                Err(EncodeError::LinkDiffers { file, interface })
            }
            Body::Segmented(body) => body.interface(&description)?,
            Body::Plain(body) => body.interface(&description)?,
            _ => Ok(()),
        };
        if let Err(error) = outcome {
            self.described[usize::from(port)] = Described::Not;
            self.account.note(|| format!("{name}: {error}"));
            return Ok(None);
        }
        let interface = self.interfaces.len() as u32;
        self.described[usize::from(port)] = Described::As(interface);
        self.interfaces.push(InFile { port, tally: Tally::default() });
        Ok(Some(interface))
    }

    /// Returns the packets that the output has handed to writes, completed or in progress.
    fn handed(&self) -> u64 {
        match &self.body {
            Body::Segmented(body) => body.handed(),
            _ => self.kept().0,
        }
    }

    /// Returns the packets certainly in the file, and the bytes up to the last of them.
    fn kept(&self) -> (u64, u64) {
        match &self.body {
            Body::Segmented(body) => body.kept(),
            Body::Plain(body) => body.kept(),
            _ => (0, 0),
        }
    }

    fn flush_body(&mut self) -> io::Result<()> {
        match &mut self.body {
            Body::Segmented(body) => body.flush(),
            Body::Plain(body) => body.flush(),
            _ => Ok(()),
        }
    }

    /// Writes the packets of a burst into the file, and into the files that follow. `rest` are
    /// those not yet written; `taken` counts the others.
    fn put_all(&mut self, rest: &mut Burst<'_>, taken: &mut u64) -> io::Result<()> {
        while !rest.is_empty() {
            let room = self.room(rest)?;
            if self.files.refuses().is_some() {
                return Ok(());
            }
            let (mut here, behind) = rest.split_at(room);
            while !here.is_empty() {
                let plain = self.put_plain(&here);
                *taken += plain as u64;
                here = here.split_at(plain).1;
                *rest = rest.split_at(plain).1;
                let Some(packet) = here.packets().next() else { break };
                *taken += u64::from(self.put(&packet)?);
                self.account.bytes_copied += packet.length() as u64;
                here = here.split_at(1).1;
                *rest = rest.split_at(1).1;
            }
            *rest = behind;
        }
        Ok(())
    }
}

impl Port for FileSink {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn finish(&mut self) -> Result<(), PortError> {
        self.finish_all()
    }

    fn account(&self) -> PortAccount {
        let in_flight = match self.body {
            Body::Failed(_) => 0,
            _ => self.accepted - self.kept().0,
        };
        let is_open = !matches!(self.body, Body::Unopened | Body::Closed | Body::Failed(_));
        let file = is_open.then(|| self.files.path().display().to_string());
        PortAccount { in_flight, file, lost: self.lost.losses(), ..self.account.clone() }
    }
}

impl Sink for FileSink {
    /// Cost: one copy per packet; one `write` per segment, or per MiB of a stream.
    fn transmit(&mut self, burst: &Burst<'_>) -> Result<u64, PortError> {
        self.account.offered += burst.len() as u64;
        let looked = self.look_at_syncs();
        if let Body::Failed(failure) = &self.body {
            let error = looked.err().unwrap_or_else(|| failure.error());
            self.lost.add_burst(error.loss(), burst);
            return Err(error);
        }
        let (mut taken, mut rest) = (0, *burst);
        if let Err(error) = self.put_all(&mut rest, &mut taken) {
            let failure = self.fail(error);
            self.lost.add_burst(failure.loss(), &rest);
            return Err(failure);
        }
        if let Some(cause) = self.files.refuses() {
            self.refuse(cause, &rest);
        }
        self.tell_written();
        match self.files.take_last_word() {
            Some(error) => Err(error),
            None => Ok(taken),
        }
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.look_at_syncs()?;
        self.flush_body().map_err(|error| self.fail(error))?;
        self.tell_written();
        Ok(())
    }

    fn flush_when_due(&mut self) -> Result<bool, PortError> {
        if let Body::Segmented(body) = &self.body
            && body.can_wait(self.files.flush())
        {
            self.look_at_syncs()?;
            return Ok(false);
        }
        self.flush().map(|()| true)
    }

    fn lost(&self) -> LostPackets {
        self.lost.clone()
    }

    fn tell_gap(&mut self, port: u8, packets: u64) {
        let gap = &mut self.gaps[usize::from(port)];
        *gap = gap.saturating_add(packets);
    }

    fn tell_overrun(&mut self, port: u8, packets: u64) {
        self.tell_gap(port, packets);
        self.overruns[usize::from(port)] += packets;
    }

    fn look_at_clock(&mut self) -> Result<(), PortError> {
        self.end_overdue().map_err(|error| self.fail(error))
    }

    fn set_totals(&mut self, totals: &[InterfaceTotals]) {
        self.totals = totals.to_vec();
    }
}
