//! `burstline explain`: each name in a report is explained.

use std::fs;
use std::path::Path;

use crate::support::{Directory, assert_says, run, run_json, run_with_code};

#[test]
fn a_loss_of_a_report_is_explained() {
    let report = run_json(&["count", "gen:?packets=10", "--filter", "udp port 1"], 0);
    let lost = report["total"]["lost"].as_object().unwrap();
    let (name, _) = lost.iter().find(|(_, packets)| packets.as_u64() > Some(0)).unwrap();
    let text = run_with_code(&["explain", name], 0);
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
    assert!(all.len() > 130, "{}", all.len());
    for entry in all {
        let is_said = |key: &str| entry[key].as_str().is_some_and(|text| !text.is_empty());
        assert!(["name", "what", "means", "to_see", "to_do"].into_iter().all(is_said), "{entry}");
        let text = run(&["explain", entry["name"].as_str().unwrap()]);
        assert_eq!(text.code, Some(0), "{entry}");
    }
    assert_says(&["explain", "rx_ring_ful"], 2, "rx_ring_full");
}

/// Each name that a line `lost` or `no flow` can have, from the tables of the pages.
#[test]
fn names_of_flow_records_lost_are_explained() {
    let page = |name: &str| concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/").to_owned() + name;
    let (fleet, flows) = (page("fleet.md"), page("flows.md"));
    let text = fs::read_to_string(fleet).unwrap() + &fs::read_to_string(flows).unwrap();
    let begins = ["bus_", "collector_", "spool_", "queue_", "write_", "no_ip", "table_"];
    let cells = text.lines().filter(|line| line.starts_with("| `"));
    let cells = cells.filter_map(|line| line.split('|').nth(1));
    let names: Vec<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let named = names.iter().filter(|name| begins.iter().any(|begin| name.starts_with(begin)));
    let named: Vec<_> = named.collect();
    assert!(named.len() >= 12, "{named:?}");
    for name in named {
        assert_eq!(run(&["explain", name]).code, Some(0), "{name}");
    }
}

#[test]
fn a_note_is_explained_by_its_text() {
    let directory = Directory::new("explain-note");
    let file = directory.file("a.pcapng");
    let words = ["capture", "gen:?packets=10", "-w", &file, "--on-close", "false"];
    let report = run_json(&words, 0);
    let note = report["notes"][0].as_str().unwrap();
    assert!(note.starts_with("--on-close for"), "{note}");
    let told = crate::support::last_object(&run(&["explain", "--json", "--", note]).stdout);
    assert_eq!(
        (&told["name"], &told["what"]),
        (&"on-close-failed".into(), &"a note of a report".into())
    );
}

#[test]
fn a_recording_without_a_ring_is_explained_by_its_reason() {
    for (reason, name) in [
        ("no ring is left of those made at the start", "no-ring-left"),
        ("Operation not permitted (os error 1)", "one-write-at-a-time"),
    ] {
        let note = format!("x.pcapng: one write at a time ({reason})");
        assert_eq!(run_json(&["explain", &note], 0)["name"], name, "{note}");
    }
}

/// Collects the text of all sources below a folder, without tests, with continued lines joined.
fn sources(folder: &Path, texts: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            sources(&path, texts);
        } else if name.ends_with(".rs") && name != "tests.rs" && name != "test.rs" {
            let text = fs::read_to_string(&path).unwrap();
            let text = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
            texts.push(text.split("\\\n").map(str::trim_start).collect());
        }
    }
}

fn all_sources() -> Vec<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut texts = Vec::new();
    for name in ["port", "engine", "topo", "log", "sys", "xdp", "peer", "fleet", "flow", "wire"] {
        sources(&crates.join(name).join("src"), &mut texts);
    }
    for file in ["process/wall_clock.rs", "verbs/questions/archive/extract.rs"] {
        let of_cli = fs::read_to_string(crates.join("cli/src").join(file)).unwrap();
        let of_cli = of_cli.split("\n#[cfg(test)]").next().unwrap();
        texts.push(of_cli.split("\\\n").map(str::trim_start).collect());
    }
    texts
}

/// The code that precedes the text of a note.
const SITES: [&str; 15] = [
    ".note(|",
    ".hint(",
    ".event(|",
    ".news(|",
    "notes.push(",
    "let note = ",
    "let note =\n",
    "notes = vec![format!(",
    "note = Some(format!(",
    ".fault = Some(format!(",
    "let zero =\n",
    "let copies = match",
    "Err(format!(\"--on-close",
    "self.tell(\"",
    "state.notes.push(",
];

/// Returns the string literals in the statement that begins here.
fn quoted(statement: &str) -> Vec<&str> {
    // It may be a match arm.
    let ends = [";\n", ")),\n"].map(|end| statement.find(end).unwrap_or(statement.len()));
    let end = ends[0].min(ends[1]);
    let mut texts = Vec::new();
    let mut rest = &statement[..end];
    while let Some(at) = rest.find('"') {
        let behind = &rest[at + 1..];
        let Some(end) = behind.find('"') else { break };
        texts.push(&behind[..end]);
        rest = &behind[end + 1..];
    }
    texts
}

/// Returns whether a text has content besides its placeholders.
fn speaks(text: &str) -> bool {
    let fixed = text.split(['{', '}']).step_by(2);
    let letters = fixed.flat_map(str::chars).filter(char::is_ascii_alphabetic).count();
    letters > 6 && text.contains(' ')
}

#[test]
fn each_note_that_the_sources_say_is_explained() {
    let mut count = 0;
    for text in all_sources() {
        for site in SITES {
            for (at, _) in text.match_indices(site) {
                for said in quoted(&text[at..]).into_iter().filter(|said| speaks(said)) {
                    // Placeholders stand for themselves.
                    let told = run(&["explain", "--json", "--", said]);
                    assert_eq!(told.code, Some(0), "not explained: {said}\n{}", told.stderr);
                    count += 1;
                }
            }
        }
    }
    assert!(count > 60, "only {count} notes were found");
}

#[test]
fn each_finding_of_the_doctor_is_explained() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut texts = Vec::new();
    sources(&crates.join("topo/src/findings"), &mut texts);
    sources(&crates.join("cli/src/verbs/questions/doctor"), &mut texts);
    let mut count = 0;
    for text in texts {
        let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for site in ["let name = \"", "const NAME: &str = \"", "fine(\"", "defect( \""] {
            for (at, _) in text.match_indices(site) {
                let name = text[at + site.len()..].split('"').next().unwrap();
                let told = run(&["explain", "--", name]);
                assert_eq!(told.code, Some(0), "{name}: {}", told.stderr);
                assert!(told.stdout.contains("a finding of burstline doctor"), "{}", told.stdout);
                count += 1;
            }
        }
    }
    assert!(count >= 14, "{count}");
}

#[test]
fn each_note_that_is_explained_is_still_said() {
    let all = all_sources().concat();
    let known = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/verbs/questions/explain/known");
    let mut count = 0;
    for file in ["live.rs", "files.rs", "places.rs"] {
        let table = fs::read_to_string(known.join(file)).unwrap();
        for row in table.split("&[").skip(3) {
            for part in quoted(row.split(']').next().unwrap()) {
                let mut fixed = part.split(['{', '}']).step_by(2);
                assert!(fixed.all(|fixed| all.contains(fixed)), "nobody says: {part}");
                count += 1;
            }
        }
    }
    assert!(count > 60, "{count}");
}
