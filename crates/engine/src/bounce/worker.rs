//! One thread of a bounce, and the crossings that it runs.

use burstline_log::SCRATCH_PACKETS;
use burstline_port::{Crossing, Losses, Port, PortState};
use burstline_sys::clock;

use super::{Job, stage_name};
use crate::EngineError;
use crate::budget::Grant;
use crate::clock::{Drain, Glances, SECOND_NS};
use crate::report::ThreadPlace;
use crate::stage::{StageCost, StageMeter};
use crate::tally::Tally;
use crate::waiting::Waiter;

/// How often a crossing's counts are shown while it runs, in ns.
const SHOWN_EVERY_NS: u64 = 100_000_000;

/// A crossing, and what its worker knows of it.
pub(super) struct Lane {
    pub(super) index: usize,
    pub(super) crossing: Box<dyn Crossing>,
    pub(super) lost_first_second: u64,
    pub(super) error: Option<EngineError>,
    is_over: bool,
}

impl Lane {
    pub(super) fn new(index: usize, crossing: Box<dyn Crossing>) -> Self {
        Self { index, crossing, lost_first_second: 0, error: None, is_over: false }
    }

    /// What it has carried so far.
    pub(super) fn carried(&self) -> Tally {
        let carried = self.crossing.carried();
        let (packets, bytes) = (carried.packets, carried.bytes);
        Tally { packets, bytes, wire_bytes: bytes }
    }

    fn fail(&mut self, error: impl Into<EngineError>) {
        self.error.get_or_insert(error.into());
        self.is_over = true;
    }
}

/// What a worker brings home.
pub(super) struct Done {
    pub(super) place: ThreadPlace,
    pub(super) lanes: Vec<Lane>,
    pub(super) cost: StageCost,
}

pub(super) struct Worker<'a> {
    job: &'a Job<'a>,
    place: ThreadPlace,
    lanes: Vec<Lane>,
    meter: StageMeter,
    waiter: Waiter,
    shown_ns: u64,
}

/// What a turn over all lanes has found.
struct Turn {
    packets: u64,
    /// Some lane has work that it cannot do now.
    is_blocked: bool,
    /// All are over, or the limit is reached.
    is_over: bool,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        job: &'a Job<'a>,
        index: usize,
        lanes: Vec<Lane>,
    ) -> Result<Self, EngineError> {
        let place = job.threads.settle(index, &stage_name(index));
        let place = place.and_then(|place| job.threads.drop_privileges().map(|()| place));
        // The others need not begin what will not be reported.
        let place = place.inspect_err(|_| job.clock.break_off())?;
        let waiter = Waiter::new(job.threads.poll, clock::monotonic_ns());
        let (meter, shown_ns) = (StageMeter::start(), job.clock.start_ns);
        Ok(Self { job, place, lanes, meter, waiter, shown_ns })
    }

    pub(super) fn run(mut self) -> Done {
        self.run_until_over();
        self.finish();
        for index in 0..self.lanes.len() {
            self.end(index);
        }
        self.show(clock::monotonic_ns());
        self.place.look();
        Done { place: self.place, lanes: self.lanes, cost: self.meter.end(self.waiter.sleeps()) }
    }

    fn run_until_over(&mut self) {
        let job = self.job;
        let (mut now_ns, mut glances) = (clock::monotonic_ns(), Glances::default());
        while !job.clock.is_over(now_ns) {
            let turn = self.turn();
            if turn.is_over {
                return;
            }
            let Some(was_busy) = glances.look(turn.packets > 0) else { continue };
            let before_ns = std::mem::replace(&mut now_ns, clock::monotonic_ns());
            if now_ns - self.shown_ns >= SHOWN_EVERY_NS {
                self.show(now_ns);
            }
            self.meter.pass(now_ns - before_ns, was_busy);
            if was_busy {
                self.waiter.work(now_ns);
            }
            if turn.packets > 0 {
                continue;
            }
            let lanes = self.lanes.iter().filter(|lane| !lane.is_over);
            let ports = lanes.map(|lane| &*lane.crossing as &dyn Port);
            let has_slept = match turn.is_blocked {
                true => self.waiter.pause_briefly(now_ns, &job.clock),
                false => self.waiter.pause(ports, now_ns, &job.clock),
            };
            if has_slept {
                now_ns = clock::monotonic_ns();
            }
        }
    }

    /// Runs each lane once.
    #[inline]
    fn turn(&mut self) -> Turn {
        let budget = &self.job.budget;
        let mut turn = Turn { packets: 0, is_blocked: false, is_over: true };
        for lane in self.lanes.iter_mut().filter(|lane| !lane.is_over) {
            let granted = match budget.take(SCRATCH_PACKETS as u64) {
                Grant::Packets(granted) => granted,
                Grant::Wait => {
                    (turn.is_blocked, turn.is_over) = (true, false);
                    continue;
                }
                Grant::Reached => return Turn { is_over: true, ..turn },
            };
            match lane.crossing.pass(granted) {
                Ok(received) => {
                    budget.settle(granted, received.packets);
                    turn.packets += received.packets;
                    turn.is_blocked |= received.state == PortState::Blocked;
                    lane.is_over = received.state == PortState::Ended;
                }
                Err(error) => {
                    budget.settle(granted, 0);
                    lane.fail(error);
                }
            }
            turn.is_over &= lane.is_over;
        }
        turn
    }

    /// Stops what comes into the lanes: all before one is drained, since a program may be off only
    /// when the last of its queues has left.
    fn finish(&mut self) {
        for lane in &mut self.lanes {
            if lane.crossing.info().capabilities.can_drain {
                let finished = lane.crossing.finish();
                finished.unwrap_or_else(|error| lane.fail(error));
            }
        }
    }

    /// Drains and closes a lane that was finished, whatever has ended it.
    fn end(&mut self, index: usize) {
        let (budget, lane) = (&self.job.budget, &mut self.lanes[index]);
        if lane.crossing.info().capabilities.can_drain {
            let mut drain = Drain::start();
            while let Grant::Packets(granted) = budget.take(SCRATCH_PACKETS as u64) {
                let passed = lane.crossing.pass(granted);
                let packets = passed.as_ref().map_or(0, |received| received.packets);
                budget.settle(granted, packets);
                match passed {
                    Ok(received) if received.state == PortState::Ended => break,
                    Ok(_) if drain.goes_on(packets > 0) => {}
                    Ok(_) => break,
                    Err(error) => {
                        lane.fail(error);
                        break;
                    }
                }
            }
        }
        let closed = lane.crossing.close();
        closed.unwrap_or_else(|error| lane.fail(error));
    }

    /// Some times a second, not at every turn: an account costs an allocation and system calls.
    fn show(&mut self, now_ns: u64) {
        let since_start_ns = self.shown_ns - self.job.clock.start_ns;
        self.shown_ns = now_ns;
        for lane in &mut self.lanes {
            let losses: Losses = lane.crossing.account().lost;
            if since_start_ns < SECOND_NS {
                lane.lost_first_second = losses.missing();
            }
            let progress = self.job.progress;
            if let Some(counter) = progress.received.get(lane.index) {
                counter.store(&lane.carried());
            }
            progress.set_losses(lane.index, losses);
        }
    }
}
