use std::fs;

use burstline_sys::temporary::TemporaryFolder;

use super::check::{Place, faults};
use super::*;
use crate::record::program_sources;
use crate::sources::FOLDERS;

/// Returns the root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// Returns a record with made-up figures.
fn made_up() -> Committed {
    Committed::read(&root().join("crates/lab/tests/data/numa-rtc.json")).unwrap()
}

fn exists(place: Place) -> bool {
    match place {
        Place::Figure(name) => crate::figures::all().iter().any(|figure| figure.name == name),
        Place::Scenario(name) => root().join(format!("crates/lab/scenarios/{name}.toml")).is_file(),
        Place::File(path) => root().join(path).exists(),
        Place::Printed => true,
    }
}

/// Knows make targets and figures; another test checks the program's verbs and their flags.
fn runs(command: &str) -> bool {
    let words: Vec<&str> = command.split(' ').collect();
    match words[..] {
        ["burstline", ..] => true,
        ["make", "bench", figure] => {
            let name = figure.strip_prefix("FIGURE=").unwrap_or_default();
            let fits = |pattern: &str, name: &str| crate::glob::matches(pattern, name);
            let pattern = name.trim_matches('\'');
            crate::figures::all().iter().any(|figure| fits(pattern, &figure.name))
        }
        ["make", target] => {
            let makefile = std::fs::read_to_string(root().join("Makefile")).unwrap();
            makefile.lines().any(|line| line.starts_with(&format!("{target}:")))
        }
        ["cargo", "test", ..] => true,
        _ => false,
    }
}

#[test]
fn every_claim_has_a_status_and_names_only_what_exists() {
    let documents = all();
    let ids: Vec<&str> = documents.iter().map(|document| document.id.as_str()).collect();
    assert_eq!(ids, ["D0", "D1", "D2", "D3", "D4"]);
    let records = committed(&root().join("runs")).unwrap();
    let is_recorded = |place: Place, row: &str| {
        let (Place::Figure(name) | Place::Scenario(name)) = place else { return false };
        records.iter().any(|one| one.has(name, row))
    };
    let faults = faults(&documents, &exists, &is_recorded, &runs);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn read(claims: &str) -> Result<Document, toml::de::Error> {
    let head = "id = \"D0\"\ntitle = \"t\"\nby = \"b\"\nmachine = \"m\"\nbasis = \"l2\"\n";
    toml::from_str(&format!("{head}{claims}"))
}

#[test]
fn a_claim_without_a_status_is_not_read() {
    let claim = "[[claim]]\nid = \"d0-x\"\nclaim = \"c\"\n";
    let error = read(claim).unwrap_err().to_string();
    assert!(error.contains("status"), "{error}");
    let wrong = format!("{claim}status = \"perhaps\"\n");
    assert!(read(&wrong).unwrap_err().to_string().contains("perhaps"));
    let unknown = format!("{claim}status = \"run\"\nsize = 1\n");
    assert!(read(&unknown).unwrap_err().to_string().contains("size"));
}

#[test]
fn each_kind_of_fault_is_found() {
    let claim = |id: &str, rest: &str| format!("[[claim]]\nid = \"{id}\"\nclaim = \"c\"\n{rest}\n");
    let run = "status = \"run\"";
    let figure = "command = \"make bench FIGURE=hash-64\"\nours = \"figure hash-64\"";
    let scenario = "command = \"burstline lab run dna-bounce\"\nours = \"scenario dna-bounce\"";
    let claims = [
        claim("d0-a", "status = \"run\""),
        claim("d0-a", "status = \"not run because it is not\""),
        claim("d1-b", "status = \"not run because it is not\""),
        claim("d0-c", "status = \"run\"\ncommand = \"make nothing\"\nours = \"figure hash-64\""),
        claim(
            "d0-d",
            "status = \"model\"\ncommand = \"make bench FIGURE=hash-64\"\nours = \"figure x\"",
        ),
        claim("d0-e", "status = \"run\"\ncommand = \"make test\"\nours = \"here\""),
        claim("d0-f", "status = \"run\"\ncommand = \"make bench FIGURE=x\"\nours = \"file x/y\""),
        claim("d0-g", &format!("{run}\n{figure}")),
        claim("d0-h", &format!("{run}\n{figure}\nrows = [\"metric=ns\", \"case=none metric=ns\"]")),
        claim(
            "d0-i",
            &format!("{run}\n{scenario}\nrows = [\"stage=a record=dna-bounce-billion\"]"),
        ),
        claim("d0-j", &format!("status = \"model\"\n{scenario}\nrows = [\"contender=ours\"]")),
        claim("d0-k", &format!("{run}\n{figure}\nrows = [\"contender=ours\"]")),
    ];
    let documents = [read(&claims.concat()).unwrap()];
    let found = faults(&documents, &exists, &|_, row| row != "case=none metric=ns", &runs);
    let wanted = [
        "d0-a: status run without a command",
        "d0-a: another claim has this name",
        "d1-b: its name does not begin with d0-",
        "d0-c: there is no such command: make nothing",
        "d0-c: `make nothing` does not make its record, figure hash-64",
        "d0-c: it names no row of figure hash-64",
        "d0-d: there is no figure x",
        "d0-e: `here`: figure, scenario",
        "d0-f: there is no such command: make bench FIGURE=x",
        "d0-f: there is no file x/y",
        "d0-g: it names no row of figure hash-64",
        "d0-h: no committed record of figure hash-64 has `case=none metric=ns`",
        "d0-i: `burstline lab run dna-bounce` does not make its record, scenario dna-bounce",
        "d0-j: it names rows, but is model",
        "d0-k: `contender=ours` names no metric and no stage",
    ];
    assert_eq!(found.len(), wanted.len(), "{found:?}");
    for (found, wanted) in found.iter().zip(wanted) {
        assert!(found.starts_with(wanted), "{found}");
    }
}

#[test]
fn a_row_is_recorded_only_with_its_metrics_and_stages_in_its_record() {
    let committed = made_up();
    let has = |words: &str| committed.has("numa-rtc", &format!("contender=testpmd {words}"));
    assert!(has("size_bytes=64 metric=mpps metric=rho stage=user stage=interrupts"));
    assert!(has("record=numa-rtc") && has("record=data/numa-rtc"));
    for missing in ["metric=ns", "metric=mpps metric=ns", "stage=poll", "record=full/numa-rtc"] {
        assert!(!has(missing), "{missing}");
    }
    let stage = |cpu_percent| Stage { name: "own poll".to_owned(), cpu_percent, rho: 1.0 };
    assert!(is_stage(&stage(0.1), "own-poll") && !is_stage(&stage(0.1), "poll"));
    assert!(!is_stage(&stage(0.0), "own-poll"));
}

#[test]
fn text_markdown_and_json_have_every_claim() {
    let documents = all();
    let (text, markdown, json) = (text(&documents), markdown(&documents, None), json(&documents));
    let claims = documents.iter().flat_map(|document| &document.claims);
    let listed = json["claims"].as_array().unwrap();
    assert_eq!(listed.len(), claims.clone().count());
    for (claim, listed) in claims.zip(listed) {
        assert!(text.contains(&format!("  {}: ", claim.id)), "{}", claim.id);
        assert_eq!(markdown.matches(&format!("(`{}`)", claim.id)).count(), 1, "{}", claim.id);
        assert_eq!(listed["id"], claim.id);
        assert!(listed["status"].as_str().is_some_and(|status| !status.is_empty()));
    }
    // An unescaped bar in a cell would shift all cells after it.
    for line in markdown.lines().filter(|line| line.starts_with('|')) {
        assert_eq!(line.replace("\\|", "").matches('|').count(), 6, "{line}");
    }
}

#[test]
fn claims_are_marked_without_a_record_of_the_present_code_that_has_their_rows() {
    let record = |path: &str, contender: &str, sources: &[&str]| {
        let mut one = made_up();
        one.path = path.to_owned();
        one.record.scenario = path.rsplit('/').next().unwrap().to_owned();
        one.record.rows[0].contender = contender.to_owned();
        one.record.sources = program_sources(sources);
        one
    };
    let records = [
        record("latest/new", "ours", &FOLDERS),
        record("full/new", "gone", &[]),
        record("full/old", "ours", &[]),
    ];
    let claim = |id: &str, ours: &str, rest: &str| {
        format!("[[claim]]\nid = \"{id}\"\nclaim = \"c\"\nours = \"{ours}\"\n{rest}\n")
    };
    let run = |rows: &str| format!("status = \"run\"\nrows = [{rows}]");
    let claims = [
        claim("d0-new", "figure new", &run("\"contender=ours\"")),
        claim("d0-folder", "scenario old", &run("\"record=latest/new contender=ours\"")),
        claim("d0-other-folder", "figure new", &run("\"record=full/new contender=ours\"")),
        claim("d0-gone", "figure new", &run("\"contender=gone\"")),
        claim("d0-row", "figure new", &run("\"contender=ours\", \"record=old contender=ours\"")),
        claim("d0-model", "scenario new", "status = \"model\""),
        claim("d0-old", "scenario old", "status = \"model\""),
        claim("d0-printed", "printed", "status = \"shown\""),
        claim("d0-not", "scenario old", "status = \"not run because no\""),
    ];
    let documents = [read(&claims.concat()).unwrap()];
    let page = markdown(&documents, Some(&records));
    let lines = page.lines().filter(|line| line.ends_with(" † |"));
    let marked: Vec<&str> = lines.map(|line| line.split('`').nth(1).unwrap()).collect();
    assert_eq!(marked, ["d0-other-folder", "d0-gone", "d0-row", "d0-old"]);
    assert_eq!(page.matches("†: the code").count(), 1);
    assert!(!markdown(&documents, None).contains('†'));
}

#[test]
fn records_are_found_in_every_folder_and_what_is_none_is_named() {
    let runs = TemporaryFolder::create("burstline-runs-").unwrap();
    for folder in ["full", "campaign"] {
        fs::create_dir(runs.path().join(folder)).unwrap();
    }
    fs::write(runs.path().join("campaign/R1.json"), "{}").unwrap();
    fs::write(runs.path().join("README.md"), "no folder").unwrap();
    fs::write(runs.path().join("full/a.json"), made_up().record.to_text()).unwrap();
    let found = committed(runs.path()).unwrap();
    assert_eq!(found.iter().map(|one| &*one.path).collect::<Vec<_>>(), ["full/numa-rtc"]);
    fs::write(runs.path().join("full/b.json"), "{}").unwrap();
    assert!(committed(runs.path()).unwrap_err().contains("full/b.json: "));
    assert!(committed(&runs.path().join("none")).is_err());
}
