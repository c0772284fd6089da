//! Runs all tests of one frame size.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use burstline_engine::{Integrity, PollMode, Threads};
use burstline_sys::affinity::CoreId;
use burstline_wire::ethernet::GAP_BYTES;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::search::{self, Burst, Limited, Step, Throughput};
use super::tester::{Ends, Tester, Trial, TrialLoad};
use super::{Plan, Test, line_pps};
use crate::contenders::{Job, Sample, enter_latency};
use crate::contest::go_on;
use crate::distribution::latency_json;
use crate::reports::numbers::value;

/// Length of the longest burst, in seconds at top speed. Source: RFC 2544, section 26.4.
const BURST_SECONDS: f64 = 2.0;

/// Number of frames at half the highest rate.
const HALF_FRAMES: u64 = 1_000_000;

/// The results of a turn. Source: RFC 2544, sections 26.1 to 26.4.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// Frame size in bytes, with FCS.
    pub size: u32,
    /// Frames a second that fill the link.
    pub line_pps: f64,
    /// The highest rate without loss.
    pub throughput: Option<Throughput>,
    /// Latencies at that rate, in ns.
    pub latency_ns: Value,
    /// The trial of these latencies.
    pub latency_trial: Option<Trial>,
    /// The trial at half that rate.
    pub half: Option<Trial>,
    /// The loss curve, from the highest rate down.
    pub loss: Vec<Step>,
    /// The longest burst without loss.
    pub back_to_back: Option<Burst>,
    /// Why it ended early; `None` if all results are present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// The settings of an RFC 2544 job.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Receives a trial's line in two parts: at its start and at its end.
    pub tell: fn(&str),
}

/// All tests of one size. The ports are in the network namespace of the thread that runs them.
pub(super) struct Task {
    plan: Plan,
    tell: fn(&str),
    ends: Ends,
    size: u32,
    line_pps: f64,
    trial: Duration,
    stop: Arc<AtomicBool>,
}

impl Task {
    /// Creates it for tester threads on these cores; empty: any core.
    pub(super) fn new(job: &Job<'_>, [sender, receiver]: [Vec<CoreId>; 2]) -> Result<Self, String> {
        let Asked { plan, tell } = job.rfc2544.ok_or("it has no plan")?;
        let threads =
            |cores, poll| Threads { cores, poll, keeps_privileges: false, ..Threads::default() };
        let mac = plan.dst_mac.as_ref();
        let mac = mac.map_or(String::new(), |mac| format!("&dst-mac={mac}"));
        let ends = Ends {
            tx: plan.tx(),
            rx: plan.rx(),
            tx_threads: threads(sender, PollMode::default()),
            rx_threads: threads(receiver, plan.poll),
            integrity: if plan.may_rewrite { Integrity::Checksums } else { Integrity::Frame },
            recipe: format!("&flows={}{mac}", plan.flows),
        };
        let line_pps = line_pps(job.link_gbps, job.size_bytes);
        let (plan, stop) = (plan.clone(), Arc::clone(job.stop));
        Ok(Self { plan, tell, ends, size: job.size_bytes, line_pps, trial: job.time, stop })
    }

    /// Runs the tests, as far as possible.
    pub(super) fn run(&self) -> Found {
        let mut found = Found { size: self.size, line_pps: self.line_pps, ..Found::default() };
        let tests = |tester: &Tester<'_>| self.tests(tester, &mut found);
        let outcome = self.ends.with_tester(&self.stop, tests);
        Found { ended: outcome.err(), ..found }
    }

    fn tests(&self, tester: &Tester<'_>, found: &mut Found) -> Result<(), String> {
        let (plan, line_pps) = (&self.plan, self.line_pps);
        let part = plan.resolution_percent / 100.0;
        let load =
            TrialLoad { size: self.size, rate_pps: None, packets: None, duration: self.trial };
        let at = |pps: f64| TrialLoad { rate_pps: Some(pps), ..load };
        let trial = |test, load| self.trial(tester, test, load);
        let mut highest_pps = line_pps;
        if plan.needs_throughput() {
            let mut at_rate = |pps: f64| trial(Test::Throughput, at(pps));
            let mut highest = search::throughput(line_pps, part, &mut at_rate)?;
            let pps = highest.pps;
            highest_pps = highest.offered_most_pps.min(line_pps);
            highest.line_percent = pps * 100.0 / line_pps;
            highest.line_bits_per_s = pps * f64::from((self.size + GAP_BYTES) * 8);
            found.throughput = Some(highest);
            if plan.wants(Test::Latency) && pps > 0.0 {
                let timed = trial(Test::Latency, at(pps))?;
                found.latency_ns = latency_json(&timed.latency);
                found.latency_trial = Some(timed);
            }
            if plan.wants(Test::Half) && pps > 0.0 {
                let pps = pps / 2.0;
                let duration = Duration::from_secs_f64(HALF_FRAMES as f64 / pps * 10.0);
                let load = TrialLoad { packets: Some(HALF_FRAMES), duration, ..at(pps) };
                found.half = Some(trial(Test::Half, load)?);
            }
        }
        if plan.wants(Test::Loss) {
            let mut at_rate = |pps: f64| trial(Test::Loss, at(pps));
            search::loss_curve(highest_pps, &mut at_rate, &mut found.loss)?;
        }
        if plan.wants(Test::BackToBack) {
            let seconds = BURST_SECONDS.min(self.trial.as_secs_f64());
            let most = (highest_pps * seconds).max(1.0) as u64;
            // Long enough for any rate, because the number of frames ends the trial.
            let duration = Duration::from_secs_f64(seconds * 100.0);
            let mut is_whole = |frames: u64| {
                let load = TrialLoad { packets: Some(frames), duration, ..load };
                let done = trial(Test::BackToBack, load)?;
                Ok(done.lost == 0 && done.sent == frames)
            };
            found.back_to_back = Some(search::back_to_back(most, part, &mut is_whole)?);
        }
        Ok(())
    }

    /// Runs one trial and reports it.
    fn trial(&self, tester: &Tester<'_>, test: Test, load: TrialLoad) -> Result<Trial, String> {
        go_on(&self.stop)?;
        let asked = match (load.rate_pps, load.packets) {
            (Some(pps), _) => format!("{} a second", value(pps)),
            (None, packets) => format!("{} at once", value(packets.unwrap_or(0) as f64)),
        };
        (self.tell)(&format!("{} bytes, {}: {asked} ...", load.size, test.name()));
        let done = tester.run(load)?;
        let end = go_on(&self.stop);
        let fault = match done.lost_by_receiver {
            0 => String::new(),
            own => format!(", {own} of them by {}", Limited::Receiver.name()),
        };
        let Trial { offered_pps, sent, lost, .. } = done;
        (self.tell)(&match end {
            Err(_) => " stopped\n".to_owned(),
            Ok(()) => format!(" {} offered, {lost} of {sent} lost{fault}\n", value(offered_pps)),
        });
        end.map(|()| done)
    }
}

impl Found {
    /// Converts to the metrics of a record, with all details.
    ///
    /// # Errors
    /// If there is no result: why it ended.
    pub(super) fn into_sample(self) -> Result<Sample, String> {
        let mut sample = Sample::default();
        if let Some(found) = &self.throughput {
            let l2_gbps = found.pps * f64::from(self.size - 4) * 8.0 / 1e9;
            sample.set("mpps", "Mpps", found.pps / 1e6);
            sample.set_on("l2_gbps", "Gbit/s", "l2", l2_gbps);
            sample.set_on("line_gbps", "Gbit/s", "line", found.line_bits_per_s / 1e9);
            sample.set_on("line_percent", "%", "line", found.line_percent);
        }
        if let Some(timed) = &self.latency_trial {
            enter_latency(&timed.latency, &mut sample);
        }
        if let Some(step) = self.loss.first() {
            sample.set("lost_percent", "%", step.trial.lost_percent);
        }
        if let Some(burst) = self.back_to_back {
            sample.set("back_to_back", "packets", burst.frames as f64);
        }
        if let Some(half) = &self.half {
            sample.set("half_lost", "packets", half.lost as f64);
        }
        match (&self.ended, sample.figures.is_empty()) {
            (Some(why), true) => Err(why.clone()),
            _ => Ok(Sample { rfc2544: Some(self), ..sample }),
        }
    }

    /// Returns what else limited the throughput.
    pub fn limited(&self) -> Option<Limited> {
        self.throughput.as_ref()?.limited
    }

    /// Returns remarks on the results, in a few words.
    pub fn remarks(&self) -> Option<String> {
        let limited = self.limited().map(|limited| limited.name().to_owned());
        let lost = self.latency_trial.as_ref().map_or(0, |trial| trial.lost);
        let lost = (lost > 0).then(|| format!("{lost} lost while latency was measured"));
        let is_longest = self.back_to_back.is_some_and(|burst| burst.is_longest_tried);
        let longest = is_longest.then(|| "no longer burst was tried".to_owned());
        let all: Vec<String> = [limited, lost, longest].into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_before_an_early_end_is_kept_with_the_reason() {
        let ended = Some("interrupted".to_owned());
        let nothing = Found { ended: ended.clone(), ..Found::default() };
        assert_eq!(nothing.into_sample(), Err("interrupted".to_owned()));
        let trial = Trial::new(1e6, 2_000_000, 1_000_000);
        let loss = vec![Step { tenths: 10, trial }];
        let throughput = Throughput { pps: 5e5, line_percent: 3.5, ..Throughput::default() };
        let throughput = Some(throughput);
        let part = Found { size: 64, throughput, loss, ended, ..Found::default() };
        let sample = part.clone().into_sample().unwrap();
        let value = |name: &str| sample.figures[name].value;
        assert_eq!((value("mpps"), value("lost_percent")), (0.5, 50.0));
        assert_eq!(sample.rfc2544.as_ref(), Some(&part));
        let again = serde_json::to_value(&part).unwrap();
        assert_eq!(
            (&again["loss"][0]["tenths"], &again["loss"][0]["lost"]),
            (&10.into(), &1_000_000.into())
        );
        let read: Found = serde_json::from_value(again).unwrap();
        assert_eq!((read.limited(), read.loss[0].trial.lost_percent), (None, 50.0));
    }
}
