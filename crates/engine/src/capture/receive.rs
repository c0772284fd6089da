//! The receive thread: every source in turn, one publish a poll.

use burstline_log::Writer;
use burstline_port::{PortState, PortTable};
use burstline_sys::clock;

use super::{CaptureOptions, LogCounts};
use crate::clock::{Backoff, Drain, JobClock, SECOND_NS};
use crate::job::{Owners, Source};
use crate::stage::{StageCost, StageMeter};
use crate::tally::Tally;
use crate::{EngineError, Progress};

/// Packets taken from one source before the next has its turn: at 60 bytes a quarter of the
/// default segment.
const RECEIVE_BUDGET: u64 = 1024;

/// How often the sources' losses are shown while the job runs, in ns.
const LOSSES_EVERY_NS: u64 = 100_000_000;

/// What the receive thread brings home.
pub(super) struct Took {
    /// Packets appended to the log, by source.
    pub(super) received: Vec<u64>,
    /// The source of each interface.
    pub(super) owners: [u8; PortTable::MAX_ENTRIES],
    /// Interfaces there are.
    pub(super) interfaces: usize,
    pub(super) log: LogCounts,
    pub(super) cost: StageCost,
    /// What the sources lost, not counting what nobody asked for.
    pub(super) lost: u64,
    pub(super) lost_first_second: u64,
    pub(super) errors: Vec<EngineError>,
}

/// The receive thread's own.
pub(super) struct Receiver<'a> {
    sources: &'a mut [Source],
    writer: Writer,
    clock: &'a JobClock<'a>,
    progress: &'a Progress,
    table: &'a PortTable,
    owners: Owners,
    /// Packets that may still be taken.
    budget: u64,
    is_ended: Vec<bool>,
    received: Vec<u64>,
    errors: Vec<EngineError>,
    lost_first_second: Option<u64>,
    losses_shown_ns: u64,
}

/// What came of one round over the sources.
#[derive(Default)]
struct Round {
    packets: u64,
    /// Whether a source has more, though its filter may have wanted none so far.
    is_busy: bool,
    is_blocked: bool,
}

impl<'a> Receiver<'a> {
    pub(super) fn new(
        sources: &'a mut [Source],
        writer: Writer,
        options: &'a CaptureOptions,
        clock: &'a JobClock<'a>,
        progress: &'a Progress,
    ) -> Self {
        Self {
            owners: Owners::new(&options.table, sources),
            is_ended: vec![false; sources.len()],
            received: vec![0; sources.len()],
            sources,
            writer,
            clock,
            progress,
            table: &options.table,
            budget: options.limits.packets.unwrap_or(u64::MAX),
            errors: Vec::new(),
            lost_first_second: None,
            losses_shown_ns: clock.start_ns,
        }
    }

    /// Receives until the job is over, and closes the log.
    pub(super) fn run(mut self) -> Took {
        let mut meter = StageMeter::start();
        let mut backoff = Backoff::default();
        let mut now_ns = clock::monotonic_ns();
        while !self.clock.is_over(now_ns) && self.budget > 0 && self.is_ended.contains(&false) {
            let round = self.poll_all();
            let before_ns = std::mem::replace(&mut now_ns, clock::monotonic_ns());
            self.look_at_losses(now_ns);
            if round.packets > 0 || round.is_busy {
                backoff.reset();
                self.show_progress();
                continue;
            }
            meter.empty_ns += now_ns - before_ns;
            if round.is_blocked {
                Backoff::wait_for_room(self.clock);
                now_ns = clock::monotonic_ns();
            } else if backoff.pause(self.clock) {
                now_ns = clock::monotonic_ns();
            }
        }
        self.drain();
        self.show_progress();
        let lost = self.show_losses();
        Took {
            received: self.received,
            owners: self.owners.map(),
            interfaces: self.table.len(),
            log: self.writer.statistics(),
            cost: meter.end(),
            lost,
            lost_first_second: self.lost_first_second.unwrap_or(lost),
            errors: self.errors,
        }
    }

    /// Stops the sources that have packets in hand, and takes those.
    fn drain(&mut self) {
        for (source, is_ended) in self.sources.iter_mut().zip(&mut self.is_ended) {
            let is_open = !*is_ended && source.port.info().capabilities.can_drain;
            *is_ended = !is_open;
            if let Some(Err(error)) = is_open.then(|| source.port.finish()) {
                self.errors.push(error.into());
                *is_ended = true;
            }
        }
        let mut drain = Drain::start();
        while self.budget > 0 && self.is_ended.contains(&false) {
            let round = self.poll_all();
            if !drain.goes_on(round.packets > 0 || round.is_busy) {
                break;
            }
        }
    }

    fn poll_all(&mut self) -> Round {
        let mut round = Round::default();
        for index in 0..self.sources.len() {
            if self.is_ended[index] || self.budget == 0 {
                continue;
            }
            let granted = self.budget.min(RECEIVE_BUDGET);
            let received = self.sources[index].port.receive(&mut self.writer, granted);
            // Before what came is seen: the recorder's counts are by interface.
            self.owners.claim(index);
            self.writer.publish();
            match received {
                Ok(received) => {
                    self.received[index] += received.packets;
                    self.budget -= received.packets.min(self.budget);
                    round.packets += received.packets;
                    round.is_busy |= received.state == PortState::Busy;
                    round.is_blocked |= received.state == PortState::Blocked;
                    self.is_ended[index] = received.state == PortState::Ended;
                }
                Err(error) => {
                    self.errors.push(error.into());
                    self.is_ended[index] = true;
                }
            }
        }
        round
    }

    fn show_progress(&self) {
        let log = self.writer.statistics();
        let tally = Tally { packets: log.packets, bytes: log.bytes, wire_bytes: log.bytes };
        if let Some(counter) = self.progress.received.first() {
            counter.store(&tally);
        }
        self.progress.set_segments(log.segments);
    }

    fn look_at_losses(&mut self, now_ns: u64) {
        if now_ns - self.losses_shown_ns < LOSSES_EVERY_NS {
            return;
        }
        self.losses_shown_ns = now_ns;
        let lost = self.show_losses();
        if self.lost_first_second.is_none() && now_ns - self.clock.start_ns >= SECOND_NS {
            self.lost_first_second = Some(lost);
        }
    }

    fn show_losses(&self) -> u64 {
        let mut total = 0;
        for (index, source) in self.sources.iter().enumerate() {
            let losses = source.port.account().lost;
            total += losses.missing();
            self.progress.set_losses(index, losses);
        }
        total
    }
}
