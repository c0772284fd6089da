//! Capturing on one thread: packets go from the source's own queue straight into the sink.
//!
//! ```text
//!  kernel's ring | block | block | block | --lend--> burst --transmit--> sink's buffer -> file
//!                  ^ the kernel fills                '-- this thread alone --'
//! ```
//!
//! The source's queue takes the role of the log between the wire and the disk. While the sink
//! writes, packets wait in that queue. Packets that do not fit are a loss of the source, under its
//! own cause. A burst is counted and given to the sink before the source is polled again.
//!
//! Decision 0011 says when this pays off.

use burstline_log::{SCRATCH_PACKETS, Scratch};
use burstline_port::{Received, Sink};

use super::{Captured, only};
use crate::EngineError;
use crate::runtime::logs::gaps::{Gaps, Origin};
use crate::runtime::logs::receive::Took;
use crate::runtime::logs::record::{self, Recorded};
use crate::runtime::logs::{CaptureOptions, LogCounts};
use crate::runtime::{Crew, Done, Inlet, Job, Next, Owners, Pause, Polled, Round, Step};

/// The name of the one stage.
pub(super) const STAGE: &str = "record-in-place";

/// Returns whether a job runs this way: one source with a queue as deep as a log, and no two cores
/// to share the work.
pub(super) fn is_chosen(sources: &[Inlet], options: &CaptureOptions) -> bool {
    let is_alone = matches!(sources, [source] if source.port.info().capabilities.is_deep);
    is_alone && options.threads.cores.len() < 2 && options.publish.is_none()
}

/// The thread's state.
pub(super) struct InPlace<'a> {
    job: &'a Job<'a>,
    source: &'a mut Inlet,
    sink: &'a mut dyn Sink,
    scratch: Scratch,
    recorded: Recorded,
    gaps: Gaps,
    /// Packets and bytes lent.
    lent: LogCounts,
    owners: Owners,
    error: Option<EngineError>,
    is_ended: bool,
    nap_ns: u64,
    /// Losses of the source, as of the last look.
    lost: u64,
}

impl<'a> InPlace<'a> {
    pub(super) fn new(
        job: &'a Job<'a>,
        options: &CaptureOptions,
        source: &'a mut Inlet,
        sink: &'a mut dyn Sink,
        origins: Vec<Origin>,
    ) -> Self {
        Self {
            job,
            source,
            sink,
            scratch: Scratch::new(),
            recorded: Recorded::new(),
            gaps: Gaps::new(origins, 0),
            lent: LogCounts::default(),
            owners: Owners::new(&options.table),
            error: None,
            is_ended: false,
            nap_ns: record::nap_ns(options.log.bytes as u64),
            lost: 0,
        }
    }

    /// Splits the outcome of the one thread into its two halves.
    pub(super) fn captured(crew: Crew<(Took, Recorded), ()>) -> Captured {
        let ((took, recorded), done) = only(crew.front).split();
        Captured {
            places: crew.places,
            took: vec![Done::beside(took)],
            recorded: done.with(recorded),
            merged: None,
        }
    }
}

impl Step for InPlace<'_> {
    type Outcome = (Took, Recorded);

    /// Records a burst.
    fn poll(&mut self, _now_ns: u64) -> Polled {
        let mut round = Round::default();
        if self.is_ended {
            return round.polled(Next::Wait);
        }
        let Self { job, source, sink, scratch, recorded, lent: sum, owners, .. } = self;
        let taken = round.poll(&job.budget, SCRATCH_PACKETS as u64, |granted| {
            let lent = source.port.lend(scratch, granted);
            // Before the packets are counted by interface.
            owners.claim(0);
            let lent = lent?;
            let packets = lent.burst.len() as u64;
            if packets > 0 {
                sum.packets += packets;
                sum.bytes += recorded.record(&lent.burst, &mut **sink, &job.clock);
            }
            Ok(Received { packets, state: lent.state })
        });
        self.is_ended = taken.unwrap_or_else(|error: EngineError| {
            self.error = Some(error);
            true
        });
        round.polled(Next::Wait)
    }

    fn wait(&mut self, pause: Pause<'_>) -> bool {
        pause.on_deep(std::iter::once(self.source.port()), self.nap_ns)
    }

    fn show(&mut self) {
        self.job.progress.recorded[0].store(&self.recorded.total());
        self.job.progress.received[0].store(&self.recorded.total());
    }

    fn show_losses(&mut self) -> u64 {
        self.lost = self.job.show_account(0, self.source.port.account(), self.lent.packets);
        self.gaps.tell(self.job.progress, &[], &self.recorded.seen, self.sink);
        // Totals for a file that ends before the job does.
        let totals = self.gaps.totals(self.job.progress, &[], |port| self.recorded.lost_of(port));
        self.sink.set_totals(&totals);
        self.recorded.look_at_clock(self.sink, &self.job.clock);
        self.job.tell_of_sink(0, &*self.sink);
        self.lost + self.job.show_losses_behind(0, self.recorded.losses())
    }

    fn newest_ns(&self) -> u64 {
        self.recorded.span.last_ns
    }

    /// Flushes the sink when there are no packets.
    fn flush(&mut self) -> bool {
        self.recorded.flush(self.sink, &self.job.clock)
    }

    fn stop_sources(&mut self) -> bool {
        if self.is_ended || !self.source.port.info().capabilities.can_drain {
            return false;
        }
        let finished = self.source.port.finish();
        self.error = finished.err().map(EngineError::from).or(self.error.take());
        self.error.is_none()
    }

    fn end(mut self) -> (Took, Recorded) {
        self.recorded.missed = vec![0];
        let took = Took {
            received: vec![(0, self.lent.packets)],
            owners: self.owners,
            log: self.lent,
            lost: self.lost,
            errors: self.error.into_iter().collect(),
        };
        (took, self.recorded)
    }
}
