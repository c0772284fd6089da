//! One thread of a bounce, and the crossings that it runs.

use burstline_log::SCRATCH_PACKETS;
use burstline_port::{Crossing, Port};

use crate::EngineError;
use crate::runtime::{Job, Next, Pause, Polled, Round, Step, Tally};

/// How often frames are counted again that seem to be in two places. The kernel needs far less time
/// than that; a frame that really is in two places stays there.
const RECOUNTS: u32 = 10_000;

/// Frames in none of the known places, each time they were counted while packets passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// How often they were counted: several times a second.
    pub times: u64,
    /// The fewest: negative if a frame was in two places.
    pub least: i64,
    /// The most: the kernel or a device held them.
    pub most: i64,
}

impl Counted {
    /// Counts the frames of a crossing, if it has some: again if the kernel moves them just now.
    fn look(&mut self, crossing: &dyn Crossing) {
        let count = || crossing.census().map(|census| census.elsewhere());
        let Some(mut elsewhere) = count() else { return };
        for _ in 0..RECOUNTS {
            if elsewhere >= 0 {
                break;
            }
            std::hint::spin_loop();
            elsewhere = count().unwrap_or(elsewhere);
        }
        self.times += 1;
        self.least = self.least.min(elsewhere);
        self.most = self.most.max(elsewhere);
    }
}

/// A crossing and its worker's state for it.
pub(super) struct CrossingState {
    pub(super) index: usize,
    pub(super) crossing: Box<dyn Crossing>,
    pub(super) error: Option<EngineError>,
    pub(super) counted: Counted,
    is_over: bool,
}

impl CrossingState {
    pub(super) fn new(index: usize, crossing: Box<dyn Crossing>) -> Self {
        Self { index, crossing, error: None, counted: Counted::default(), is_over: false }
    }

    /// Returns the packets carried so far.
    pub(super) fn carried(&self) -> Tally {
        let carried = self.crossing.carried();
        Tally::whole(carried.packets, carried.bytes)
    }

    fn fail(&mut self, error: impl Into<EngineError>) {
        self.error.get_or_insert(error.into());
        self.is_over = true;
    }
}

pub(super) struct Worker<'a> {
    job: &'a Job<'a>,
    lanes: Vec<CrossingState>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(job: &'a Job<'a>, lanes: Vec<CrossingState>) -> Self {
        Self { job, lanes }
    }
}

impl Step for Worker<'_> {
    type Outcome = Vec<CrossingState>;
    const POLLS_A_LOOK: u32 = 8;

    /// Runs each lane once.
    #[inline]
    fn poll(&mut self, _now_ns: u64) -> Polled {
        let (mut round, budget) = (Round::default(), &self.job.budget);
        for lane in self.lanes.iter_mut().filter(|lane| !lane.is_over) {
            let pass = |granted| lane.crossing.pass(granted);
            match round.poll(budget, SCRATCH_PACKETS as u64, pass) {
                Ok(is_ended) => lane.is_over = is_ended,
                Err(error) => lane.fail(error),
            }
        }
        round.polled(Next::WaitForOthers)
    }

    fn wait(&mut self, pause: Pause<'_>) -> bool {
        let open = self.lanes.iter().filter(|lane| !lane.is_over);
        pause.on(open.map(|lane| &*lane.crossing as &dyn Port))
    }

    fn show_losses(&mut self) -> u64 {
        let show = |lane: &mut CrossingState| {
            lane.counted.look(&*lane.crossing);
            let carried = lane.carried();
            if let Some(counter) = self.job.progress.received.get(lane.index) {
                counter.store(&carried);
            }
            self.job.show_account(lane.index, lane.crossing.account(), carried.packets)
        };
        self.lanes.iter_mut().map(show).sum()
    }

    /// Stops the input of all lanes before any is drained: a program is detached only when its last
    /// queue has left. A lane is drained, whatever ended it.
    fn stop_sources(&mut self) -> bool {
        for lane in &mut self.lanes {
            lane.is_over = !lane.crossing.info().capabilities.can_drain;
            if let Some(Err(error)) = (!lane.is_over).then(|| lane.crossing.finish()) {
                lane.error.get_or_insert(error.into());
            }
        }
        self.lanes.iter().any(|lane| !lane.is_over)
    }

    fn close(&mut self) {
        for lane in &mut self.lanes {
            if let Err(error) = lane.crossing.close() {
                lane.fail(error);
            }
        }
    }

    fn end(self) -> Vec<CrossingState> {
        self.lanes
    }
}
