//! The lane of one worker: its log, and the queue of packets that wait for its verdicts.
//!
//! ```text
//! queue:  | burst: gone | gone | waits | waits |   | burst: waits | ... |   a burst per publish
//!                                ^-- next           each with its deadline, and held by a pin
//! ```

use std::collections::VecDeque;

use burstline_log::{
    Appended, HeldBurst, Log, MAX_WINDOW, Packet, Policy, Reader, ReaderConfig, Start,
    VERDICTS_WAITING_MAX, VerdictTaker, Writer,
};
use burstline_port::{Loss, PortError};
use burstline_wire::headers::LinkType;
use hdrhistogram::Histogram;

use super::flows::{Flow, Flows};
use super::outlet::{Cause, Fate, Outlet, count};
use super::report::InlineWorker;
use super::{InlineOptions, SEGMENT_BYTES, WAITING_ENOUGH};
use crate::EngineError;
use crate::balance::links::Links;
use crate::verify::{histogram, record_many};

/// Bytes that may wait before a source that can wait is held up: half of what pins can hold.
const BYTES_ENOUGH: u64 = (MAX_WINDOW / 2 * SEGMENT_BYTES) as u64;

pub(super) struct Lane {
    /// `None` after the end.
    writer: Option<Writer>,
    reader: Reader,
    taker: VerdictTaker,
    queue: VecDeque<Waiting>,
    deadline_ns: u64,
    /// Bytes of the packets that wait.
    bytes: u64,
    /// Bytes copied into the log.
    pub(super) bytes_copied: u64,
    pub(super) counts: InlineWorker,
    /// How long packets waited until they were decided, in ns.
    pub(super) waits: Histogram<u64>,
}

/// Packets that were published together.
struct Waiting {
    held: HeldBurst,
    /// The first undecided packet.
    next: usize,
    /// Their deadline, by the monotonic clock.
    until_ns: u64,
    /// Which packets have left before their turn, with their flow; empty if none has.
    gone: Vec<bool>,
}

impl Waiting {
    fn is_gone(&self, at: usize) -> bool {
        self.gone.get(at).copied().unwrap_or(false)
    }
}

/// The result of processing a burst of the queue.
enum Looked {
    /// The whole burst is decided.
    Done,
    /// A packet has no verdict yet.
    Waits,
    /// A verdict passed this flow.
    Flow { flow: Flow, hash: u32 },
}

/// The time and the shared tables with which a lane is processed.
pub(super) struct Moment<'a> {
    pub(super) now_ns: u64,
    pub(super) flows: &'a mut Flows,
    pub(super) links: &'a mut Links,
}

impl Lane {
    pub(super) fn new(
        log: &Log,
        writer: Writer,
        options: &InlineOptions,
    ) -> Result<Self, EngineError> {
        let seat =
            ReaderConfig { policy: Policy::Lossy, window: MAX_WINDOW, start: Start::Segment };
        Ok(Self {
            writer: Some(writer),
            reader: log.attach(seat)?,
            taker: VerdictTaker::new(log),
            queue: VecDeque::new(),
            deadline_ns: options.deadline_ns,
            bytes: 0,
            bytes_copied: 0,
            counts: InlineWorker::default(),
            waits: histogram(),
        })
    }

    /// Returns the number of waiting packets.
    pub(super) fn waiting(&self) -> u64 {
        self.counts.offered - self.counts.settled()
    }

    /// Returns whether the lane has packets to decide.
    pub(super) fn has_queue(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Returns whether a source that can wait should be held up.
    pub(super) fn has_enough(&self) -> bool {
        self.waiting() > WAITING_ENOUGH || self.bytes > BYTES_ENOUGH
    }

    /// Appends a packet to the log without publishing it.
    pub(super) fn append(
        &mut self,
        packet: &Packet<'_>,
        moment: &mut Moment<'_>,
        outlet: &mut Outlet<'_>,
    ) -> Result<(), PortError> {
        let (bytes, meta) = (packet.bytes(), packet.meta());
        let Some(writer) = &self.writer else { return Ok(()) };
        if bytes.len() > writer.max_packet_bytes() {
            outlet.ends.lost.add(Loss::TooLong, 1);
            return Ok(());
        }
        while self.waiting() >= VERDICTS_WAITING_MAX && self.give_way(moment, outlet)? {}
        loop {
            let Some(writer) = &mut self.writer else { return Ok(()) };
            match writer.append(bytes, &meta) {
                Appended::Whole | Appended::Truncated => break,
                // Readers pin every segment; our own pins can be released.
                Appended::Full if self.give_way(moment, outlet)? => {}
                Appended::Full => {
                    outlet.ends.lost.add(Loss::LogFull, 1);
                    return Ok(());
                }
            }
        }
        self.counts.offered += 1;
        self.bytes_copied += bytes.len() as u64;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Publishes the appended packets, which then wait for verdicts.
    pub(super) fn publish(
        &mut self,
        moment: &mut Moment<'_>,
        outlet: &mut Outlet<'_>,
    ) -> Result<(), PortError> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.publish();
        let until_ns = moment.now_ns + self.deadline_ns;
        let mut outcome = Ok(());
        loop {
            if let Some(held) = self.reader.hold_burst() {
                self.queue.push_back(Waiting { held, next: 0, until_ns, gone: Vec::new() });
                continue;
            }
            if !self.reader.is_window_full() {
                break;
            }
            match self.give_way(moment, outlet) {
                Ok(true) => {}
                Ok(false) => break,
                // Some packets were decided even so, so the loop terminates.
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        if !self.taker.has_giver() {
            outcome = outcome.and(self.settle(Some(Cause::NoVerdict), moment, outlet).map(drop));
        }
        outcome
    }

    /// Decides all packets that can be decided. Returns whether there were any.
    pub(super) fn look(
        &mut self,
        moment: &mut Moment<'_>,
        outlet: &mut Outlet<'_>,
    ) -> Result<bool, PortError> {
        let is_changing = self.taker.is_changing();
        let mut has_moved = !self.queue.is_empty() && self.settle(None, moment, outlet)?;
        if is_changing {
            // The worker has left. Its verdicts so far were taken; the other packets get none.
            self.taker.has_changed();
            has_moved |= self.settle(Some(Cause::NoVerdict), moment, outlet)?;
        }
        Ok(has_moved)
    }

    fn settle(
        &mut self,
        failing: Option<Cause>,
        moment: &mut Moment<'_>,
        outlet: &mut Outlet<'_>,
    ) -> Result<bool, PortError> {
        let before = self.counts.settled();
        while self.settle_front(failing, moment, outlet)? {}
        let has_moved = self.counts.settled() != before;
        if has_moved {
            let front = self.queue.front();
            let next = front.map(|front| front.held.burst().first_packet() + front.next as u64);
            self.taker.settle(next.unwrap_or(self.counts.offered));
        }
        Ok(has_moved)
    }

    /// Decides the oldest burst with the verdicts so far. Returns false if the queue is empty.
    fn give_way(
        &mut self,
        moment: &mut Moment<'_>,
        outlet: &mut Outlet<'_>,
    ) -> Result<bool, PortError> {
        self.settle_front(Some(Cause::NoRoom), moment, outlet)
    }

    /// Decides packets of the oldest burst, in order, up to the first that waits. Returns whether
    /// the caller should call again: the burst is done, or more of it may be decided.
    fn settle_front(
        &mut self,
        failing: Option<Cause>,
        moment: &mut Moment<'_>,
        outlet: &mut Outlet<'_>,
    ) -> Result<bool, PortError> {
        let Some(front) = self.queue.front_mut() else { return Ok(false) };
        let is_late = moment.now_ns >= front.until_ns;
        let waited_ns = moment.now_ns.saturating_sub(front.until_ns - self.deadline_ns);
        let before = self.counts.waited();
        let failing = failing.or(is_late.then_some(Cause::Late));
        let looked = front.look(
            failing,
            &self.taker,
            &mut self.counts,
            &mut self.bytes,
            moment.links,
            outlet,
        )?;
        record_many(&mut self.waits, waited_ns, self.counts.waited() - before);
        match looked {
            Looked::Waits => return Ok(false),
            Looked::Done => drop(self.queue.pop_front()),
            Looked::Flow { flow, hash } => {
                moment.flows.enter(flow, hash, moment.now_ns);
                self.let_go(flow, hash, moment, outlet)?;
            }
        }
        Ok(true)
    }

    /// Decides every waiting packet of a flow: by its verdict if it has one, else it is forwarded.
    /// So no later packet of the flow overtakes one (V1).
    fn let_go(
        &mut self,
        flow: Flow,
        hash: u32,
        moment: &mut Moment<'_>,
        outlet: &mut Outlet<'_>,
    ) -> Result<(), PortError> {
        for waiting in &mut self.queue {
            let burst = waiting.held.burst();
            let before = self.counts.waited();
            for at in waiting.next..burst.len() {
                let packet = burst.packet(at);
                let is_of_it = packet.desc().hash() == hash
                    && !waiting.is_gone(at)
                    && Flow::of(link_of(moment.links, &packet), packet.bytes()) == Some(flow);
                if !is_of_it {
                    continue;
                }
                waiting.gone.resize(burst.len(), false);
                waiting.gone[at] = true;
                self.bytes -= packet.length() as u64;
                match self.taker.look(burst.first_packet() + at as u64).map(Fate::from) {
                    Some(fate) if !outlet.goes_on(fate) => {
                        count(&mut self.counts, fate);
                        outlet.end(fate, &burst, at, &self.taker)?;
                    }
                    _ => {
                        self.counts.passed_with_flow += 1;
                        outlet.send(&burst, at..at + 1)?;
                    }
                }
            }
            let waited_ns = moment.now_ns.saturating_sub(waiting.until_ns - self.deadline_ns);
            record_many(&mut self.waits, waited_ns, self.counts.waited() - before);
        }
        Ok(())
    }

    /// Stops taking packets in. The caller ends the log with the returned writer.
    pub(super) fn end(&mut self) -> Option<Writer> {
        self.writer.take()
    }
}

impl Waiting {
    fn look(
        &mut self,
        failing: Option<Cause>,
        taker: &VerdictTaker,
        counts: &mut InlineWorker,
        bytes: &mut u64,
        links: &mut Links,
        outlet: &mut Outlet<'_>,
    ) -> Result<Looked, PortError> {
        let burst = self.held.burst();
        let first = burst.first_packet();
        // Consecutive forwarded packets are sent as one run.
        let mut run = self.next;
        let mut looked = Looked::Done;
        while self.next < burst.len() {
            let at = self.next;
            if self.is_gone(at) {
                self.next += 1;
                outlet.send(&burst, run..at)?;
                run = at + 1;
                continue;
            }
            let ruling = taker.look(first + at as u64).map(Fate::from);
            let Some(fate) = ruling.or(failing.map(Fate::Fail)) else {
                looked = Looked::Waits;
                break;
            };
            self.next += 1;
            count(counts, fate);
            *bytes -= burst.worklist()[burst.len() - 1 - at].length() as u64;
            if !outlet.goes_on(fate) {
                let sent = outlet.send(&burst, run..at);
                run = at + 1;
                // The packet is already counted, so end it even if sending the others failed.
                sent.and(outlet.end(fate, &burst, at, taker))?;
            } else if fate == Fate::PassFlow {
                let packet = burst.packet(at);
                if let Some(flow) = Flow::of(link_of(links, &packet), packet.bytes()) {
                    looked = Looked::Flow { flow, hash: packet.desc().hash() };
                    break;
                }
            }
        }
        outlet.send(&burst, run..self.next)?;
        Ok(looked)
    }
}

fn link_of(links: &mut Links, packet: &Packet<'_>) -> LinkType {
    links.of(packet.desc().port()).0
}
