//! The flight recorder: the log keeps a history; a trigger writes it and later packets to a file.
//!
//! ```text
//!                     trigger                  until
//!   expired  |  kept     |       after           |   kept ...
//! -----------+-----------+-----------------------+----------------> packets, by number
//!            |<------ one file ----------------->|
//! ```
//!
//! Between triggers no thread reads the log. The receive threads write it, and the writer reuses
//! the oldest segment once it is older than requested. A trigger attaches a reader at the oldest
//! segment and opens a file. The reader stops when the time after the trigger is over. Another
//! trigger in the meantime extends that time. The log keeps whole segments. A file begins with the
//! requested history, by [`marks`] of the arrival times of packets.
//!
//! Every packet is in at most one file: if the history of a file overlaps the previous file, it
//! begins behind that file. Packet numbers decide this, not times.
//!
//! Invariants:
//! - F1: for each log, every packet before `next` is exactly one of seen, missed or expired. `next`
//!   only grows, and what it passes over is counted at that point.
//! - F2: nothing is opened for writing before the first trigger.
//! - F3: a trigger set before the sources end is answered, even if they end right after it.

mod files;
mod marks;
mod recorder;

use std::sync::atomic::AtomicBool;

use burstline_log::{History, Log};
use burstline_port::{PortError, Sink};

use super::summary::Summary;
use super::{LogSet, lanes, only, receive_into, recorder_core};
use crate::published::Publication;
use crate::report::{FlightFile, FlightReport};
use crate::runtime::logs::CaptureOptions;
use crate::runtime::logs::gaps::Origin;
use crate::runtime::logs::receive::is_stopped;
use crate::runtime::{Crew, Job, Post, policy_for};
use crate::{EngineError, Inlet, Report, Run};
use files::Files;
use recorder::{FlightRecorder, Home};

/// The options of a flight recorder, besides those of every capture. The log's
/// [`keep_ns`](burstline_log::LogConfig::keep_ns) sets the length of the history.
#[derive(Clone, Copy, Debug)]
pub struct FlightOptions<'a> {
    /// Requests a file when set; the recorder clears it.
    pub trigger: &'a AtomicBool,
    /// How long each file goes on after its last trigger, in ns.
    pub after_ns: u64,
    /// Whether a packet lost by a source is a trigger.
    pub triggers_on_loss: bool,
}

/// Receives from all sources into logs that keep a history. It ends when the sources end, a limit
/// is reached, `stop` is set or a file breaks. A file begins each time the trigger is set, or a
/// source loses a packet. The kept packets and those that follow go into that file. `open_file`
/// opens each file and returns its name.
///
/// # Errors
/// As [`capture`](crate::capture()). A file that cannot be opened ends the job; that error is in
/// the report's `errors`.
///
/// # Panics
/// Panics if the log keeps no history.
pub fn capture_flight(
    mut sources: Vec<Inlet>,
    mut open_file: impl FnMut() -> Result<(String, Box<dyn Sink>), PortError> + Send,
    options: &CaptureOptions,
    flight: &FlightOptions<'_>,
    run: &Run<'_>,
) -> Result<Report, EngineError> {
    assert!(options.log.keep_ns.is_some(), "a log without a history has nothing to record");
    let receivers = options.threads.receivers.clamp(1, sources.len().max(1));
    options.threads.check(receivers + 1)?;
    let policy = options.policy.unwrap_or_else(|| policy_for(&sources));
    let LogSet { logs, writers, readers } = lanes(options, &sources, policy, receivers)?;
    // Without a trigger, nothing reads the log.
    drop(readers);
    options.threads.rehearse("capture")?;
    let publication = Publication::of(options, &logs)?;
    let job = Job::start(&options.threads, run);
    run.progress.show_logs(&logs, publication.as_ref().map(Publication::shown));
    run.progress.start((options.log.bytes * receivers) as u64);
    let mut files = Files::new(&mut open_file);
    let origins = Origin::of_all(&sources);
    let step = FlightRecorder::new(&job, flight, policy, &logs, &mut files, origins);
    let index = recorder_core(&options.threads, receivers);
    let recorder = Post { index, name: "record".to_owned(), step };
    let crew = receive_into(&job, options, &mut sources, writers, recorder)?;
    let Crew { places, front: took, readers } = crew;
    let is_stopped = is_stopped(&job, &took);
    let (Home { mut recorded, files: written, next }, done) = only(readers).split();
    // No trigger asked for packets after the last file; the writer's own count gives their number.
    for ((expired, next), took) in recorded.expired.iter_mut().zip(next).zip(&took) {
        *expired += took.outcome.log.packets.saturating_sub(next);
    }
    let summary = Summary::new(&sources, took, done.with(recorded), None, options.table.len());
    let mut report = summary.report(&sources, &files, job.ending());
    job.describe(&mut report, places);
    report.describe_logs(&logs);
    report.flight = Some(describe(&logs, written));
    report.published = publication.map(|publication| publication.end(is_stopped));
    Ok(report)
}

/// Returns the requested history available in all logs: that of the log with the shortest.
fn past_of(logs: &[Log]) -> Option<History> {
    let asked = |past: History| History { kept_ns: past.kept_ns.min(past.asked_ns), ..past };
    let least = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
    logs.iter().filter_map(Log::history).map(asked).reduce(|a, b| History {
        kept_ns: a.kept_ns.min(b.kept_ns),
        shortest_ns: least(a.shortest_ns, b.shortest_ns),
        ..a
    })
}

fn describe(logs: &[Log], files: Vec<FlightFile>) -> FlightReport {
    let past = past_of(logs);
    let (asked_ns, kept_ns) = past.map_or((0, 0), |past| (past.asked_ns, past.kept_ns));
    let shortest_ns = past.and_then(|past| past.shortest_ns);
    let log_bytes = logs.first().map_or(0, |log| log.config().bytes);
    let wanted_bytes = shortest_ns.map(|shortest_ns| enough(log_bytes, asked_ns, shortest_ns));
    FlightReport { asked_ns, kept_ns, shortest_ns, wanted_bytes, files }
}

/// Returns the log size needed for `asked_ns`, given that `log_bytes` were enough for
/// `shortest_ns`. Adds a fifth to the size at that rate, and rounds up to whole MiB.
fn enough(log_bytes: usize, asked_ns: u64, shortest_ns: u64) -> u64 {
    const MIB: u128 = 1 << 20;
    let bytes = log_bytes as u128 * u128::from(asked_ns) * 6 / 5 / u128::from(shortest_ns.max(1));
    u64::try_from(bytes.div_ceil(MIB) * MIB).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enough_is_in_proportion_and_a_fifth_more() {
        assert_eq!(enough(64 << 20, 30, 10), 231 << 20);
        assert_eq!(enough(64 << 20, u64::MAX, 0), u64::MAX);
    }
}
