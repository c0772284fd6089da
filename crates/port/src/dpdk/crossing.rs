//! A crossing between two DPDK devices: mbufs are passed on without a copy.
//!
//! ```text
//!   A: rx burst ─► read, rewrite ─► tx burst of B ─► B returns the mbuf to A's pool
//!                     └ too short: returned          └ no room: kept and retried
//! ```
//!
//! Similar devices receive into one pool, unless `pool=` sets the size of a separate one. The
//! second of two consecutive bursts gets the mbufs of the first, from the cache.
//!
//! Queue i of A goes to queue i of B; each pair is its own crossing, run by one thread. While B has
//! no room, nothing is taken from A, whose device then counts what it misses. When B has stalled
//! for its `wait_ms`, the waiting packets are lost to it.

use burstline_dpdk::{Exit, Receiver};
use burstline_sys::clock;

use super::intake::TakenQueue;
use super::open::open_both;
use super::outlet::{Fate, Given, held_up_by, last_wait};
use super::watch::DeviceWatch;
use crate::live::Wait;
use crate::{
    Address, Capabilities, Carried, Crossing, Loss, Port, PortAccount, PortError, PortInfo,
    PortState, Received, TimestampSource, Treatment,
};

/// One direction between two queues.
struct DpdkCrossing {
    info: PortInfo,
    intake: TakenQueue,
    exit: Exit,
    burst: usize,
    entry_watch: DeviceWatch,
    exit_watch: DeviceWatch,
    treatment: Treatment,
    wait: Wait,
    wait_ns: u64,
    given: Given,
    given_bytes: u64,
    is_lost: bool,
    account: PortAccount,
}

/// Opens the crossings from one device to another, and with `is_both` also the other direction.
pub(crate) fn open_crossings(
    ends: [&Address; 2],
    is_both: bool,
    treatment: &Treatment,
) -> Result<Vec<Box<dyn Crossing>>, PortError> {
    let opened = open_both(ends)?;
    let ways = if is_both { &[[0, 1], [1, 0]][..] } else { &[[0, 1]][..] };
    let mut crossings: Vec<Box<dyn Crossing>> = Vec::new();
    for &[from, to] in ways {
        let (entry, exit) = (&opened[from], &opened[to]);
        for queue in 0..entry.0.device.queues {
            let receiver = Receiver::new(&entry.1, queue, entry.0.burst)?;
            let mut name = format!("{} > {}", ends[from], ends[to]);
            if entry.0.device.queues > 1 {
                name.push_str(&format!(" @{queue}"));
            }
            let capabilities = Capabilities { can_drain: true, ..Capabilities::default() };
            let timestamps = TimestampSource::Poll;
            let mut account = PortAccount::default();
            account.hint(|| "each packet stays in its mbuf: nothing is copied here".to_owned());
            if queue == 0 {
                let facts = entry.1.facts();
                account.hint(|| format!("offloads of {}: {}", facts.driver, facts.offloads));
            }
            crossings.push(Box::new(DpdkCrossing {
                info: PortInfo { name, capabilities, timestamps },
                intake: TakenQueue::new(receiver, queue),
                exit: Exit::new(&exit.1)?,
                burst: entry.0.burst.into(),
                entry_watch: DeviceWatch::new(&entry.1),
                exit_watch: DeviceWatch::new(&exit.1),
                treatment: *treatment,
                wait: Wait::new(exit.0.wait_ns),
                wait_ns: exit.0.wait_ns,
                given: Given::default(),
                given_bytes: 0,
                is_lost: false,
                account,
            }));
        }
    }
    Ok(crossings)
}

impl DpdkCrossing {
    fn lose(&mut self, cause: Loss, packets: usize) {
        if packets > 0 {
            self.account.lost.add(cause, packets as u64);
        }
    }

    fn look(&mut self) -> Result<(), PortError> {
        let now_ns = clock::monotonic_ns();
        self.entry_watch.look(now_ns, &mut self.account);
        self.look_at_exit(now_ns);
        self.tell_if_gone()
    }

    /// As `look`, after a burst.
    #[inline]
    fn look_at_times(&mut self) -> Result<(), PortError> {
        if !self.entry_watch.look_at_times(&mut self.account) {
            return Ok(());
        }
        self.look_at_exit(clock::monotonic_ns());
        self.tell_if_gone()
    }

    /// Reports once that the exit is gone.
    #[inline]
    fn tell_if_gone(&mut self) -> Result<(), PortError> {
        match self.exit_watch.is_gone() && !std::mem::replace(&mut self.is_lost, true) {
            true => Err(self.exit_watch.gone()),
            false => Ok(()),
        }
    }

    /// Reads the packets of a new burst, and writes to them, as requested.
    #[inline]
    fn treat(&mut self) {
        let treatment = &mut self.treatment;
        if treatment.does_nothing() {
            return;
        }
        let before = self.intake.receiver.undelivered();
        self.intake.receiver.treat(|bytes| treatment.apply(bytes).is_ok());
        let too_short = before - self.intake.receiver.undelivered();
        self.lose(Loss::TooShort, too_short);
    }

    /// Hands on the burst. Returns whether some of it is left.
    #[inline]
    fn hand_on(&mut self) -> bool {
        let (packets, bytes) = self.exit.forward(&mut self.intake.receiver);
        self.given.accepted += packets;
        self.given_bytes += bytes;
        self.intake.receiver.undelivered() > 0
    }

    /// Handles an exit without room: pauses, or gives up the waiting packets.
    #[cold]
    fn wait_for_room(&mut self) {
        self.exit.reclaim();
        if !self.wait.pause(self.given.accepted, clock::monotonic_ns()) {
            let discarded = self.intake.receiver.discard();
            self.lose(held_up_by(self.exit_watch.is_up()), discarded);
        }
    }

    #[cold]
    fn state_when_empty(&mut self) -> Result<PortState, PortError> {
        // All mbufs of the entry may be in the exit's ring while it still has room.
        self.exit.reclaim();
        let is_gone = self.entry_watch.is_gone();
        let is_over = self.intake.is_over(is_gone);
        if is_gone && !std::mem::replace(&mut self.is_lost, true) {
            return Err(self.entry_watch.gone());
        }
        Ok(if is_over { PortState::Ended } else { PortState::Idle })
    }

    fn look_at_exit(&mut self, now_ns: u64) {
        if self.exit_watch.look(now_ns, &mut self.account) {
            self.given.remember(&self.exit);
        }
    }

    fn fate(&self) -> Fate {
        self.given.fate(&self.exit)
    }
}

impl Port for DpdkCrossing {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    /// Takes no new packets; those that have arrived can still be passed, until `Ended`.
    fn finish(&mut self) -> Result<(), PortError> {
        self.intake.finish();
        Ok(())
    }

    fn account(&self) -> PortAccount {
        let mut account = self.account.clone();
        self.intake.enter_into(&mut account);
        let fate = self.fate();
        for (cause, packets) in self.given.losses(&fate, self.exit_watch.is_up()) {
            if packets > 0 {
                account.lost.add(cause, packets);
            }
        }
        account.in_flight += fate.in_flight;
        account
    }
}

impl Crossing for DpdkCrossing {
    /// No system calls except the drivers'; every 50 ms a few, to check the devices. While packets
    /// pass, it does not read the clock, and reads only a packet's length.
    fn pass(&mut self, budget: u64) -> Result<Received, PortError> {
        let mut packets = 0;
        if self.intake.receiver.undelivered() > 0 || budget == 0 {
            self.look()?;
        } else {
            self.look_at_times()?;
            packets = self.intake.poll(self.burst.min(budget as usize));
            if packets == 0 {
                self.look()?;
                let state = self.state_when_empty()?;
                return Ok(Received { packets: 0, state });
            }
            self.treat();
        }
        let mut state = if budget == 0 { PortState::Blocked } else { PortState::Busy };
        if self.hand_on() {
            self.wait_for_room();
            state = PortState::Blocked;
        }
        Ok(Received { packets: packets as u64, state })
    }

    fn close(&mut self) -> Result<(), PortError> {
        while self.intake.receiver.undelivered() > 0 && self.hand_on() {
            self.wait_for_room();
        }
        self.wait = last_wait(self.wait_ns);
        loop {
            self.exit.reclaim();
            let fate = self.fate();
            let mut is_stuck = || !self.wait.pause(fate.sent, clock::monotonic_ns());
            if fate.in_flight == 0 || is_stuck() {
                self.given.give_up(&fate);
                return Ok(());
            }
        }
    }

    fn carried(&self) -> Carried {
        Carried { packets: self.fate().sent, bytes: self.given_bytes }
    }

    fn treatment(&self) -> Treatment {
        self.treatment
    }
}
