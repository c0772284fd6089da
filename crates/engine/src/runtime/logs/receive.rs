//! A receive thread: polls its sources in turn into its own log, with one publish a poll.

use std::mem;
use std::thread::Thread;

use burstline_log::{Ending, Writer};
use burstline_port::{
    Port, PortAccount, PortError, PortTable, Received, RingFill, RingKind, Source, TimestampSource,
};

use super::LogCounts;
use super::record::NAP_LEAST_NS;
use crate::EngineError;
use crate::runtime::{Done, Inlet, Job, Next, Owners, Pause, Polled, Round, Step, Tally};

/// Packets taken from one source before the next has its turn: with 60-byte packets, a quarter of
/// the default segment.
const RECEIVE_BUDGET: u64 = 1024;

/// Fastest packet rate assumed during a nap, in ns a packet: 10 Mpps. It may fill a quarter queue.
const PACKET_NS: u64 = 100;

/// The longest time that packets gather, in ns; readers of a log nap longer than that.
const GATHER_MOST_NS: u64 = 1_000_000;

/// Returns how long packets may gather at a port, in ns; 0 if not at all. `keeps_times` says that
/// somebody keeps the packets' times: the time of a poll would be that of the end of the nap.
pub(crate) fn gather_ns(port: &dyn Port, account: &PortAccount, keeps_times: bool) -> u64 {
    let is_late = keeps_times && port.info().timestamps == TimestampSource::Poll;
    if port.may_gather() && !is_late { quarter_ns(&account.rings) } else { 0 }
}

/// Returns how long the shortest of these queues takes to fill by a quarter, in ns: at most
/// [`GATHER_MOST_NS`], and 0 if that is below [`NAP_LEAST_NS`] or there is no receive queue.
fn quarter_ns(rings: &[RingFill]) -> u64 {
    // The card needs a free frame for each packet, so the fill ring counts, too.
    let of = |kind: RingKind| {
        let rings = rings.iter().filter(move |ring| ring.ring == kind);
        rings.map(|ring| ring.size / 4 * PACKET_NS).min()
    };
    let Some(received) = of(RingKind::Rx) else { return 0 };
    let least = of(RingKind::Fill).map_or(received, |free| free.min(received));
    if least < NAP_LEAST_NS { 0 } else { least.min(GATHER_MOST_NS) }
}

/// The target of a receive thread: one log, or several.
pub(crate) trait Intake: Send {
    /// Takes up to `budget` packets of source number `source`.
    fn receive(
        &mut self,
        source: usize,
        port: &mut dyn Source,
        budget: u64,
    ) -> Result<Received, PortError>;
    /// Publishes the packets taken.
    fn publish(&mut self);
    /// Returns the counts written so far.
    fn statistics(&self) -> LogCounts;
    /// Closes the log or logs.
    fn end(self, ending: Ending);
}

impl Intake for Writer {
    fn receive(
        &mut self,
        _source: usize,
        port: &mut dyn Source,
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

/// The outcome of a receive stage.
pub(crate) struct Took {
    /// Packets appended to its log, by the source's number in the job.
    pub(crate) received: Vec<(usize, u64)>,
    /// The interfaces that its sources added while they were polled.
    pub(crate) owners: Owners,
    pub(crate) log: LogCounts,
    /// Packets lost by the sources, without those left out on request.
    pub(crate) lost: u64,
    pub(crate) errors: Vec<EngineError>,
}

/// Returns whether a job was stopped before its natural end, so that another may follow it.
pub(crate) fn is_stopped(job: &Job<'_>, front: &[Done<Took>]) -> bool {
    job.clock.is_stopped() || front.iter().any(|done| !done.outcome.errors.is_empty())
}

/// Returns the stage name of receive thread `number` of `count`.
pub(crate) fn stage_name(number: usize, count: usize) -> String {
    match count {
        1 => "receive".to_owned(),
        _ => format!("receive-{number}"),
    }
}

/// Deals out the sources, with their numbers in the job, to `receivers` threads: source i goes to
/// thread i modulo their number.
pub(crate) fn dealt(sources: &mut [Inlet], receivers: usize) -> Vec<Vec<(usize, &mut Inlet)>> {
    let mut hands: Vec<Vec<_>> = (0..receivers).map(|_| Vec::new()).collect();
    for (index, source) in sources.iter_mut().enumerate() {
        hands[index % receivers].push((index, source));
    }
    hands
}

/// A source of a receive thread.
struct Hand<'a> {
    /// Its number in the job.
    index: usize,
    source: &'a mut Inlet,
    is_ended: bool,
    /// Packets appended to the log.
    received: u64,
    /// Bytes appended to the log.
    bytes: u64,
}

/// A receive thread's state.
pub(crate) struct Receiver<'a, I = Writer> {
    job: &'a Job<'a>,
    /// Its number among the receive threads.
    number: usize,
    hands: Vec<Hand<'a>>,
    writer: I,
    /// Recorder threads to wake, if the log's own wake-up is not enough.
    bells: Vec<Thread>,
    owners: Owners,
    errors: Vec<EngineError>,
    /// Counts of the log after the last poll of a source.
    log: LogCounts,
    /// Losses of the sources, as of the last look.
    lost: u64,
    /// Whether packets may gather before they are taken.
    gathers: bool,
    /// How long the sources can be left unpolled, as of the last look.
    nap_ns: u64,
    /// How long idle sources are left alone, in ns; 0 to wait until they have packets.
    look_ns: u64,
}

impl<'a, I: Intake> Receiver<'a, I> {
    /// Creates the stage; `sources` come with their numbers in the job, `table` is the job's.
    pub(crate) fn new(
        job: &'a Job<'a>,
        number: usize,
        sources: Vec<(usize, &'a mut Inlet)>,
        writer: I,
        table: &PortTable,
    ) -> Self {
        let hand = |(index, source)| Hand { index, source, is_ended: false, received: 0, bytes: 0 };
        Self {
            job,
            number,
            hands: sources.into_iter().map(hand).collect(),
            writer,
            bells: Vec::new(),
            owners: Owners::new(table),
            errors: Vec::new(),
            log: LogCounts::default(),
            lost: 0,
            gathers: false,
            nap_ns: 0,
            look_ns: 0,
        }
    }

    /// Lets packets gather if nobody needs each of them soon: they go into a file, or to readers of
    /// a published log, who look at it every few milliseconds. To take each packet immediately
    /// would cost a core (decision 0065).
    pub(crate) fn gathering(self, gathers: bool) -> Self {
        Self { gathers, ..self }
    }

    /// Polls idle sources every `look_ns`, for their promises.
    pub(crate) fn looking_every(self, look_ns: u64) -> Self {
        Self { look_ns, ..self }
    }

    /// Wakes these threads after each publish.
    pub(crate) fn ringing(self, bells: Vec<Thread>) -> Self {
        Self { bells, ..self }
    }
}

impl<I: Intake> Step for Receiver<'_, I> {
    type Outcome = Took;

    fn poll(&mut self, _now_ns: u64) -> Polled {
        let mut round = Round::default();
        for hand in self.hands.iter_mut().filter(|hand| !hand.is_ended) {
            let (writer, owners, log) = (&mut self.writer, &mut self.owners, &mut self.log);
            let taken = round.poll(&self.job.budget, RECEIVE_BUDGET, |granted| {
                let received = writer.receive(hand.index, &mut *hand.source.port, granted);
                // Before the packets become visible: the recorder counts by interface.
                owners.claim(hand.index);
                writer.publish();
                hand.received += received.as_ref().map_or(0, |received| received.packets);
                let before = mem::replace(log, writer.statistics());
                hand.bytes += log.bytes - before.bytes;
                received
            });
            hand.is_ended = taken.unwrap_or_else(|error| {
                self.errors.push(error.into());
                true
            });
        }
        if round.packets > 0 {
            ring(&self.bells);
        }
        round.polled(Next::WaitForRoom)
    }

    fn wait(&mut self, pause: Pause<'_>) -> bool {
        if self.look_ns > 0 {
            return pause.until_next_look(self.look_ns);
        }
        let open = self.hands.iter().filter(|hand| !hand.is_ended);
        pause.on_deep(open.map(|hand| hand.source.port()), self.nap_ns)
    }

    fn show(&mut self) {
        for Hand { index, received, bytes, .. } in &self.hands {
            if let Some(counter) = self.job.progress.received.get(*index) {
                counter.store(&Tally::whole(*received, *bytes));
            }
        }
        self.job.progress.set_segments(self.number, self.log.segments);
    }

    fn show_losses(&mut self) -> u64 {
        let mut nap = if self.gathers { GATHER_MOST_NS } else { 0 };
        let show = |hand: &Hand<'_>| {
            let account = hand.source.port.account();
            if !hand.is_ended {
                nap = nap.min(gather_ns(hand.source.port(), &account, true));
            }
            self.job.show_account(hand.index, account, hand.received)
        };
        self.lost = self.hands.iter().map(show).sum();
        self.nap_ns = nap;
        self.lost
    }

    fn stop_sources(&mut self) -> bool {
        for hand in &mut self.hands {
            let is_open = !hand.is_ended && hand.source.port.info().capabilities.can_drain;
            hand.is_ended = !is_open;
            if let Some(Err(error)) = is_open.then(|| hand.source.port.finish()) {
                self.errors.push(error.into());
                hand.is_ended = true;
            }
        }
        self.hands.iter().any(|hand| !hand.is_ended)
    }

    /// Closes the log.
    fn end(self) -> Took {
        let took = Took {
            received: self.hands.iter().map(|hand| (hand.index, hand.received)).collect(),
            log: self.writer.statistics(),
            owners: self.owners,
            lost: self.lost,
            errors: self.errors,
        };
        self.writer.end(self.job.log_ending(&took.errors));
        // The end of a log must wake the readers, too.
        ring(&self.bells);
        took
    }
}

/// Wakes readers that no log wakes. Cost: an exchange each, and a system call for each sleeping
/// thread.
fn ring(bells: &[Thread]) {
    bells.iter().for_each(Thread::unpark);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nap(sizes: &[(RingKind, u64)]) -> u64 {
        let fill = |&(ring, size)| RingFill { ring, unit: "frames", filled: 0, size };
        quarter_ns(&sizes.iter().map(fill).collect::<Vec<_>>())
    }

    #[test]
    fn a_nap_ends_before_the_smallest_queue_is_full() {
        assert_eq!(nap(&[(RingKind::Rx, 16_384), (RingKind::Fill, 16_384)]), 409_600);
        assert_eq!(nap(&[(RingKind::Rx, 1 << 20), (RingKind::Rx, 4_096)]), 102_400);
        assert_eq!(nap(&[(RingKind::Rx, 1 << 20)]), GATHER_MOST_NS);
    }

    #[test]
    fn what_has_a_short_queue_or_none_is_looked_at_all_the_time() {
        assert_eq!(nap(&[(RingKind::Rx, 256)]), 0);
        assert_eq!(nap(&[(RingKind::Fill, 16_384)]), 0);
        assert_eq!(nap(&[(RingKind::Rx, 16_384), (RingKind::Fill, 64)]), 0);
    }
}
