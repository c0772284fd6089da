//! Measures queries of flow records: ours over a tree, against nfdump over its own files of the
//! same records.
//!
//! Both create their records from one capture of one-way conversations, so each conversation is one
//! record on either side. To get more records, the files are hard-linked under more names.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use burstline_sys::temporary::TemporaryFolder;

use crate::compared::{Better, Outcome};
use crate::figures::Context;
use crate::figures::count_file::{last_number, run, timed};
use crate::live::is_there;
use crate::programs::{nfpcapd, our_program};

/// Conversations in the capture.
const CONVERSATIONS: u64 = 500_000;
const RECORDS: u64 = 10_000_000;
const RECORDS_FULL: u64 = 100_000_000;

/// `query-nfdump`: time from start to exit.
pub(crate) fn measure(context: &Context) -> Result<Outcome, String> {
    let ours = our_program()?;
    if let Some(program) = ["nfdump", "nfpcapd"].into_iter().find(|program| !is_there(program)) {
        return Ok(Outcome::NotHere(format!("{program} is not installed: scripts/setup rivals")));
    }
    let folder = TemporaryFolder::create("burstline-query-").map_err(|error| error.to_string())?;
    let (conversations, wanted) = match (context.smoke, context.full) {
        (true, _) => (2000, 4000),
        (false, false) => (CONVERSATIONS, RECORDS),
        (false, true) => (CONVERSATIONS, RECORDS_FULL),
    };
    let (tree, theirs) = (folder.path().join("tree"), folder.path().join("nfpcapd"));
    let made = make(&ours, folder.path(), &tree, &theirs, conversations)?;
    let copies = wanted.div_ceil(made);
    for place in [&tree, &theirs] {
        link(place, copies)?;
    }
    let tree = tree.display().to_string();
    let count = ["query", "SELECT count(*) AS n FROM flows", &tree, "--csv"];
    let said = match run(Command::new(&ours).args(count)) {
        Err(error) if error.contains("DuckDB is not installed") => {
            return Ok(Outcome::NotHere("DuckDB is not installed: scripts/setup query".to_owned()));
        }
        said => said?,
    };
    if last_number(&said) != Some(made * copies) {
        return Err(format!("{} records are expected in the tree: {said}", made * copies));
    }
    let comparison = context.begin();
    let rounds = context.turns(
        context.process_runs(),
        || answered(Command::new(&ours).args(["query", "top-talkers", &tree, "--csv"]), 101),
        || answered(nfdump(&theirs).arg("-q"), 101),
    )?;
    let details = vec![
        format!("{} records: {made} of one capture, {copies} times", made * copies),
        "ours: burstline query top-talkers TREE --csv, DuckDB with all cores".to_owned(),
        format!("peer: {:?} -q", nfdump(Path::new("FOLDER"))),
        "wall time of whole processes, files in the page cache; both have counted all records"
            .to_owned(),
    ];
    Ok(comparison.outcome("s", Better::Lower, rounds, details))
}

/// Returns nfdump's form of the query: the 100 addresses with the most bytes.
fn nfdump(folder: &Path) -> Command {
    let mut command = Command::new("nfdump");
    command.arg("-R").arg(folder).args(["-s", "ip/bytes", "-n", "100"]);
    command
}

/// Creates a capture and both kinds of records. Returns their number, which must agree.
fn make(
    ours: &Path,
    folder: &Path,
    tree: &Path,
    theirs: &Path,
    conversations: u64,
) -> Result<u64, String> {
    let capture = folder.join("capture.pcap");
    // Conversations are random, so some have no packet.
    let load = format!("gen:?packets={}&flows={conversations}&size=imix", 2 * conversations);
    run(Command::new(ours).args(["capture", "-q", &load, "-w"]).arg(&capture))?;
    let mut job = Command::new(ours);
    job.arg("flows").arg(&capture).arg("-o").arg(tree);
    job.args(["--sensor", "lab", "--idle", "1h", "--active", "10h", "--json"]);
    let said: serde_json::Value =
        serde_json::from_str(run(&mut job)?.trim()).map_err(|error| error.to_string())?;
    let made = said["flows"]["records"].as_u64().ok_or("no records")?;
    fs::create_dir(theirs).map_err(|error| error.to_string())?;
    let room = (4 * conversations).to_string();
    run(nfpcapd(&capture, theirs).args(["-B", &room, "-e", "3600,1800"]))?;
    let summary = run(&mut nfdump(theirs))?;
    if !summary.contains(&format!("total flows: {made},")) {
        return Err(format!("{made} records in the tree, and nfdump says: {summary}"));
    }
    fs::remove_file(capture).map_err(|error| error.to_string())?;
    Ok(made)
}

/// Links each file below a folder under `copies - 1` more names.
fn link(folder: &Path, copies: u64) -> Result<(), String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
    for file in files(folder).map_err(wrong)? {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for copy in 1..copies {
            let copied = match name.strip_suffix(".parquet") {
                Some(stem) => format!("{stem}-{copy}.parquet"),
                None => format!("{name}.{copy}"),
            };
            fs::hard_link(&file, file.with_file_name(copied)).map_err(wrong)?;
        }
    }
    Ok(())
}

fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_hidden =
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if path.is_dir() {
            found.extend(files(&path)?);
        } else if !is_hidden {
            found.push(path);
        }
    }
    Ok(found)
}

/// Returns the seconds from start to exit of a program that prints at least this many lines.
fn answered(command: &mut Command, lines: usize) -> Result<f64, String> {
    let (seconds, said) = timed(command)?;
    match said.lines().count() >= lines {
        true => Ok(seconds),
        false => Err(format!("{lines} lines are expected: {said}")),
    }
}
