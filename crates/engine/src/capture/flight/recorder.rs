//! The thread that waits for triggers, and writes the requested packets.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use burstline_log::{Log, Policy, Reader, ReaderConfig, Start};
use burstline_port::{Loss, Port, Sink};

use super::files::Files;
use super::marks::{Marks, Noted};
use super::{FlightOptions, past_of};
use crate::report::FlightFile;
use crate::runtime::clock::JobClock;
use crate::runtime::logs::gaps::{Gaps, Origin, unmarked_losses};
use crate::runtime::logs::record::Recorded;
use crate::runtime::{Job, Next, Pause, Polled, Step};

/// Interval between two checks for triggers while no file is open, in ns.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How long packets gather while a file is open and everything is written.
const GATHER: Duration = Duration::from_millis(1);

/// The outcome of the thread.
pub(super) struct Home {
    pub(super) recorded: Recorded,
    pub(super) files: Vec<FlightFile>,
    /// By log: the number of the first packet that is not accounted for yet.
    pub(super) next: Vec<u64>,
}

/// A log, and how far it is accounted for.
struct LogPart<'a> {
    log: &'a Log,
    /// Attached while a file is open and still lacks packets of this log.
    reader: Option<Reader>,
    /// F1: packets before this are seen, missed or expired.
    next: u64,
    /// Arrival times of packets.
    marks: Marks,
    /// The reader is new: no trigger asked for packets before its first one.
    is_first: bool,
    /// Number of the packet at which the file ends in this log.
    end: Option<u64>,
    missed: u64,
    expired: u64,
}

/// The recorder thread's state.
pub(super) struct FlightRecorder<'a, 'f> {
    job: &'a Job<'a>,
    options: &'a FlightOptions<'a>,
    policy: Policy,
    logs: &'a [Log],
    lanes: Vec<LogPart<'a>>,
    sink: &'a mut Files<'f>,
    recorded: Recorded,
    gaps: Gaps,
    files: Vec<FlightFile>,
    /// Packets in the files before the last one.
    written_before: u64,
    /// When the current file ends, in monotonic ns; `None` without a file.
    until_ns: Option<u64>,
    /// Losses of the sources at the last check.
    lost_by_sources: u64,
}

impl<'a, 'f> FlightRecorder<'a, 'f> {
    pub(super) fn new(
        job: &'a Job<'a>,
        options: &'a FlightOptions<'a>,
        policy: Policy,
        logs: &'a [Log],
        sink: &'a mut Files<'f>,
        origins: Vec<Origin>,
    ) -> Self {
        let lane = |log| LogPart {
            log,
            reader: None,
            next: 0,
            marks: Marks::new(log.config().keep_ns.unwrap_or(0)),
            is_first: true,
            end: None,
            missed: 0,
            expired: 0,
        };
        Self {
            job,
            options,
            policy,
            logs,
            lanes: logs.iter().map(lane).collect(),
            sink,
            recorded: Recorded::new(),
            gaps: Gaps::new(origins, logs.len()),
            files: Vec::new(),
            written_before: 0,
            until_ns: None,
            lost_by_sources: 0,
        }
    }

    fn is_triggered(&mut self) -> bool {
        let lost = self.job.progress.lost_by_sources();
        let has_lost = std::mem::replace(&mut self.lost_by_sources, lost) < lost;
        // Relaxed: the flag publishes no memory.
        self.options.trigger.swap(false, Relaxed) || has_lost && self.options.triggers_on_loss
    }

    /// Opens a file, or extends the open one.
    fn answer(&mut self, now_ns: u64) {
        if self.until_ns.is_none() && self.recorded.cause().is_none() {
            let kept_ns = past_of(self.logs).map_or(0, |past| past.kept_ns);
            let name = self.sink.begin().unwrap_or_else(|error| {
                self.recorded.break_with(error, &self.job.clock);
                String::new()
            });
            self.written_before = self.recorded.total().packets;
            if !name.is_empty() {
                let kept = kept_ns as f64 / 1e9;
                self.job.progress.tell(format!("trigger: writing {name}, {kept:.1} s kept before"));
            }
            self.files.push(FlightFile { name, packets: 0, kept_ns, triggers: 0 });
        }
        if let Some(file) = self.files.last_mut() {
            file.triggers += 1;
        }
        self.until_ns = Some(now_ns.saturating_add(self.options.after_ns));
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            lane.end = None;
            if lane.reader.is_some() {
                continue;
            }
            let (policy, start) = (self.policy, Start::Oldest);
            match lane.log.attach(ReaderConfig { policy, window: 1, start }) {
                Ok(reader) => {
                    (lane.reader, lane.is_first) = (Some(reader), true);
                    let before = lane.next;
                    lane.let_go(lane.marks.cut(now_ns));
                    let first = lane.first();
                    // Losses before the file are not in it, unless it goes on where one ended.
                    if let Some(lost) = lane.marks.lost_before(first).filter(|_| first > before) {
                        self.gaps.leave_out(number, lost, lane.missed);
                    }
                }
                Err(error) => self.recorded.fail(error.into(), &self.job.clock),
            }
        }
    }

    /// Writes a burst of each log that has one. Returns false if none has.
    fn write(&mut self, until_ns: u64, now_ns: u64) -> bool {
        let is_time_over = now_ns >= until_ns;
        let mut has_found = false;
        for lane in &mut self.lanes {
            if is_time_over && lane.end.is_none() {
                lane.end = lane.log.history().map(|past| past.next_packet);
            }
            has_found |= lane.turn(&mut self.recorded, self.sink, &self.job.clock);
        }
        let is_whole = self.lanes.iter().all(|lane| lane.reader.is_none());
        if is_whole {
            self.until_ns = None;
            let totals = self
                .gaps
                .totals(self.job.progress, &self.missed(), |port| self.recorded.lost_of(port));
            self.sink.set_totals(&totals);
            let finished = self.sink.finish();
            self.recorded.ask(self.sink);
            self.recorded.heed(finished, &self.job.clock);
        }
        if !has_found && !is_whole {
            // The next packets are new; within the history, gaps would be in the wrong place.
            let missed = self.missed();
            self.gaps.tell(self.job.progress, &missed, &self.recorded.seen, self.sink);
        }
        // Subtracts packets that the sink has lost since.
        if let Some(file) = self.files.last_mut() {
            file.packets = self.recorded.total().packets.saturating_sub(self.written_before);
            if is_whole && !file.name.is_empty() {
                let FlightFile { name, packets, .. } = file;
                let noun = if *packets == 1 { "packet" } else { "packets" };
                self.job.progress.tell(format!("wrote {name}: {packets} {noun}"));
            }
        }
        has_found
    }

    /// Returns the requested packets of each log that were overwritten before they were read.
    fn missed(&self) -> Vec<u64> {
        self.lanes.iter().map(|lane| lane.missed).collect()
    }
}

impl Step for FlightRecorder<'_, '_> {
    type Outcome = Home;
    const READS_LOGS: bool = true;

    /// Answers triggers, and writes the requested packets.
    fn poll(&mut self, now_ns: u64) -> Polled {
        for lane in &mut self.lanes {
            lane.marks.look(now_ns, || Noted {
                packet: lane.log.history().map_or(0, |past| past.next_packet),
                lost: unmarked_losses(self.job.progress),
            });
        }
        // Must precede the check for triggers: a trigger set before the end is answered (F3).
        let is_over = self.logs.iter().all(Log::is_closed);
        if self.is_triggered() {
            self.answer(now_ns);
        }
        let has_found = self.until_ns.is_some_and(|until_ns| self.write(until_ns, now_ns));
        let next = match (is_over, has_found) {
            (true, _) if self.until_ns.is_none() => Next::Over,
            (false, false) => Next::Wait,
            _ => Next::Poll,
        };
        Polled { has_found, next, now_ns: None }
    }

    fn wait(&mut self, pause: Pause<'_>) -> bool {
        pause.sleep(if self.until_ns.is_some() { GATHER } else { LOOK_EVERY })
    }

    /// Flushes the open file.
    fn flush(&mut self) -> bool {
        self.until_ns.is_none() || self.recorded.flush(self.sink, &self.job.clock)
    }

    fn show(&mut self) {
        self.job.progress.recorded[0].store(&self.recorded.total());
    }

    fn show_losses(&mut self) -> u64 {
        let progress = self.job.progress;
        let kept_ns = past_of(self.logs).map_or(0, |past| past.kept_ns);
        progress.set_flight(kept_ns, self.files.len() as u64, self.until_ns.is_some());
        let written = self.files.last().filter(|_| self.until_ns.is_some());
        progress.set_file(0, written.map(|file| file.name.clone()));
        let mut losses = self.recorded.losses();
        let missed = self.missed().into_iter().sum();
        if missed > 0 {
            losses.add(Loss::ReaderOverrun, missed);
        }
        losses.add(Loss::Expired, self.lanes.iter().map(LogPart::expired_by_now).sum());
        self.job.show_losses_behind(0, losses)
    }

    fn end(mut self) -> Home {
        self.recorded.missed = self.missed();
        self.recorded.expired = self.lanes.iter().map(|lane| lane.expired).collect();
        let next = self.lanes.iter().map(|lane| lane.next).collect();
        Home { recorded: self.recorded, files: self.files, next }
    }
}

impl LogPart<'_> {
    /// Lets packets before number `cut` expire: they are older than the history.
    fn let_go(&mut self, cut: u64) {
        self.expired += cut.saturating_sub(self.next);
        self.next = self.next.max(cut);
    }

    /// Returns the number of the next packet, if it is still in the log, or of the first one there.
    fn first(&self) -> u64 {
        self.next.max(self.log.history().map_or(0, |past| past.first_packet))
    }

    /// Writes a burst, up to the end of the file. Returns false if no burst is available.
    fn turn(
        &mut self,
        recorded: &mut Recorded,
        sink: &mut Files<'_>,
        clock: &JobClock<'_>,
    ) -> bool {
        let Some(reader) = &mut self.reader else { return false };
        let is_found = match reader.next_burst() {
            Some(burst) => {
                let first = burst.first_packet();
                let end = first + burst.len() as u64;
                // Packets passed over by the reader are counted here, once: F1.
                if first > self.next {
                    let passed_over = first.min(self.end.unwrap_or(first)).max(self.next);
                    let gap = passed_over - self.next;
                    if self.is_first {
                        self.expired += gap
                    } else {
                        self.missed += gap
                    }
                    self.next = passed_over;
                }
                self.is_first = false;
                let stop = end.min(self.end.unwrap_or(end)).max(self.next);
                if self.next >= first && stop > self.next {
                    let (burst, _) = burst.split_at((stop - first) as usize);
                    let (_, burst) = burst.split_at((self.next - first) as usize);
                    recorded.record(&burst, sink, clock);
                    self.next = stop;
                }
                true
            }
            None => false,
        };
        // Drained up to the end of the file, or of the log.
        let is_at_end = match self.end {
            Some(end) => self.next >= end || !is_found,
            None => !is_found && reader.is_finished(),
        };
        if is_at_end {
            self.reader = None;
        }
        is_found
    }

    /// Returns the packets that no trigger asked for, or that are already overwritten.
    fn expired_by_now(&self) -> u64 {
        let oldest = match self.reader {
            Some(_) => self.next,
            None => self.log.history().map_or(0, |past| past.first_packet),
        };
        self.expired + oldest.saturating_sub(self.next)
    }
}

#[cfg(test)]
mod tests;
