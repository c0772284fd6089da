//! `burstline doctor`: finds problems, lists ports that can be opened, and shows placements.

mod distance;
mod dpdk;
mod placement;
mod tried;

use std::path::Path;
use std::process::ExitCode;

use burstline_engine::EngineError;
use burstline_port::{ProbeOptions, did_you_mean, probe_ports};
use burstline_share::{published_sockets, query};
use burstline_sys::inode::read_text;
use burstline_sys::interface::present_interfaces;
use burstline_sys::machine::Machine;
use burstline_topo::{Inventory, Snapshot, findings, take_snapshot};
use serde_json::json;

use crate::args::{Doctor, DoctorArgs, DoctorLogsArgs, DoctorPortsArgs};
use crate::confinement::{give_up, give_up_before_description};
use crate::failure::Failure;
use crate::view;
use crate::view::logs::Published;

/// Reports on the requested subject.
pub(crate) fn doctor(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    match &args.about {
        None => machine(args),
        Some(Doctor::Ports(args)) => ports(args),
        Some(Doctor::Logs(args)) => logs(args),
        Some(Doctor::Plan(args)) => placement::plan(args),
        Some(Doctor::Snapshot) => view::say(&take_snapshot(Path::new("/"))),
    }
}

/// Reports on the machine; the verb succeeds whatever the findings are.
fn machine(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let inventory = inventory(args.machine.as_deref())?;
    let mut found = findings(&inventory, None);
    found.extend(dpdk::findings(&inventory));
    if args.machine.is_none() {
        found.extend(distance::findings(&inventory));
        found.extend(tried::findings(&inventory));
    }
    let text = match (args.json, args.fix_commands) {
        (true, _) => {
            let findings = view::doctor::findings_json(&found);
            format!("{}\n", json!({ "command": "doctor", "findings": findings }))
        }
        (false, true) => view::doctor::commands(&found),
        (false, false) => view::doctor::findings_text(&found),
    };
    view::say(&text)
}

/// Returns the inventory of this machine, or of the one described in `path`.
fn inventory(path: Option<&Path>) -> Result<Inventory, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(error.to_string());
    let Some(path) = path else {
        return Inventory::read().map_err(|error| failed(&error));
    };
    let Some(folder) = give_up_before_description(path)? else {
        return Inventory::read_from(path).map_err(|error| failed(&error));
    };
    let text = read_text(path)
        .map_err(|error| Failure::new(format!("read {}: {error}", path.display())))?;
    let snapshot = Snapshot::lay_out_in(folder, &text).map_err(|error| failed(&error))?;
    Inventory::read_from(snapshot.root()).map_err(|error| failed(&error))
}

/// Reports on ports. Succeeds whatever the report says; only a missing interface is a failure.
fn ports(args: &DoctorPortsArgs) -> Result<ExitCode, Failure> {
    let mut present = present_interfaces();
    present.sort();
    if let Some(name) = args.interfaces.iter().find(|name| !present.contains(name)) {
        let near = did_you_mean(name, present.iter().map(String::as_str));
        let there_are = present.join(", ");
        return Err(Failure::new(format!("no interface '{name}'{near}; there are: {there_are}")));
    }
    if !args.interfaces.is_empty() {
        present.retain(|name| args.interfaces.contains(name));
    }
    let probes = probe_ports(&present, &ProbeOptions { may_attach: args.probe });
    let machine = Machine::examine();
    let text = match args.json {
        true => format!("{}\n", view::doctor::json(&probes, &machine)),
        false => view::doctor::text(&probes, &machine),
    };
    view::say(&text)
}

/// Returns the names that are published on this machine, and their publishers' answers.
pub(crate) fn published() -> Vec<Published> {
    let sockets = published_sockets();
    let paths = sockets.iter().map(|path| path.to_string_lossy().into_owned());
    paths.map(|path| Published { answer: query(&path), path }).collect()
}

fn logs(args: &DoctorLogsArgs) -> Result<ExitCode, Failure> {
    // A helper connects to publishers.
    give_up()?;
    let found = match &args.name {
        None => published(),
        Some(name) => {
            let answer = Ok(query(name).map_err(EngineError::from)?);
            vec![Published { path: name.clone(), answer }]
        }
    };
    let text = match args.json {
        true => format!("{}\n", view::logs::json(&found)),
        false => view::logs::text(&found),
    };
    view::say(&text)
}
