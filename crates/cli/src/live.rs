//! A snapshot of a running job: the single source for `--metrics`, `--web` and `top`.
//!
//! ```text
//!   job's threads ──store──► Progress ◄──load── Live::of ──► metrics::text    OpenMetrics
//!                                                        ──► view::live       JSON: page, top
//! ```
//!
//! The job's threads are not involved. A snapshot takes some locks that no packet waits for.

use std::iter;

use burstline_engine::{Counts, LogNow, Place, Progress, PublishedReport, Snapshot, StageNow};
use burstline_sys::clock;
use burstline_sys::usage::{self, CpuUsage};
use burstline_wire::ethernet::{FCS_BYTES, GAP_BYTES};

/// Below this rate most of a job's time is not spent on packets, so rho is meaningless.
pub(crate) const RHO_LEAST_BITS_PER_S: f64 = 10e6;

/// The constant properties of a job.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(crate) command: &'static str,
    /// The sink, if there is exactly one.
    pub(crate) sink: Option<String>,
    /// Start time, in seconds since 1970.
    pub(crate) begun_s: f64,
    /// CPU time that the program had used before the job began.
    used: CpuUsage,
}

impl About {
    /// Describes a job that begins now.
    pub(crate) fn new(command: &'static str, sink: Option<String>) -> Self {
        Self { command, sink, begun_s: now_s(), used: usage::process() }
    }

    /// Returns how long the job has run, in seconds.
    pub(crate) fn elapsed_s(&self) -> f64 {
        (now_s() - self.begun_s).max(0.0)
    }
}

/// The state of a job at some moment.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) about: About,
    /// Time of the snapshot, in seconds since 1970.
    pub(crate) now_s: f64,
    pub(crate) places: Vec<Place>,
    pub(crate) whole: Snapshot,
    pub(crate) stages: Vec<StageNow>,
    pub(crate) logs: Vec<LogNow>,
    pub(crate) published: Option<PublishedReport>,
    /// CPU time used since the job began.
    pub(crate) cpu: CpuUsage,
    /// Resident memory of the program, or `None` if the kernel does not report it.
    pub(crate) resident_bytes: Option<u64>,
}

impl Live {
    /// Takes a snapshot of a job.
    pub(crate) fn of(about: &About, progress: &Progress) -> Self {
        Self {
            about: about.clone(),
            now_s: now_s(),
            places: progress.places(),
            whole: progress.snapshot(),
            stages: progress.stages(),
            logs: progress.logs(),
            published: progress.published(),
            cpu: usage::process().since(&about.used),
            resident_bytes: usage::resident().ok().map(|memory| memory.total_bytes()),
        }
    }

    /// Returns all text from outside: names of ports, threads, logs and readers.
    pub(crate) fn names(&mut self) -> impl Iterator<Item = &mut String> {
        let places = self.places.iter_mut().map(|place| &mut place.name);
        let stages = self.stages.iter_mut().map(|stage| &mut stage.place.name);
        let published = self.published.iter_mut().flat_map(|report| {
            let commands = report.there.iter_mut().map(|reader| &mut reader.command);
            iter::once(&mut report.name).chain(commands)
        });
        places.chain(stages).chain(published)
    }

    /// Returns how long the job has run, in seconds.
    pub(crate) fn elapsed_s(&self) -> f64 {
        (self.now_s - self.about.begun_s).max(0.0)
    }

    /// Returns the job's sources, or the workers and recorders behind them.
    pub(crate) fn places(&self, of_sources: bool) -> impl Iterator<Item = &Place> {
        let has_workers = has_workers(&self.whole) || self.whole.has_own_places;
        let is_meant =
            move |place: &&Place| place.is_source == of_sources && (place.is_source || has_workers);
        self.places.iter().filter(is_meant)
    }

    /// Returns the percent of a core per Gbit/s of line rate so far.
    ///
    /// `None` below [`RHO_LEAST_BITS_PER_S`].
    pub(crate) fn rho(&self) -> Option<f64> {
        let counts = delivered(&self.whole);
        let gaps = counts.packets * u64::from(FCS_BYTES + GAP_BYTES);
        let line_bits = (counts.wire_bytes + gaps) as f64 * 8.0;
        let cpu_s = (self.cpu.user_ns + self.cpu.system_ns) as f64 / 1e9;
        let is_enough = line_bits > 0.0 && line_bits >= RHO_LEAST_BITS_PER_S * self.elapsed_s();
        is_enough.then(|| cpu_s * 100.0 / (line_bits / 1e9))
    }
}

fn now_s() -> f64 {
    clock::realtime_ns() as f64 / 1e9
}

/// Returns whether a recorder or workers read the packets of the sources.
fn has_workers(whole: &Snapshot) -> bool {
    whole.log_bytes > 0 || whole.recorded.packets > 0
}

/// Returns the packets that arrived at their destination in the job.
pub(crate) fn delivered(whole: &Snapshot) -> Counts {
    if has_workers(whole) { whole.recorded } else { whole.received }
}

/// Returns how full the job's logs are, in `[0, 100]` percent.
pub(crate) fn log_percent(whole: &Snapshot) -> f64 {
    let waiting = whole.received.bytes.saturating_sub(whole.recorded.bytes);
    (waiting as f64 * 100.0 / whole.log_bytes.max(1) as f64).min(100.0)
}
