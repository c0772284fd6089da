//! The findings of `doctor`: a table of ports, then the machine.
//!
//! Each port has a line that says whether and how it opens. Obstacles, fixes and further facts
//! follow below it.

mod json;
mod machine;
mod placement;

use std::fmt::Write;

use burstline_port::Probe;
use burstline_sys::machine::{Capability, Machine, capability};
use burstline_sys::pcap;
use burstline_topo::KERNEL_NEEDS;

use crate::words::size_text;
pub(crate) use json::json;
pub(crate) use machine::{commands, findings_json, findings_text, plan_defects_text};
pub(crate) use placement::{plan_json, plan_text, rehearsal_json, rehearsal_text};

/// Returns the text for people.
pub(crate) fn text(probes: &[Probe], machine: &Machine) -> String {
    let longest = probes.iter().map(|probe| probe.port.chars().count()).max().unwrap_or(0);
    let columns = longest.max("port".len());
    let mut text = format!("{:<columns$}  opens  how\n", "port");
    for probe in probes {
        port(&mut text, columns, probe);
    }
    text.push('\n');
    facts(&mut text, machine);
    text
}

fn port(text: &mut String, columns: usize, probe: &Probe) {
    let opens = match (probe.can_open, probe.needs.is_empty()) {
        (true, true) => "yes",
        (true, false) => "with",
        (false, _) => "no",
    };
    // Writing to a string cannot fail, here and below.
    let mut lines = vec![how(probe)];
    lines.extend(probe.why_not.clone());
    lines.extend(probe.mend.as_ref().map(|mend| format!("fix: {mend}")));
    for remark in &probe.remarks {
        lines.push(match &remark.mend {
            Some(mend) => format!("{}; fix: {mend}", remark.what),
            None => remark.what.clone(),
        });
    }
    let mut head = format!("{:<columns$}  {opens:<5}", probe.port);
    for line in lines.iter().filter(|line| !line.is_empty()) {
        let _ = writeln!(text, "{head}  {}", line.trim());
        head = " ".repeat(columns + 7);
    }
    if lines.iter().all(String::is_empty) {
        let _ = writeln!(text, "{}", head.trim_end());
    }
}

/// Formats `with --steal, native (reported by the driver), zero-copy, 4 queues, ixgbe, node 0`.
fn how(probe: &Probe) -> String {
    let mut parts: Vec<String> = probe.needs.iter().map(|need| (*need).to_owned()).collect();
    if let Some(mode) = probe.mode.filter(|_| probe.can_open) {
        parts.push(match (probe.is_mode_tried, mode) {
            (false, "native") => "native (reported by the driver)".to_owned(),
            (_, mode) => mode.to_owned(),
        });
        parts.push(match probe.has_zero_copy {
            Some(true) => "zero-copy".to_owned(),
            _ => "copy".to_owned(),
        });
    }
    match probe.queues {
        Some(1) => parts.push("1 queue".to_owned()),
        Some(queues) => parts.push(format!("{queues} queues")),
        None => {}
    }
    parts.extend(probe.device.driver.clone());
    if probe.device.has_hardware_timestamps == Some(true) {
        parts.push("hardware timestamps".to_owned());
    }
    parts.extend(probe.device.node.map(|node| format!("node {node}")));
    parts.join(", ")
}

fn facts(text: &mut String, machine: &Machine) {
    let mut fact = |name: &str, what: &str| {
        let _ = writeln!(text, "{name:<12} {what}");
    };
    let missing: Vec<_> = (KERNEL_NEEDS.iter())
        .filter(|need| !machine.is_kernel_at_least(need.major, need.minor))
        .map(ToString::to_string)
        .collect();
    match missing.is_empty() {
        true => fact("kernel", &format!("{}: has everything that Burstline uses", machine.kernel)),
        false => fact("kernel", &format!("{}: {}", machine.kernel, missing.join(", "))),
    }
    fact("rights", &rights(machine));
    match &machine.user_namespace {
        Ok(()) => fact("namespaces", "user namespaces can be made: unshare -Urn"),
        Err(error) => fact("namespaces", &format!("no user namespace: {error}")),
    }
    match pcap::compiler() {
        Ok(compiler) => fact("filters", &compiler),
        Err(error) => fact("filters", &error.to_string()),
    }
    fact("pages", &pages(machine));
    let limit = |bytes: Option<u64>| match bytes {
        Some(bytes) => size_text(bytes as usize),
        None => "no limit".to_owned(),
    };
    let locked = machine.locked_memory;
    let (now, most) = (limit(locked.now_bytes), limit(locked.most_bytes));
    let lock = match now == most {
        true => now,
        false => format!("{now}, can be raised to {most}"),
    };
    fact("locked", &format!("memory that may be locked: {lock}"));
}

fn rights(machine: &Machine) -> String {
    let rights = &machine.rights;
    let has = |one: &Capability| rights.has(*one);
    let names = |wanted: bool| {
        let list = capability::ALL.iter().filter(|one| has(one) == wanted);
        list.map(|one| one.name).collect::<Vec<_>>().join(" ")
    };
    let mut text = match (names(true), names(false)) {
        (none, _) if none.is_empty() => "no capability".to_owned(),
        (all, none) if none.is_empty() => all,
        (some, missing) => format!("{some}; not {missing}"),
    };
    if !rights.is_machine_wide {
        text += "; all in a user namespace, which BPF ignores";
    }
    match machine.unprivileged_bpf_disabled {
        Some(0) => text + "; bpf(2) allowed for all users",
        _ => text,
    }
}

fn pages(machine: &Machine) -> String {
    let pools = machine.huge_pages.iter().map(|pool| {
        let size = size_text(pool.page_bytes as usize);
        format!("{size}: {} of {} free", pool.unpromised(), pool.total)
    });
    let mut parts: Vec<String> = pools.collect();
    let setting = machine.transparent_pages.as_deref().unwrap_or("none");
    parts.push(match &machine.collapse {
        Ok(()) => format!("transparent: {setting}, collapsed on request"),
        Err(why) => format!("transparent: {setting}, {why}"),
    });
    parts.join("; ")
}
