//! A crossing between ports without common frames: the source lends a burst, the sink copies it.

use std::os::fd::BorrowedFd;

use burstline_log::{Burst, SCRATCH_PACKETS, Scratch};
use burstline_port::{
    Address, Capabilities, Carried, Crossing, Loss, OpenOptions, Port, PortAccount, PortError,
    PortInfo, PortState, Received, Sink, Source, Treatment, open_sink, open_source,
};

use super::given::Given;
use crate::runtime::Tally;

/// The source and the sink of one direction.
pub(super) struct Carry {
    info: PortInfo,
    pub(super) source: Box<dyn Source>,
    pub(super) sink: Box<dyn Sink>,
    pub(super) scratch: Scratch,
    pub(super) way: Way,
}

/// The path between source and sink.
pub(super) struct Way {
    treatment: Treatment,
    rewritten: Rewritten,
    given: Given,
}

/// Buffer for rewritten packets and their descs: the source's are read-only.
#[derive(Default)]
struct Rewritten {
    bytes: Vec<u8>,
    scratch: Scratch,
    bytes_copied: u64,
    too_short: u64,
}

impl Carry {
    pub(super) fn open(
        from: &Address,
        to: &Address,
        treatment: &Treatment,
        options: &OpenOptions,
    ) -> Result<Self, PortError> {
        let forwards = to.leads_to_interface();
        let options = &OpenOptions { forwards, ..options.clone() };
        // Packets sent by its own interface would come back.
        let open_source = || open_source(&from.inward()?, options);
        let (source, sink) = match options.files.before().filter(|_| !from.leads_to_interface()) {
            None => (open_source()?, open_sink(to, options)?),
            Some(before_files) => {
                // The sink may take the rights that a file is not read with.
                let sink = open_sink(to, options)?;
                before_files().map_err(|error| {
                    let path = from.target().into();
                    PortError::Io { action: "give up rights for", path, error }
                })?;
                (open_source()?, sink)
            }
        };
        let (comes, goes) = (source.info(), sink.info());
        let capabilities = Capabilities {
            can_drain: comes.capabilities.can_drain,
            is_finite: comes.capabilities.is_finite,
            ..Capabilities::default()
        };
        let info = PortInfo {
            name: format!("{} > {}", comes.name, goes.name),
            capabilities,
            timestamps: comes.timestamps,
        };
        let given = Given::default();
        let way = Way { treatment: *treatment, rewritten: Rewritten::default(), given };
        Ok(Self { info, source, sink, scratch: Scratch::new(), way })
    }
}

impl Way {
    /// Passes a burst to the sink.
    pub(super) fn pass(&mut self, burst: &Burst<'_>, sink: &mut dyn Sink) -> Result<(), PortError> {
        if self.treatment.writes_nothing() {
            burst.packets().for_each(|packet| self.treatment.read(packet.bytes()));
            return self.given.transmit(burst, sink);
        }
        let rewritten = self.rewritten.rewrite(burst, &mut self.treatment);
        self.given.transmit(&rewritten, sink)
    }
}

impl Rewritten {
    fn rewrite(&mut self, burst: &Burst<'_>, treatment: &mut Treatment) -> Burst<'_> {
        self.bytes.clear();
        self.scratch.clear();
        for packet in burst.packets() {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(packet.bytes());
            if treatment.apply(&mut self.bytes[start..]).is_err() {
                self.bytes.truncate(start);
                self.too_short += 1;
                continue;
            }
            let length = packet.length() as u32;
            self.scratch.push(start as u32, length, &packet.meta());
            self.bytes_copied += u64::from(length);
        }
        self.scratch.burst(&self.bytes, burst.first_packet())
    }
}

impl Port for Carry {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn finish(&mut self) -> Result<(), PortError> {
        self.source.finish()
    }

    fn account(&self) -> PortAccount {
        let (mut account, sink) = (self.source.account(), self.sink.account());
        account.lost.merge(&sink.lost);
        if self.way.rewritten.too_short > 0 {
            account.lost.add(Loss::TooShort, self.way.rewritten.too_short);
        }
        account.in_flight += sink.in_flight;
        account.truncated += sink.truncated;
        account.bytes_copied += sink.bytes_copied + self.way.rewritten.bytes_copied;
        account.notes.extend(sink.notes);
        account.notes_omitted += sink.notes_omitted;
        account.is_damaged |= sink.is_damaged;
        let copies = match self.way.treatment.writes_nothing() {
            true => "each packet is copied once, into the sink",
            false => "each packet is copied twice: for the rewrite, and into the sink",
        };
        account.hint(|| copies.to_owned());
        account
    }

    fn wait(&self, timeout_ns: u64) -> Option<bool> {
        self.source.wait(timeout_ns)
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        self.source.readiness()
    }
}

impl Crossing for Carry {
    fn pass(&mut self, budget: u64) -> Result<Received, PortError> {
        let Self { source, sink, scratch, way, .. } = self;
        let lent = source.lend(scratch, budget.min(SCRATCH_PACKETS as u64))?;
        let (packets, state) = (lent.burst.len() as u64, lent.state);
        if packets > 0 {
            way.pass(&lent.burst, &mut **sink)?;
            if state != PortState::Busy {
                sink.flush()?;
            }
        }
        Ok(Received { packets, state })
    }

    fn close(&mut self) -> Result<(), PortError> {
        self.sink.finish()
    }

    fn carried(&self) -> Carried {
        let in_flight = self.sink.account().in_flight;
        let Tally { packets, bytes, .. } = self.way.given.taken(&*self.sink);
        Carried { packets: packets.saturating_sub(in_flight), bytes }
    }

    fn treatment(&self) -> Treatment {
        self.way.treatment
    }
}
