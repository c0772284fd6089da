//! The status of a switch as JSON and as text.

use std::fmt::Write;

use burstline_engine::{KnownAddress, PortStatus, SwitchStatus};
use burstline_port::Losses;
use burstline_switch::{PortConfig, Quota, VlanMode, VlanSet};
use burstline_wire::link_address;
use serde_json::{Map, Value, json};

use crate::foreign::one_line;
use crate::words::count_text;

/// Returns the state of a switch.
pub(crate) fn json(status: &SwitchStatus) -> Value {
    let macs = &status.addresses;
    let rules = status.rules.iter().map(
        |(flow, counts)| json!({ "flow": flow, "packets": counts.packets, "bytes": counts.bytes }),
    );
    let meters = status.meters.iter().map(
        |meter| json!({ "meter": meter.name, "passed": meter.passed, "exceeded": meter.exceeded }),
    );
    let mirrors = status.mirrors.iter().map(|(to, of)| json!({ "to": to, "of": of }));
    let look_ups = &status.look_ups;
    json!({
        "ports": status.ports.iter().map(port).collect::<Vec<_>>(),
        "addresses": {
            "entries": macs.entries,
            "most": macs.most,
            "learned": macs.learned,
            "aged": macs.aged,
            "moved": macs.moved,
            "full": macs.full,
        },
        "rules": rules.collect::<Vec<_>>(),
        "lookups": {
            "masks": look_ups.masks,
            "lookups": look_ups.count,
            "cache_hits": look_ups.cache_hits,
        },
        "meters": meters.collect::<Vec<_>>(),
        "mirrors": mirrors.collect::<Vec<_>>(),
        "loops": status.loops,
        "failed": status.failed,
    })
}

fn port(port: &PortStatus) -> Value {
    let counters = &port.counters;
    let mut object = json!({
        "port": port.name,
        "in": {
            "offered": port.incoming.offered,
            "switched": counters.switched(),
            "forwarded": counters.forwarded,
            "flooded": counters.flooded,
            "flood_copies": counters.flood_copies,
            "bytes": counters.bytes_in,
            "dropped": losses(&port.dropped),
            "lost": losses(&port.incoming.lost),
        },
        "out": {
            "copies": counters.copies_out,
            "mirrored": counters.mirrored,
            "in_flight": port.outgoing.in_flight,
            "lost": losses(&port.outgoing.lost),
        },
    });
    if let Some(config) = &port.config {
        object["config"] = config_json(config);
    }
    object
}

fn config_json(config: &PortConfig) -> Value {
    let (vlan, trunk, native) = match &config.vlan {
        VlanMode::Access(vlan) => (Some(*vlan), None, None),
        VlanMode::Trunk { allowed, native } => (None, Some(list_text(allowed)), *native),
    };
    json!({
        "vlan": vlan,
        "trunk": trunk,
        "native": native,
        "isolate": config.isolate,
        "security": config.addresses_max,
        "storm": config.storm.map(quota_text),
    })
}

fn losses(losses: &Losses) -> Value {
    let counted = losses.iter().filter(|(_, count)| *count > 0);
    let each = counted.map(|(cause, count)| (cause.name().to_owned(), count.into()));
    Value::Object(each.collect::<Map<_, _>>())
}

/// Formats VLANs as typed: `10,20-29`.
fn list_text(vlans: &VlanSet) -> String {
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for vlan in vlans.iter() {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == vlan => *last = vlan,
            _ => ranges.push((vlan, vlan)),
        }
    }
    if ranges == [(1, 4094)] {
        return "all".to_owned();
    }
    let text = ranges.iter().map(|&(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    text.collect::<Vec<_>>().join(",")
}

fn quota_text(quota: Quota) -> String {
    format!("{}{}", quota.per_s, if quota.is_bits { "bit" } else { "" })
}

/// Returns the known addresses, each with its port and the time since its last frame, in ns.
pub(crate) fn addresses_json(addresses: &[KnownAddress]) -> Value {
    let each = addresses.iter().map(|known| {
        let entry = &known.entry;
        json!({
            "vlan": entry.vlan,
            "mac": link_address::text(entry.address),
            "port": known.port,
            "static": entry.is_static,
            "idle_s": (!entry.is_static).then_some(known.idle_ns as f64 / 1e9),
            "frames": entry.frames,
        })
    });
    json!({ "addresses": each.collect::<Vec<_>>() })
}

/// Aligns rows of words in columns.
fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(String::len).max();
    let widths: Vec<_> = (0..count).map(|at| width(at).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let words = row.iter().zip(&widths).map(|(word, width)| format!("{word:<width$}"));
        text += words.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// Returns a value as a word; `-` for null.
fn word(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => one_line(text).into_owned(),
        other => other.to_string(),
    }
}

fn each<'a>(answer: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    answer[key].as_array().into_iter().flatten()
}

/// Formats ports, VLANs and mirrors.
pub(crate) fn ports_text(answer: &Value) -> String {
    let mut rows =
        vec![words(&["port", "vlan", "trunk", "native", "isolate", "security", "storm"])];
    for port in each(answer, "ports") {
        let config = &port["config"];
        let mut row = vec![word(&port["port"])];
        match config.is_null() {
            true => row.push("mirrors".to_owned()),
            false => row.extend(
                ["vlan", "trunk", "native", "isolate", "security", "storm"]
                    .map(|key| word(&config[key])),
            ),
        }
        rows.push(row);
    }
    columns(&rows) + &mirrors_text(answer) + &totals_text(answer)
}

/// Formats the packet counts of each port.
pub(crate) fn stats_text(answer: &Value) -> String {
    let mut rows = vec![words(&["port", "in", "forwarded", "flooded", "out", "mirrored", "lost"])];
    let number = |value: &Value| count_text(value.as_u64().unwrap_or(0));
    for port in each(answer, "ports") {
        let (came, went) = (&port["in"], &port["out"]);
        let lists = [&came["dropped"], &came["lost"], &went["lost"]];
        let causes = lists.into_iter().filter_map(Value::as_object).flatten();
        let causes: Vec<_> =
            causes.map(|(cause, count)| format!("{cause} {}", number(count))).collect();
        rows.push(vec![
            word(&port["port"]),
            number(&came["offered"]),
            number(&came["forwarded"]),
            number(&came["flooded"]),
            number(&went["copies"]),
            number(&went["mirrored"]),
            if causes.is_empty() { "-".to_owned() } else { causes.join(", ") },
        ]);
    }
    columns(&rows) + &totals_text(answer)
}

/// Formats the rules and their counts.
pub(crate) fn rules_text(answer: &Value) -> String {
    let mut rows = vec![words(&["packets", "bytes", "flow"])];
    let number = |value: &Value| count_text(value.as_u64().unwrap_or(0));
    for rule in each(answer, "rules") {
        rows.push(vec![number(&rule["packets"]), number(&rule["bytes"]), word(&rule["flow"])]);
    }
    for meter in each(answer, "meters") {
        let exceeded = format!("{} exceeded", number(&meter["exceeded"]));
        rows.push(vec![
            number(&meter["passed"]),
            exceeded,
            format!("meter {}", word(&meter["meter"])),
        ]);
    }
    columns(&rows)
}

/// Formats the mirrors.
pub(crate) fn mirrors_text(answer: &Value) -> String {
    let mut text = String::new();
    for mirror in each(answer, "mirrors") {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(text, "mirror to {}: {}", word(&mirror["to"]), word(&mirror["of"]));
    }
    text
}

/// Formats the known addresses.
pub(crate) fn addresses_text(answer: &Value) -> String {
    let mut rows = vec![words(&["vlan", "mac", "port", "idle", "frames"])];
    for one in each(answer, "addresses") {
        let idle =
            one["idle_s"].as_f64().map_or("static".to_owned(), |idle| format!("{idle:.1} s"));
        let frames = count_text(one["frames"].as_u64().unwrap_or(0));
        rows.push(vec![word(&one["vlan"]), word(&one["mac"]), word(&one["port"]), idle, frames]);
    }
    columns(&rows)
}

/// Formats the counters of the tables, in a few lines.
pub(crate) fn totals_text(answer: &Value) -> String {
    let macs = &answer["addresses"];
    let number = |value: &Value| count_text(value.as_u64().unwrap_or(0));
    let mut text = format!(
        "addresses {} of {}: {} learned, {} aged, {} moved, {} without room\n",
        number(&macs["entries"]),
        number(&macs["most"]),
        number(&macs["learned"]),
        number(&macs["aged"]),
        number(&macs["moved"]),
        number(&macs["full"]),
    );
    let rules = each(answer, "rules").count();
    if rules > 0 {
        let looks = &answer["lookups"];
        let _ = writeln!(
            text,
            "rules     {}, {} masks: {} look-ups, {} of them in the cache",
            count_text(rules as u64),
            number(&looks["masks"]),
            number(&looks["lookups"]),
            number(&looks["cache_hits"]),
        );
    }
    if answer["loops"].as_u64().unwrap_or(0) > 0 {
        let _ = writeln!(text, "a loop?   addresses kept moving for {} s", answer["loops"]);
    }
    for failed in each(answer, "failed") {
        let _ = writeln!(text, "removed   {}", word(failed));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vlans_are_shown_as_they_are_typed() {
        for text in ["10", "10,20-29,4094", "all"] {
            assert_eq!(list_text(&VlanSet::parse(text).unwrap()), text);
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_words() {
        let rows = [words(&["port", "in"]), words(&["tap:a", "1"])];
        assert_eq!(columns(&rows), "port   in\ntap:a  1\n");
    }
}
