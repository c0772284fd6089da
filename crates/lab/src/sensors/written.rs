//! Reads what Suricata has written to its folder.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

/// The keys of a flow's ends in events.
const ENDS: [&str; 5] = ["proto", "src_ip", "src_port", "dest_ip", "dest_port"];

/// Flows that Suricata saw completely: with one record, and at one worker.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Flows {
    pub(crate) all: usize,
    /// Flows that alerted more than once, which shows that each was at one worker.
    pub(crate) several_alerts: usize,
    /// Number of workers that alerted.
    pub(crate) workers: usize,
}

/// Returns the last value of a Suricata counter in its statistics.
pub(crate) fn counter(log: &Path, key: &str) -> Result<u64, String> {
    let said = fs::read_to_string(log.join("stats.log")).unwrap_or_default();
    let line = said.lines().rev().find(|line| line.split_whitespace().next() == Some(key));
    let value = line.and_then(|line| line.split_whitespace().next_back()?.parse().ok());
    value.ok_or_else(|| format!("Suricata's stats.log has no {key}"))
}

/// Returns the lines of `fast.log` without their times, sorted.
pub(crate) fn alerts(log: &Path) -> Result<Vec<String>, String> {
    let path = log.join("fast.log");
    let said = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let behind_time = |line: &str| line.split_once("[**]").map(|(_, rest)| rest.to_owned());
    let mut alerts: Vec<String> = said.lines().filter_map(behind_time).collect();
    alerts.sort_unstable();
    match alerts.is_empty() {
        true => Err("Suricata alerted nothing".to_owned()),
        false => Ok(alerts),
    }
}

/// Returns its flows from the events, in one file or in one per thread.
pub(crate) fn flows(log: &Path) -> Result<Flows, String> {
    let failed = |error| format!("{}: {error}", log.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(log).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("eve.") {
            files.push(fs::read_to_string(&path).map_err(failed)?);
        }
    }
    flows_of(&files)
}

/// Like [`flows`], for the events of each thread. A worker writes the alerts of its packets, but
/// any thread may remove a flow and write its record.
fn flows_of(threads: &[String]) -> Result<Flows, String> {
    #[derive(Default)]
    struct Seen {
        records: usize,
        /// Alerts by thread number.
        alerts: BTreeMap<usize, usize>,
    }
    let (mut seen, mut workers) = (BTreeMap::<String, Seen>::new(), BTreeSet::new());
    for (thread, events) in threads.iter().enumerate() {
        for line in events.lines() {
            let event: Value =
                serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
            let flow = ENDS.map(|end| event[end].to_string()).join(" ");
            match event["event_type"].as_str() {
                Some("flow") => seen.entry(flow).or_default().records += 1,
                Some("alert") => {
                    *seen.entry(flow).or_default().alerts.entry(thread).or_default() += 1;
                    workers.insert(thread);
                }
                _ => {}
            }
        }
    }
    if let Some((flow, Seen { records, alerts })) =
        seen.iter().find(|(_, seen)| seen.records != 1 || seen.alerts.len() > 1)
    {
        let workers = alerts.len();
        return Err(format!("flow {flow} has {records} records, and alerts of {workers} workers"));
    }
    let several = |seen: &&Seen| seen.alerts.values().sum::<usize>() > 1;
    Ok(Flows {
        all: seen.len(),
        several_alerts: seen.values().filter(several).count(),
        workers: workers.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, source: &str) -> String {
        format!("{{\"event_type\":\"{kind}\",\"src_ip\":\"{source}\",\"src_port\":7}}\n")
    }

    #[test]
    fn a_flow_is_whole_if_it_has_one_record_and_one_worker() {
        let [one, other] = ["198.18.0.1", "198.18.0.2"];
        let records = [event("flow", one), event("stats", ""), event("flow", other)].concat();
        let alerts = |from: &[&str]| from.iter().map(|from| event("alert", from)).collect();
        let whole = [alerts(&[one, one]), records.clone(), alerts(&[other])];
        assert_eq!(flows_of(&whole), Ok(Flows { all: 2, several_alerts: 1, workers: 2 }));
        let split = [alerts(&[one]), records.clone(), alerts(&[one])];
        assert!(flows_of(&split).unwrap_err().ends_with("1 records, and alerts of 2 workers"));
        let twice = [records, event("flow", one)];
        assert!(flows_of(&twice).unwrap_err().contains("has 2 records"));
        assert!(flows_of(&["no event".to_owned()]).is_err());
    }
}
