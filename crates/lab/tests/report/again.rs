//! Checks that docs/records.md's script, which reads records without our code, matches reports.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use burstline_lab::reports;
use burstline_skip::skip;

use crate::fixtures::{Folder, collection_of};

const RECORD: &str = "crates/lab/tests/data/numa-rtc.json";
/// A record of the newest committed run, if there is one.
const COMMITTED: &str = "runs/latest/numa-rtc.json";
const ARGUMENTS: [&str; 3] = ["mpps", "burstline-xdp", "testpmd"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// Returns the text of the first code block of that language.
fn block<'a>(page: &'a str, language: &str) -> &'a str {
    let mark = format!("```{language}\n");
    let from = page.find(&mark).unwrap_or_else(|| panic!("no block of {language}")) + mark.len();
    &page[from..from + page[from..].find("```").unwrap()]
}

/// Returns the script's output for a record, or `None` without python3.
fn printed(script: &Path, record: &Path) -> Option<String> {
    let output = Command::new("python3").arg(script).arg(record).args(ARGUMENTS).output();
    let output = match output {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            skip("python3 is not installed: scripts/setup test");
            return None;
        }
        output => output.unwrap(),
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Returns the cells of the first table after a heading.
fn table(page: &str, heading: &str) -> Vec<Vec<String>> {
    let from = page.find(heading).unwrap_or_else(|| panic!("no {heading}"));
    let lines = page[from..].lines().skip_while(|line| !line.starts_with('|'));
    let cells =
        |line: &str| line.trim_matches('|').split(" | ").map(|c| c.trim().to_owned()).collect();
    lines.take_while(|line| line.starts_with('|')).map(cells).collect()
}

/// Parses a number of the report, without its range and digit grouping.
fn number(cell: &str) -> Option<f64> {
    cell.split(' ').next()?.replace(',', "").parse().ok()
}

fn agree(printed: &str, record: &Path) {
    let report = reports::markdown(&collection_of(record));
    let figures = table(&report, "\n## Receive and count");
    let column = figures[0].iter().position(|head| head == "Mpps").expect("a column of Mpps");
    let theirs = figures[2..].iter().filter_map(|row| Some((&row[0], number(&row[column])?)));
    let (ratio, medians) = printed.trim_end().rsplit_once('\n').map(|(a, b)| (b, a)).unwrap();
    let ours = medians.lines().map(|line| {
        let (rest, value) = line.rsplit_once(' ').unwrap();
        (rest.split(' ').next().unwrap(), value.parse::<f64>().unwrap())
    });
    let (ours, theirs): (Vec<_>, Vec<_>) = (ours.collect(), theirs.collect());
    assert_eq!(ours.len(), theirs.len(), "{printed}\n{report}");
    for ((name, value), (contender, median)) in ours.iter().zip(&theirs) {
        // Both round to four digits, and the report shows at most six decimals.
        assert!((value - median).abs() <= 1e-3 * value.abs(), "{name}: {value} and {median}");
        assert_eq!(name, contender);
    }
    let ratios = table(&report, "\n## Ours against others");
    let is_theirs = |row: &&Vec<String>| row[2] == ARGUMENTS[1] && row[3] == ARGUMENTS[2];
    let said = ratios.iter().find(is_theirs).expect("a ratio of the two");
    let said = said[1].split(' ').next().unwrap();
    assert_eq!(ratio, format!("{} is {said} of {}", ARGUMENTS[1], ARGUMENTS[2]), "{report}");
}

#[test]
fn a_record_looked_at_again_says_what_the_report_says() {
    let page = fs::read_to_string(root().join("docs/records.md")).unwrap();
    let folder = Folder::new("again");
    let script = folder.write("again.py", block(&page, "python"));
    let record = root().join(RECORD);
    let Some(said) = printed(&script, &record) else { return };
    let (command, shown) = block(&page, "console").split_once('\n').unwrap();
    assert_eq!(command, format!("$ python3 again.py {RECORD} {}", ARGUMENTS.join(" ")));
    assert_eq!(shown, said, "docs/records.md shows what the script prints");
    agree(&said, &record);
    let committed: PathBuf = root().join(COMMITTED);
    if committed.is_file() {
        agree(&printed(&script, &committed).unwrap(), &committed);
    }
}
