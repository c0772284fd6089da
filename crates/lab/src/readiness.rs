//! Checks whether contenders that are programs, or use interfaces, start here: each does a short
//! turn at each of its works.
//!
//! ```text
//!   for each contender, each work:   start --Ready--> 600 packets at 1,000 a second --> end
//! ```
//!
//! Suricata gets its packets at full speed, and what works over net_null runs for a second. A start
//! may fail because of the machine's age or a missing kernel module. This check finds that within
//! two minutes, instead of in the middle of a long experiment. It measures nothing.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::contenders::{self, Adapter, Job, Sample, Searches};
use crate::scenario::run::one_line;
use crate::scenario::{Placement, Rate, Work};

/// Rate of the packets of a turn, its time, and how many come in that time.
const RATE: Rate = Rate::PerSecond(1000);
const TIME: Duration = Duration::from_millis(600);
const PACKETS: u64 = 600;

/// Prefixes of a fix.
const MENDS: [&str; 6] = ["sudo ", "make ", "cargo ", "scripts/", "run it again ", "https://"];

/// One turn of a contender.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// The contender's name.
    pub contender: &'static str,
    /// Its work.
    pub work: Work,
    /// The outcome.
    pub outcome: Outcome,
}

/// The outcome of a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It was ready, and packets came through.
    Ready {
        /// Seconds from the start until it was ready.
        ready_s: f64,
        /// Packets that came through.
        packets: u64,
    },
    /// It cannot run on this machine. Holds the reason and the fix.
    NotHere(String),
    /// It failed. Holds the contender's message.
    Failed(String),
}

/// Returns the contenders that have a start, with each work to try.
pub fn all() -> Vec<(&'static dyn Adapter, Work)> {
    let works = |adapter: &'static dyn Adapter| {
        let works = adapter.works().iter().filter(|&&work| has_own_start(adapter, work));
        works.map(move |&work| (adapter, work))
    };
    contenders::all().flat_map(works).collect()
}

/// Returns whether the contender starts differently for this work than for its other works.
fn has_own_start(adapter: &dyn Adapter, work: Work) -> bool {
    match work {
        // Starts like bounce if the contender has that.
        Work::Switch => !adapter.works().contains(&Work::Bounce),
        // Latency and RFC 2544 start like forwarding; duplex like counting and sending.
        Work::Latency | Work::Rfc2544 | Work::Duplex => false,
        work => adapter.has_start(work),
    }
}

/// Runs one turn of each and passes it to `tell`. `program` is the program `burstline`. Returns
/// early if `stop` is set.
pub fn try_all(program: &Path, stop: &Arc<AtomicBool>, tell: &mut dyn FnMut(&Trial)) {
    for (adapter, work) in all() {
        let outcome = match contenders::can_do(adapter, work) {
            Err(why) => Outcome::NotHere(why),
            Ok(()) => match turn(adapter, work, program, stop) {
                Ok(sample) => of(&sample),
                Err(why) => Outcome::Failed(one_line(&why)),
            },
        };
        // Relaxed: no other data depends on the flag.
        if stop.load(Relaxed) {
            return;
        }
        tell(&Trial { contender: adapter.name(), work, outcome });
    }
}

/// Splits a reason into the cause and the command or address that fixes it, if it ends in one.
pub fn why_and_mend(reason: &str) -> (&str, Option<&str>) {
    let is_mend = |text: &str| MENDS.iter().any(|start| text.starts_with(start));
    match reason.rsplit_once(": ") {
        Some((why, mend)) if is_mend(mend) => (why, Some(mend)),
        _ => (reason, None),
    }
}

/// Formats a reason for output: the cause, then the fix.
pub fn why_then_fix(reason: &str) -> String {
    let (why, mend) = why_and_mend(reason);
    format!("{why}  fix: {}", mend.unwrap_or("none here"))
}

fn turn(
    adapter: &dyn Adapter,
    work: Work,
    program: &Path,
    stop: &Arc<AtomicBool>,
) -> Result<Sample, String> {
    let workers = usize::from(work == Work::Balance);
    let places = Placement::Auto.find(workers)?;
    // A fixed number ends what has no rate, and needs no search for the best settings.
    let has_no_rate = matches!(work, Work::Match | Work::Null | Work::Make);
    let searches = Searches::default();
    let packets = has_no_rate.then_some(PACKETS);
    let job = Job::new(work, places, stop, &searches);
    let job = Job { rate: RATE, workers, time: TIME, packets, program, ..job };
    contenders::measure(adapter, &job)
}

/// Converts a sample into an outcome.
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
    fn all_programs_are_tried_at_each_start_of_their_own() {
        let all = all();
        let works = |name: &str| -> Vec<Work> {
            all.iter().filter(|(known, _)| known.name() == name).map(|&(_, work)| work).collect()
        };
        for adapter in contenders::all() {
            // The lab does not start the external device.
            let starts = |&work: &Work| work != Work::Rfc2544 && adapter.has_start(work);
            let has_start = adapter.works().iter().any(starts);
            assert_eq!(!works(adapter.name()).is_empty(), has_start, "{}", adapter.name());
        }
        let suricata = contenders::names().into_iter().filter(|name| name.starts_with("suricata-"));
        let suricata: Vec<_> = suricata.map(works).collect();
        assert_eq!(suricata, [[Work::Match]; 4]);
        assert_eq!(works("testpmd-null"), [Work::Null, Work::Make]);
        assert_eq!(works("burstline-switch"), [Work::Switch]);
        assert_eq!(works("testpmd"), [Work::Count, Work::Bounce, Work::Generate]);
        for in_memory in ["sensor-contiguous", "burstline-gen", "dpdk-pipeline", "dma-inline"] {
            assert!(works(in_memory).is_empty(), "{in_memory}");
        }
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
