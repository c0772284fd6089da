//! Reads Suricata's output, for the tests of this crate and of the command line.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// Returns the lines of its `fast.log`, sorted: an alert each.
pub(crate) fn alerts(log: &Path) -> Vec<String> {
    let said = fs::read_to_string(log.join("fast.log")).unwrap_or_default();
    let mut alerts: Vec<_> = said.lines().map(str::to_owned).collect();
    alerts.sort();
    alerts
}

/// Returns its flows, sorted: both ends, protocols, and the packets and bytes of both directions.
pub(crate) fn flows(log: &Path) -> Vec<String> {
    let events = fs::read_to_string(log.join("eve.json")).unwrap();
    let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let said = events.filter(|event| event["event_type"] == "flow").map(|event| {
        let of_event = ["src_ip", "src_port", "dest_ip", "dest_port", "proto", "app_proto"];
        let of_flow = ["pkts_toserver", "pkts_toclient", "bytes_toserver", "bytes_toclient"];
        let ends = of_event.iter().map(|key| &event[key]);
        ends.chain(of_flow.iter().map(|key| &event["flow"][key]))
            .map(|value| format!("{value} "))
            .collect()
    });
    let mut flows: Vec<String> = said.collect();
    flows.sort();
    flows
}
