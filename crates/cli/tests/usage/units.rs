//! Checks the units in `dist/systemd` with systemd's own tools.

use std::fs;

use crate::support::{Directory, PROGRAM, Run, other, run_with_code};
use burstline_skip::skip;

const UNITS: [&str; 2] = ["burstline.service", "burstline@.service"];

/// Maximum exposure by `systemd-analyze security`, of 100. It reports 26, and calls values up to 50
/// medium.
const EXPOSURE_MOST: &str = "30";

fn unit(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dist/systemd/");
    fs::read_to_string(format!("{folder}{name}")).unwrap()
}

/// Runs systemd-analyze on the units with this program in them.
fn analyze(words: &[&str]) -> Option<Run> {
    if std::process::Command::new("systemd-analyze").arg("--version").output().is_err() {
        skip("systemd-analyze is not installed: scripts/setup service");
        return None;
    }
    let directory = Directory::new("units");
    let mut arguments: Vec<String> = words.iter().map(ToString::to_string).collect();
    for name in UNITS {
        let path = directory.file(name);
        fs::write(&path, unit(name).replace("/usr/bin/burstline", PROGRAM)).unwrap();
        arguments.push(path);
    }
    other("systemd-analyze", &arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn systemd_understands_every_line_of_the_units() {
    let Some(run) = analyze(&["verify", "--man=no"]) else { return };
    // Unknown settings are only warnings.
    let said = format!("{}{}", run.stdout, run.stderr);
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("burstline")).collect();
    assert!(run.code == Some(0) && ours.is_empty(), "{said}");
}

#[test]
fn systemd_finds_the_units_locked_down() {
    let threshold = format!("--threshold={EXPOSURE_MOST}");
    let Some(run) = analyze(&["security", "--offline=true", &threshold]) else { return };
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    assert_eq!(run.stdout.matches("Overall exposure level").count(), UNITS.len());
}

#[test]
fn the_template_is_the_unit_with_a_name_in_it() {
    let with_name = unit(UNITS[0])
        .replace("/etc/burstline/site.toml", "/etc/burstline/%i.toml")
        .replace("StateDirectory=burstline\n", "StateDirectory=burstline/%i\n")
        .replace(
            "WorkingDirectory=/var/lib/burstline\n",
            "WorkingDirectory=/var/lib/burstline/%i\n",
        )
        .replace("RuntimeDirectory=burstline\n", "RuntimeDirectory=burstline-%i\n")
        .replace("BURSTLINE_RUN=/run/burstline\n", "BURSTLINE_RUN=/run/burstline-%i\n");
    assert_eq!(unit(UNITS[1]), with_name);
}

#[test]
fn the_example_of_a_file_is_understood() {
    let directory = Directory::new("units-example");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dist/site.toml");
    let example = fs::read_to_string(path).unwrap();
    let uncommented = example.replace("\n# ", "\n").replace("\n#\n", "\n\n");
    let here = uncommented.replace("/var/lib/burstline/", &directory.file(""));
    let site = directory.file("site.toml");
    // This machine may lack the interface, and libpcap for the filter.
    let here = here.replace("filter = \"udp port 53\"\n", "");
    fs::write(&site, here).unwrap();
    let run = run_with_code(&["run", "--check", &site], 0);
    assert!(
        run.stdout.contains("tap: burstline capture --publish=tap -- eth0\n"),
        "{}",
        run.stdout
    );
}
