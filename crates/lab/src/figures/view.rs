//! Figures that are a point of a scenario's: two of its contenders in turns, so that a figure and
//! a record of the scenario's are measured by the same code.

use std::path::PathBuf;
use std::time::Duration;

use super::Context;
use super::count_file::our_program;
use crate::compared::{Better, Compared, Outcome};
use crate::conditions::Conditions;
use crate::contenders::{self, Adapter, Job, ROUND_PACKETS};
use crate::contest::alternate;
use crate::instructions;
use crate::scenario::{Places, Rate, Scenario, built_in};

/// A figure.
struct View {
    name: &'static str,
    scenario: &'static str,
    /// Of a frame, FCS included.
    size_bytes: u32,
    case: Option<&'static str>,
    /// Ours, and the rival.
    contenders: [&'static str; 2],
    /// Whose instructions are counted for it: of ours and of the rival.
    pieces: Option<[&'static str; 2]>,
}

/// How long each turn of a live one is.
const LIVE: Duration = Duration::from_secs(2);

/// Packets of a smoke run's turn.
const SMOKE_PACKETS: u64 = 4096;

/// All of them.
const VIEWS: [View; 7] = [
    merge("merge-4x64", "uniform", "staged-merge"),
    merge("merge-4x64-bursts", "bursts", "staged-merge"),
    merge("merge-4x64-idle", "idle", "staged-merge"),
    merge("merge-4x64-one-core", "one-core", "staged-merge"),
    View {
        pieces: Some(["merge-log", "merge-mbuf"]),
        ..merge("dpdk-merge-4x64", "uniform", "dpdk-merge")
    },
    View {
        pieces: Some(["merge-log", "merge-mbuf-ordered"]),
        ..merge("dpdk-merge-4x64-ordered", "uniform", "dpdk-merge-ordered")
    },
    View { scenario: "burst-merge-live", case: None, ..merge("dpdk-merge-live", "", "dpdk-merge") },
];

const fn merge(name: &'static str, case: &'static str, rival: &'static str) -> View {
    View {
        name,
        scenario: "burst-merge",
        size_bytes: 64,
        case: Some(case),
        contenders: ["burstline-merge", rival],
        pieces: None,
    }
}

/// Both contenders in turns.
pub(super) fn measure(context: &Context, name: &str) -> Result<Outcome, String> {
    let view = VIEWS.iter().find(|view| view.name == name);
    let view = view.ok_or_else(|| format!("no scenario has the figure {name}"))?;
    let scenario = view.scenario();
    let [ours, rival] = view.contenders.map(|name| contenders::named(name).expect("it is tested"));
    for contender in [ours, rival] {
        if let Err(why) = contenders::can_do(contender, scenario.work) {
            return Ok(Outcome::NotHere(why));
        }
    }
    // In memory there is no program.
    let program = if scenario.work.is_live() { our_program()? } else { PathBuf::new() };
    let job = Job {
        work: scenario.work,
        size_bytes: view.size_bytes,
        rate: Rate::Max,
        case: view.case,
        places: Places {
            generator: context.cores.producer,
            contender: vec![context.cores.consumer],
        },
        sends_by: "v1",
        ports: scenario.ports,
        workers: scenario.workers,
        time: if scenario.work.is_live() { LIVE } else { scenario.amounts.time },
        packets: context.smoke.then_some(SMOKE_PACKETS),
        link_gbps: scenario.link_gbps,
        program: &program,
        rfc2544: None,
        stop: &context.stop,
    };
    let conditions = Conditions::watch(context.cores);
    let turn = |contender: &'static dyn Adapter| contenders::measure(contender, &job);
    let runs = context.process_runs();
    let rounds = alternate(runs, &context.stop, || turn(ours), || turn(rival))?;
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    let mut details = vec![format!(
        "the point of `burstline lab run {}` at {} bytes{}",
        view.scenario,
        view.size_bytes,
        view.case.map_or(String::new(), |case| format!(", {case}"))
    )];
    let sides = [("ours", ours), ("peer", rival)];
    details.extend(sides.map(|(side, of)| format!("{side}: {}", of.command(&job))));
    details.extend(view.pieces.map(instructions_line));
    details.extend(conditions.report());
    let better = Better::Higher;
    Ok(Outcome::Measured(Compared::of_samples("mpps", better, rounds, details)))
}

impl View {
    fn scenario(&self) -> Scenario {
        let found = built_in().into_iter().find(|scenario| scenario.name == self.scenario);
        found.expect("it is tested")
    }
}

fn instructions_line([ours, peer]: [&str; 2]) -> String {
    let of = |piece| instructions::of_a_packet(piece, ROUND_PACKETS);
    match (of(ours), of(peer)) {
        (Some(ours), Some(peer)) => format!(
            "instructions a packet, all stages in turns on one core: ours, which also counts what \
             it merged, {ours:.0}, peer {peer:.0}"
        ),
        _ => instructions::NOT_COUNTED.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_view_is_a_point_of_its_scenario() {
        for view in VIEWS {
            let scenario = view.scenario();
            let has = |case: &str| scenario.cases.iter().any(|known| known == case);
            assert!(scenario.sizes.contains(&view.size_bytes), "{}", view.name);
            assert!(view.case.is_none_or(has), "{}", view.name);
            for name in view.contenders {
                let does = contenders::named(name).unwrap().works().contains(&scenario.work);
                assert!(does && scenario.contenders.iter().any(|known| known == name), "{name}");
            }
        }
    }
}
