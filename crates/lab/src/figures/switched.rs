//! Measures switches between two guests or two memif clients. They are ours, Open vSwitch with
//! DPDK, and testpmd, which forwards packets without reading them.
//!
//! ```text
//!   core 0                                        core 1
//!   testpmd flowgen == virtio-user, memif    ==>   the measured side: ours, or the rival
//!     both its ports <== the same           ==    two ports, one thread
//! ```
//!
//! testpmd sends flows on each port as fast as they are accepted, and receives on the other. The
//! rate is the number of packets received per second. Beside it are the cycles per packet of the
//! measured core's non-empty polls, which all sides report from one counter.
//!
//! Invariants:
//! - S1: each turn has its own processes and sockets, which are removed with its [`Road`].
//! - S2: counts are consistent. The middle received what the load sent, and the load received what
//!   the middle forwarded, except for the contents of a ring at the end. testpmd between two memif
//!   ports is the exception: it loses the counts when its peer disconnects (`rivals`).
//! - S3: both sides have the same rules, the same rings, and huge pages.

mod cable;
mod guests;
mod idle;
mod load;
mod ours;
mod rivals;
mod rules;
mod taps;

use std::cell::RefCell;

use burstline_testbed::Program;

use crate::compared::{Better, Outcome};
use crate::contenders::Sample;
use crate::contest::Rounds;
use crate::live::{Road, missing, pages_of};
use crate::programs::{Memory, RING, Testpmd};
use crate::record::Pages;

use super::Context;
use crate::programs::our_program;
use cable::Cable;
pub(super) use guests::measure as measure_guests;
pub(super) use idle::measure as measure_idle;
use load::Loaded;
use rivals::{NO_COUNTS, Rival};
use rules::Rules;
pub(super) use taps::measure as measure_taps;

/// testpmd of DPDK 22.11 with memif ports fails once in about six turns. As the rival it crashes at
/// its end before it prints its counts. As the load of either side it connects only one of two
/// ports.
const MEMIF_TRIES: usize = 4;

/// Error of a turn whose load has no peer, among other causes.
const NOTHING: &str = "no packet was carried";

/// The load of a figure, its rules and its rival.
#[derive(Clone, Copy, Debug)]
struct Setting {
    cable: Cable,
    rival: Rival,
    flows: u32,
    rules: Rules,
}

/// Packets received and forwarded by a middle, as it reports them, and its cycles per packet.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Carried {
    taken: u64,
    passed_on: u64,
    cycles: f64,
    /// Pages of its processes.
    pages: Option<Pages>,
}

/// Runs a side on a separate road.
type Go<'a> = &'a dyn Fn(&Road) -> Result<(Loaded, Carried), String>;

impl Setting {
    fn of(name: &str) -> Option<Self> {
        let all = |cable, rival, flows, rules| Some(Self { cable, rival, flows, rules });
        let guests = |rival, flows, rules| all(Cable::VhostUser, rival, flows, rules);
        match name {
            "switch-64-ovs-dpdk" => guests(Rival::OpenVSwitch, 1024, Rules::ByPort),
            "switch-64-io" => guests(Rival::Testpmd, 1024, Rules::ByPort),
            "switch-1k-flows" => guests(Rival::OpenVSwitch, 1000, Rules::ByAddresses(2)),
            "switch-100k-flows" => guests(Rival::OpenVSwitch, 100_000, Rules::ByAddresses(256)),
            "memif-64" => all(Cable::Memif, Rival::Testpmd, 1024, Rules::ByPort),
            _ => None,
        }
    }
}

/// Measures one of the figures with a [`Setting`].
pub(super) fn measure(context: &Context, name: &str) -> Result<Outcome, String> {
    let setting = Setting::of(name).ok_or_else(|| format!("no code measures {name}"))?;
    let needs = [Testpmd::needs(), setting.rival.needs()].concat();
    if let Some(why) = missing(&needs) {
        return Ok(Outcome::NotHere(why));
    }
    if Memory::of_a_start() != Memory::Huge {
        return Err("huge pages, which both ends of a cable share, cannot be reserved".to_owned());
    }
    let program = our_program()?;
    let comparison = context.begin();
    let broken = RefCell::new(Vec::new());
    let side = |go: Go<'_>| whole_turn(context, setting.cable, &broken, go);
    let rounds = context.alternate(
        context.process_runs(),
        || side(&|road| ours::turn(context, &setting, &program, road)),
        || side(&|road| setting.rival.turn(context, &setting, road)),
    )?;
    rounds.have_pages()?;
    let mut details = details(context, &setting, &rounds);
    let broken = broken.into_inner();
    if let Some(last) = broken.last() {
        let turns = broken.len();
        details.push(format!("testpmd failed in {turns} turns, which were repeated: {last}"));
    }
    Ok(comparison.outcome_of_samples("mpps", Better::Higher, rounds, details))
}

/// Runs a side's turn. A turn with memif ports in which testpmd fails is repeated, up to
/// [`MEMIF_TRIES`] times in all.
fn whole_turn(
    context: &Context,
    cable: Cable,
    broken: &RefCell<Vec<String>>,
    go: Go<'_>,
) -> Result<Sample, String> {
    let tries = if cable == Cable::Memif { MEMIF_TRIES } else { 1 };
    for _ in 1..tries {
        match turn(context, go) {
            Err(why) if why.starts_with(NO_COUNTS) || why == NOTHING => {
                broken.borrow_mut().push(why);
            }
            other => return other,
        }
    }
    turn(context, go)
}

/// Runs one side's turn on a separate road (S1).
fn turn(
    context: &Context,
    go: impl FnOnce(&Road) -> Result<(Loaded, Carried), String>,
) -> Result<Sample, String> {
    let road = Road::new(context.cores)?;
    let (loaded, carried) = go(&road)?;
    close(&loaded, &carried)?;
    let mut sample = Sample { pages: carried.pages, ..Sample::default() };
    sample.set("mpps", "Mpps", loaded.pps / 1e6);
    sample.set("cycles", "cycles", carried.cycles);
    Ok(sample)
}

/// Returns the present pages of these programs and all their descendants.
fn pages_of_all(programs: &[Program]) -> Pages {
    pages_of(programs.iter().map(Program::process_id))
}

/// Checks S2: in each direction, two rings are between the load and the middle.
fn close(loaded: &Loaded, carried: &Carried) -> Result<(), String> {
    let most = 2 * u64::from(RING);
    let closes = |what: &str, before: u64, after: u64| match before.checked_sub(after) {
        Some(left) if left <= most => Ok(()),
        _ => Err(format!("{what}: {before} packets before, {after} after; {most} fit in rings")),
    };
    closes("the load's to the switch", loaded.totals.sent, carried.taken)?;
    closes("the switch's to the load", carried.passed_on, loaded.totals.received)?;
    match carried.passed_on {
        0 => Err(NOTHING.to_owned()),
        _ => Ok(()),
    }
}

fn details(context: &Context, setting: &Setting, rounds: &Rounds<Sample>) -> Vec<String> {
    let (ours, rival) = rounds.values_of("cycles").medians();
    vec![
        "packets a second that came back to their sender, both directions together".to_owned(),
        format!(
            "cycles a packet in polls that found some, at the time stamp counter's rate: ours \
             {ours:.0}, rival {rival:.0}, ratio {:.2}",
            rival / ours
        ),
        format!(
            "load: dpdk-testpmd flowgen on core {}, {} flows by each of two ports, packets of 60 \
             bytes and FCS, rings of {RING}; {}",
            context.cores.producer, setting.flows, setting.rules
        ),
        "the switch took all that the load sent, and all that it passed on came back, except what \
         rings held at the end"
            .to_owned(),
        "memory of all DPDK programs: pages of 2 MiB".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::Totals;

    #[test]
    fn counts_have_to_close_but_for_what_rings_hold() {
        let loaded =
            |sent, received| Loaded { totals: Totals { received, sent, cycles: 0.0 }, pps: 1e6 };
        let carried = Carried { taken: 10_000, passed_on: 9_000, cycles: 100.0, pages: None };
        assert_eq!(close(&loaded(10_000, 9_000), &carried), Ok(()));
        assert_eq!(close(&loaded(12_048, 6_952), &carried), Ok(()));
        let error = close(&loaded(12_049, 9_000), &carried).unwrap_err();
        assert!(error.contains("12049 packets before, 10000 after"), "{error}");
        assert!(close(&loaded(9_999, 9_000), &carried).is_err(), "more than was sent");
        assert!(close(&loaded(10_000, 9_001), &carried).is_err(), "more than was passed on");
        let none = Carried { passed_on: 0, ..carried };
        assert!(close(&loaded(10_000, 0), &none).is_err());
    }
}
