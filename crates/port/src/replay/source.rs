//! The source: takes a batch from the file, and lends the packets that are due.

use std::collections::VecDeque;

use burstline_log::{Meta, Packet, SCRATCH_PACKETS, Scratch, Writer};
use burstline_sys::clock;
use burstline_wire::headers::LinkType;
use burstline_wire::rewrite::Rewrite;

use super::routes::Destination;
use super::timing::Spacing;
use super::{ReplayOptions, Timing};
use crate::opened::OpenedFiles;
use crate::{
    Address, Capabilities, Copying, Lent, Loss, OpenOptions, Pacing, Port, PortAccount, PortError,
    PortInfo, PortState, PortTable, Received, Role, Source, TimestampSource, open_source,
};

/// Time between two polls of an empty pipe.
const PIPE_NAP_NS: u64 = 1_000_000;

/// Alignment of packets in [`Batch`], as in a log.
const ALIGNMENT: usize = 16;

/// A file being played.
struct Playing {
    port: Box<dyn Source>,
    /// Its own interfaces: their numbers are those in the file.
    table: PortTable,
    /// The index of the file.
    file: usize,
}

/// A packet that waits for its due time.
struct Waiting {
    offset: u32,
    length: u32,
    due_ns: u64,
    meta: Meta,
}

/// Packets taken from the file.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    waiting: VecDeque<Waiting>,
}

/// The destination of an interface, and the properties of its packets.
#[derive(Clone, Copy)]
struct Place {
    destination: Destination,
    link: LinkType,
}

/// Replays files.
pub(super) struct Replayer {
    info: PortInfo,
    files: Vec<Address>,
    replay: ReplayOptions,
    is_changing: bool,
    options: OpenOptions,
    /// Files opened in advance.
    ready: VecDeque<Playing>,
    playing: Option<Playing>,
    /// The next file to reopen, and how many passes have begun.
    next_file: usize,
    passes: u64,
    /// Packets decoded before this pass: a pass without packets is the last.
    decoded_before_pass: u64,
    /// The destinations of each file's interfaces.
    places: Vec<Vec<Place>>,
    spacing: Spacing,
    taken: Scratch,
    batch: Batch,
    /// When the first packet was due, on the monotonic clock and in ns since 1970.
    began_ns: Option<(u64, u64)>,
    first_due_ns: u64,
    last_due_ns: u64,
    /// The time of the next poll of a pipe.
    nap_until_ns: u64,
    lent: u64,
    copying: Copying,
    /// Account of finished files, and losses here.
    account: PortAccount,
}

impl Replayer {
    pub(super) fn open(
        files: &[Address],
        replay: ReplayOptions,
        options: &OpenOptions,
    ) -> Result<Self, PortError> {
        let files = files.iter().map(|address| address.resolved(Role::Source));
        let files = files.collect::<Result<Vec<_>, _>>()?;
        let Some(first) = files.first() else { return Err(crate::AddressError::Empty.into()) };
        if let Some(address) = files.iter().find(|address| !address.is_file()) {
            return Err(PortError::CannotReceive { port: format!("replay: {address}") });
        }
        let (count, others) = (files.len(), files.len() - 1);
        let name = match others {
            0 => first.to_string(),
            _ => format!("{first} and {others} more"),
        };
        let capabilities = Capabilities {
            can_wait: true,
            is_finite: replay.passes.is_some(),
            ..Capabilities::default()
        };
        let timestamps = match replay.timing {
            Timing::TopSpeed => TimestampSource::File,
            Timing::Original { .. } | Timing::Fixed { .. } => TimestampSource::Synthetic,
        };
        let mut this = Self {
            info: PortInfo { name, capabilities, timestamps },
            files,
            is_changing: replay.rewrite != Rewrite::default(),
            spacing: Spacing::new(replay.timing),
            replay,
            options: options.clone(),
            ready: VecDeque::new(),
            playing: None,
            next_file: count,
            passes: 1,
            decoded_before_pass: 0,
            places: vec![Vec::new(); count],
            taken: Scratch::new(),
            batch: Batch::default(),
            began_ns: None,
            first_due_ns: 0,
            last_due_ns: 0,
            nap_until_ns: 0,
            lent: 0,
            copying: Copying::default(),
            account: PortAccount::default(),
        };
        this.ready = (0..count).map(|file| this.open_file(file)).collect::<Result<_, _>>()?;
        // Files reopened later are already checked against outputs.
        this.options.files = OpenedFiles::default();
        Ok(this)
    }

    fn open_file(&self, file: usize) -> Result<Playing, PortError> {
        let table = PortTable::new();
        let options = OpenOptions { table: table.clone(), ..self.options.clone() };
        Ok(Playing { port: open_source(&self.files[file], &options)?, table, file })
    }

    /// Returns the next file to play; `None` at the end of all.
    fn next_playing(&mut self) -> Result<Option<Playing>, PortError> {
        if let Some(playing) = self.ready.pop_front() {
            return Ok(Some(playing));
        }
        if self.next_file == self.files.len() {
            let is_last = self.replay.passes.is_some_and(|passes| self.passes >= passes);
            let is_vain = self.account.offered == self.decoded_before_pass;
            if is_last || is_vain {
                return Ok(None);
            }
            self.passes += 1;
            self.next_file = 0;
            self.decoded_before_pass = self.account.offered;
        }
        let playing = self.open_file(self.next_file)?;
        self.next_file += 1;
        Ok(Some(playing))
    }

    /// Takes the next packets from the files, if a single poll returns any.
    fn refill(&mut self) -> Result<PortState, PortError> {
        let mut playing = match self.playing.take() {
            Some(playing) => playing,
            None => {
                let Some(playing) = self.next_playing()? else { return Ok(PortState::Ended) };
                self.spacing.begin_file();
                playing
            }
        };
        let mut taken = std::mem::take(&mut self.taken);
        let outcome = self.take(&mut playing, &mut taken);
        self.taken = taken;
        if matches!(outcome, Ok(PortState::Ended)) {
            self.retire(&playing);
            return Ok(PortState::Busy);
        }
        self.playing = Some(playing);
        outcome
    }

    fn take(&mut self, playing: &mut Playing, taken: &mut Scratch) -> Result<PortState, PortError> {
        let lent = playing.port.lend(taken, SCRATCH_PACKETS as u64)?;
        let (state, burst) = (lent.state, lent.burst);
        for (index, packet) in burst.packets().enumerate() {
            let number = usize::from(packet.port());
            while self.places[playing.file].len() <= number {
                let entered = self.enter_interface(playing.file, &playing.table);
                // The rest of the burst was taken from the file and is not delivered.
                entered.inspect_err(|_| self.account.in_flight += (burst.len() - index) as u64)?;
            }
            let place = self.places[playing.file][number];
            match place.destination {
                Destination::Port(port) => self.keep(&packet, place.link, port),
                Destination::Nowhere => self.account.lost.add(Loss::Unmapped, 1),
                Destination::WrongLink => self.account.lost.add(Loss::LinkMismatch, 1),
            }
        }
        Ok(state)
    }

    /// Chooses the destination of the next interface of a file.
    #[cold]
    fn enter_interface(&mut self, file: usize, table: &PortTable) -> Result<(), PortError> {
        let number = self.places[file].len();
        // The interface exists, because the file has a packet of it.
        let Some(entry) = table.entries_from(number).into_iter().next() else {
            return Err(PortError::CannotReceive { port: self.files[file].to_string() });
        };
        let destination = self.replay.routes.enter(number, &entry, &self.options.table);
        let destination = destination.ok_or_else(|| PortError::TooManyInterfaces {
            port: self.files[file].to_string(),
            number: PortTable::MAX_ENTRIES,
            most: PortTable::MAX_ENTRIES,
        })?;
        self.places[file].push(Place { destination, link: entry.link });
        Ok(())
    }

    /// Adds a packet to the batch.
    #[inline]
    fn keep(&mut self, packet: &Packet<'_>, link: LinkType, port: u8) {
        let mut meta = packet.meta();
        meta.port = port;
        let due_ns = self.spacing.due(meta.time_ns, meta.original_length);
        let bytes = &mut self.batch.bytes;
        let offset = bytes.len();
        match self.is_changing {
            true => self.replay.rewrite.append(link, packet.bytes(), bytes),
            false => bytes.extend_from_slice(packet.bytes()),
        }
        let length = (bytes.len() - offset) as u32;
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
        // Truncation is preserved, whatever a rewrite added or removed.
        let cut = meta.original_length.saturating_sub(packet.length() as u32);
        meta.original_length = length + cut;
        self.account.bytes_copied += u64::from(length);
        self.batch.waiting.push_back(Waiting { offset: offset as u32, length, due_ns, meta });
    }

    /// Adds the account of a finished file.
    fn retire(&mut self, playing: &Playing) {
        self.account = self.with(playing);
    }

    /// Returns the account with that of a file added.
    fn with(&self, playing: &Playing) -> PortAccount {
        let mut sum = self.account.clone();
        let of_file = playing.port.account();
        sum.add_counts(&of_file);
        let name = &playing.port.info().name;
        for note in of_file.notes {
            let note = if self.files.len() > 1 { format!("{name}: {note}") } else { note };
            // Each pass meets the same damage.
            if !sum.notes.contains(&note) {
                sum.note(|| note);
            }
        }
        sum
    }

    /// Returns the time since the first packet.
    fn elapsed_ns(&mut self) -> u64 {
        let now_ns = clock::monotonic_ns();
        let (began_ns, _) = *self.began_ns.get_or_insert_with(|| (now_ns, clock::realtime_ns()));
        now_ns - began_ns
    }

    fn next_due_ns(&self) -> Option<u64> {
        self.batch.waiting.front().map(|waiting| waiting.due_ns)
    }
}

impl Port for Replayer {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn account(&self) -> PortAccount {
        let mut account = match &self.playing {
            Some(playing) => self.with(playing),
            None => self.account.clone(),
        };
        account.in_flight += self.batch.waiting.len() as u64;
        self.copying.add_to(&mut account);
        for note in self.replay.routes.missed() {
            account.note(|| note);
        }
        account
    }
}

impl Source for Replayer {
    fn receive(&mut self, writer: &mut Writer, budget: u64) -> Result<Received, PortError> {
        Copying::receive(self, |source| &mut source.copying, writer, budget)
    }

    /// Cost: one clock reading, and reads of the file as documented by its port.
    fn lend<'a>(
        &'a mut self,
        scratch: &'a mut Scratch,
        budget: u64,
    ) -> Result<Lent<'a>, PortError> {
        scratch.clear();
        let first_packet = self.lent;
        let mut idle = PortState::Busy;
        if self.batch.waiting.is_empty() {
            self.batch.bytes.clear();
            idle = self.refill()?;
        }
        if self.batch.waiting.is_empty() {
            if idle == PortState::Idle {
                self.nap_until_ns = clock::monotonic_ns() + PIPE_NAP_NS;
            }
            return Ok(Lent::new(scratch.burst(&[], first_packet), idle));
        }
        let is_paced = self.spacing.is_paced();
        let elapsed_ns = if is_paced { self.elapsed_ns() } else { 0 };
        let origin_ns = self.began_ns.map_or(0, |(_, origin_ns)| origin_ns);
        let room = budget.min(SCRATCH_PACKETS as u64) as usize;
        while scratch.len() < room
            && let Some(waiting) =
                self.batch.waiting.pop_front_if(|waiting| waiting.due_ns <= elapsed_ns)
        {
            let mut meta = waiting.meta;
            if is_paced {
                meta.time_ns = origin_ns.saturating_add(waiting.due_ns);
            }
            if self.lent == 0 {
                self.first_due_ns = waiting.due_ns;
            }
            self.lent += 1;
            self.last_due_ns = waiting.due_ns;
            scratch.push(waiting.offset, waiting.length, &meta);
        }
        let state = match self.next_due_ns() {
            Some(due_ns) if due_ns > elapsed_ns => PortState::Idle,
            _ => PortState::Busy,
        };
        Ok(Lent::new(scratch.burst(&self.batch.bytes, first_packet), state))
    }

    fn pacing(&self) -> Option<Pacing> {
        if !self.spacing.is_paced() {
            return None;
        }
        let span_ns = self.last_due_ns - self.first_due_ns;
        let packets_per_s = match span_ns {
            0 => 0.0,
            _ => self.lent.saturating_sub(1) as f64 * 1e9 / span_ns as f64,
        };
        // Before the first packet, that one is due immediately.
        let (began_ns, first_ns) = self.began_ns.unwrap_or((0, 0));
        let next_ns = match self.next_due_ns() {
            Some(due_ns) => began_ns.saturating_add(due_ns),
            None => self.nap_until_ns,
        };
        Some(Pacing { packets_per_s, next_ns, origin_ns: first_ns.wrapping_sub(began_ns) })
    }
}
