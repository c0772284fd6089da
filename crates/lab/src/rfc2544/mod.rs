//! RFC 2544: what a device passes on without loss, how long that takes, and what it loses beyond.
//!
//! ```text
//!   near host                        far host
//!   sender    v0 ================ v1 --.
//!                                       contender: the device under test
//!   receiver  w0 ================ w1 --'
//! ```
//!
//! A kind of work like others. Contenders take turns at each frame size; in its turn each is the
//! device under test and has all tests of a [`Plan`]. The tester is this process, on the near
//! host's thread. The lab does not start the contender [`ExternalDevice`]. It stands between two
//! ports that the plan names, and the tester is in this process' own network namespace.
//!
//! Invariants:
//! - F1: what is found before a turn ends early is kept, with the reason.
//! - F2: the tester's own limits are never taken for the device's: see [`Limited`].

mod plan;
mod search;
mod size;
mod tester;

use std::fmt::Display;
use std::fs;

use burstline_sys::affinity::{CoreId, allowed_cores};
use burstline_wire::ethernet::GAP_BYTES;

pub use plan::{Plan, RFC_TRIAL, Test};
pub use search::{Burst, Limited, Step, Throughput};
pub use size::{Asked, Found};
pub use tester::Trial;
pub(crate) use tester::{Ends, TrialLoad};

use crate::contenders::{Adapter, Job, Live, Sample};
use crate::live::Road;
use crate::scenario::{Scenario, Work};
use size::Task;

/// Bytes of an Ethernet header and the FCS: what a frame has beyond the MTU.
pub(crate) const FRAME_OVERHEAD: u32 = 18;

/// Frames a second that can be sent, as `gen:` takes them.
const RATES_PPS: std::ops::RangeInclusive<f64> = 0.001..=1e9;

/// Whether a scenario can be tested as it says.
///
/// # Errors
/// One line: a link whose rate cannot be sent; a device without known ports.
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
        return Err(format!("{name}: a resolution is from 0.01 to 50 %, and flows are from 1"));
    }
    let is_there = |name| scenario.contenders.iter().any(|contender| contender == name);
    if is_there(ExternalDevice.name()) && (plan.tx.is_none() || plan.rx.is_none()) {
        let device = ExternalDevice.name();
        return Err(format!("{name}: {device} needs lab rfc2544 --tx PORT --rx PORT"));
    }
    Ok(())
}

/// Frames of this many bytes, FCS included, that fill a link in a second.
fn line_pps(link_gbps: f64, size: u32) -> f64 {
    link_gbps * 1e9 / f64::from((size + GAP_BYTES) * 8)
}

/// Has a contender tested between the two cables of a road.
///
/// # Errors
/// It does not start; nothing is known of it when the turn ends early.
pub(crate) fn measure(live: &impl Live, job: &Job<'_>, road: &Road) -> Result<Sample, String> {
    let running = live.start(job, road)?;
    let task = Task::new(job, tester_cores(job))?;
    let mut found = road.bed().near.run(move || task.run());
    let is_over = running.processes().into_iter().any(is_over);
    let own = running.end(0);
    match &own {
        Err(why) if is_over => found.ended = Some(format!("the device has ended: {why}")),
        Ok(_) if is_over => found.ended = Some("the device has ended".to_owned()),
        // What was found before does not depend on how it ends.
        _ => {}
    }
    let pages = own.ok().and_then(|own| own.pages);
    Ok(Sample { pages, ..found.into_sample()? })
}

/// Whether one of our children has ended that was not yet waited for. Source: proc_pid_stat(5).
fn is_over(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with('Z'))
}

/// The sender's cores and the receiver's. Unless the plan names them, the sender has the
/// generator's, and the receiver one that is free, or the same.
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

/// The device under test that is there already, between two ports.
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

/// An error as words.
fn text(error: impl Display) -> String {
    error.to_string()
}
