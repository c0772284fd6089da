//! Measures the latency of contenders that forward packets.
//!
//! ```text
//!   near host   sender -> v0                   w0 -> receiver
//!                          \                  /
//!   far host                v1: contender: w1
//! ```
//!
//! Packets carry their scheduled send time, so a late sender does not improve a result. The tester
//! is that of [`rfc2544`](crate::rfc2544), in one trial. Both of its threads run on the generator's
//! core, for every contender.

use std::sync::Arc;
use std::time::{Duration, Instant};

use burstline_engine::{Integrity, Latency, Threads};

use crate::contenders::core::{Seen, Watch};
use crate::contenders::live::{Live, Own, counted, events, load};
use crate::contenders::{Job, Sample};
use crate::distribution::Distribution;
use crate::live::Road;
use crate::rfc2544::{Ends, Plan, Trial, TrialLoad};

/// The metrics of a record and their percentiles.
const FIGURES: [(&str, f64); 4] = [
    ("latency_p50_us", 50.0),
    ("latency_p90_us", 90.0),
    ("latency_p99_us", 99.0),
    ("latency_p999_us", 99.9),
];

/// Longer than the sending of any number of packets takes.
pub(crate) const NO_END: Duration = Duration::from_secs(24 * 3600);

/// Sends packets through a contender and measures their latency.
///
/// # Errors
/// If the contender does not start, or no packet comes through.
pub(crate) fn measure(live: &impl Live, job: &Job<'_>, road: &Road) -> Result<Sample, String> {
    let start = Instant::now();
    let running = live.start(job, road)?;
    let ready = start.elapsed();
    let threads = Threads { cores: vec![job.places.generator], ..Threads::default() };
    let plan = Plan::default();
    let ends = Ends {
        tx: plan.tx(),
        rx: plan.rx(),
        tx_threads: threads.clone(),
        rx_threads: threads,
        integrity: Integrity::Frame,
        recipe: String::new(),
    };
    let rate_pps = load(job).rate_pps.map(|packets| packets as f64);
    let duration = if job.packets.is_some() { NO_END } else { job.time };
    let load = TrialLoad { size: job.size_bytes, rate_pps, packets: job.packets, duration };
    let (cores, stop) = (counted(job), Arc::clone(job.stop));
    let (trial, seen, watched) = road.bed().near.run(move || {
        ends.with_tester(&stop, |tester| {
            let (watch, began) = (Watch::start(&cores)?, Instant::now());
            let trial = tester.run(load)?;
            Ok((trial, watch.seen()?, began.elapsed()))
        })
    })?;
    let own = running.end(0)?;
    of_trial(&trial, &own, [ready, watched], seen)
}

/// Returns the metrics of a trial; `ready` is the time to start, `watched` that of the measurement.
pub(crate) fn of_trial(
    trial: &Trial,
    own: &Own,
    [ready, watched]: [Duration; 2],
    seen: Seen,
) -> Result<Sample, String> {
    let mut sample = sample(trial)?;
    sample.pages = own.pages;
    sample.set("ready_s", "s", ready.as_secs_f64());
    let percent = 100.0 * seen.time.busy() / watched.as_secs_f64();
    sample.set("cpu_percent", "% of a core", percent);
    events(&seen, trial.received as f64, &mut sample);
    sample.symbols = seen.symbols;
    Ok(sample)
}

/// Adds the percentiles of a latency and its distribution to the sample.
pub(crate) fn enter(latency: &Latency, sample: &mut Sample) {
    let us = |time_ns: u64| time_ns as f64 / 1e3;
    for (name, percent) in FIGURES {
        sample.set(name, "us", us(latency.at(percent)));
    }
    sample.set("latency_max_us", "us", us(latency.most_ns));
    let buckets = latency.buckets.iter().map(|&(end_ns, packets)| (us(end_ns), packets));
    sample.distributions.insert("latency_us", Distribution::new("us", buckets));
}

fn sample(trial: &Trial) -> Result<Sample, String> {
    if trial.received == 0 {
        return Err(format!("none of {} packets came through", trial.sent));
    }
    let mut sample = Sample::default();
    enter(&trial.latency, &mut sample);
    sample.set("packets", "packets", trial.received as f64);
    sample.set("lost", "packets", trial.lost as f64);
    let Trial { duplicates, reordered, corrupted, .. } = *trial;
    // They arrived before they were due: the two clocks differ.
    let clock_behind = trial.received.saturating_sub(trial.latency.packets);
    let faults = [
        ("duplicates", duplicates),
        ("reordered", reordered),
        ("corrupted", corrupted),
        ("clock_behind", clock_behind),
    ];
    let faults = faults.into_iter().filter(|(_, packets)| *packets > 0);
    sample.losses = faults.map(|(name, packets)| (name.to_owned(), packets)).collect();
    sample.offered_pps = Some(trial.offered_pps);
    Ok(sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_losses_are_those_of_the_trial() {
        let latency = Latency {
            packets: 98,
            most_ns: 9000,
            percentiles: vec![(50.0, 1500), (90.0, 2000), (99.0, 3000), (99.9, 4000)],
            buckets: vec![(1503, 60), (2047, 30), (9215, 8)],
            ..Latency::default()
        };
        let sample = sample(&Trial { reordered: 3, latency, ..Trial::new(1e4, 100, 98) }).unwrap();
        let value = |name: &str| sample.figures[name].value;
        assert_eq!((value("latency_p50_us"), value("latency_p999_us")), (1.5, 4.0));
        assert_eq!((value("latency_max_us"), value("packets"), value("lost")), (9.0, 98.0, 2.0));
        assert_eq!(sample.losses, [("reordered".to_owned(), 3)].into());
        assert_eq!(sample.offered_pps, Some(1e4));
        let latency = &sample.distributions["latency_us"];
        assert_eq!((latency.count(), latency.at(0.5)), (98, Some(1.503)));
    }

    #[test]
    fn without_packets_it_fails() {
        let nothing = sample(&Trial::new(0.0, 7, 0));
        assert_eq!(nothing.unwrap_err(), "none of 7 packets came through");
    }
}
