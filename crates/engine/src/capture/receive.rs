//! A receive thread: each of its sources in turn, one publish a poll, into a log of its own.

use std::thread::Thread;

use burstline_log::{Ending, Writer};
use burstline_port::{Port, PortError, PortState, Received};
use burstline_sys::clock;

use super::merge::Merged;
use super::{Job, LogCounts};
use crate::EngineError;
use crate::budget::Grant;
use crate::clock::{Drain, LossWatch};
use crate::job::{Owners, Source};
use crate::stage::{StageCost, StageMeter};
use crate::tally::Tally;
use crate::waiting::Waiter;

/// Packets taken from one source before the next has its turn: at 60 bytes a quarter of the
/// default segment.
const RECEIVE_BUDGET: u64 = 1024;

/// What a receive thread fills: its log, or several.
pub(crate) trait Intake: Send {
    /// Takes up to `budget` packets of source number `source`.
    fn receive(
        &mut self,
        source: usize,
        port: &mut dyn Port,
        budget: u64,
    ) -> Result<Received, PortError>;
    /// Makes them visible.
    fn publish(&mut self);
    /// What was written so far.
    fn statistics(&self) -> LogCounts;
    /// Closes what it fills.
    fn end(self, ending: Ending);
}

impl Intake for Writer {
    fn receive(
        &mut self,
        _source: usize,
        port: &mut dyn Port,
        budget: u64,
    ) -> Result<Received, PortError> {
        port.receive(self, budget)
    }

    fn publish(&mut self) {
        Writer::publish(self);
    }

    fn statistics(&self) -> LogCounts {
        Writer::statistics(self)
    }

    fn end(self, ending: Ending) {
        self.finish(ending);
    }
}

/// What a receive thread brings home.
pub(crate) struct Took {
    /// Packets appended to its log, by the source's number in the job.
    pub(crate) received: Vec<(usize, u64)>,
    /// The interfaces that its sources brought while they were polled.
    pub(crate) owners: Owners,
    pub(crate) log: LogCounts,
    pub(crate) cost: StageCost,
    /// What the sources lost, not counting what nobody asked for.
    pub(crate) lost: u64,
    pub(crate) lost_first_second: u64,
    pub(crate) errors: Vec<EngineError>,
    /// What there is to say besides where sources were merged.
    pub(super) merged: Option<Merged>,
}

/// One source in a receive thread's hands.
struct Hand<'a> {
    /// Its number in the job.
    index: usize,
    source: &'a mut Source,
    is_ended: bool,
    /// Packets appended to the log.
    received: u64,
}

/// A receive thread's own.
pub(crate) struct Receiver<'a, I = Writer> {
    job: &'a Job<'a>,
    /// Its number among the receive threads.
    number: usize,
    hands: Vec<Hand<'a>>,
    writer: I,
    /// Whom to tell of news, where one log's own waking is not enough.
    bells: Vec<Thread>,
    owners: Owners,
    waiter: Waiter,
    is_limit_reached: bool,
    errors: Vec<EngineError>,
    losses: LossWatch,
}

/// What came of one round over the sources.
#[derive(Default)]
struct Round {
    packets: u64,
    /// Whether a source has more, though its filter may have wanted none so far.
    is_busy: bool,
    /// The log had no room.
    is_blocked: bool,
    /// What is left of the limit is in other threads' hands.
    is_waiting: bool,
}

impl<'a, I: Intake> Receiver<'a, I> {
    /// `sources` with their numbers in the job; `bells` are threads woken after each publish.
    pub(crate) fn new(
        job: &'a Job<'a>,
        number: usize,
        sources: Vec<(usize, &'a mut Source)>,
        writer: I,
        bells: Vec<Thread>,
    ) -> Self {
        let hand = |(index, source)| Hand { index, source, is_ended: false, received: 0 };
        Self {
            job,
            number,
            hands: sources.into_iter().map(hand).collect(),
            writer,
            bells,
            owners: Owners::new(&job.options.table),
            waiter: Waiter::new(job.options.threads.poll, clock::monotonic_ns()),
            is_limit_reached: false,
            errors: Vec::new(),
            losses: LossWatch::new(job.clock.start_ns),
        }
    }

    /// Receives until the job is over, and closes the log.
    pub(crate) fn run(mut self) -> Took {
        let mut meter = StageMeter::start();
        let mut now_ns = clock::monotonic_ns();
        while !self.job.clock.is_over(now_ns) && self.goes_on() {
            let round = self.poll_all();
            let before_ns = std::mem::replace(&mut now_ns, clock::monotonic_ns());
            self.look_at_losses(now_ns);
            if round.packets > 0 || round.is_busy {
                self.waiter.work(now_ns);
                meter.busy_ns += now_ns - before_ns;
                self.show_progress();
                continue;
            }
            meter.empty_ns += now_ns - before_ns;
            if self.pause(&round, now_ns) {
                now_ns = clock::monotonic_ns();
            }
        }
        self.drain();
        self.show_progress();
        let lost = self.show_losses();
        let took = Took {
            received: self.hands.iter().map(|hand| (hand.index, hand.received)).collect(),
            owners: self.owners,
            log: self.writer.statistics(),
            cost: meter.end(self.waiter.sleeps()),
            lost,
            lost_first_second: self.losses.first_second_or(lost),
            errors: self.errors,
            merged: None,
        };
        // The end of a log is news, too.
        let is_over = !self.job.clock.is_stopped() && took.errors.is_empty();
        self.writer.end(if is_over { Ending::Final } else { Ending::Stopped });
        ring(&self.bells);
        took
    }

    fn goes_on(&self) -> bool {
        !self.is_limit_reached && self.hands.iter().any(|hand| !hand.is_ended)
    }

    /// Nothing came: waits for what will bring something. Returns whether it slept.
    fn pause(&mut self, round: &Round, now_ns: u64) -> bool {
        let clock = &self.job.clock;
        if round.is_blocked {
            self.waiter.wait_for_room(clock);
            return true;
        }
        if round.is_waiting {
            return self.waiter.pause_briefly(now_ns, clock);
        }
        let open = self.hands.iter().filter(|hand| !hand.is_ended);
        self.waiter.pause(open.map(|hand| hand.source.port()), now_ns, clock)
    }

    /// Stops the sources that have packets in hand, and takes those.
    fn drain(&mut self) {
        for hand in &mut self.hands {
            let is_open = !hand.is_ended && hand.source.port.info().capabilities.can_drain;
            hand.is_ended = !is_open;
            if let Some(Err(error)) = is_open.then(|| hand.source.port.finish()) {
                self.errors.push(error.into());
                hand.is_ended = true;
            }
        }
        let mut drain = Drain::start();
        while self.goes_on() {
            let round = self.poll_all();
            if !drain.goes_on(round.packets > 0 || round.is_busy) {
                break;
            }
        }
    }

    fn poll_all(&mut self) -> Round {
        let mut round = Round::default();
        for at in 0..self.hands.len() {
            if self.hands[at].is_ended {
                continue;
            }
            match self.job.budget.take(RECEIVE_BUDGET) {
                Grant::Packets(granted) => self.poll(at, granted, &mut round),
                Grant::Wait => round.is_waiting = true,
                Grant::Reached => self.is_limit_reached = true,
            }
        }
        if round.packets > 0 {
            ring(&self.bells);
        }
        round
    }

    /// Takes up to `granted` packets from one source.
    fn poll(&mut self, at: usize, granted: u64, round: &mut Round) {
        let hand = &mut self.hands[at];
        let received = self.writer.receive(hand.index, &mut *hand.source.port, granted);
        // Before what came is seen: the recorder's counts are by interface.
        self.owners.claim(hand.index);
        self.writer.publish();
        let used = received.as_ref().map_or(0, |received| received.packets);
        self.job.budget.settle(granted, used);
        match received {
            Ok(received) => {
                hand.received += received.packets;
                round.packets += received.packets;
                round.is_busy |= received.state == PortState::Busy;
                round.is_blocked |= received.state == PortState::Blocked;
                hand.is_ended = received.state == PortState::Ended;
            }
            Err(error) => {
                self.errors.push(error.into());
                hand.is_ended = true;
            }
        }
    }

    fn show_progress(&self) {
        let log = self.writer.statistics();
        let tally = Tally { packets: log.packets, bytes: log.bytes, wire_bytes: log.bytes };
        if let Some(counter) = self.job.progress.received.get(self.number) {
            counter.store(&tally);
        }
        self.job.progress.set_segments(self.number, log.segments);
    }

    fn look_at_losses(&mut self, now_ns: u64) {
        if self.losses.is_due(now_ns) {
            let lost = self.show_losses();
            self.losses.saw(lost, now_ns);
        }
    }

    fn show_losses(&self) -> u64 {
        let mut total = 0;
        for hand in &self.hands {
            let losses = hand.source.port.account().lost;
            total += losses.missing();
            self.job.progress.set_losses(hand.index, losses);
        }
        total
    }
}

/// Tells readers that there is news, if they are not told by their one log. Cost: an exchange each,
/// and a system call for those that sleep.
fn ring(bells: &[Thread]) {
    bells.iter().for_each(Thread::unpark);
}
