//! The two ends of a test: a sender for each trial, and a permanent receiver.
//!
//! ```text
//!  gen: --> tx port ==> device under test ==> rx port --> verifier, a new one for each trial
//! ```
//!
//! The receiver stays open over all trials, because reopening a port would take the link down.
//! Invariant: a trial's verdict is taken when all packets have arrived, or none for a while.
//! Packets that arrive later have another run's mark, so they do not count for the next trial.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use burstline_engine::{
    FlowVerdict, Generated, Inlet, Integrity, Latency, Limits, Progress, Run, StageNow, Threads,
    Verdict, Verifier, count_verified, generate,
};
use burstline_port::{Address, OpenOptions, open_sink};
use serde::{Deserialize, Serialize};

use super::quiet::Quiet;
use super::{FRAME_OVERHEAD, text};

/// Time for the receiver to start.
const BEGIN: Duration = Duration::from_millis(5);

/// How often a trial that sent nothing is repeated.
const AGAIN: usize = 3;

/// Interval of the checks of the receiver.
const LOOK: Duration = Duration::from_millis(10);

/// The outcome of one trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Requested rate in frames a second; `None` for the maximum.
    pub asked_pps: Option<f64>,
    /// Rate sent, in frames a second.
    pub offered_pps: f64,
    /// Frames sent, of which some were received intact and the others lost.
    pub sent: u64,
    /// As above.
    pub received: u64,
    /// As above.
    pub lost: u64,
    /// Lost frames in per cent of those sent.
    pub lost_percent: f64,
    /// Frames that this program's receiver lost, of any sender.
    pub lost_by_receiver: u64,
    /// Frames that arrived after one that was sent later.
    pub reordered: u64,
    /// Frames that arrived again.
    pub duplicates: u64,
    /// Frames that arrived damaged.
    pub corrupted: u64,
    /// Duration of sending, in s.
    #[serde(skip)]
    pub(crate) seconds: f64,
    #[serde(skip)]
    pub(crate) latency: Latency,
}

impl Trial {
    /// Creates a trial of this many frames, sent at a rate, and the number received.
    pub(crate) fn new(offered_pps: f64, sent: u64, received: u64) -> Self {
        let lost = sent - received;
        let lost_percent = lost as f64 * 100.0 / sent.max(1) as f64;
        let seconds = if offered_pps > 0.0 { sent as f64 / offered_pps } else { 0.0 };
        Self { offered_pps, sent, received, lost, lost_percent, seconds, ..Self::default() }
    }

    /// Returns the rate received, in frames a second.
    pub(super) fn received_pps(&self) -> f64 {
        if self.seconds > 0.0 { self.received as f64 / self.seconds } else { 0.0 }
    }
}

/// The load of a trial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrialLoad {
    /// Bytes of each frame, with FCS.
    pub(crate) size: u32,
    pub(crate) rate_pps: Option<f64>,
    pub(crate) packets: Option<u64>,
    pub(crate) duration: Duration,
}

/// The ports at both ends of a device, and the tester's threads.
pub(crate) struct Ends {
    /// The sending port.
    pub(crate) tx: Address,
    /// The receiving port.
    pub(crate) rx: Address,
    pub(crate) tx_threads: Threads,
    pub(crate) rx_threads: Threads,
    /// What makes a received frame intact.
    pub(crate) integrity: Integrity,
    /// Further parameters of `gen:`.
    pub(crate) recipe: String,
}

impl Ends {
    /// Calls `work` with a tester and a running receiver, on the calling thread and with ports of
    /// its network namespace.
    pub(crate) fn with_tester<T>(
        &self,
        stop: &Arc<AtomicBool>,
        work: impl FnOnce(&Tester<'_>) -> Result<T, String>,
    ) -> Result<T, String> {
        let ports = OpenOptions { stop: Some(Arc::clone(stop)), ..OpenOptions::default() };
        let sources = Inlet::open_all(&self.rx, &ports).map_err(text)?;
        let receiver = Receiver::new(sources.len(), self.integrity);
        // Separate from the user's flag, which ends the sender while the receiver continues.
        let (is_over, is_broken) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            let (verifier, progress) = (&receiver.verifier, &receiver.progress);
            let (is_over, is_broken) = (&is_over, &is_broken);
            let counting = scope.spawn(move || {
                let run = Run::new(is_over, progress);
                let counted = count_verified(sources, verifier, &self.rx_threads, &run);
                // Relaxed: flags only, here and below. Without a receiver the test ends.
                if !is_over.load(Relaxed) {
                    is_broken.store(true, Relaxed);
                    stop.store(true, Relaxed);
                }
                counted
            });
            while !progress.snapshot().is_started && !counting.is_finished() {
                thread::sleep(BEGIN);
            }
            let outcome = work(&Tester { ends: self, receiver: &receiver, stop });
            is_over.store(true, Relaxed);
            let counted = counting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let is_broken = is_broken.load(Relaxed);
            if is_broken {
                // The stop did not come from the user, and another contender may be next.
                stop.store(false, Relaxed);
            }
            let errors = counted.map_err(text)?.errors;
            match errors.into_iter().next() {
                Some(error) => Err(error.to_string()),
                None if is_broken => Err(format!(
                    "{} ended while the tests ran: use an interface, or another port that does \
                     not end",
                    self.rx
                )),
                None => outcome,
            }
        })
    }
}

/// State shared by the receiver's thread and the tester.
struct Receiver {
    verifier: Mutex<Verifier>,
    progress: Progress,
    integrity: Integrity,
    sources: usize,
}

impl Receiver {
    fn new(sources: usize, integrity: Integrity) -> Self {
        let verifier = Mutex::new(Verifier::new(integrity));
        Self { verifier, progress: Progress::new(sources), integrity, sources }
    }

    fn verifier(&self) -> MutexGuard<'_, Verifier> {
        self.verifier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the frames that its sources have lost so far.
    fn lost(&self) -> u64 {
        self.progress.snapshot().lost.missing()
    }

    /// Returns the intact packets without duplicates, of the run with the most packets.
    fn intact(&self) -> u64 {
        newest_run(&self.verifier().verdict(None).flows)
    }

    fn received(&self) -> u64 {
        self.progress.snapshot().received.packets
    }

    /// Returns what the thread of each source shows of its work; `None` before it runs.
    fn shown(&self) -> Vec<Option<StageNow>> {
        let stages = self.progress.stages();
        (0..self.sources).map(|source| stages.get(source).cloned()).collect()
    }
}

/// Runs trials.
pub(crate) struct Tester<'a> {
    ends: &'a Ends,
    receiver: &'a Receiver,
    stop: &'a AtomicBool,
}

impl Tester<'_> {
    /// Sends a load and waits for the received frames.
    pub(crate) fn run(&self, load: TrialLoad) -> Result<Trial, String> {
        *self.receiver.verifier() = Verifier::new(self.receiver.integrity);
        let (lost_before, received_before) = (self.receiver.lost(), self.receiver.received());
        let mut sent = self.send(load)?;
        for _ in 0..AGAIN {
            // A generator that got no CPU time has not tested the device. Relaxed: no other data
            // depends on the flag.
            if sent.report.total.offered > 0 || self.stop.load(Relaxed) {
                break;
            }
            sent = self.send(load)?;
        }
        let total = &sent.report.total;
        if total.delivered == 0 && !self.stop.load(Relaxed) {
            let (tx, size, offered) = (&self.ends.tx, load.size, total.offered);
            return Err(format!(
                "{tx} sent 0 of {offered} frames of {size} bytes: check that its link is up, \
                 its MTU at least {}, and --trial long enough",
                size.saturating_sub(FRAME_OVERHEAD)
            ));
        }
        self.settle(total.delivered, received_before, load.duration);
        let Verdict { flows, duplicates, reordered, corrupted, latency, .. } =
            self.receiver.verifier().verdict(None);
        let received = newest_run(&flows).min(total.delivered);
        let made = total.offered.max(1) as f64;
        let offered_pps = sent.reached_pps * total.delivered as f64 / made;
        let lost_by_receiver = self.receiver.lost().saturating_sub(lost_before);
        let trial = Trial::new(offered_pps, total.delivered, received);
        let asked_pps = load.rate_pps;
        Ok(Trial {
            asked_pps,
            lost_by_receiver,
            reordered,
            duplicates,
            corrupted,
            latency,
            ..trial
        })
    }

    /// Sends a load from a thread of its own, which may give up its rights once its port is open.
    fn send(&self, load: TrialLoad) -> Result<Generated, String> {
        let sent = thread::scope(|scope| scope.spawn(|| self.send_from_here(load)).join());
        sent.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn send_from_here(&self, load: TrialLoad) -> Result<Generated, String> {
        let rate = load.rate_pps.map_or(String::new(), |pps| format!("&rate={pps:.3}"));
        let packets = load.packets.map_or(String::new(), |packets| format!("&packets={packets}"));
        let recipe = &self.ends.recipe;
        let address = format!("gen:?size={}{rate}{packets}{recipe}", load.size).parse();
        let ports = OpenOptions::default();
        let source = Inlet::open(&address.map_err(text)?, &ports).map_err(text)?;
        let limits = Limits { packets: None, duration_ns: Some(load.duration.as_nanos() as u64) };
        let open = || open_sink(&self.ends.tx, &ports);
        let progress = Progress::new(1);
        let run = Run::new(self.stop, &progress).within(limits);
        let sent = generate(source, open, &self.ends.tx_threads, &run).map_err(text)?;
        match sent.report.errors.first() {
            Some(error) => Err(error.to_string()),
            None => Ok(sent),
        }
    }

    /// Returns when all frames have arrived, or no more are to come.
    fn settle(&self, sent: u64, received_before: u64, trial: Duration) {
        let mut quiet = Quiet::new(trial, self.receiver.shown(), Instant::now());
        loop {
            let received = self.receiver.received();
            // The count may include foreign packets, so check the packets, too.
            let may_be_all = received - received_before >= sent;
            if may_be_all && self.receiver.intact() >= sent {
                return;
            }
            // Relaxed: no other data depends on the flag.
            let is_stopped = self.stop.load(Relaxed);
            if quiet.is_over(received, self.receiver.shown(), is_stopped, Instant::now()) {
                return;
            }
            thread::sleep(LOOK);
        }
    }
}

/// Returns the intact packets of the run with the most packets; a previous run leaves only a few.
fn newest_run(flows: &[FlowVerdict]) -> u64 {
    let mut runs = BTreeMap::new();
    for flow in flows {
        *runs.entry(flow.stream.run()).or_insert(0) += flow.unique;
    }
    runs.into_values().max().unwrap_or(0)
}
