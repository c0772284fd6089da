//! `burstline doctor plan`: shows where a job would be placed, and tries it.

use std::process::ExitCode;

use burstline_engine::{rehearse, source_requests};
use burstline_log::LogConfig;
use burstline_sys::interface::present_interfaces;
use burstline_topo::{
    Inventory, LogSharing, PlanError, PlanRequest, SourceRequest, findings, plan as place,
};
use serde_json::json;

use super::inventory;
use crate::args::{DoctorPlanArgs, Mode};
use crate::failure::Failure;
use crate::view;

/// Plans, and tries the plan if asked.
pub(super) fn plan(args: &DoctorPlanArgs) -> Result<ExitCode, Failure> {
    let inventory = inventory(args.machine.as_deref())?;
    let sources = source_requests(&args.sources, &inventory);
    known_interfaces(&sources, &inventory, args)?;
    let plan = place(&inventory, &request(args, sources)).map_err(|error| match error {
        PlanError::TooFewCores { .. } if !args.share_cores => {
            Failure::usage(format!("{error}, or --share-cores for two threads a core"))
        }
        error => usage(&error),
    })?;
    let found = findings(&inventory, Some(&plan));
    let defects: Vec<_> = found.into_iter().filter(|finding| finding.is_defect).collect();
    let rehearsal = args.r#try.then(|| rehearse(&plan)).transpose()?;
    let faults = rehearsal.as_ref().map(|rehearsal| rehearsal.faults(&plan)).unwrap_or_default();
    let text = match args.json {
        true => {
            let mut object = json!({ "command": "doctor plan" });
            object["plan"] = view::doctor::plan_json(&plan);
            object["findings"] = view::doctor::findings_json(&defects);
            if let Some(rehearsal) = &rehearsal {
                object["tried"] = view::doctor::rehearsal_json(&plan, rehearsal);
            }
            format!("{object}\n")
        }
        false => {
            let tried = rehearsal.as_ref();
            let tried = tried.map(|rehearsal| view::doctor::rehearsal_text(&plan, rehearsal));
            let defects = view::doctor::plan_defects_text(&defects, &findings(&inventory, None));
            view::doctor::plan_text(&plan) + &tried.unwrap_or_default() + &defects
        }
    };
    view::print(&text)?;
    match faults.is_empty() {
        true => Ok(ExitCode::SUCCESS),
        false => Err(Failure::new(format!("not as planned: {}", faults.join("; ")))),
    }
}

fn request(args: &DoctorPlanArgs, sources: Vec<SourceRequest>) -> PlanRequest {
    let number = |number: Option<u64>| number.and_then(|number| usize::try_from(number).ok());
    PlanRequest {
        sources,
        receivers: number(args.receivers),
        workers: number(args.workers),
        worker_name: "worker".to_owned(),
        sharing: match args.mode {
            Mode::Copy => LogSharing::Copy,
            Mode::Share => LogSharing::Share,
        },
        placement: args.forced.placement.clone(),
        receive_node: args.node,
        pool_node: args.forced.pool_node,
        stack_node: args.forced.stack_node,
        cores: args.cores.as_deref().map(<[_]>::to_vec).unwrap_or_default(),
        may_share_cores: args.share_cores,
        log_bytes: LogConfig::default().bytes as u64,
    }
}

/// Rejects interfaces that do not exist: a plan for them would be meaningless.
fn known_interfaces(
    sources: &[SourceRequest],
    inventory: &Inventory,
    args: &DoctorPlanArgs,
) -> Result<(), Failure> {
    let mut present: Vec<String> =
        inventory.interfaces.iter().map(|interface| interface.name.clone()).collect();
    if args.machine.is_none() {
        // /sys may show a different network namespace.
        present.extend(present_interfaces());
        present.sort();
        present.dedup();
    }
    for source in sources {
        if let Some(interface) = source.interface.clone().filter(|name| !present.contains(name)) {
            let source_name = source.name.clone();
            return Err(usage(&PlanError::NoSuchInterface { source_name, interface, present }));
        }
    }
    Ok(())
}

fn usage(error: &PlanError) -> Failure {
    Failure::usage(error.to_string())
}
