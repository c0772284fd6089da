//! The searches of RFC 2544, for any device on which a trial can be run.
//!
//! ```text
//!  0 ----- whole ......... lossy ----- line rate      a trial between the two moves one of them,
//!            '-- until near -'                        the first is at line rate
//! ```
//!
//! The packets received in a lossy trial are a good estimate of the throughput. From there the
//! search goes up in doubling steps, then bisects the rest. Trials take a minute each.

use serde::{Deserialize, Serialize};

use super::tester::Trial;

/// A trial that offers less than this part of its requested rate is limited by the generator.
/// Without loss, it only shows that the device handles what was offered.
const OFFERED: f64 = 0.99;

/// Below this rate, the result is 0.
const LEAST_PPS: f64 = 10.0;

/// Number of steps of a loss curve down from the highest rate.
const TENTHS: u32 = 10;

/// Resolution of the search for bursts, in frames.
const LEAST_BURST: u64 = 16;

/// What limited a result, other than the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limited {
    /// The generator offered less than requested.
    #[serde(rename = "generator-limited")]
    Generator,
    /// This program's receiver lost packets.
    #[serde(rename = "receiver-limited")]
    Receiver,
}

impl Limited {
    /// Returns the word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Generator => "generator-limited",
            Self::Receiver => "receiver-limited",
        }
    }
}

/// The highest rate without loss.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Frames a second that were offered and received; 0 if even the lowest rate loses some.
    pub pps: f64,
    /// The same in per cent of the line rate.
    pub line_percent: f64,
    /// The same in bits on the line.
    pub line_bits_per_s: f64,
    /// What else limited it.
    pub limited: Option<Limited>,
    /// Number of trials.
    pub trials: u32,
    /// The highest rate that any trial offered, in frames a second.
    pub offered_most_pps: f64,
    /// Frames of the trial that found it, and those lost: none.
    pub frames: u64,
    /// As above.
    pub lost: u64,
}

/// A point of the loss curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Tenths of the highest rate.
    pub tenths: u32,
    /// The trial at that rate.
    #[serde(flatten)]
    pub trial: Trial,
}

/// The longest burst without loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Burst {
    /// Its length.
    pub frames: u64,
    /// Whether this is the longest one tried.
    #[serde(rename = "longest_tried")]
    pub is_longest_tried: bool,
    /// Number of trials.
    pub trials: u32,
}

/// Runs one trial at a rate in frames a second.
pub(super) type RateTrial<'a> = dyn FnMut(f64) -> Result<Trial, String> + 'a;

/// Searches for the highest rate without loss up to `line_pps`, with precision `resolution`.
pub(super) fn throughput(
    line_pps: f64,
    resolution: f64,
    trial: &mut RateTrial<'_>,
) -> Result<Throughput, String> {
    let mut found = Throughput::default();
    let (mut whole_pps, mut lossy_pps) = (0.0, line_pps);
    // Whether the receiver lost packets in the lowest trial with losses.
    let mut is_receivers_fault = false;
    let mut next_pps = line_pps;
    let mut stride = 2.0 * resolution;
    loop {
        let done = trial(next_pps)?;
        found.trials += 1;
        found.offered_most_pps = found.offered_most_pps.max(done.offered_pps);
        let is_first = found.trials == 1;
        if done.lost == 0 {
            whole_pps = next_pps;
            (found.pps, found.frames) = (done.offered_pps.min(next_pps), done.sent);
            if done.offered_pps < next_pps * OFFERED {
                found.limited = Some(Limited::Generator);
                return Ok(found);
            }
            if is_first {
                return Ok(found);
            }
        } else {
            lossy_pps = next_pps.min(done.offered_pps).max(LEAST_PPS);
            is_receivers_fault = done.lost_by_receiver > 0;
        }
        if lossy_pps <= LEAST_PPS || lossy_pps - whole_pps <= lossy_pps * resolution {
            found.limited = is_receivers_fault.then_some(Limited::Receiver);
            return Ok(found);
        }
        next_pps = lossy_pps.midpoint(whole_pps);
        if whole_pps > 0.0 {
            next_pps = next_pps.min(whole_pps * (1.0 + stride));
            stride *= 2.0;
        }
        if is_first && done.received_pps() < lossy_pps * (1.0 - resolution) {
            next_pps = done.received_pps().max(LEAST_PPS);
        }
    }
}

/// Runs trials from `highest_pps` down in tenths, until two in a row lose nothing.
pub(super) fn loss_curve(
    highest_pps: f64,
    trial: &mut RateTrial<'_>,
    steps: &mut Vec<Step>,
) -> Result<(), String> {
    for tenths in (1..=TENTHS).rev() {
        let rate_pps = highest_pps * f64::from(tenths) / f64::from(TENTHS);
        let done = trial(rate_pps)?;
        let is_whole = done.lost == 0;
        let was_whole = steps.last().is_some_and(|step| step.trial.lost == 0);
        steps.push(Step { tenths, trial: done });
        if is_whole && was_whole {
            break;
        }
    }
    Ok(())
}

/// Searches for the longest burst without loss, of up to `most` frames, with precision
/// `resolution`. A trial returns whether its burst arrived completely.
pub(super) fn back_to_back(
    most: u64,
    resolution: f64,
    trial: &mut dyn FnMut(u64) -> Result<bool, String>,
) -> Result<Burst, String> {
    let mut found = Burst::default();
    let mut lossy = most;
    let mut next = most;
    loop {
        let is_whole = trial(next)?;
        found.trials += 1;
        match is_whole {
            true => found.frames = next,
            false => lossy = next,
        }
        if found.frames == most {
            found.is_longest_tried = true;
            return Ok(found);
        }
        let near = ((lossy as f64 * resolution) as u64).max(LEAST_BURST);
        if lossy - found.frames <= near {
            return Ok(found);
        }
        next = lossy.midpoint(found.frames);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that forwards this many frames a second, with a generator of limited rate.
    fn device(passes_pps: f64, makes_pps: f64) -> impl FnMut(f64) -> Result<Trial, String> {
        move |asked_pps: f64| {
            let offered_pps = asked_pps.min(makes_pps);
            let sent = offered_pps.round() as u64;
            let received = sent.min(passes_pps as u64);
            Ok(Trial { seconds: 1.0, ..Trial::new(offered_pps, sent, received) })
        }
    }

    #[test]
    fn the_rate_is_found_to_the_resolution() {
        for passes_pps in [100.0, 12_345.0, 700_000.0, 1e7] {
            let mut trial = device(passes_pps, 2e7);
            let found = throughput(14.88e6, 0.01, &mut trial).unwrap();
            let ratio = found.pps / passes_pps;
            assert!((0.985..=1.001).contains(&ratio), "{passes_pps}: {found:?}");
            assert!(found.limited.is_none() && found.trials < 12, "{found:?}");
        }
        let nothing = throughput(1e6, 0.01, &mut device(0.0, 1e7)).unwrap();
        assert_eq!(nothing.pps, 0.0);
    }

    #[test]
    fn a_device_that_is_faster_than_the_generator_is_said_to_be_limited_by_that() {
        let found = throughput(14.88e6, 0.01, &mut device(1e9, 14.03e6)).unwrap();
        assert_eq!(found.limited, Some(Limited::Generator), "the NUMA document's 9.88 Gbit/s");
        assert_eq!((found.trials, found.pps), (1, 14.03e6));
        let found = throughput(14.88e6, 0.01, &mut device(1e9, 14.80e6)).unwrap();
        assert_eq!(found.limited, None, "99.5% is enough");
    }

    #[test]
    fn what_the_receiver_lost_is_said() {
        let mut trial = device(5e5, 1e9);
        let mut lossy =
            |pps: f64| trial(pps).map(|done| Trial { lost_by_receiver: done.lost, ..done });
        let found = throughput(1e6, 0.01, &mut lossy).unwrap();
        assert_eq!(found.limited, Some(Limited::Receiver));
    }

    #[test]
    fn the_curve_ends_behind_two_trials_without_loss() {
        let mut steps = Vec::new();
        loss_curve(1e6, &mut device(6.5e5, 1e9), &mut steps).unwrap();
        let tenths: Vec<u32> = steps.iter().map(|step| step.tenths).collect();
        assert_eq!(tenths, [10, 9, 8, 7, 6, 5]);
        assert!((steps[0].trial.lost_percent - 35.0).abs() < 0.01);
    }

    #[test]
    fn the_longest_burst_is_found_or_said_to_be_longer() {
        let mut buffer = |frames: u64| Ok(frames <= 4_096);
        let found = back_to_back(1_000_000, 0.01, &mut buffer).unwrap();
        assert!((4_040..=4_096).contains(&found.frames) && !found.is_longest_tried, "{found:?}");
        let all = back_to_back(4_000, 0.01, &mut buffer).unwrap();
        assert_eq!(all, Burst { frames: 4_000, is_longest_tried: true, trials: 1 });
        let none = back_to_back(4_000, 0.01, &mut |_| Ok(false)).unwrap();
        assert_eq!(none.frames, 0);
        let ended = back_to_back(9, 0.01, &mut |_| Err("interrupted".to_owned()));
        assert_eq!(ended, Err("interrupted".to_owned()));
    }
}
