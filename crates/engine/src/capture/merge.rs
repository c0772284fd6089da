//! The merging thread: holds a burst of each source, orders the packets, copies them into the log.
//!
//! ```text
//! merge     order the held packets, a chunk at a time; copy, publish
//! poll      the source that the order waits for: a new burst, a new promise, or overdue
//! pause     while no source has packets
//! ```

mod copy;
mod input;
mod own;
mod share;

use burstline_log::{Reader, Scratch, Strand, Writer};
use burstline_port::{PortState, PortTable, Sink};

use super::{Captured, only};
use crate::EngineError;
use crate::merge::order::{Lane, Order, Stop};
use crate::merge::{MergeOptions, MergedPort, recycle};
use crate::runtime::logs::record::Recorded;
use crate::runtime::{self, logs::receive::Took};
use crate::runtime::{Crew, Done, Inlet, Job, Next, Owners, Pause, Polled, Tally};
use copy::{Counts, Goods, Part, Sequence};
use input::Input;
use own::OwnRecorder;

pub(super) use share::{lanes as shared_lanes, run as run_shared};

/// The name of the stage.
pub(super) const STAGE: &str = "merge";

/// The outcome of a merging thread, besides that of every receive thread.
pub(super) struct Merged {
    /// Packets held that did not go into the log, by source.
    pub(super) in_hand: Vec<u64>,
    /// Packets that no segment could hold whole, by source.
    pub(super) cut: Vec<u64>,
    pub(super) ports: Vec<MergedPort>,
    pub(super) lateness_ns: u64,
    /// The merging thread also recorded.
    pub(super) is_one_thread: bool,
    /// Packets merged.
    pub(super) packets: u64,
    /// The cost of a merging thread that named packets of other threads' logs.
    pub(super) leader: Option<Done<()>>,
}

/// The complete outcome of a merging thread.
pub(super) struct Home {
    took: Took,
    merged: Merged,
    /// `None` if another thread recorded.
    recorded: Option<Recorded>,
}

/// Combines the outcomes of the threads of a merge.
pub(super) fn captured(crew: Crew<Home, Recorded>) -> Captured {
    let (Home { took, merged, recorded }, done) = only(crew.front).split();
    let recorded = recorded.map(Done::beside).unwrap_or_else(|| only(crew.readers));
    let took = vec![done.with(took)];
    Captured { places: crew.places, took, recorded, merged: Some(merged) }
}

/// The thread's state.
pub(super) struct Merger<'a> {
    job: &'a Job<'a>,
    lateness_ns: u64,
    inputs: Vec<Input<'a>>,
    /// One for each input.
    lanes: Vec<Lane>,
    order: Order,
    /// Buffers for the inputs' bursts and the strands copied from them; empty between two chunks.
    views: Vec<Option<Part<'static>>>,
    strands: Vec<Strand<'static>>,
    sequence: Sequence,
    /// One for each input.
    counts: Vec<Counts>,
    writer: Writer,
    /// The buffer of the chunk that names packets for followers; `None` if packets are copied.
    chunk: Option<Vec<u8>>,
    /// The most packets to merge.
    most: u64,
    /// `None` if another thread records.
    recorder: Option<OwnRecorder<'a>>,
    owners: Owners,
    /// Polls since a packet was last found or copied.
    fruitless: usize,
    errors: Vec<EngineError>,
    /// Losses of the sources, as of the last look.
    lost: u64,
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    /// Packets copied into the log.
    copied: usize,
    /// Sources lent packets, or their filters rejected some.
    has_found: bool,
    /// The log has no room.
    is_full: bool,
    /// Every source has ended, and no packet is held.
    is_over: bool,
}

/// Fails if a source cannot be merged.
pub(super) fn check(sources: &[Inlet]) -> Result<(), EngineError> {
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
        sources: &'a mut [Inlet],
        writer: Writer,
        table: &PortTable,
    ) -> Self {
        let offset = |index: usize| merging.offsets_ns.get(index).copied().unwrap_or(0);
        let inputs: Vec<_> = sources.iter_mut().enumerate().collect();
        let inputs: Vec<_> =
            inputs.into_iter().map(|(index, source)| Input::new(source, offset(index))).collect();
        let lanes = vec![Lane::new(); inputs.len()];
        Self {
            job,
            lateness_ns: merging.lateness_ns,
            order: Order::default(),
            views: Vec::with_capacity(inputs.len()),
            strands: Vec::with_capacity(inputs.len()),
            sequence: Sequence::default(),
            counts: vec![Counts::default(); inputs.len()],
            inputs,
            lanes,
            writer,
            chunk: None,
            most: job.budget.limit().unwrap_or(u64::MAX),
            recorder: None,
            owners: Owners::new(table),
            fruitless: 0,
            errors: Vec::new(),
            lost: 0,
        }
    }

    /// Makes it record the merged packets as well; `reader` is a lossless reader of its log.
    pub(super) fn recording(self, reader: Reader, sink: &'a mut dyn Sink) -> Self {
        Self { recorder: Some(OwnRecorder::new(reader, sink)), ..self }
    }

    /// Makes it name packets for followers, into a log of chunks. Who received them has kept to the
    /// job's limit.
    fn naming(self) -> Self {
        Self { chunk: Some(Vec::new()), most: u64::MAX, ..self }
    }

    /// Returns how many packets may still pass before the job's limit.
    fn room(&self) -> u64 {
        self.most - self.sequence.packets
    }

    /// Merges the packets held, and polls the sources that the order waits for.
    fn step(&mut self, now_ns: u64) -> Step {
        let (copied, stop) = self.merge();
        let mut step = Step { copied, ..Step::default() };
        match stop {
            None => step.is_full = true,
            Some(Stop::Long) => {}
            Some(Stop::Empty(input)) => {
                let has_found = self.poll(input, now_ns);
                // While waiting for one source, the others may deliver packets that go first.
                step.has_found = has_found | self.poll_others(input, !has_found, now_ns);
            }
            Some(Stop::Over) => {
                step.has_found = self.poll_others(self.inputs.len(), false, now_ns);
                step.is_over = self.inputs.iter().all(|input| input.is_ended);
            }
        }
        step
    }

    /// Puts a chunk in order and copies it. Returns `None` in place of the reason for the end of
    /// the order if the log was full before that.
    fn merge(&mut self) -> (usize, Option<Stop>) {
        let most = usize::try_from(self.room()).unwrap_or(usize::MAX);
        let stop = self.order.find(&self.lanes, most);
        if self.order.len() == 0 {
            return (0, Some(stop));
        }
        let copied = self.copy();
        self.writer.publish();
        if let Some(recorder) = &mut self.recorder {
            recorder.catch_up(&self.job.clock);
        }
        (copied, (copied == self.order.len()).then_some(stop))
    }

    /// Copies or names the ordered packets, and returns how many.
    fn copy(&mut self) -> usize {
        let mut views = recycle(std::mem::take(&mut self.views), || None);
        let mut strands = recycle(std::mem::take(&mut self.strands), Strand::empty);
        let inputs = self.inputs.iter_mut().zip(&self.lanes).enumerate();
        views.extend(inputs.map(|(index, (input, lane))| {
            let (from, count) = (lane.next(), self.order.part(index));
            (count > 0).then(|| input.part(from, count)).flatten()
        }));
        let goods = Goods { order: &self.order, lanes: &mut self.lanes, counts: &mut self.counts };
        let writer = &mut self.writer;
        let copied = match &mut self.chunk {
            None => self.sequence.copy(goods, &views, &mut strands, writer),
            Some(chunk) => self.sequence.name(goods, &views, chunk, writer),
        };
        self.views = recycle(views, || None);
        self.strands = recycle(strands, Strand::empty);
        copied
    }

    /// Polls one source. Returns whether it had packets.
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
                // A log that is about to be filled, or full: its packets come in any case.
                let is_open = state != PortState::Blocked;
                let is_too_long = is_open && waited_ns >= self.lateness_ns;
                input.promise(lane, state, newest_ns, enough_ns, is_too_long);
                state == PortState::Busy
            }
        }
    }

    /// Polls the other sources: all without packets, or only the overdue ones.
    fn poll_others(&mut self, but: usize, is_all: bool, now_ns: u64) -> bool {
        let mut has_found = false;
        for index in (0..self.inputs.len()).filter(|&index| index != but) {
            if is_all || self.inputs[index].is_overdue {
                has_found |= self.poll(index, now_ns);
            }
        }
        has_found
    }

    /// Returns what to wait for if nothing was found.
    fn next_of(&self, step: Step) -> Next {
        let open = self.inputs.iter().filter(|input| !input.is_ended).count();
        if step.is_full {
            Next::WaitForRoom
        } else if self.fruitless < open {
            Next::Poll
        } else if self.lanes.iter().any(|lane| lane.left() > 0) {
            // The held packets can go once a promise is fulfilled, which no descriptor signals.
            Next::WaitForOthers
        } else {
            Next::Wait
        }
    }
}

impl runtime::Step for Merger<'_> {
    type Outcome = Home;

    fn poll(&mut self, now_ns: u64) -> Polled {
        if self.room() == 0 {
            return Polled { has_found: false, next: Next::Over, now_ns: None };
        }
        let step = self.step(now_ns);
        let has_found = step.copied > 0 || step.has_found;
        if has_found {
            self.fruitless = 0;
        }
        let next = match (step.is_over, has_found) {
            (true, _) => Next::Over,
            (false, true) => Next::Poll,
            (false, false) => self.next_of(step),
        };
        Polled { has_found, next, now_ns: None }
    }

    fn wait(&mut self, pause: Pause<'_>) -> bool {
        let open = self.inputs.iter().filter(|input| !input.is_ended);
        pause.on(open.map(|input| input.source.port()))
    }

    fn show(&mut self) {
        let (log, progress) = (self.writer.statistics(), self.job.progress);
        for (counter, counts) in progress.received.iter().zip(&self.counts) {
            counter.store(&Tally::whole(counts.copied, counts.bytes));
        }
        progress.set_segments(0, log.segments);
        self.recorder.iter().for_each(|recorder| recorder.show(progress));
    }

    fn show_losses(&mut self) -> u64 {
        let mut lost = 0;
        for (index, input) in self.inputs.iter().enumerate() {
            let delivered = self.counts[index].copied + self.lanes[index].left() as u64;
            lost += self.job.show_account(index, input.source.port.account(), delivered);
        }
        self.lost = lost;
        self.lost
    }

    /// Stops the sources that still hold packets. The held packets of the other sources are merged
    /// now, too.
    fn stop_sources(&mut self) -> bool {
        for (input, lane) in self.inputs.iter_mut().zip(&mut self.lanes) {
            if let Err(error) = input.finish(lane) {
                self.errors.push(error);
            }
        }
        true
    }

    /// Merges the packets held, without waiting for any source.
    fn close(&mut self) {
        for (input, lane) in self.inputs.iter_mut().zip(&mut self.lanes) {
            input.end(lane);
        }
        while self.room() > 0 && self.merge().0 > 0 {}
    }

    /// Closes the log.
    fn end(self) -> Home {
        let log = self.writer.statistics();
        self.writer.finish(self.job.log_ending(&self.errors));
        let merged = Merged {
            in_hand: self.lanes.iter().map(|lane| lane.left() as u64).collect(),
            cut: self.counts.iter().map(|counts| counts.cut).collect(),
            lateness_ns: self.lateness_ns,
            is_one_thread: self.recorder.is_some(),
            packets: self.sequence.packets,
            leader: None,
            ports: self.inputs.iter().zip(&self.counts).map(|(input, c)| input.report(c)).collect(),
        };
        let copied = self.counts.iter().map(|counts| counts.copied).enumerate();
        let took = Took {
            received: copied.collect(),
            owners: self.owners,
            log,
            lost: self.lost,
            errors: self.errors,
        };
        let recorded = self.recorder.map(|recorder| recorder.end(&self.job.clock));
        Home { took, merged, recorded }
    }
}
