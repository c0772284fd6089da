//! Counters of a running job, which its threads store and any thread may load.
//!
//! Each counter has one writer, which stores absolute values once a poll. No memory depends on
//! them, and they need not agree with each other to the packet; only the final ledger does.

mod standing;

use std::collections::BTreeMap;
use std::mem;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};

use burstline_log::Log;
use burstline_port::Losses;

use super::meter::StageCost;
use super::tally::Tally;
use crate::ThreadPlace;
use crate::bounce::Counted;
use crate::published::{PublishedReport, Shown};
pub use standing::{AGE_BOUNDS, AgesNow, LogNow, StageNow, Standing};

/// One thread's counters for a source or a sink.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    packets: AtomicU64,
    bytes: AtomicU64,
    wire_bytes: AtomicU64,
}

/// A snapshot of counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets.
    pub packets: u64,
    /// Captured bytes, without FCS.
    pub bytes: u64,
    /// Bytes on the wire, without FCS.
    pub wire_bytes: u64,
}

impl Counts {
    pub(crate) fn of(tally: &Tally) -> Self {
        Self { packets: tally.packets, bytes: tally.bytes, wire_bytes: tally.wire_bytes }
    }
}

impl Counter {
    pub(crate) fn store(&self, tally: &Tally) {
        self.packets.store(tally.packets, Relaxed); // no memory depends on it, see the module
        self.bytes.store(tally.bytes, Relaxed);
        self.wire_bytes.store(tally.wire_bytes, Relaxed);
    }

    fn load(&self) -> Counts {
        Counts {
            packets: self.packets.load(Relaxed), // as in `store`
            bytes: self.bytes.load(Relaxed),
            wire_bytes: self.wire_bytes.load(Relaxed),
        }
    }
}

/// The counters of one job.
#[derive(Debug)]
pub struct Progress {
    /// By source.
    pub(crate) received: Vec<Counter>,
    /// By recorder or worker.
    pub(crate) recorded: Vec<Counter>,
    /// By receive thread: at most one for each source.
    segments: Vec<AtomicU64>,
    log_bytes: AtomicU64,
    /// How far back the logs go, in ns; `u64::MAX` if the job has no history.
    kept_ns: AtomicU64,
    /// Files begun by triggers.
    files: AtomicU64,
    /// Whether the last file is being written.
    is_writing: AtomicBool,
    is_started: AtomicBool,
    /// Losses so far by place: one for each source, then one for each recorder. Each place's own
    /// thread updates its entry a few times a second.
    losses: Mutex<Vec<Losses>>,
    /// Standings of the ports, by place as `losses`.
    standings: Mutex<Vec<Standing>>,
    /// Threads, in the order of their start.
    stages: Mutex<Vec<StageNow>>,
    /// The job's logs, from its start on.
    logs: Mutex<Vec<Log>>,
    /// The publication of the logs, if any.
    shown: Mutex<Option<Shown>>,
    /// Events that were not fetched yet.
    news: Mutex<News>,
    /// The counts of frames of a bounce that has ended.
    counted: Mutex<Vec<Counted>>,
    /// Names of the sources.
    names: Vec<String>,
    /// The places of a job whose ports come and go; they replace those above.
    own_places: Mutex<Option<Vec<Place>>>,
}

/// A source or a consumer behind the sources (a worker, a sink), with its counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the source or sink; for a worker, its number.
    pub name: String,
    /// Number among the sources, or among the consumers behind them.
    pub number: usize,
    /// Whether it is a source.
    pub is_source: bool,
    /// Packets and bytes it has delivered.
    pub counts: Counts,
    /// Its losses, by cause.
    pub lost: Losses,
    /// The standing of its port.
    pub standing: Standing,
}

/// Events that were not fetched yet.
#[derive(Debug, Default)]
struct News {
    fresh: Vec<String>,
    /// How many events of each port are known: a port lists all its events since the start. Places
    /// as in `losses`; more if the job has more sinks.
    known: Vec<usize>,
    /// How often an event was reported. All queues of one interface see the same event.
    told: BTreeMap<String, usize>,
}

/// The most events that can wait to be fetched; later ones are only in the report.
const NEWS_MOST: usize = 1000;

impl News {
    fn tell(&mut self, what: String) {
        if self.fresh.len() < NEWS_MOST {
            self.fresh.push(what);
        }
    }

    /// Reports the new entries of `events`, the list of all events of the port in `place`.
    fn hear(&mut self, place: usize, events: &[String]) {
        if self.known.len() <= place {
            self.known.resize(place + 1, 0);
        }
        let known = mem::replace(&mut self.known[place], events.len());
        for (index, event) in events.iter().enumerate().skip(known) {
            let times = events[..=index].iter().filter(|other| *other == event).count();
            let told = self.told.entry(event.clone()).or_default();
            if times > *told {
                *told = times;
                self.tell(event.clone());
            }
        }
    }
}

/// A snapshot of all counters of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Whether the threads are running: the memory is allocated, the ports are open.
    pub is_started: bool,
    /// Packets delivered by all sources.
    pub received: Counts,
    /// Packets that the recorder has passed to the sink; 0 without a recorder.
    pub recorded: Counts,
    /// Segments opened so far in all logs.
    pub segments: u64,
    /// Size of the logs' packet memory, 0 without logs.
    pub log_bytes: u64,
    /// Age of the oldest packet in a log with a history, in ns; the shortest of several logs.
    pub kept_ns: Option<u64>,
    /// Files begun by triggers so far.
    pub files: u64,
    /// Whether the last file is still being written.
    pub is_writing: bool,
    /// Losses by cause.
    pub lost: Losses,
    /// Whether the job lists its sources and sinks itself, as a switch does.
    pub has_own_places: bool,
}

/// Locks a mutex even if a thread panicked while holding it: each change is complete.
fn lock<T>(behind: &Mutex<T>) -> MutexGuard<'_, T> {
    behind.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sum(counters: &[Counter]) -> Counts {
    let mut sum = Counts::default();
    for counts in counters.iter().map(Counter::load) {
        sum.packets += counts.packets;
        sum.bytes += counts.bytes;
        sum.wire_bytes += counts.wire_bytes;
    }
    sum
}

impl Progress {
    /// Creates the counters of a job with `sources` sources, all 0.
    pub fn new(sources: usize) -> Self {
        Self::with_workers(sources, 1)
    }

    /// Creates the counters of a job with `sources` sources and `workers` threads that read them.
    pub fn with_workers(sources: usize, workers: usize) -> Self {
        Self {
            received: (0..sources).map(|_| Counter::default()).collect(),
            recorded: (0..workers).map(|_| Counter::default()).collect(),
            segments: (0..sources).map(|_| AtomicU64::new(0)).collect(),
            log_bytes: AtomicU64::new(0),
            kept_ns: AtomicU64::new(u64::MAX),
            files: AtomicU64::new(0),
            is_writing: AtomicBool::new(false),
            is_started: AtomicBool::new(false),
            losses: Mutex::new(vec![Losses::default(); sources + workers]),
            standings: Mutex::new(vec![Standing::default(); sources + workers]),
            stages: Mutex::default(),
            logs: Mutex::default(),
            shown: Mutex::default(),
            news: Mutex::default(),
            counted: Mutex::default(),
            names: (0..sources).map(|number| number.to_string()).collect(),
            own_places: Mutex::default(),
        }
    }

    /// Sets the names of the sources, in order; a source without a name keeps its number.
    #[must_use]
    pub fn named(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.names.iter_mut().zip(names).for_each(|(known, name)| *known = name);
        self
    }

    /// Returns the current state of each source, then of each worker or sink. Cost: as for
    /// [`snapshot`](Self::snapshot), and a few small allocations.
    pub fn places(&self) -> Vec<Place> {
        if let Some(own) = lock(&self.own_places).as_ref() {
            return own.clone();
        }
        let losses = lock(&self.losses).clone();
        let standings = lock(&self.standings).clone();
        let sources = self.received.len();
        let said = losses.into_iter().zip(standings);
        let counters = self.received.iter().chain(&self.recorded).zip(said).enumerate();
        let place = |(index, (counter, (lost, standing))): (usize, (&Counter, _))| {
            let name = self.names.get(index);
            let number = if name.is_some() { index } else { index - sources };
            Place {
                name: name.cloned().unwrap_or_else(|| number.to_string()),
                number,
                is_source: name.is_some(),
                counts: counter.load(),
                lost,
                standing,
            }
        };
        counters.map(place).collect()
    }

    /// Returns the current counters. Cost: a load each and an uncontended lock.
    pub fn snapshot(&self) -> Snapshot {
        let mut lost = Losses::default();
        for place in lock(&self.losses).iter() {
            lost.merge(place);
        }
        Snapshot {
            is_started: self.is_started.load(Relaxed), // see the module, here and below
            received: sum(&self.received),
            recorded: sum(&self.recorded),
            segments: self.segments.iter().map(|segments| segments.load(Relaxed)).sum(),
            log_bytes: self.log_bytes.load(Relaxed),
            kept_ns: Some(self.kept_ns.load(Relaxed)).filter(|&kept_ns| kept_ns != u64::MAX),
            files: self.files.load(Relaxed),
            is_writing: self.is_writing.load(Relaxed),
            lost,
            has_own_places: lock(&self.own_places).is_some(),
        }
    }

    /// Returns the job's threads, in the order of their start. Cost: a lock, some allocations.
    pub fn stages(&self) -> Vec<StageNow> {
        lock(&self.stages).clone()
    }

    /// Returns the job's logs. Cost: an uncontended lock each, which no packet thread waits for.
    pub fn logs(&self) -> Vec<LogNow> {
        lock(&self.logs).iter().map(LogNow::of).collect()
    }

    /// Returns the logs' published name and readers. Cost: as for [`logs`](Self::logs).
    pub fn published(&self) -> Option<PublishedReport> {
        lock(&self.shown).as_ref().and_then(Shown::now)
    }

    /// Returns the events since the last call: interfaces that went down, files that were begun.
    /// Cost: an uncontended lock.
    pub fn take_news(&self) -> Vec<String> {
        mem::take(&mut self.news().fresh)
    }

    /// Returns what a bounce found when it counted its frames meanwhile: an entry for each of
    /// [`Bounced::frames`](crate::Bounced). Empty until it has ended.
    pub fn counted(&self) -> Vec<Counted> {
        lock(&self.counted).clone()
    }

    pub(crate) fn set_counted(&self, counted: Vec<Counted>) {
        *lock(&self.counted) = counted;
    }

    /// Reports an event.
    pub(crate) fn tell(&self, what: String) {
        self.news().tell(what);
    }

    /// Reports the new entries of `events`, the list of all events of the port in `place`. Sources
    /// come first, then sinks. Cost: a lock, or nothing if `events` is empty.
    pub(crate) fn tell_new(&self, place: usize, events: &[String]) {
        if !events.is_empty() {
            self.news().hear(place, events);
        }
    }

    fn news(&self) -> MutexGuard<'_, News> {
        lock(&self.news)
    }

    pub(crate) fn start(&self, log_bytes: u64) {
        self.log_bytes.store(log_bytes, Relaxed); // see the module
        self.is_started.store(true, Relaxed);
    }

    /// Sets the job's current sources and sinks.
    pub(crate) fn show_places(&self, places: Vec<Place>) {
        *lock(&self.own_places) = Some(places);
    }

    /// Sets the job's logs, and their publication.
    pub(crate) fn show_logs(&self, logs: &[Log], shown: Option<Shown>) {
        *lock(&self.logs) = logs.to_vec();
        *lock(&self.shown) = shown;
    }

    /// Adds a thread that has taken its place. Returns its number.
    pub(crate) fn begin_stage(&self, place: ThreadPlace) -> usize {
        let mut stages = lock(&self.stages);
        stages.push(StageNow::new(place));
        stages.len() - 1
    }

    /// Shows the cost so far of stage number `stage`, and the age of its newest packet, if one has
    /// just arrived. Cost: an uncontended lock.
    pub(crate) fn set_stage(&self, stage: usize, cost: &StageCost, age_ns: Option<u64>) {
        if let Some(known) = lock(&self.stages).get_mut(stage) {
            known.cost(cost);
            age_ns.into_iter().for_each(|age_ns| known.ages.see(age_ns));
        }
    }

    /// Sets the standing of the port in `place`.
    pub(crate) fn set_standing(&self, place: usize, standing: Standing) {
        if let Some(known) = lock(&self.standings).get_mut(place) {
            *known = standing;
        }
    }

    /// Sets the file that a worker behind the sources is writing.
    pub(crate) fn set_file(&self, worker: usize, file: Option<String>) {
        if let Some(known) = lock(&self.standings).get_mut(self.received.len() + worker) {
            known.file = file;
        }
    }

    pub(crate) fn set_flight(&self, kept_ns: u64, files: u64, is_writing: bool) {
        self.kept_ns.store(kept_ns, Relaxed); // see the module
        self.files.store(files, Relaxed);
        self.is_writing.store(is_writing, Relaxed);
    }

    /// Returns the packets that the sources have lost so far, without those left out on request.
    pub(crate) fn lost_by_sources(&self) -> u64 {
        let mut lost = 0;
        self.with_losses_by_source(|losses| lost = losses.iter().map(Losses::missing).sum());
        lost
    }

    /// Calls `look` with the losses of each source so far. Cost: a lock.
    pub(crate) fn with_losses_by_source(&self, look: impl FnOnce(&[Losses])) {
        let places = lock(&self.losses);
        look(&places[..self.received.len().min(places.len())]);
    }

    /// Returns the packets that each source has delivered so far. Cost: some loads each.
    pub(crate) fn received_by_source(&self) -> Vec<u64> {
        self.received.iter().map(|counter| counter.load().packets).collect()
    }

    /// `thread` is below the number of sources.
    pub(crate) fn set_segments(&self, thread: usize, segments: u64) {
        if let Some(counter) = self.segments.get(thread) {
            counter.store(segments, Relaxed); // see the module
        }
    }

    pub(crate) fn set_losses(&self, place: usize, losses: Losses) {
        let mut places = lock(&self.losses);
        if let Some(known) = places.get_mut(place) {
            *known = losses;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_queues_of_an_interface_see_is_told_once_and_in_order() {
        let progress = Progress::new(2);
        let events = ["down", "up", "down"].map(str::to_owned);
        progress.tell_new(0, &events[..1]);
        assert_eq!(progress.take_news(), ["down"]);
        progress.tell_new(1, &events[..2]);
        assert_eq!(progress.take_news(), ["up"]);
        progress.tell_new(0, &events);
        progress.tell_new(1, &events);
        assert_eq!(progress.take_news(), ["down"]);
        // A sink beyond the number of known places.
        progress.tell_new(7, &["full".to_owned()]);
        progress.tell("wrote".to_owned());
        assert_eq!(progress.take_news(), ["full", "wrote"]);
        assert_eq!(progress.take_news(), [""; 0]);
    }
}
