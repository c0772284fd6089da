//! Capturing on one thread: packets go from the source's own queue straight into the sink.
//!
//! ```text
//!  kernel's ring | block | block | block | --lend--> burst --transmit--> sink's buffer -> file
//!                  ^ filled meanwhile                '-- this thread, nothing else --'
//! ```
//!
//! The queue between the wire and the disk is then the source's and not a log: while the sink is
//! written, packets wait there, and what it has no room for is the source's loss, by its name. A
//! burst is counted and given to the sink before the source is polled again.
//!
//! Decision 0011 says when this pays and when not.

use burstline_log::{SCRATCH_PACKETS, Scratch};
use burstline_port::{Port, PortState};
use burstline_sys::clock;

use super::gaps::Gaps;
use super::receive::Took;
use super::record::Recorded;
use super::{CaptureOptions, Job, LogCounts, record};
use crate::EngineError;
use crate::budget::Grant;
use crate::clock::{Drain, SECOND_NS};
use crate::job::{Owners, Source};
use crate::stage::{StageCost, StageMeter};
use crate::waiting::Waiter;

/// How often losses are shown, and an idle sink made visible, in ns.
const LOOK_EVERY_NS: u64 = 100_000_000;

/// The name of the one stage.
pub(super) const STAGE: &str = "record-in-place";

/// Whether a job is run this way: one source with a queue that is as deep as a log, and no two
/// cores to share the work between.
pub(super) fn is_chosen(sources: &[Source], options: &CaptureOptions) -> bool {
    let is_fit = |source: &Source| {
        let can = source.port.info().capabilities;
        can.is_deep && can.can_lend
    };
    let is_alone = matches!(sources, [source] if is_fit(source));
    is_alone && options.threads.cores.len() < 2 && options.publish.is_none()
}

/// The thread's own.
pub(super) struct InPlace<'a> {
    job: &'a Job<'a>,
    source: &'a mut Source,
    sink: &'a mut dyn Port,
    recorded: Recorded,
    gaps: Gaps<'a>,
    /// Packets and bytes lent.
    lent: LogCounts,
    owners: Owners,
    waiter: Waiter,
    error: Option<EngineError>,
    is_ended: bool,
    is_limit_reached: bool,
    is_flushed: bool,
    flushed_ns: u64,
    looked_ns: u64,
    nap_ns: u64,
    lost_first_second: Option<u64>,
}

impl<'a> InPlace<'a> {
    pub(super) fn new(job: &'a Job<'a>, source: &'a mut Source, sink: &'a mut dyn Port) -> Self {
        Self {
            job,
            source,
            sink,
            recorded: Recorded::new(),
            gaps: Gaps::new(&job.origins, 0),
            lent: LogCounts::default(),
            owners: Owners::new(&job.options.table),
            waiter: Waiter::new(job.options.threads.poll, clock::monotonic_ns()),
            error: None,
            is_ended: false,
            is_limit_reached: false,
            is_flushed: true,
            flushed_ns: job.clock.start_ns,
            looked_ns: job.clock.start_ns,
            nap_ns: record::nap_ns(job.options.log.bytes as u64),
            lost_first_second: None,
        }
    }

    /// Records until the job is over.
    pub(super) fn run(mut self) -> (Took, Recorded) {
        let mut meter = StageMeter::start();
        let mut scratch = Scratch::new();
        let mut now_ns = clock::monotonic_ns();
        while !self.job.clock.is_over(now_ns) && self.goes_on() {
            let has_found = self.poll(&mut scratch);
            let before_ns = std::mem::replace(&mut now_ns, clock::monotonic_ns());
            if has_found {
                self.waiter.work(now_ns);
                meter.busy_ns += now_ns - before_ns;
            } else {
                meter.empty_ns += now_ns - before_ns;
            }
            self.look(now_ns);
            if !has_found && self.goes_on() {
                self.flush_if_due(now_ns);
                let (port, clock) = (std::iter::once(&*self.source.port), &self.job.clock);
                if self.waiter.gather(self.nap_ns, clock) || self.waiter.pause(port, now_ns, clock)
                {
                    now_ns = clock::monotonic_ns();
                }
            }
        }
        self.drain(&mut scratch);
        let lost = self.show_losses();
        self.recorded.missed = vec![0];
        self.recorded.cost = meter.end(self.waiter.sleeps());
        let took = Took {
            received: vec![(0, self.lent.packets)],
            owners: self.owners,
            log: self.lent,
            cost: StageCost::default(),
            lost,
            lost_first_second: self.lost_first_second.unwrap_or(lost),
            errors: self.error.into_iter().collect(),
            merged: None,
        };
        (took, self.recorded)
    }

    /// Records a burst. False if there was none, and nothing that the filter left out.
    fn poll(&mut self, scratch: &mut Scratch) -> bool {
        let granted = match self.job.budget.take(SCRATCH_PACKETS as u64) {
            Grant::Packets(granted) => granted,
            Grant::Wait | Grant::Reached => {
                self.is_limit_reached = true;
                return false;
            }
        };
        let lent = self.source.port.lend(scratch, granted);
        // Before what came is counted by interface.
        self.owners.claim(0);
        let lent = match lent {
            Ok(lent) => lent,
            Err(error) => {
                self.job.budget.settle(granted, 0);
                self.error = Some(error.into());
                self.is_ended = true;
                return false;
            }
        };
        let packets = lent.burst.len() as u64;
        if packets > 0 {
            self.lent.packets += packets;
            self.lent.bytes += self.recorded.record(&lent.burst, self.sink, &self.job.clock);
            self.is_flushed = false;
        }
        self.is_ended = lent.state == PortState::Ended;
        self.job.budget.settle(granted, packets);
        packets > 0 || lent.state == PortState::Busy
    }

    /// Stops the source, and records what it has in hand.
    fn drain(&mut self, scratch: &mut Scratch) {
        if self.is_ended || !self.source.port.info().capabilities.can_drain {
            return;
        }
        if let Err(error) = self.source.port.finish() {
            self.error = Some(error.into());
            return;
        }
        let mut drain = Drain::start();
        while self.goes_on() && drain.goes_on(self.poll(scratch)) {}
    }

    fn goes_on(&self) -> bool {
        !self.is_ended && !self.is_limit_reached
    }

    /// There is nothing to do: has the sink write what it has, if that was long ago.
    fn flush_if_due(&mut self, now_ns: u64) {
        if self.is_flushed || now_ns - self.flushed_ns < LOOK_EVERY_NS {
            return;
        }
        (self.is_flushed, self.flushed_ns) = (true, now_ns);
        self.recorded.flush(self.sink, &self.job.clock);
    }

    /// Shows how far it is; some times a second, what is lost.
    fn look(&mut self, now_ns: u64) {
        self.job.progress.recorded[0].store(self.recorded.total());
        self.job.progress.received[0].store(self.recorded.total());
        if now_ns - self.looked_ns < LOOK_EVERY_NS {
            return;
        }
        self.looked_ns = now_ns;
        let lost = self.show_losses();
        if self.lost_first_second.is_none() && now_ns - self.job.clock.start_ns >= SECOND_NS {
            self.lost_first_second = Some(lost);
        }
    }

    /// Returns what the source lost, not counting what nobody asked for.
    fn show_losses(&mut self) -> u64 {
        let progress = self.job.progress;
        let losses = self.source.port.account().lost;
        let missing = losses.missing();
        progress.set_losses(0, losses);
        self.gaps.tell(progress, &[], self.sink);
        let losses = self.recorded.losses();
        if self.lost_first_second.is_none() {
            self.recorded.lost_first_second = losses.missing();
        }
        progress.set_losses(progress.received.len(), losses);
        missing
    }
}
