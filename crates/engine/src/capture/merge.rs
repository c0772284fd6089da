//! The merging thread: holds a burst of each source, finds the order, copies it into the log.
//!
//! ```text
//! merge     the order of what is in hand, a chunk at a time; copied, published
//! poll      whom the order waits for: a new burst, a new promise, or overdue
//! pause     as long as nobody has anything
//! ```

mod copy;
mod input;
mod own;

use burstline_log::{Burst, Ending, Reader, Scratch, Writer};
use burstline_port::{Port, PortState};
use burstline_sys::clock;

use super::receive::Took;
use super::record::Recorded;
use super::{Job, LogCounts};
use crate::clock::{Drain, LossWatch};
use crate::job::{Owners, Source};
use crate::merge::order::{self, Lane, Pick, Stop, interleave};
use crate::merge::tree::{Key, LoserTree};
use crate::merge::{MergeOptions, MergedPort};
use crate::stage::StageMeter;
use crate::tally::Tally;
use crate::waiting::Waiter;
use crate::{EngineError, Progress};
use copy::{Counts, Sequence};
use input::Input;
use own::OwnRecorder;

/// The name of the stage.
pub(super) const STAGE: &str = "merge";

/// Packets put in order before they are copied: their times, and what is copied of them, stay in
/// the first cache level. All are published at once.
const CHUNK: usize = 512;

/// What a merging thread brings home besides what every receive thread does.
pub(super) struct Merged {
    /// Packets in hand that did not go into the log, by source.
    pub(super) in_hand: Vec<u64>,
    /// Packets that no segment could hold whole, by source.
    pub(super) cut: Vec<u64>,
    pub(super) ports: Vec<MergedPort>,
    pub(super) lateness_ns: u64,
    /// It recorded what it merged.
    pub(super) is_one_thread: bool,
}

/// The thread's own.
pub(super) struct Merger<'a> {
    job: &'a Job<'a>,
    lateness_ns: u64,
    inputs: Vec<Input<'a>>,
    /// One for each input.
    lanes: Vec<Lane>,
    heads: Vec<Key>,
    tree: LoserTree,
    order: Vec<Pick>,
    /// Room for the inputs' bursts, empty between two chunks.
    views: Vec<Option<Burst<'static>>>,
    sequence: Sequence,
    /// One for each input.
    counts: Vec<Counts>,
    writer: Writer,
    /// None where another thread records.
    recorder: Option<OwnRecorder<'a>>,
    owners: Owners,
    waiter: Waiter,
    /// Polls since something was found or copied.
    fruitless: usize,
    errors: Vec<EngineError>,
    losses: LossWatch,
}

/// What came of a step.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    /// Packets copied into the log.
    copied: usize,
    /// Packets lent by sources, or passed over by their filters.
    has_found: bool,
    /// The log has no room.
    is_full: bool,
    /// Every source has ended, and nothing is in hand.
    is_over: bool,
}

/// Fails if a source cannot be merged.
pub(super) fn check(sources: &[Source]) -> Result<(), EngineError> {
    let mut scratch = Scratch::new();
    let unfit = sources.iter().find(|source| source.port.lent(&mut scratch).is_none());
    match unfit {
        None => Ok(()),
        Some(source) => Err(EngineError::LendsOnce { port: source.port.info().name.clone() }),
    }
}

impl<'a> Merger<'a> {
    pub(super) fn new(
        job: &'a Job<'a>,
        merging: &MergeOptions,
        sources: &'a mut [Source],
        writer: Writer,
    ) -> Self {
        let offset = |index: usize| merging.offsets_ns.get(index).copied().unwrap_or(0);
        let inputs: Vec<_> = sources.iter_mut().enumerate().collect();
        let inputs: Vec<_> =
            inputs.into_iter().map(|(index, source)| Input::new(source, offset(index))).collect();
        let lanes = vec![Lane::new(); inputs.len()];
        let mut heads = Vec::new();
        order::keys(&lanes, &mut heads);
        Self {
            job,
            lateness_ns: merging.lateness_ns,
            tree: LoserTree::new(&heads),
            order: Vec::with_capacity(CHUNK),
            views: Vec::with_capacity(inputs.len()),
            sequence: Sequence::default(),
            counts: vec![Counts::default(); inputs.len()],
            inputs,
            lanes,
            heads,
            writer,
            recorder: None,
            owners: Owners::new(&job.options.table),
            waiter: Waiter::new(job.options.threads.poll, clock::monotonic_ns()),
            fruitless: 0,
            errors: Vec::new(),
            losses: LossWatch::new(job.clock.start_ns),
        }
    }

    /// As one that records what it has merged, too; `reader` is a lossless one of its log.
    pub(super) fn recording(self, reader: Reader, sink: &'a mut dyn Port) -> Self {
        Self { recorder: Some(OwnRecorder::new(reader, sink)), ..self }
    }

    /// Merges until the job is over, and closes the log. Returns what it recorded, too, if it did.
    pub(super) fn run(mut self) -> (Took, Option<Recorded>) {
        let mut meter = StageMeter::start();
        let mut now_ns = clock::monotonic_ns();
        let mut is_over = false;
        while !is_over && !self.job.clock.is_over(now_ns) && self.room() > 0 {
            let step = self.step(now_ns);
            is_over = step.is_over;
            let before_ns = std::mem::replace(&mut now_ns, clock::monotonic_ns());
            self.look_at_losses(now_ns);
            if step.copied > 0 || step.has_found {
                self.fruitless = 0;
                self.waiter.work(now_ns);
                meter.busy_ns += now_ns - before_ns;
                continue;
            }
            meter.empty_ns += now_ns - before_ns;
            if !is_over && self.pause(step, now_ns) {
                now_ns = clock::monotonic_ns();
            }
        }
        self.drain();
        self.show_progress();
        let lost = self.show_losses();
        let is_final = !self.job.clock.is_stopped() && self.errors.is_empty();
        let log = self.writer.statistics();
        self.writer.finish(if is_final { Ending::Final } else { Ending::Stopped });
        let is_one_thread = self.recorder.is_some();
        let recorded = self.recorder.map(|recorder| recorder.end(&self.job.clock));
        let merged = Merged {
            in_hand: self.lanes.iter().map(|lane| lane.left() as u64).collect(),
            cut: self.counts.iter().map(|counts| counts.cut).collect(),
            lateness_ns: self.lateness_ns,
            is_one_thread,
            ports: self.inputs.iter().zip(&self.counts).map(|(input, c)| input.report(c)).collect(),
        };
        let copied = self.counts.iter().map(|counts| counts.copied).enumerate();
        let took = Took {
            received: copied.collect(),
            owners: self.owners,
            log,
            cost: meter.end(self.waiter.sleeps()),
            lost,
            lost_first_second: self.losses.first_second_or(lost),
            errors: self.errors,
            merged: Some(merged),
        };
        (took, recorded)
    }

    /// Packets that may still go, before the job's limit is reached.
    fn room(&self) -> u64 {
        let limit = self.job.limits.packets.unwrap_or(u64::MAX);
        limit - self.sequence.packets
    }

    /// Merges what is in hand, and asks those for more who are waited for.
    fn step(&mut self, now_ns: u64) -> Step {
        let (copied, stop) = self.merge();
        let mut step = Step { copied, ..Step::default() };
        match stop {
            None => step.is_full = true,
            Some(Stop::Long) => {}
            Some(Stop::Empty(input)) => {
                let has_found = self.poll(input, now_ns);
                // While one is waited for, the others may bring what can go before that.
                step.has_found = has_found | self.poll_others(input, !has_found, now_ns);
            }
            Some(Stop::Over) => {
                step.has_found = self.poll_others(self.inputs.len(), false, now_ns);
                step.is_over = self.inputs.iter().all(|input| input.is_ended);
            }
        }
        step
    }

    /// Puts a chunk in order and copies it. `None` in place of why the order ended: the log was
    /// full before that.
    fn merge(&mut self) -> (usize, Option<Stop>) {
        let most = self.room().min(CHUNK as u64) as usize;
        let base = order::keys(&self.lanes, &mut self.heads);
        self.tree.play(&self.heads);
        let stop = interleave((base, &mut self.tree), &mut self.lanes, &mut self.order, most);
        if self.order.is_empty() {
            return (0, Some(stop));
        }
        let mut views = recycle(std::mem::take(&mut self.views));
        views.extend(self.inputs.iter_mut().map(Input::view));
        let (order, lanes, counts) = (&self.order[..], &self.lanes[..], &mut self.counts[..]);
        let copied = self.sequence.copy(order, lanes, &views, counts, &mut self.writer);
        self.views = recycle(views);
        for pick in &self.order[copied..] {
            self.lanes[pick.input()].put_back(pick.index());
        }
        self.writer.publish();
        if let Some(recorder) = &mut self.recorder {
            recorder.catch_up(&self.job.clock);
        }
        self.show_progress();
        (copied, (copied == self.order.len()).then_some(stop))
    }

    /// Asks one source for packets. Returns whether it had any.
    fn poll(&mut self, index: usize, now_ns: u64) -> bool {
        let oldest = self.lanes.iter().zip(&self.inputs).filter(|(lane, _)| lane.left() > 0);
        let oldest = oldest.min_by_key(|(lane, _)| lane.head_ns());
        let waited_ns = oldest.map_or(0, |(_, input)| now_ns.saturating_sub(input.lent_ns));
        let newest_ns = self.sequence.newest_ns;
        let enough_ns = oldest.map_or(newest_ns, |(lane, _)| lane.head_ns());
        let (input, lane) = (&mut self.inputs[index], &mut self.lanes[index]);
        if input.is_ended || lane.left() > 0 {
            return false;
        }
        let state = input.poll(lane, now_ns);
        self.owners.claim(index);
        self.fruitless += 1;
        match state {
            Err(error) => {
                self.errors.push(error);
                input.end(lane);
                false
            }
            Ok(PortState::Ended) => {
                input.end(lane);
                lane.left() > 0
            }
            Ok(_) if lane.left() > 0 => {
                input.catch_up(lane.head_ns(), newest_ns.saturating_sub(self.lateness_ns));
                true
            }
            Ok(state) => {
                let is_too_long = waited_ns >= self.lateness_ns;
                input.promise(lane, state, (newest_ns, enough_ns), is_too_long);
                state == PortState::Busy
            }
        }
    }

    /// Asks the others for packets: all that have none, or those that are overdue.
    fn poll_others(&mut self, but: usize, is_all: bool, now_ns: u64) -> bool {
        let mut has_found = false;
        for index in (0..self.inputs.len()).filter(|&index| index != but) {
            if is_all || self.inputs[index].is_overdue {
                has_found |= self.poll(index, now_ns);
            }
        }
        has_found
    }

    /// Nothing came: waits for what will bring something. Returns whether it slept.
    fn pause(&mut self, step: Step, now_ns: u64) -> bool {
        let clock = &self.job.clock;
        if step.is_full {
            self.waiter.wait_for_room(clock);
            return true;
        }
        let open = self.inputs.iter().filter(|input| !input.is_ended);
        if self.fruitless < open.clone().count() {
            return false;
        }
        if self.lanes.iter().any(|lane| lane.left() > 0) {
            // What is in hand goes when a promise has come true, which no descriptor tells.
            return self.waiter.pause_briefly(now_ns, clock);
        }
        self.waiter.pause(open.map(|input| input.source.port()), now_ns, clock)
    }

    /// Stops the sources that have packets in hand, takes those, and merges what there is, without
    /// waiting for anybody in the end.
    fn drain(&mut self) {
        for (input, lane) in self.inputs.iter_mut().zip(&mut self.lanes) {
            if let Err(error) = input.finish(lane) {
                self.errors.push(error);
            }
        }
        let mut drain = Drain::start();
        let mut is_over = false;
        while !is_over && self.room() > 0 {
            let step = self.step(clock::monotonic_ns());
            is_over = step.is_over || !drain.goes_on(step.copied > 0 || step.has_found);
        }
        for (input, lane) in self.inputs.iter_mut().zip(&mut self.lanes) {
            input.end(lane);
        }
        while self.room() > 0 && self.merge().0 > 0 {}
    }

    fn show_progress(&self) {
        let LogCounts { packets, bytes, segments, .. } = self.writer.statistics();
        let progress: &Progress = self.job.progress;
        if let Some(counter) = progress.received.first() {
            counter.store(&Tally { packets, bytes, wire_bytes: bytes });
        }
        progress.set_segments(0, segments);
        self.recorder.iter().for_each(|recorder| recorder.show(progress));
    }

    fn look_at_losses(&mut self, now_ns: u64) {
        if self.losses.is_due(now_ns) {
            let lost = self.show_losses();
            self.losses.saw(lost, now_ns);
        }
    }

    fn show_losses(&self) -> u64 {
        let mut total = 0;
        for (index, input) in self.inputs.iter().enumerate() {
            let losses = input.source.port.account().lost;
            total += losses.missing();
            self.job.progress.set_losses(index, losses);
        }
        total
    }
}

/// The same room for bursts of another lifetime: collecting what came out of a vector uses its
/// memory again.
fn recycle<'b>(mut views: Vec<Option<Burst<'_>>>) -> Vec<Option<Burst<'b>>> {
    views.clear();
    views.into_iter().map(|_| None).collect()
}
