//! Whether live contenders get ready here: each does a tiny turn at each of its works.
//!
//! ```text
//!   for each contender, each live work:   start --Ready--> 200 packets at 1,000 a second --> end
//! ```
//!
//! A start depends on things such as the machine's age or a kernel module. They show within a
//! minute, and not in the middle of a long experiment. Nothing here is a measurement.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::contenders::{self, Adapter, Job, Sample};
use crate::live::{OUT, interfaces};
use crate::scenario::run::one_line;
use crate::scenario::{Placement, Rate, Work};

/// Packets a second and the length of a turn.
const RATE: Rate = Rate::PerSecond(1000);
const TIME: Duration = Duration::from_millis(200);

/// What a mend begins with.
const MENDS: [&str; 5] = ["sudo ", "make ", "cargo ", "run it again ", "https://"];

/// A turn of a contender.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Whose.
    pub contender: &'static str,
    /// Its task.
    pub work: Work,
    /// The outcome.
    pub outcome: Outcome,
}

/// The outcome of a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It was ready, and packets came through.
    Ready {
        /// Seconds from its start until it was ready.
        ready_s: f64,
        /// Packets.
        packets: u64,
    },
    /// It cannot run on this machine. Why, and the mend.
    NotHere(String),
    /// It went wrong: with what the contender said.
    Failed(String),
}

/// Contenders that work on interfaces, and what they do there.
pub fn all() -> Vec<(&'static dyn Adapter, Work)> {
    let works = |adapter: &'static dyn Adapter| {
        let works = adapter.works().iter().filter(|&&work| has_own_start(adapter, work));
        works.map(move |&work| (adapter, work))
    };
    contenders::all().flat_map(works).collect()
}

/// Whether a work has a start that no other work of the contender has.
fn has_own_start(adapter: &dyn Adapter, work: Work) -> bool {
    match work {
        // As to bounce, where it does that.
        Work::Switch => !adapter.works().contains(&Work::Bounce),
        // As to pass on; as to count and to send.
        Work::Latency | Work::Rfc2544 | Work::Duplex => false,
        // No frame comes in by an interface.
        Work::Null | Work::Make => false,
        work => work.is_live() && !work.is_within(),
    }
}

/// Has each of them do a turn, and tells of each. `program` is the program `burstline`. Ends early
/// if `stop` is raised.
pub fn try_all(program: &Path, stop: &Arc<AtomicBool>, tell: &mut dyn FnMut(&Trial)) {
    for (adapter, work) in all() {
        let outcome = match contenders::can_do(adapter, work) {
            Err(why) => Outcome::NotHere(why),
            Ok(()) => match turn(adapter, work, program, stop) {
                Ok(sample) => of(&sample),
                Err(why) => Outcome::Failed(one_line(&why)),
            },
        };
        // The flag carries no memory.
        if stop.load(Relaxed) {
            return;
        }
        tell(&Trial { contender: adapter.name(), work, outcome });
    }
}

/// Splits a reason into why, and the command or address that mends it, where it ends in one.
pub fn why_and_mend(reason: &str) -> (&str, Option<&str>) {
    let is_mend = |text: &str| MENDS.iter().any(|start| text.starts_with(start));
    match reason.rsplit_once(": ") {
        Some((why, mend)) if is_mend(mend) => (why, Some(mend)),
        _ => (reason, None),
    }
}

/// The end of a line on who cannot run: why, and what fixes that.
pub fn why_then_fix(reason: &str) -> String {
    let (why, mend) = why_and_mend(reason);
    format!("{why}  fix: {}", mend.unwrap_or("nothing, here"))
}

fn turn(
    adapter: &dyn Adapter,
    work: Work,
    program: &Path,
    stop: &Arc<AtomicBool>,
) -> Result<Sample, String> {
    let workers = usize::from(work == Work::Balance);
    let places = Placement::Auto.find(workers)?;
    let job = Job {
        work,
        size_bytes: 64,
        rate: RATE,
        case: None,
        places,
        sends_by: "v1",
        comes_in: interfaces(1),
        goes_out: OUT.to_owned(),
        remote: None,
        workers,
        time: TIME,
        packets: None,
        link_gbps: 10.0,
        program,
        rfc2544: None,
        stop,
    };
    contenders::measure(adapter, &job)
}

/// What a sample says of it.
fn of(sample: &Sample) -> Outcome {
    let value = |name: &str| sample.figures.get(name).map(|figure| figure.value);
    match (value("ready_s"), value("packets")) {
        (Some(ready_s), Some(packets)) => Outcome::Ready { ready_s, packets: packets as u64 },
        _ => Outcome::Failed("its turn has no start time, or no packets".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_live_programs_are_tried() {
        let names: Vec<&str> = all().iter().map(|(adapter, _)| adapter.name()).collect();
        for adapter in contenders::all() {
            let starts = |work: &Work| {
                let has_no_frames = matches!(work, Work::Rfc2544 | Work::Null | Work::Make);
                work.is_live() && !work.is_within() && !has_no_frames
            };
            let is_program = adapter.works().iter().any(starts);
            assert_eq!(names.contains(&adapter.name()), is_program, "{}", adapter.name());
        }
        assert!(all().iter().all(|(_, work)| work.is_live()));
    }

    #[test]
    fn a_mend_is_a_command_or_an_address() {
        let lacks = "dumpcap is not installed: sudo apt-get install wireshark-common";
        let mend = Some("sudo apt-get install wireshark-common");
        assert_eq!(why_and_mend(lacks), ("dumpcap is not installed", mend));
        let (_, mend) = why_and_mend("it takes a card: https://example.org");
        assert_eq!(mend, Some("https://example.org"));
        for reason in ["ip link add v0: exit status 2: not supported", "no core is allowed"] {
            assert_eq!(why_and_mend(reason), (reason, None));
        }
    }

    #[test]
    fn a_turn_is_what_its_sample_says() {
        let mut sample = Sample::default();
        assert!(matches!(of(&sample), Outcome::Failed(_)));
        sample.set("ready_s", "s", 0.5);
        sample.set("packets", "packets", 200.0);
        assert_eq!(of(&sample), Outcome::Ready { ready_s: 0.5, packets: 200 });
    }
}
