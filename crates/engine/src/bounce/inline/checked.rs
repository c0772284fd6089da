//! One direction of an inline bounce.

use std::os::fd::BorrowedFd;
use std::sync::PoisonError;
use std::thread;
use std::time::Duration;

use burstline_log::{Burst, SCRATCH_PACKETS};
use burstline_port::{
    Address, Carried, Crossing, OpenOptions, Port, PortAccount, PortError, PortInfo, PortState,
    Received, Treatment,
};
use burstline_sys::{clock, readiness};

use super::answers::Answers;
use super::flows::Flows;
use super::lane::{Lane, Moment};
use super::outlet::{Ends, Outlet};
use super::{InlineOptions, Said, Told};
use crate::balance::links::Links;
use crate::bounce::carry::Carry;
use crate::worker_of;

/// How long a thread sleeps at most while a packet waits: a verdict wakes nobody.
const LOOK_EVERY_NS: u64 = 50_000;

/// A crossing whose packets wait for verdicts.
pub(super) struct Checked {
    carry: Carry,
    gate: Gate,
    ends: Ends,
    /// The source has no more.
    is_over: bool,
    told: Told,
}

/// What stands between source and sink.
struct Gate {
    lanes: Vec<Lane>,
    flows: Flows,
    links: Links,
    /// Packets that skipped the lanes with their flow.
    skipped: u64,
}

impl Checked {
    pub(super) fn new(
        carry: Carry,
        from: &Address,
        lanes: Vec<Lane>,
        options: &OpenOptions,
        inline: &InlineOptions,
        told: Told,
    ) -> Result<Self, PortError> {
        let ends = Ends::new(inline.is_open, Answers::open(from, options)?);
        let (flows, links) = (Flows::default(), Links::new(&options.table));
        let gate = Gate { lanes, flows, links, skipped: 0 };
        Ok(Self { carry, gate, ends, is_over: false, told })
    }

    /// Looks at every lane once. Returns whether any packet was decided.
    fn look(&mut self, now_ns: u64) -> Result<bool, PortError> {
        let Self { carry: Carry { sink, way, .. }, gate, ends, .. } = self;
        let mut outlet = Outlet { way, sink: &mut **sink, ends };
        gate.each(now_ns, |lane, moment| lane.look(moment, &mut outlet))
    }

    /// Tells what was counted, and hands over the logs' writers, to be ended.
    fn tell(&mut self) {
        let said = Said {
            writers: self.gate.lanes.iter_mut().filter_map(Lane::end).collect(),
            workers: self.gate.lanes.iter().map(|lane| lane.counts).collect(),
            skipped: self.gate.skipped,
            flows: self.gate.flows.entered,
            flows_forgotten: self.gate.flows.forgotten,
            answers: self.ends.answers.sent,
            waits: self.gate.lanes.iter().map(|lane| lane.waits.clone()).collect(),
        };
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = said; // as a whole
    }
}

impl Gate {
    fn waiting(&self) -> u64 {
        self.lanes.iter().map(Lane::waiting).sum()
    }

    /// Does something with each lane. Returns whether any says yes.
    fn each(
        &mut self,
        now_ns: u64,
        mut what: impl FnMut(&mut Lane, &mut Moment<'_>) -> Result<bool, PortError>,
    ) -> Result<bool, PortError> {
        let Self { lanes, flows, links, .. } = self;
        let mut moment = Moment { now_ns, flows, links };
        let mut any = false;
        for lane in lanes {
            any |= what(lane, &mut moment)?;
        }
        Ok(any)
    }

    /// Has each packet of a burst wait for its worker, or skip that with its flow.
    fn spread(
        &mut self,
        burst: &Burst<'_>,
        now_ns: u64,
        outlet: &mut Outlet<'_>,
    ) -> Result<(), PortError> {
        let Self { lanes, flows, links, skipped } = self;
        let mut run = 0;
        for (at, packet) in burst.packets().enumerate() {
            if flows.passes(&packet, now_ns, || links.of(packet.desc().port()).0) {
                *skipped += 1;
                continue;
            }
            outlet.send(burst, run..at)?;
            run = at + 1;
            let lane = worker_of(packet.desc().hash(), lanes.len());
            let mut moment = Moment { now_ns, flows, links };
            lanes[lane].append(&packet, &mut moment, outlet)?;
        }
        outlet.send(burst, run..burst.len())?;
        self.each(now_ns, |lane, moment| lane.publish(moment, outlet).map(|()| false)).map(drop)
    }
}

impl Port for Checked {
    fn info(&self) -> &PortInfo {
        self.carry.info()
    }

    fn finish(&mut self) -> Result<(), PortError> {
        self.carry.finish()
    }

    fn account(&self) -> PortAccount {
        let mut account = self.carry.account();
        account.lost.merge(&self.ends.lost);
        account.in_flight += self.gate.waiting();
        let logged: u64 = self.gate.lanes.iter().map(|lane| lane.bytes_copied).sum();
        account.bytes_copied += logged + self.ends.bytes_copied;
        account
            .hint(|| "inline: each packet is copied once more, into its worker's log".to_owned());
        if let Some(fault) = &self.ends.answers.fault {
            account.note(|| fault.clone());
        }
        account
    }

    fn wait(&self, timeout_ns: u64) -> Option<bool> {
        if self.gate.waiting() == 0 {
            return self.carry.wait(timeout_ns);
        }
        let timeout_ns = timeout_ns.min(LOOK_EVERY_NS);
        let source = self.carry.readiness().filter(|_| !self.is_over);
        let is_ready = source.and_then(|source| readiness::wait_each(&[source], timeout_ns).ok());
        if is_ready.is_none() {
            thread::sleep(Duration::from_nanos(timeout_ns));
        }
        // Not an alarm: the next turn looks at verdicts too.
        Some(false)
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        // While packets wait there is more to wait for than the source.
        if self.gate.waiting() == 0 { self.carry.readiness() } else { None }
    }
}

impl Crossing for Checked {
    fn pass(&mut self, budget: u64) -> Result<Received, PortError> {
        let now_ns = clock::monotonic_ns();
        let has_moved = self.look(now_ns)?;
        let can_wait = self.carry.source.info().capabilities.can_wait;
        let is_held_up = can_wait && self.gate.lanes.iter().any(Lane::has_enough);
        let (mut packets, mut state) = (0, PortState::Blocked);
        if !self.is_over && !is_held_up {
            let Self { carry: Carry { source, sink, scratch, way, .. }, gate, ends, .. } = self;
            let lent = source.lend(scratch, budget.min(SCRATCH_PACKETS as u64))?;
            (packets, state) = (lent.burst.len() as u64, lent.state);
            if packets > 0 {
                let mut outlet = Outlet { way, sink: &mut **sink, ends };
                gate.spread(&lent.burst, now_ns, &mut outlet)?;
            }
        }
        self.is_over |= state == PortState::Ended;
        if has_moved || packets > 0 {
            if state != PortState::Busy {
                self.carry.sink.flush()?;
            }
            state = PortState::Busy;
        } else if self.is_over {
            let has_waiting = self.gate.waiting() > 0;
            state = if has_waiting { PortState::Idle } else { PortState::Ended };
        }
        Ok(Received { packets, state })
    }

    /// Waits for the verdicts of those that wait: each has one, or is late, within the deadline.
    fn close(&mut self) -> Result<(), PortError> {
        let mut outcome = Ok(());
        while self.gate.waiting() > 0 && outcome.is_ok() {
            match self.look(clock::monotonic_ns()) {
                Ok(true) => {}
                Ok(false) => thread::sleep(Duration::from_nanos(LOOK_EVERY_NS)),
                Err(error) => outcome = Err(error),
            }
        }
        self.ends.answers.finish();
        self.tell();
        outcome.and(self.carry.close())
    }

    fn carried(&self) -> Carried {
        self.carry.carried()
    }

    fn treatment(&self) -> Treatment {
        self.carry.treatment()
    }
}
