//! The output of `scripts/suricata-alerts`, and the committed transcript.

use std::fs;

use burstline_skip::skip;
use burstline_testbed::Bed;

use crate::support::is_there;
use crate::support::sensors::{Installed, is_suricata_there, repository};
use crate::support::sharing::Names;

/// Returns the lines that are the same in every run: commands, alerts without times, and counts.
fn lasting(transcript: &str) -> Vec<String> {
    let lasts = |line: &&str| {
        let starts = ["$ ", "decoder.", "detect.", "flow.", "ids0 ", "done: "];
        line.contains("[**]") || starts.iter().any(|start| line.starts_with(start))
    };
    let behind_time = |line: &str| match line.split_once("  [**] ") {
        Some((_, alert)) => alert.to_owned(),
        None => line.to_owned(),
    };
    transcript.lines().filter(lasts).map(behind_time).collect()
}

#[test]
fn suricata_alerts_on_a_published_log_as_the_transcript_shows() {
    if !is_suricata_there() || !is_there("tcpreplay") {
        let lacks = "Suricata or tcpreplay is not installed: scripts/setup sensors rivals";
        return skip(lacks);
    }
    let Some(bed) = Bed::or_skip() else { return };
    let names = Names::new("transcript");
    let installed = Installed::new(&names.0);
    let script = repository().join("scripts/suricata-alerts").display().to_string();
    let program = installed.start(&bed.far, "transcript", &script, " total\n");
    let (is_success, _) = program.finish().unwrap();
    let said = installed.printed("transcript");
    assert!(is_success, "{said}");
    let committed = fs::read_to_string(repository().join("runs/suricata.txt")).unwrap();
    assert_eq!(lasting(&said), lasting(&committed), "make suricata-alerts");
    let alerts = lasting(&said).iter().filter(|line| line.contains("[**]")).count();
    assert!(said.contains(&format!("{alerts} log.alerts")) && alerts > 0, "{said}");
    assert!(said.contains("done: no packets lost, 0 unaccounted"), "{said}");
}
