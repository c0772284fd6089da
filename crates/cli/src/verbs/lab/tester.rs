//! The two ends of a test: a sender for each trial, and a receiver that stays.
//!
//! ```text
//!  gen: --> tx port ==> device under test ==> rx port --> verifier, a new one for each trial
//! ```
//!
//! The receiver stays open over all trials: a port that comes and goes would take the link down.
//! Invariant: a trial's verdict is taken when all has come, or nothing has for a while; what comes
//! later is of another run by its mark, and does not stand for a packet of the next trial.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use burstline_engine::{
    FlowVerdict, Integrity, Latency, Limits, Progress, Run, Source, Threads, Verdict, Verifier,
    generate,
};
use burstline_port::{Address, OpenOptions, open_sink};

use crate::failure::Failure;

/// How long a trial waits for more packets behind the last: this part of it, but within these
/// bounds. Source for the upper one: RFC 2544, section 23.
const SETTLE_PART: u32 = 5;
const SETTLE_LEAST: Duration = Duration::from_millis(200);
const SETTLE_MOST: Duration = Duration::from_secs(2);

/// How often the receiver is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// What came of one trial.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trial {
    /// Frames a second that were asked for; `None`: as many as there can be.
    pub(crate) asked_pps: Option<f64>,
    /// Frames a second that were sent.
    pub(crate) offered_pps: f64,
    /// How long sending took.
    pub(crate) seconds: f64,
    /// Frames sent, and of them those that came intact; the others are lost.
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) lost: u64,
    /// Frames that this program's receiver lost, whosever they were.
    pub(crate) lost_by_receiver: u64,
    pub(crate) reordered: u64,
    pub(crate) duplicates: u64,
    pub(crate) corrupted: u64,
    pub(crate) latency: Latency,
}

impl Trial {
    /// Frames a second that came.
    pub(crate) fn received_pps(&self) -> f64 {
        if self.seconds > 0.0 { self.received as f64 / self.seconds } else { 0.0 }
    }

    /// Frames lost, per cent of those sent.
    pub(crate) fn loss_percent(&self) -> f64 {
        if self.sent > 0 { self.lost as f64 * 100.0 / self.sent as f64 } else { 0.0 }
    }
}

/// What a trial sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Bytes of each frame, FCS included.
    pub(crate) size: u32,
    pub(crate) rate_pps: Option<f64>,
    pub(crate) packets: Option<u64>,
    pub(crate) duration: Duration,
}

/// The receiver's part that both its thread and the tester have.
pub(crate) struct Receiver {
    pub(crate) verifier: Mutex<Verifier>,
    pub(crate) progress: Progress,
    integrity: Integrity,
}

impl Receiver {
    pub(crate) fn new(sources: usize, integrity: Integrity) -> Self {
        let verifier = Mutex::new(Verifier::new(integrity));
        Self { verifier, progress: Progress::new(sources), integrity }
    }

    fn verifier(&self) -> MutexGuard<'_, Verifier> {
        self.verifier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frames that its sources have lost so far.
    fn lost(&self) -> u64 {
        self.progress.snapshot().lost.missing()
    }

    /// Intact packets, each once, of the run that most of them are of.
    fn intact(&self) -> u64 {
        newest_run(&self.verifier().verdict(None).flows)
    }

    fn received(&self) -> u64 {
        self.progress.snapshot().received.packets
    }
}

/// Runs trials.
pub(crate) struct Tester<'a> {
    pub(crate) tx: &'a Address,
    pub(crate) receiver: &'a Receiver,
    /// Further parameters of `gen:`.
    pub(crate) recipe: String,
    pub(crate) threads: Threads,
    pub(crate) stop: &'a AtomicBool,
}

impl Tester<'_> {
    /// Sends a load and waits for what comes of it.
    pub(crate) fn run(&self, load: Load) -> Result<Trial, Failure> {
        *self.receiver.verifier() = Verifier::new(self.receiver.integrity);
        let (lost_before, received_before) = (self.receiver.lost(), self.receiver.received());
        let rate = load.rate_pps.map_or(String::new(), |pps| format!("&rate={pps:.3}"));
        let packets = load.packets.map_or(String::new(), |packets| format!("&packets={packets}"));
        let recipe = &self.recipe;
        let address = format!("gen:?size={}{rate}{packets}{recipe}", load.size).parse()?;
        let ports = OpenOptions::default();
        let source = Source::open(&address, &ports)?;
        let limits = Limits { packets: None, duration_ns: Some(load.duration.as_nanos() as u64) };
        let open = || open_sink(self.tx, &ports);
        let progress = Progress::new(1);
        let run = Run::new(self.stop, &progress).within(limits);
        let sent = generate(source, open, &self.threads, &run)?;
        if let Some(error) = sent.report.errors.into_iter().next() {
            return Err(error.into());
        }
        let total = &sent.report.total;
        if total.delivered == 0 && !self.stop.load(Relaxed) {
            let (tx, size, offered) = (self.tx, load.size, total.offered);
            return Err(Failure::new(format!(
                "{tx} sent none of {offered} frames of {size} bytes: is its link up, its MTU {} or \
                 more, and --trial long enough?",
                size.saturating_sub(18)
            )));
        }
        self.settle(total.delivered, received_before, load.duration);
        let Verdict { flows, duplicates, reordered, corrupted, latency, .. } =
            self.receiver.verifier().verdict(None);
        let received = newest_run(&flows).min(total.delivered);
        let made = total.offered.max(1) as f64;
        let offered_pps = sent.reached_pps * total.delivered as f64 / made;
        let seconds = if offered_pps > 0.0 { total.delivered as f64 / offered_pps } else { 0.0 };
        Ok(Trial {
            asked_pps: load.rate_pps,
            offered_pps,
            seconds,
            sent: total.delivered,
            received,
            lost: total.delivered - received,
            lost_by_receiver: self.receiver.lost().saturating_sub(lost_before),
            reordered,
            duplicates,
            corrupted,
            latency,
        })
    }

    /// Returns when all has come, or nothing has come for a while.
    fn settle(&self, sent: u64, received_before: u64, trial: Duration) {
        let patience = (trial / SETTLE_PART).clamp(SETTLE_LEAST, SETTLE_MOST);
        let (mut newest, mut since) = (0, Instant::now());
        loop {
            let received = self.receiver.received();
            if received != newest {
                (newest, since) = (received, Instant::now());
            }
            // Others' packets may be among them: so that it is not only counted, it is looked at.
            let may_be_all = received - received_before >= sent;
            if may_be_all && self.receiver.intact() >= sent {
                return;
            }
            if since.elapsed() >= patience {
                return;
            }
            thread::sleep(LOOK);
        }
    }
}

/// Intact packets of the run that most are of: what is left of a run before is not many.
fn newest_run(flows: &[FlowVerdict]) -> u64 {
    let mut runs = BTreeMap::new();
    for flow in flows {
        *runs.entry(flow.stream.run()).or_insert(0) += flow.unique;
    }
    runs.into_values().max().unwrap_or(0)
}
