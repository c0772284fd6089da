//! The results of testing devices: tables or JSON.

use std::fmt::Write;

use burstline_lab::contenders::Adapter;
use burstline_lab::record::{ContenderInfo, Record, Row, Status};
use burstline_lab::rfc2544::{ExternalDevice, Found, RFC_TRIAL};
use burstline_lab::scenario::Scenario;
use burstline_lab::scenario::run::FAILED;
use serde_json::{Value, json};

use crate::args::Rfc2544Args;
use crate::words::{count_text, rate_text};

/// A device under test and its part of the record.
pub(crate) struct Device<'a> {
    /// Its name for --dut, or the contender's name.
    pub(crate) name: &'a str,
    info: &'a ContenderInfo,
    rows: Vec<&'a Row>,
    /// Whether the user ended the run.
    is_interrupted: bool,
}

impl<'a> Device<'a> {
    /// Returns the devices that were asked for, in order.
    pub(crate) fn all(args: &Rfc2544Args, record: &'a Record) -> Vec<Self> {
        let name = |info: &'a ContenderInfo| {
            let device = args.duts.iter().find(|device| device.contender() == info.name);
            device.map_or(info.name.as_str(), |device| device.name())
        };
        let is_interrupted = record.doubts.iter().any(|doubt| doubt.name == "interrupted");
        let rows = |info: &ContenderInfo| {
            record.rows.iter().filter(|row| row.contender == info.name).collect()
        };
        let one = |info| Self { name: name(info), info, rows: rows(info), is_interrupted };
        record.contenders.iter().map(one).collect()
    }

    /// Returns the results by size.
    pub(crate) fn found(&self) -> impl Iterator<Item = &'a Found> {
        self.rows.iter().flat_map(|row| &row.rfc2544)
    }

    /// Returns why the device was not tested, and what to do about it.
    fn not_run(&self) -> Option<&str> {
        self.info.not_run.as_deref().map(|why| why.trim_start_matches("because "))
    }

    /// Returns whether all results are complete.
    pub(crate) fn is_whole(&self) -> bool {
        let is_run = |row: &&Row| row.status == Status::Run;
        let is_done = self.rows.iter().all(is_run) && self.found().all(|one| one.ended.is_none());
        is_done || self.not_run().is_some()
    }

    /// Returns what ended the tests early, unless the user did.
    pub(crate) fn failure(&self) -> Option<String> {
        let failed = self.rows.iter().find_map(|row| match &row.status {
            Status::NotRun(why) => why.strip_prefix(FAILED).map(str::to_owned),
            _ => row.rfc2544.iter().find_map(|found| found.ended.clone()),
        });
        failed.filter(|_| !self.is_interrupted && self.not_run().is_none())
    }
}

/// Returns the record's table, the curves, and a comparison of the devices.
pub(crate) fn text(scenario: &Scenario, record: &Record, devices: &[Device<'_>]) -> String {
    let (plan, trial_s) = (&scenario.rfc2544, scenario.amounts.time.as_secs_f64());
    let (tx, rx, link) = (plan.tx(), plan.rx(), rate_text(scenario.link_gbps * 1e9, "bit/s"));
    let mut text = format!("rfc2544  {tx} > {rx}, link {link}, trials of {trial_s} s\n");
    text += &super::scenario::text(record);
    for device in devices {
        let what = device.not_run().map(|why| format!("not run, because {why}"));
        // Writing to a string cannot fail, here and below.
        let _ =
            writeln!(text, "device   {}: {}", device.name, what.unwrap_or_else(|| note(device)));
        device.found().for_each(|found| curves(&mut text, device.name, found));
    }
    comparison(&mut text, scenario, devices);
    text + match devices.iter().all(Device::is_whole) {
        true => "done\n",
        false => "NOT FINISHED: only the rows above are complete\n",
    }
}

/// Returns the device's command and its memory pages.
fn note(device: &Device<'_>) -> String {
    let pages = device.info.pages.as_ref();
    let pages = pages.map_or(String::new(), |pages| format!("; {pages}"));
    format!("{}{pages}", device.info.command)
}

/// Appends the loss curve, and the counts at half the rate.
fn curves(text: &mut String, name: &str, found: &Found) {
    let who = format!("{name} {} bytes", found.size);
    if !found.loss.is_empty() {
        let step = found.loss.iter().map(|step| {
            let rate = rate_text(step.trial.offered_pps, "pps");
            format!("{rate} {:.3}%", step.trial.lost_percent)
        });
        let _ = writeln!(text, "loss     {who}: {}", step.collect::<Vec<_>>().join(", "));
    }
    if let Some(half) = &found.half {
        let [sent, lost, reordered, doubled, corrupted] =
            [half.sent, half.lost, half.reordered, half.duplicates, half.corrupted].map(count_text);
        let rate = rate_text(half.offered_pps, "pps");
        let _ = writeln!(
            text,
            "half     {who}: {sent} sent at {rate}, {lost} lost, {reordered} reordered, {doubled} \
             duplicated, {corrupted} corrupted"
        );
    }
}

/// Appends the throughput of each device by size: Mpps, and per cent of line rate.
fn comparison(text: &mut String, scenario: &Scenario, devices: &[Device<'_>]) {
    let _ = write!(text, "{:>6}", "bytes");
    for device in devices {
        let _ = write!(text, " {:>21}", device.name);
    }
    text.push('\n');
    for &size in &scenario.sizes {
        let _ = write!(text, "{size:>6}");
        for device in devices {
            let _ = write!(text, " {:>21}", cell(device, size));
        }
        text.push('\n');
    }
    let _ = writeln!(text, "Mpps without loss, per cent of line rate; * limited by the tester");
}

fn cell(device: &Device<'_>, size: u32) -> String {
    if device.not_run().is_some() {
        return "not run".to_owned();
    }
    let found = device.found().find(|found| found.size == size);
    found.and_then(|found| found.throughput.as_ref()).map_or("-".to_owned(), |found| {
        let limited = if found.limited.is_some() { "*" } else { "" };
        format!("{:.4} {:6.2}%{limited}", found.pps / 1e6, found.line_percent)
    })
}

/// Returns JSON: the results of the only device, or a list of devices.
pub(crate) fn json(scenario: &Scenario, devices: &[Device<'_>]) -> Value {
    let trial = scenario.amounts.time;
    let mut whole = json!({
        "command": "lab rfc2544",
        "trial_s": trial.as_secs_f64(),
        "trial_is_short": trial < RFC_TRIAL,
        "resolution_percent": scenario.rfc2544.resolution_percent,
        "whole": devices.iter().all(Device::is_whole),
    });
    match devices {
        [only] if only.info.name == ExternalDevice.name() => add_found(&mut whole, scenario, only),
        all => whole["devices"] = all.iter().map(|one| device_json(scenario, one)).collect(),
    }
    whole
}

fn device_json(scenario: &Scenario, device: &Device<'_>) -> Value {
    if let Some(why) = device.not_run() {
        return json!({"device": device.name, "not_run": why});
    }
    let mut found = json!({
        "device": device.name,
        "note": note(device),
        "whole": device.is_whole(),
        "failure": device.failure(),
    });
    add_found(&mut found, scenario, device);
    found
}

fn add_found(to: &mut Value, scenario: &Scenario, device: &Device<'_>) {
    let plan = &scenario.rfc2544;
    to["tx"] = plan.tx().to_string().into();
    to["rx"] = plan.rx().to_string().into();
    to["link_bits_per_s"] = (scenario.link_gbps * 1e9).round().into();
    to["sizes"] = device.found().map(|found| json!(found)).collect();
}
