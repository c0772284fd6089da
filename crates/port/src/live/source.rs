//! The common part of live sources that copy packets out of a peer's ring or a device's queue.
//!
//! ```text
//!   peer, device --Intake::take--> our buffer --describe--> lent burst
//!                  one copy        aligned to 16            until the next call
//! ```
//!
//! An [`Intake`] is the rings or the queues of one device; [`LiveSource`] is the port around it.
//! `LiveSource` owns the buffer, asks the judge which packets the job wants, and keeps the account.
//!
//! Invariants:
//! - S1: offered comes from the intake, by the index that the peer sees or the kernel's counters;
//!   offered = delivered + every named loss.
//! - S2: lent packets are in our memory: the peer cannot change them.
//! - S3: a burst examines no more packets than fit into a scratch, wanted or not.

use std::os::fd::BorrowedFd;

use burstline_log::{Burst, Flags, Meta, SCRATCH_PACKETS, Scratch, Writer};
use burstline_sys::clock;
use burstline_wire::headers::LinkType;

use crate::judge::Judge;
use crate::table::Seat;
use crate::{
    Address, Capabilities, Copying, Lent, OpenOptions, Port, PortAccount, PortError, PortInfo,
    PortState, PortTable, Received, Source, TimestampSource,
};

/// The link type of these sources.
const LINK: LinkType = LinkType::ETHERNET;

/// Size of the buffer, in packets of the maximum length: enough for some dozens of packets of 1,514
/// bytes plus one of the maximum length, and small enough to stay in the cache.
const BUFFER_PACKETS: usize = 4;

/// Alignment of packets in the buffer.
const ALIGNMENT: usize = 16;

/// Compiles the job's filter. To be called before the device is opened: a wrong filter must not
/// leave one behind.
pub(crate) fn judge(address: &Address, options: &OpenOptions) -> Result<Judge, PortError> {
    Judge::for_link(options, &address.to_string(), LINK)
}

/// A packet that an intake has copied into the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) bytes: usize,
    /// Offloads that a device has yet to finish.
    pub(crate) flags: Flags,
}

impl Got {
    /// A packet whose checksum must be filled in, or that must be segmented.
    #[inline]
    pub(crate) fn new(bytes: usize, is_partial: bool, is_merged: bool) -> Self {
        let mut flags = Flags::NONE;
        if is_partial {
            flags = flags.union(Flags::PARTIAL_CHECKSUM);
        }
        if is_merged {
            flags = flags.union(Flags::MERGED);
        }
        Self { bytes, flags }
    }
}

/// A path in: rings that a peer or the kernel fills.
pub(crate) trait Intake: Send {
    /// The length of the longest packet.
    const LONGEST: usize;

    /// Checks the device periodically. An error reports that it is gone; after that the answer is
    /// that nothing will come.
    fn look(&mut self) -> Result<bool, PortError> {
        Ok(false)
    }

    /// Copies the next packet into `room`, which has `LONGEST` bytes. `None` if there is none. Adds
    /// to `refused` the packets returned unread to the peer before it.
    fn take(&mut self, room: &mut [u8], refused: &mut u64) -> Option<Got>;

    /// Returns taken buffers to the peer.
    fn give_back(&mut self);

    /// Returns what was offered and lost, bytes copied out of shared memory, rings and events.
    /// Packets taken count as of the last `give_back`; the kernel's drops are read by this call.
    fn account(&self) -> PortAccount;

    /// Returns the number of packets that its rings can hold.
    fn capacity(&self) -> u64;

    /// Whether the peer may send packets with unfinished offloads.
    fn passes_offloads(&self) -> bool;

    /// Asks the peer for a notification, and returns the descriptor that gets it.
    fn readiness(&self) -> BorrowedFd<'_>;
}

/// A port that receives through an intake.
pub(crate) struct LiveSource<I> {
    info: PortInfo,
    intake: I,
    judge: Judge,
    port: Seat,
    buffer: Box<[u8]>,
    delivered: u64,
    unfinished: u64,
    copying: Copying,
    /// How many packets may still be taken once the source is stopped.
    left: Option<u64>,
    is_over: bool,
}

impl<I: Intake> LiveSource<I> {
    /// Creates the port; `interface` is its name in `table`.
    pub(crate) fn new(
        address: &Address,
        interface: &str,
        judge: Judge,
        table: &PortTable,
        intake: I,
    ) -> Result<Self, PortError> {
        let name = address.to_string();
        let port = table.seat_for(&name, interface, LINK)?;
        let capabilities = Capabilities {
            can_drain: true,
            passes_offloads: intake.passes_offloads(),
            ..Capabilities::default()
        };
        Ok(Self {
            info: PortInfo { name, capabilities, timestamps: TimestampSource::Poll },
            intake,
            judge,
            port,
            buffer: vec![0; BUFFER_PACKETS * I::LONGEST.next_multiple_of(4096)].into(),
            delivered: 0,
            unfinished: 0,
            copying: Copying::default(),
            left: None,
            is_over: false,
        })
    }

    /// Takes packets into the buffer, up to `budget`, and describes wanted ones. Returns how many
    /// it took.
    fn fill(&mut self, scratch: &mut Scratch, budget: usize) -> u64 {
        let mut meta = Meta::new(0, 0, self.port.number());
        let (mut at, mut taken) = (0, 0);
        let most = self.left.unwrap_or(u64::MAX).min(SCRATCH_PACKETS as u64);
        while scratch.len() < budget && taken < most && at + I::LONGEST <= self.buffer.len() {
            let room = &mut self.buffer[at..at + I::LONGEST];
            let mut refused = 0;
            let got = self.intake.take(room, &mut refused);
            taken += refused;
            let Some(got) = got else { break };
            if meta.time_ns == 0 {
                // Once per burst, and only if a packet came.
                meta.time_ns = clock::realtime_ns();
            }
            taken += 1;
            at += self.describe(scratch, &mut meta, at, got);
        }
        self.intake.give_back();
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(taken);
        }
        taken
    }

    /// Describes a packet of the buffer, if it is wanted. Returns its size in the buffer.
    #[inline]
    fn describe(&mut self, scratch: &mut Scratch, meta: &mut Meta, at: usize, got: Got) -> usize {
        let packet = &self.buffer[at..at + got.bytes];
        let length = got.bytes as u32;
        if !self.judge.wants(LINK, packet, length, 0) {
            return 0;
        }
        let kept = self.judge.keep(length, length);
        (meta.original_length, meta.flags) = (length, got.flags);
        self.unfinished += u64::from(got.flags != Flags::NONE);
        self.judge.describe(LINK, meta, || &packet[..kept as usize]);
        scratch.push(at as u32, kept, meta);
        got.bytes.next_multiple_of(ALIGNMENT)
    }
}

impl<I: Intake> Port for LiveSource<I> {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    /// Takes at most as many packets as the rings can hold: those that are there now, and perhaps
    /// some that arrive meanwhile.
    fn finish(&mut self) -> Result<(), PortError> {
        self.left = Some(self.intake.capacity());
        Ok(())
    }

    fn account(&self) -> PortAccount {
        let mut account = self.intake.account();
        self.judge.enter_into(&mut account);
        self.copying.add_to(&mut account);
        if self.unfinished > 0 {
            let packets = self.unfinished;
            account.note(|| format!("{packets} packets left checksums or segments to a device"));
        }
        account
    }

    /// The rings of a guest or a process are short, and the account has only the sum of all queues.
    fn may_gather(&self) -> bool {
        false
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        Some(self.intake.readiness())
    }
}

impl<I: Intake> Source for LiveSource<I> {
    /// Cost: one copy per packet. `vhost:` and `memif:`: from the peer's memory, without a system
    /// call, except to ring a bell. `tap:`: by a system call per packet.
    fn lend<'a>(
        &'a mut self,
        scratch: &'a mut Scratch,
        budget: u64,
    ) -> Result<Lent<'a>, PortError> {
        scratch.clear();
        let mut state = PortState::Ended;
        self.is_over = self.is_over || self.intake.look()?;
        if !self.is_over {
            let budget = budget.min(SCRATCH_PACKETS as u64) as usize;
            let taken = self.fill(scratch, budget);
            let is_empty = taken == 0 && budget > 0;
            self.is_over = is_empty && (self.intake.look()? || self.left.is_some());
            if !self.is_over {
                state = PortState::after(taken, budget as u64);
            }
        }
        let first_packet = self.delivered;
        self.delivered += scratch.len() as u64;
        Ok(Lent::new(scratch.burst(&self.buffer, first_packet), state))
    }

    fn receive(&mut self, writer: &mut Writer, budget: u64) -> Result<Received, PortError> {
        Copying::receive(self, |source| &mut source.copying, writer, budget)
    }

    fn lent<'a>(&'a self, scratch: &'a mut Scratch) -> Option<Burst<'a>> {
        Some(scratch.burst(&self.buffer, 0))
    }
}
