//! Live sources that copy packets out of a peer's ring: what they have in common.
//!
//! ```text
//!   peer's memory --Intake::take--> our buffer --describe--> lent burst
//!                   one copy        aligned to 16            until the next call
//! ```
//!
//! An [`Intake`] is a ring of one kind; [`LiveSource`] is the port around it. It has the buffer,
//! asks the judge which packets the job wants, and keeps the account.
//!
//! Invariants:
//! - S1: offered is the intake's word, by the index that the peer sees; offered = delivered +
//!   every named loss.
//! - S2: what is lent is in our memory: the peer cannot change it.
//! - S3: a burst looks at no more packets than fit into a scratch, wanted or not.

use std::os::fd::BorrowedFd;

use burstline_log::{Burst, Flags, Meta, SCRATCH_PACKETS, Scratch, Writer};
use burstline_sys::clock;
use burstline_wire::headers::LinkType;

use crate::judge::Judge;
use crate::table::Seat;
use crate::{
    Address, Capabilities, Copying, Lent, Losses, OpenOptions, Port, PortAccount, PortError,
    PortInfo, PortState, Received, RingFill, Source, TimestampSource,
};

/// Where packets begin in the buffer: at multiples of it.
const ALIGNMENT: usize = 16;

/// A packet that an intake has copied into the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) bytes: usize,
    /// What a device still has to do to it.
    pub(crate) flags: Flags,
}

/// What an intake has taken from its peer.
#[derive(Clone, Debug, Default)]
pub(crate) struct IntakeCounts {
    /// Packets, by the index that the peer sees.
    pub(crate) taken: u64,
    /// Those of them that were no packets.
    pub(crate) lost: Losses,
}

/// A way in: a ring that a peer fills.
pub(crate) trait Intake: Send {
    /// Bytes of the longest packet.
    const LONGEST: usize;

    /// Copies the next packet into `room`, which has `LONGEST` bytes. `None`: there is none.
    /// `refused` is how many were given back to the peer unread before it.
    fn take(&mut self, room: &mut [u8], refused: &mut u64) -> Option<Got>;

    /// Gives back to the peer what was taken.
    fn give_back(&mut self);

    /// As of the last `give_back`.
    fn counts(&self) -> &IntakeCounts;

    /// Packets that its rings have room for.
    fn capacity(&self) -> u64;

    /// How full its rings are.
    fn rings(&self) -> Vec<RingFill>;

    /// What has happened to the peer, in order.
    fn events(&self) -> Vec<String>;

    /// Whether the peer says that packets are unfinished.
    fn passes_offloads(&self) -> bool;

    /// Asks the peer to ring, and says where that is seen.
    fn readiness(&self) -> BorrowedFd<'_>;
}

/// A port that receives by an intake.
pub(crate) struct LiveSource<I> {
    info: PortInfo,
    intake: I,
    judge: Judge,
    port: Seat,
    buffer: Box<[u8]>,
    delivered: u64,
    bytes_copied: u64,
    unfinished: u64,
    copying: Copying,
    /// How many packets may still be taken, once it is stopped.
    left: Option<u64>,
    is_over: bool,
}

impl<I: Intake> LiveSource<I> {
    /// `interface` is what the port is called among the job's interfaces.
    pub(crate) fn new(
        address: &Address,
        interface: &str,
        options: &OpenOptions,
        intake: I,
    ) -> Result<Self, PortError> {
        let (name, link) = (address.to_string(), LinkType::ETHERNET);
        let judge = Judge::for_link(options, &name, link)?;
        let port = options.table.seat_for(&name, interface, link)?;
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
            buffer: vec![0; 4 * I::LONGEST.next_multiple_of(4096)].into(),
            delivered: 0,
            bytes_copied: 0,
            unfinished: 0,
            copying: Copying::default(),
            left: None,
            is_over: false,
        })
    }

    /// Takes packets into the buffer, up to `budget`, and describes those that are wanted. Returns
    /// how many it took.
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
                // Once a burst, and not where nothing came.
                meta.time_ns = clock::realtime_ns();
            }
            taken += 1;
            self.bytes_copied += got.bytes as u64;
            at += self.describe(scratch, &mut meta, at, got);
        }
        self.intake.give_back();
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(taken);
        }
        taken
    }

    /// Describes a packet of the buffer, if it is wanted. Returns how much room it takes.
    #[inline]
    fn describe(&mut self, scratch: &mut Scratch, meta: &mut Meta, at: usize, got: Got) -> usize {
        let (link, packet) = (LinkType::ETHERNET, &self.buffer[at..at + got.bytes]);
        let length = got.bytes as u32;
        if !self.judge.wants(link, packet, length, 0) {
            return 0;
        }
        let kept = self.judge.keep(length, length);
        (meta.original_length, meta.flags) = (length, got.flags);
        self.unfinished += u64::from(got.flags != Flags::NONE);
        self.judge.describe(link, meta, || &packet[..kept as usize]);
        scratch.push(at as u32, kept, meta);
        got.bytes.next_multiple_of(ALIGNMENT)
    }
}

impl<I: Intake> Port for LiveSource<I> {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    /// Takes no more than what fits into the rings: the packets that are there now, and perhaps
    /// some that come meanwhile.
    fn finish(&mut self) -> Result<(), PortError> {
        self.left = Some(self.intake.capacity());
        Ok(())
    }

    fn account(&self) -> PortAccount {
        let IntakeCounts { taken, lost } = self.intake.counts().clone();
        let mut account = PortAccount {
            offered: taken,
            lost,
            bytes_copied: self.bytes_copied,
            rings: self.intake.rings(),
            ..PortAccount::default()
        };
        self.judge.enter_into(&mut account);
        self.copying.add_to(&mut account);
        if self.unfinished > 0 {
            let packets = self.unfinished;
            account.note(|| format!("{packets} packets are left for a device to finish"));
        }
        for event in self.intake.events() {
            account.event(|| event);
        }
        account
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        Some(self.intake.readiness())
    }
}

impl<I: Intake> Source for LiveSource<I> {
    /// One copy of each packet, out of the peer's memory. No system call, but for a bell.
    fn lend<'a>(
        &'a mut self,
        scratch: &'a mut Scratch,
        budget: u64,
    ) -> Result<Lent<'a>, PortError> {
        scratch.clear();
        let mut state = PortState::Ended;
        if !self.is_over {
            let budget = budget.min(SCRATCH_PACKETS as u64) as usize;
            let taken = self.fill(scratch, budget);
            self.is_over = taken == 0 && budget > 0 && self.left.is_some();
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
