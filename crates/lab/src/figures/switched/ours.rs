//! Runs our switch between two guests.

use std::fs;
use std::path::Path;

use super::load::{self, Loaded};
use super::{Carried, Context, Setting};
use crate::conditions::cycles_per_second;
use crate::live::{Contender, Road};
use crate::programs::{Ours, Report};

/// Starts it under load and reads its ledger.
pub(super) fn turn(
    context: &Context,
    setting: &Setting,
    program: &Path,
    road: &Road,
) -> Result<(Loaded, Carried), String> {
    let ports = load::sockets(road).map(|socket| setting.cable.address(&socket));
    let [a, b] = &ports;
    let config = road.file("rules.toml");
    let rules = setting.rules.lines([a, b]);
    let rules: Vec<_> = rules.iter().map(|rule| format!("[[rule]]\nflow = \"{rule}\"\n")).collect();
    fs::write(&config, rules.concat()).map_err(|error| format!("{config}: {error}"))?;
    let core = context.cores.consumer;
    let words =
        format!("switch --port '{a}' --port '{b}' --config '{config}' --poll busy --cores {core}");
    let ours = Ours::new(program, &words);
    let switch = Contender::start(road, &core.to_string(), &ours, &context.stop)?;
    let loaded = load::send(context, setting, road, false)?;
    let pages = Some(switch.pages());
    let (said, _) = switch.end()?;
    Ok((loaded, Carried { pages, ..carried(&said, &ports)? }))
}

/// Parses its rows: one per input port, and one per output port.
fn carried(said: &str, ports: &[String; 2]) -> Result<Carried, String> {
    let report = Report::of_its_own(said)?;
    let last = Report::last(said)?;
    let rows = last["ports"].as_array().ok_or("a report without ports")?;
    let sum = |key: &str, is_it: &dyn Fn(&str) -> bool| -> u64 {
        let own = rows.iter().filter(|row| row["port"].as_str().is_some_and(is_it));
        own.filter_map(|row| row[key].as_u64()).sum()
    };
    let taken = sum("offered", &|name| ports.iter().any(|port| port == name));
    let passed_on = sum("delivered", &|name| name.starts_with("> "));
    let cycles = report.busy_seconds * cycles_per_second() / taken as f64;
    Ok(Carried { taken, passed_on, cycles, pages: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_both_directions_are_told_apart() {
        let row = |name: &str, offered: u64, delivered: u64| {
            format!("{{\"port\":\"{name}\",\"offered\":{offered},\"delivered\":{delivered}}}")
        };
        let rows = [
            row("vhost:/a", 100, 100),
            row("> vhost:/a", 50, 40),
            row("vhost:/b", 50, 50),
            row("> vhost:/b", 100, 100),
        ];
        let said = format!(
            "{{\"errors\":[],\"ports\":[{}],\"stages\":[{{\"busy_s\":1.0}}],\"total\":{{\
             \"offered\":300,\"delivered\":290,\"unaccounted\":0}}}}",
            rows.join(",")
        );
        let ports = ["vhost:/a", "vhost:/b"].map(str::to_owned);
        let carried = carried(&said, &ports).unwrap();
        assert_eq!((carried.taken, carried.passed_on), (150, 140));
        assert!((carried.cycles - cycles_per_second() / 150.0).abs() < 1e-3);
    }
}
