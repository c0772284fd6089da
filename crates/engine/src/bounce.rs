//! Bouncing, run to completion: packets received on one port leave by another, on one core.
//!
//! ```text
//! worker 0:  crossing 0 (A > B)   pass: take, treat, hand on        one worker a direction,
//! worker 1:  crossing 1 (B > A)   pass: take, treat, hand on        or one for several
//! ```
//!
//! Between two `xdp:` ports a packet stays in its receive frame, between two `dpdk:` ports in its
//! mbuf. Between other ports the source lends it and the sink copies it. The report says which
//! applies, and who copies. With verdicts (`inline`) the packet waits in a log in between.
//!
//! Invariants:
//! - N1: one worker runs a crossing. It shares nothing with the other workers but the budget, the
//!   flag and the progress counters.
//! - N2: a row is a direction. Packets are offered by the port that they enter by and delivered at
//!   the port that they leave by. Either port may lose them, to a named cause.
//! - N3: when the job ends, every crossing is finished, drained and closed. Only packets that a
//!   limit left in a ring are in flight.

mod carry;
mod checked;
pub(crate) mod given;
mod worker;

use burstline_port::{
    Address, Census, Crossing, OpenOptions, PortError, Role, Treatment, open_crossings,
};
use burstline_sys::affinity;

use crate::inline::InlineReport;
use crate::runtime::{self, Crew, Job, Post, Tally};
use crate::{EngineError, PortReport, Report, Run, Threads};
use carry::Carry;
pub use checked::open_inline;
pub use worker::Counted;
use worker::{CrossingState, Worker};

/// The outcome of a bounce.
#[derive(Debug)]
pub struct Bounced {
    /// The ledger, with a row for each direction.
    pub report: Report,
    /// How packets were treated, and what was found in them.
    pub treatment: Treatment,
    /// Where the frames of each direction were at the end, if packets stayed in their frames.
    pub frames: Vec<Census>,
    /// The outcome of verdicts, if packets waited for them.
    pub inline: Option<InlineReport>,
}

/// Opens the crossing from one port to another, and with `is_both` also the way back. A packet
/// socket takes only packets that the interface receives, unless its address says otherwise.
/// Packets that the socket sends would otherwise loop forever.
///
/// # Errors
/// Returns the errors of the ports.
pub fn open_bounce(
    ends: [&Address; 2],
    is_both: bool,
    treatment: &Treatment,
    options: &OpenOptions,
) -> Result<Vec<Box<dyn Crossing>>, EngineError> {
    let ends = [ends[0].resolved(Role::Source), ends[1].resolved(Role::Sink)];
    let [from, to] = ends.map(|end| end.map_err(PortError::from));
    let (from, to) = (from?, to?);
    let ends = [&from, &to];
    if let Some(crossings) = open_crossings(ends, is_both, treatment, options)? {
        return Ok(crossings);
    }
    let ways = [Some([ends[0], ends[1]]), is_both.then_some([ends[1], ends[0]])];
    let open = |[from, to]: [&Address; 2]| -> Result<Box<dyn Crossing>, EngineError> {
        Ok(Box::new(Carry::open(from, to, treatment, options)?))
    };
    ways.into_iter().flatten().map(open).collect()
}

/// Runs crossings until they end, a limit is reached or `stop` is set. Each has a thread, or shares
/// one if fewer cores are named or exist.
///
/// # Errors
/// Fails if the threads could not be started, pinned or given their class. Later errors are in the
/// report's `errors`; other crossings run to their end.
pub fn bounce(
    crossings: Vec<Box<dyn Crossing>>,
    threads: &Threads,
    run: &Run<'_>,
) -> Result<Bounced, EngineError> {
    let cores = match threads.cores.len() {
        0 => affinity::allowed_cores().map_or(1, |cores| cores.len()),
        named => named,
    };
    let count = crossings.len().min(cores).max(1);
    let job = Job::start(threads, run);
    let mut crews: Vec<Vec<CrossingState>> = (0..count).map(|_| Vec::new()).collect();
    for (index, crossing) in crossings.into_iter().enumerate() {
        crews[index % count].push(CrossingState::new(index, crossing));
    }
    run.progress.start(0);
    let posts = crews.into_iter().enumerate().map(|(index, lanes)| Post {
        index,
        name: stage_name(index),
        step: Worker::new(&job, lanes),
    });
    let crew = runtime::run_alone(&job, posts.collect())?;
    Ok(conclude(&job, crew))
}

fn stage_name(index: usize) -> String {
    format!("bounce-{index}")
}

fn conclude(job: &Job<'_>, crew: Crew<Vec<CrossingState>, ()>) -> Bounced {
    let mut ending = job.ending();
    let (mut rows, mut stages) = (Vec::new(), Vec::new());
    let (mut frames, mut counted) = (Vec::new(), Vec::new());
    let mut treatment = Treatment::default();
    for (index, worker) in crew.front.iter().enumerate() {
        let (mut through, mut lost) = (Tally::default(), 0);
        for lane in &worker.outcome {
            let (account, carried) = (lane.crossing.account(), lane.carried());
            through.add(&carried);
            lost += account.lost.missing();
            ending.bytes_copied += account.bytes_copied;
            let name = &lane.crossing.info().name;
            rows.push((lane.index, PortReport::new(name, &account, &carried, &Default::default())));
            let census = lane.crossing.census();
            counted.extend(census.map(|_| lane.counted));
            frames.extend(census);
            let found = lane.crossing.treatment();
            let so_far = treatment.found;
            treatment = Treatment { found: so_far.and(&found.found), ..found };
        }
        let mut stage = worker.cost.report(&stage_name(index), ending.elapsed_ns, &through);
        (stage.packets_in, stage.lost) = (through.packets + lost, lost);
        stages.push(stage);
        ending.add(worker);
    }
    rows.sort_by_key(|(index, _)| *index);
    let mut report = Report::new(rows.into_iter().map(|(_, row)| row).collect(), &ending);
    report.stages = stages;
    report.memory.node = crew.places.first().and_then(|place| place.node);
    job.describe(&mut report, crew.places);
    for lane in crew.front.into_iter().flat_map(|worker| worker.outcome) {
        report.hear_port(&*lane.crossing);
        report.timestamp.source = lane.crossing.info().timestamps.name().to_owned();
        report.errors.extend(lane.error);
    }
    job.progress.set_counted(counted);
    Bounced { report, treatment, frames, inline: None }
}
