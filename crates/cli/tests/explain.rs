//! `burstline explain`: each name that a report has is explained.

mod support;

use std::fs;
use std::path::Path;

use support::{Directory, run, run_json};

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

#[test]
fn a_note_is_explained_by_its_text() {
    let directory = Directory::new("explain-note");
    let file = directory.file("a.pcapng");
    let words = ["capture", "gen:?packets=10", "-w", &file, "--on-close", "false"];
    let report = run_json(&words, 0);
    let note = report["notes"][0].as_str().unwrap();
    assert!(note.starts_with("--on-close for"), "{note}");
    let told = support::last_object(&run(&["explain", "--json", "--", note]).stdout);
    assert_eq!(
        (&told["name"], &told["what"]),
        (&"on-close-failed".into(), &"a note of a report".into())
    );
}

/// The text of all sources below a folder.
fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            *text += &fs::read_to_string(&path).unwrap();
        }
    }
}

#[test]
fn each_note_that_is_explained_is_still_said() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut all = String::new();
    for name in ["port", "engine", "topo", "log", "sys"] {
        sources(&crates.join(name).join("src"), &mut all);
    }
    // A line that ends in a backslash goes on in the next.
    let all: String = all.split("\\\n").map(str::trim_start).collect();
    let known = crates.join("cli/src/verbs/explain/known.rs");
    let known = fs::read_to_string(known).unwrap();
    let table = known.split("const NOTES").nth(1).unwrap().split("const FAULTS").next().unwrap();
    let parts: Vec<&str> =
        table.split("note(").skip(1).map(|row| row.split('"').nth(3).unwrap()).collect();
    assert!(parts.len() > 5, "{parts:?}");
    for part in parts {
        assert!(all.contains(part), "nobody says: {part}");
    }
}
