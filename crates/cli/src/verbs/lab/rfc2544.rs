//! `burstline lab rfc2544`: the scenario of that name, configured by flags.

use std::process::ExitCode;
use std::time::Duration;

use burstline_lab::contenders::Adapter;
use burstline_lab::rfc2544::{ExternalDevice, Plan, Test};
use burstline_lab::scenario::run::{Options, check};
use burstline_lab::scenario::{Placement, Scenario};
use burstline_port::Rate;
use burstline_sys::affinity::CoreId;

use super::scenarios::{built_in_named, make_folder, program, run_shown, save, typed};
use crate::args::Rfc2544Args;
use crate::args::values::Cores;
use crate::failure::{FAILED, Failure, complain};
use crate::signals;
use crate::verbs::generate::link_megabits;
use crate::view;

/// Assumed speed of a veth pair that we create, in bit/s.
const CABLE_BITS: f64 = 10e9;

/// Runs the tests and prints their results.
pub(crate) fn rfc2544(args: &Rfc2544Args) -> Result<ExitCode, Failure> {
    let scenario = scenario(args)?;
    let options = Options::new(program()?, typed(), signals::stop_flag(args.quiet)?);
    check(&scenario, &options).map_err(Failure::usage)?;
    if let Some(folder) = &args.out {
        make_folder(folder)?;
    }
    let record = run_shown(&scenario, options, args.quiet, &scenario.name);
    if let Some(folder) = &args.out {
        save(&record, folder)?;
    }
    let devices = view::rfc2544::Device::all(args, &record);
    view::print(&match args.json {
        true => format!("{}\n", view::rfc2544::json(&scenario, &devices)),
        false => view::rfc2544::text(&scenario, &record, &devices),
    })?;
    let mut code = ExitCode::SUCCESS;
    for device in devices.iter().filter(|device| !device.is_whole()) {
        let (done, asked) = (device.found().count(), scenario.sizes.len());
        let who = if args.duts.is_empty() { String::new() } else { format!("{}: ", device.name) };
        let why = device.failure().unwrap_or(format!("ended early: {done} of {asked} sizes"));
        complain(&format!("{who}{why}"));
        code = ExitCode::from(FAILED);
    }
    Ok(code)
}

/// Returns the scenario that the flags describe.
fn scenario(args: &Rfc2544Args) -> Result<Scenario, Failure> {
    let mut scenario = built_in_named("rfc2544")?;
    let cores = match &args.cores {
        Some(Cores::List(cores)) => cores.clone(),
        Some(Cores::Auto) | None => Vec::new(),
    };
    let (tester_cores, placement) = match cores[..] {
        _ if args.duts.is_empty() => (cores, None),
        [] => (cores, None),
        [generator, receiver, device] => {
            let placement = Placement::Cores { generator, contender: vec![device] };
            (vec![generator, receiver], Some(placement))
        }
        _ => return Err(Failure::usage("--dut takes three --cores: sender, receiver, device")),
    };
    scenario.contenders.clear();
    for device in &args.duts {
        let name = device.contender().to_owned();
        if !scenario.contenders.contains(&name) {
            scenario.contenders.push(name);
        }
    }
    if args.duts.is_empty() {
        scenario.contenders.push(ExternalDevice.name().to_owned());
    }
    scenario.link_gbps = link_bits(args)? / 1e9;
    scenario.sizes = args.sizes.to_vec();
    scenario.placements = placement.into_iter().collect();
    scenario.amounts.time = Duration::from_nanos(args.trial);
    scenario.rfc2544 = plan(args, tester_cores);
    if !scenario.rfc2544.needs_throughput() {
        let is_curve = scenario.rfc2544.wants(Test::Loss);
        scenario.chart.y = if is_curve { "lost_percent" } else { "back_to_back" }.to_owned();
    }
    Ok(scenario)
}

fn plan(args: &Rfc2544Args, tester_cores: Vec<CoreId>) -> Plan {
    Plan {
        tests: args.tests(),
        resolution_percent: args.resolution,
        flows: args.flows,
        dst_mac: args.dst_mac.clone(),
        may_rewrite: args.checksums,
        poll: args.poll,
        tester_cores,
        tx: args.tx.clone(),
        rx: args.rx.clone(),
    }
}

/// Returns the speed of the link, from the flag or from the interface.
fn link_bits(args: &Rfc2544Args) -> Result<f64, Failure> {
    match (args.link, &args.tx) {
        (Some(Rate::LineBits(bits)), _) if bits >= 1.0 => Ok(bits),
        (Some(_), _) => {
            Err(Failure::usage("invalid value for '--link': expected a link's rate, e.g. 10Gbit"))
        }
        (None, Some(tx)) if args.duts.is_empty() => {
            let megabits = link_megabits(tx).map(|megabits| megabits as f64 * 1e6);
            let unknown =
                || Failure::usage(format!("{tx} does not report its link's rate: --link 10Gbit"));
            megabits.ok_or_else(unknown)
        }
        (None, _) => Ok(CABLE_BITS),
    }
}
