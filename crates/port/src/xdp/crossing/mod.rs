//! A crossing between two queues: frames stay in place.
//!
//! ```text
//!   program of A -> rx ring -> read, rewrite -> tx ring of B -> completion ring of B -> fill ring
//!       seen        in flight     named losses     in flight      carried, or refused
//! ```
//!
//! `xdp:A[@QUEUE]` to `xdp:B[@QUEUE]`: without queues, queue i of A goes to queue i of B. Each pair
//! of queues has one memory, two sockets and one program per interface. Each direction is its own
//! [`Crossing`], run by one thread.
//!
//! If B is slow, packets wait in A's rx ring, up to a quarter of the frames. Further packets are
//! lost to the cause that blocks B, so A continues receiving.
//!
//! This process copies nothing. In zero-copy mode nothing copies at all; in copy mode the kernel
//! copies into the frame and out of it. A note says which mode it is.

mod account;
mod open;

use std::os::fd::{AsFd, BorrowedFd};

use burstline_sys::clock;
use burstline_xdp::{Census, Fate, Passage};

use super::intake::{KernelWord, QueueLedger};
use crate::live::{SHORTEST, Wait};
use crate::watch::Watch;
use crate::{
    Carried, Crossing, Loss, Port, PortAccount, PortError, PortInfo, PortState, Received, Treatment,
};
pub(crate) use open::open_crossings;

/// The maximum number of packets per call: few enough to stay in the cache from rx ring to tx ring,
/// and enough to amortise the system call that sends them.
const BATCH: u64 = 256;

/// How long to wait for a stalled exit at the end, in ns.
const WAIT_NS: u64 = 100_000_000;

/// One direction between two queues.
pub(super) struct XdpCrossing {
    info: PortInfo,
    passage: Passage,
    kernel: KernelWord,
    intake: QueueLedger,
    /// The interfaces that packets come in by and leave by.
    entry: Watch,
    exit: Watch,
    treatment: Treatment,
    /// Packets that may wait in the rx ring for room at the exit.
    backlog: u32,
    /// Packets taken from the rx ring.
    taken: u64,
    /// Packets given to the exit, but given up at the end.
    given_up: u64,
    /// Notes, and losses counted here.
    account: PortAccount,
}

impl XdpCrossing {
    /// Checks both interfaces periodically. A deleted entry is an end, not an error, until all
    /// packets that it delivered are passed on.
    #[inline]
    fn look(&mut self, now_ns: u64) -> Result<(), PortError> {
        let Self { entry, exit, passage, account, .. } = self;
        if entry.look(now_ns, || passage.entry().link_state(), account)? {
            self.intake.look();
        }
        exit.look(now_ns, || passage.exit().link_state(), account)?;
        match exit.is_gone() {
            true => Err(exit.gone()),
            false => Ok(()),
        }
    }

    /// Returns the cause of loss for packets that the exit has no room for.
    fn held_up_by(&self) -> Loss {
        let is_there = self.exit.interface().is_up && !self.exit.is_gone();
        if is_there { Loss::TxRingFull } else { Loss::LinkDown }
    }

    /// Takes all packets in the rx ring, whether the exit has room for them or not.
    fn move_the_rest(&mut self) -> Result<(), PortError> {
        while self.move_packets(BATCH, 0)? > 0 {
            self.passage.recycle()?;
        }
        Ok(())
    }

    /// Moves packets from the rx ring to the tx ring. If there is no room, it leaves up to
    /// `backlog` in the rx ring. Returns how many it took.
    #[inline]
    fn move_packets(&mut self, budget: u64, backlog: u32) -> Result<u64, PortError> {
        let Self { passage, treatment, exit, .. } = self;
        let link = exit.interface();
        let longest = link.mtu as usize + SHORTEST;
        let (mut too_long, mut too_short) = (0, 0);
        let (passed, outcome) = passage.pass(budget.min(BATCH) as u32, backlog, |packet| {
            if packet.len() > longest && !link.admits(packet) {
                too_long += 1;
                return Fate::Drop;
            }
            match treatment.apply(packet) {
                Ok(()) => Fate::Send,
                Err(_) => {
                    too_short += 1;
                    Fate::Drop
                }
            }
        });
        self.taken += u64::from(passed.taken);
        let held_up_by = self.held_up_by();
        let lost = [
            (Loss::TooLong, too_long),
            (Loss::TooShort, too_short),
            (held_up_by, u64::from(passed.full)),
            (Loss::BadDescriptor, u64::from(passed.bad)),
        ];
        for (cause, packets) in lost {
            if packets > 0 {
                self.account.lost.add(cause, packets);
            }
        }
        outcome?;
        Ok(passed.taken.into())
    }

    /// Makes the kernel send, and reclaims sent frames.
    fn send(&mut self) -> Result<(), PortError> {
        let sent = self.passage.send();
        self.passage.recycle()?;
        if let Err(error) = sent {
            // Check whether the interface is gone.
            self.exit.look_at_once();
            self.look(clock::monotonic_ns())?;
            return Err(self.exit.failed("send by", error));
        }
        Ok(())
    }

    /// Returns the state if nothing was taken.
    #[cold]
    fn state_when_empty(&mut self) -> Result<PortState, PortError> {
        self.passage.wake_entry();
        if self.passage.in_tx() > 0 || self.passage.in_rx() > 0 {
            return Ok(PortState::Blocked);
        }
        let is_gone = self.entry.is_gone();
        let ending = match is_gone {
            true => Some(self.intake.counts()),
            false => self.intake.settled(|| {
                let now = self.reckon();
                (now.accounted, now.counts)
            }),
        };
        if let Some(counts) = ending.filter(|_| !self.intake.is_over()) {
            self.intake.end(counts);
            if is_gone {
                return Err(self.entry.gone());
            }
        }
        Ok(if self.intake.is_over() { PortState::Ended } else { PortState::Idle })
    }

    /// Sends packets at the exit, while there is progress.
    fn drain_exit(&mut self) -> Result<(), PortError> {
        let mut wait = Wait::new(WAIT_NS);
        loop {
            let sent = self.send();
            let counts = self.passage.counts();
            if self.passage.in_exit() == 0 || sent.is_err() && self.passage.in_tx() > 0 {
                return sent;
            }
            if !wait.pause(counts.completed + counts.refused, clock::monotonic_ns()) {
                return sent;
            }
        }
    }
}

impl Port for XdpCrossing {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    /// Leaves later packets to the host; those in the ring can still be passed, until `Ended`.
    fn finish(&mut self) -> Result<(), PortError> {
        let Self { intake, passage, kernel, taken, .. } = self;
        intake.leave(|| {
            let kernel = kernel.see(passage.statistics());
            *taken + u64::from(passage.in_rx()) + kernel.dropped + kernel.ring_full
        });
        Ok(())
    }

    fn account(&self) -> PortAccount {
        self.account_now()
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        Some(self.passage.entry().as_fd())
    }
}

impl Crossing for XdpCrossing {
    /// In copy mode one system call per call that took packets; every 50 ms a few, to check the
    /// interfaces.
    fn pass(&mut self, budget: u64) -> Result<Received, PortError> {
        self.look(clock::monotonic_ns())?;
        let packets = self.move_packets(budget, self.backlog)?;
        if packets > 0 || self.passage.in_exit() > 0 {
            self.send()?;
        }
        let state = match PortState::after(packets, budget) {
            PortState::Idle => self.state_when_empty()?,
            state => state,
        };
        Ok(Received { packets, state })
    }

    fn close(&mut self) -> Result<(), PortError> {
        let drained = self.drain_exit();
        let mut moved = Ok(());
        if self.passage.in_exit() > 0 || self.exit.is_gone() {
            // Packets in the rx ring that wait for it are never sent.
            moved = self.move_the_rest();
        }
        self.give_up();
        drained.and(moved)
    }

    fn carried(&self) -> Carried {
        self.carried_now()
    }

    fn treatment(&self) -> Treatment {
        self.treatment
    }

    fn census(&self) -> Option<Census> {
        Some(self.passage.census())
    }
}
