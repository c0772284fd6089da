//! `burstline explain`: each name that a report has is explained.

mod support;

use support::{run, run_json};

#[test]
fn a_loss_of_a_report_is_explained() {
    let report = run_json(&["count", "gen:?packets=10", "--filter", "udp port 1"], 0);
    let lost = report["total"]["lost"].as_object().unwrap();
    let (name, _) = lost.iter().find(|(_, packets)| packets.as_u64() > Some(0)).unwrap();
    let text = run(&["explain", name]);
    assert_eq!(text.code, Some(0), "{}", text.stderr);
    assert!(
        text.stdout.starts_with("filtered: a choice of yours, not a loss\n"),
        "{}",
        text.stdout
    );
    let ring = run_json(&["explain", "rx_ring_full"], 0);
    assert_eq!(ring["name"], "rx_ring_full");
    assert!(ring["to_do"].as_str().unwrap().contains("--cores"), "{ring}");
}

#[test]
fn all_names_are_there_and_a_wrong_one_is_corrected() {
    let all = run_json(&["explain"], 0);
    let all = all.as_array().unwrap();
    assert!(all.len() > 60, "{}", all.len());
    for entry in all {
        let is_said = |key: &str| entry[key].as_str().is_some_and(|text| !text.is_empty());
        assert!(is_said("name") && is_said("what") && is_said("means"), "{entry}");
        let text = run(&["explain", entry["name"].as_str().unwrap()]);
        assert_eq!(text.code, Some(0), "{entry}");
    }
    let wrong = run(&["explain", "rx_ring_ful"]);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("rx_ring_full"), "{}", wrong.stderr);
}
