//! RFC 2544 tests of a device: its throughput without loss, its latency, and its loss beyond that.
//!
//! ```text
//!   near host                        far host
//!   sender    v0 ================ v1 --.
//!                                       contender: the device under test
//!   receiver  w0 ================ w1 --'
//! ```
//!
//! It is a kind of work like others. Contenders take turns at each frame size. In its turn each is
//! the device under test and has all tests of a [`Plan`]. The tester is this process, on the near
//! host's thread. The lab does not start the contender [`ExternalDevice`]. That device is between
//! two ports that the plan names, and the tester is in this process' own network namespace.
//!
//! Invariants:
//! - F1: results from before an early end of a turn are kept, with the reason.
//! - F2: the tester's own limits are never attributed to the device: see [`Limited`].

mod plan;
mod quiet;
mod search;
mod size;
mod tester;

use std::fmt::Display;

use burstline_sys::affinity::{CoreId, allowed_cores};
use burstline_wire::ethernet::GAP_BYTES;

pub use plan::{Plan, RFC_TRIAL, Test};
pub use search::{Burst, Limited, Step, Throughput};
pub use size::{Asked, Found};
pub use tester::Trial;
pub(crate) use tester::{Ends, TrialLoad};

use crate::contenders::{Adapter, Job, Live, Sample};
use crate::live::{Road, has_ended};
use crate::scenario::{Scenario, Work};
use size::Task;

/// Bytes of a frame beyond the MTU: an Ethernet header and the FCS.
pub(crate) const FRAME_OVERHEAD: u32 = 18;

/// Range of frame rates that `gen:` accepts.
const RATES_PPS: std::ops::RangeInclusive<f64> = 0.001..=1e9;

/// Checks whether a scenario can be tested as specified.
///
/// # Errors
/// A line of text, if the link rate cannot be sent, or a device has no named ports.
pub(crate) fn check(scenario: &Scenario) -> Result<(), String> {
    if scenario.work != Work::Rfc2544 {
        return Ok(());
    }
    let (name, plan, gbps) = (&scenario.name, &scenario.rfc2544, scenario.link_gbps);
    for &size in &scenario.sizes {
        let line_pps = line_pps(gbps, size);
        if !RATES_PPS.contains(&line_pps) {
            return Err(format!(
                "{name}: {line_pps:.3} frames of {size} bytes a second fill a link of {gbps} \
                 Gbit/s, but the generator sends 0.001 to 1G: use another link, or other sizes"
            ));
        }
    }
    if !(0.01..=50.0).contains(&plan.resolution_percent) || plan.flows == 0 {
        return Err(format!("{name}: resolution must be 0.01 to 50 %, and flows at least 1"));
    }
    let is_there = |name| scenario.contenders.iter().any(|contender| contender == name);
    if is_there(ExternalDevice.name()) && (plan.tx.is_none() || plan.rx.is_none()) {
        let device = ExternalDevice.name();
        return Err(format!("{name}: {device} needs lab rfc2544 --tx PORT --rx PORT"));
    }
    Ok(())
}

/// Returns the frames of this size, with FCS, that fill a link in a second.
fn line_pps(link_gbps: f64, size: u32) -> f64 {
    link_gbps * 1e9 / f64::from((size + GAP_BYTES) * 8)
}

/// Tests a contender between the two cables of a road.
///
/// # Errors
/// If it does not start, or if the turn ends early without any result.
pub(crate) fn measure(live: &impl Live, job: &Job<'_>, road: &Road) -> Result<Sample, String> {
    let running = live.start(job, road)?;
    let task = Task::new(job, tester_cores(job))?;
    let mut found = road.bed().near.run(move || task.run());
    let is_over = running.processes().into_iter().any(has_ended);
    let own = running.end(0);
    match &own {
        Err(why) if is_over => found.ended = Some(format!("the device ended: {why}")),
        Ok(_) if is_over => found.ended = Some("the device ended".to_owned()),
        // Earlier results remain valid, however it ends.
        _ => {}
    }
    let pages = own.ok().and_then(|own| own.pages);
    Ok(Sample { pages, ..found.into_sample()? })
}

/// Returns the sender's and the receiver's cores. By default the sender has the generator's core,
/// and the receiver a free one or the same.
fn tester_cores(job: &Job<'_>) -> [Vec<CoreId>; 2] {
    let named = cores_of_plan(job);
    if !named[0].is_empty() {
        return named;
    }
    let sender = job.places.generator;
    let is_free = |core: &CoreId| *core != sender && !job.places.contender.contains(core);
    let allowed = allowed_cores().unwrap_or_default();
    [vec![sender], vec![allowed.into_iter().find(is_free).unwrap_or(sender)]]
}

fn cores_of_plan(job: &Job<'_>) -> [Vec<CoreId>; 2] {
    let cores = job.rfc2544.map_or(&[][..], |asked| &asked.plan.tester_cores);
    let (sender, receiver) = cores.split_at(cores.len().min(1));
    [sender.to_vec(), receiver.to_vec()]
}

/// An existing device under test between two ports.
pub struct ExternalDevice;

impl Adapter for ExternalDevice {
    fn name(&self) -> &'static str {
        "external-device"
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Rfc2544]
    }

    fn command(&self, job: &Job<'_>) -> String {
        let between = |plan: &Plan| format!("between {} and {}", plan.tx(), plan.rx());
        job.rfc2544.map_or(String::new(), |asked| between(asked.plan))
    }

    fn measure(&self, job: &Job<'_>) -> Result<Sample, String> {
        Task::new(job, cores_of_plan(job))?.run().into_sample()
    }
}

/// Formats an error as text.
fn text(error: impl Display) -> String {
    error.to_string()
}
