//! The table of figures, made of records: a line for each figure, columns for each machine.
//!
//! ```text
//!   runs/figures/NAME.json ------\           | figure | AMD EPYC: ours, rival, ratio | ... |
//!   runs/figures-intel/NAME.json -+- Record --> between two marks of a Markdown file
//! ```
//!
//! A ratio stands beside its figures, so that a fast machine does not look like a fast program. It
//! also stands beside the ratio on every other machine, so that the better one is never alone.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

use super::numbers;
use crate::figures::{all, sources_of};
use crate::record::{Metric, Record, Sides};
use crate::sources;

/// What stands before the table in a page, and behind it.
pub const MARKS: [&str; 2] = ["<!-- figures: make figures -->\n", "<!-- end of figures -->\n"];

/// Behind the ratio of a figure whose code has changed since it was measured.
const OLD: &str = " †";

/// The records of a folder that are of a figure, in the order in which figures are measured.
///
/// # Errors
/// A file cannot be read, or holds no record.
pub fn records(folder: &Path) -> Result<Vec<Record>, String> {
    let path = |name: &str| folder.join(format!("{name}.json"));
    let mut records = Vec::new();
    for entry in all() {
        let path = path(&entry.name);
        let fail = |error: String| format!("{}: {error}", path.display());
        match fs::read_to_string(&path) {
            Ok(text) => {
                records.push(Record::parse(&text).map_err(|error| fail(error.to_string()))?)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(fail(error.to_string())),
        }
    }
    Ok(records)
}

/// What was measured of a figure on one machine.
struct Measured<'a> {
    record: &'a Record,
    is_old: bool,
}

/// The table, in Markdown, with what was measured where below it. `root` is the repository: a
/// ratio whose sources there are others than its record says is marked. Of two records of a figure
/// on processors of the same name the newer one counts.
///
/// # Errors
/// A source cannot be read, or a record compares nothing.
pub fn table(records: &[Record], root: &Path) -> Result<String, String> {
    let mut cpus: Vec<&str> = Vec::new();
    for record in records {
        if !cpus.contains(&&record.machine.cpu[..]) {
            cpus.push(&record.machine.cpu);
        }
    }
    let mut text = head(&cpus);
    let (mut is_any_old, mut origins) = (false, BTreeSet::new());
    for name in all().iter().map(|entry| &entry.name[..]) {
        let on = |cpu: &&str| -> Result<Option<Measured<'_>>, String> {
            let is_it = |record: &&Record| record.scenario == name && record.machine.cpu == *cpu;
            let found = records.iter().filter(is_it).max_by_key(|record| &record.started);
            let measured = |record| {
                let is_old = is_old(record, root).map_err(|error| error.to_string())?;
                Ok(Measured { record, is_old })
            };
            found.map(measured).transpose()
        };
        let all: Vec<Option<Measured<'_>>> = cpus.iter().map(on).collect::<Result<_, _>>()?;
        let Some(first) = all.iter().flatten().next() else { continue };
        let cells = all.iter().map(|measured| measured.as_ref().map_or(Ok(NONE.into()), cells));
        let cells = cells.collect::<Result<String, String>>()?;
        let about = first.record.contenders.get(1).map_or("", |rival| &rival.command);
        text += &format!("| `{name}` |{cells} {about} |\n");
        is_any_old |= all.iter().flatten().any(|measured| measured.is_old);
        origins.extend(all.iter().flatten().map(|measured| origin(measured.record)));
    }
    text += "\nMeasured ";
    text += &origins.into_iter().collect::<Vec<_>>().join("; ");
    text += ".";
    if is_any_old {
        text += " †: the code that it measures has changed since.";
    }
    Ok(text + "\n")
}

/// A group of columns for each processor, under its name.
fn head(cpus: &[&str]) -> String {
    let group = |cpu: &&str| format!(" ours, {cpu} | the other side | ratio | cores apart |");
    let groups: String = cpus.iter().map(group).collect();
    let rules = "---|".repeat(2 + 4 * cpus.len());
    format!("| figure |{groups} the other side is |\n|{rules}\n")
}

/// The group of a machine on which the figure was not measured.
const NONE: &str = " | | | |";

/// A figure's group on one machine.
fn cells(measured: &Measured<'_>) -> Result<String, String> {
    let Measured { record, is_old } = measured;
    let Sides { comparison, ours, rival } =
        record.compared().ok_or_else(|| format!("{} compares nothing", record.scenario))?;
    Ok(format!(
        " {} | {} | {}{} | {} |",
        value(record, &comparison.ours, ours),
        value(record, &comparison.rival, rival),
        numbers::ratio(comparison.ratio),
        if *is_old { OLD } else { "" },
        comparison.distance.map_or(String::new(), |distance| distance.to_string())
    ))
}

/// A page with another table between its marks; `None` where it has no marks.
pub fn inserted(page: &str, table: &str) -> Option<String> {
    let (before, rest) = page.split_once(MARKS[0])?;
    let (_, after) = rest.split_once(MARKS[1])?;
    Some(format!("{before}{}{table}{}{after}", MARKS[0], MARKS[1]))
}

/// A side's median, and where it is known on how many cores and for each second of their time.
fn value(record: &Record, contender: &str, metric: &Metric) -> String {
    let row = record.rows.iter().find(|row| row.contender == contender);
    let other = |name: &str| row.and_then(|row| row.metrics.get(name)).map(|of| of.median);
    let mut text = format!("{} {}", numbers::value(metric.median), metric.unit);
    if let (Some(cores), Some(per_cpu)) = (other("cores"), other("mpps_per_cpu_s")) {
        // As above.
        let _ = write!(text, " on {cores:.2} cores, {} a core", numbers::value(per_cpu));
    }
    text
}

fn origin(record: &Record) -> String {
    let machine = &record.machine;
    let day = record.started.split('T').next().unwrap_or_default();
    format!(
        "{day} on {}, Linux {}, at commit {}",
        machine.cpu,
        machine.kernel,
        record.commit.as_deref().unwrap_or("unknown")
    )
}

fn is_old(record: &Record, root: &Path) -> io::Result<bool> {
    let known = record.comparison.as_ref().map(|comparison| &comparison.sources);
    for folder in sources_of(&record.scenario) {
        let number = sources::number_of(root, folder)?;
        if known.and_then(|known| known.get(folder)) != Some(&number) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contenders::Sample;
    use crate::record::{Comparison, ContenderInfo, Machine, Row};

    fn record(name: &str, cpu: &str, started: &str, ours: f64) -> Record {
        let row = |contender: &str, value: f64| {
            let mut sample = Sample::default();
            sample.set("mpps", "Mpps", value);
            Row::of(contender, &[sample])
        };
        let rival = ContenderInfo { command: "a pool".to_owned(), ..ContenderInfo::default() };
        Record {
            scenario: name.to_owned(),
            started: started.to_owned(),
            machine: Machine { cpu: cpu.to_owned(), ..Machine::default() },
            rows: vec![row("ours", ours), row("pool", 10.0)],
            contenders: vec![ContenderInfo::default(), rival],
            comparison: Some(Comparison {
                metric: "mpps".to_owned(),
                ours: "ours".to_owned(),
                rival: "pool".to_owned(),
                ratio: ours / 10.0,
                ..Comparison::default()
            }),
            ..Record::default()
        }
    }

    #[test]
    fn each_machine_has_its_columns_and_the_newer_record_counts() {
        let records = [
            record("handoff-1514", "A", "2026-11-02T", 30.0),
            record("handoff-60", "A", "2026-11-02T", 20.0),
            record("handoff-60", "B", "2026-11-01T", 5.0),
            record("handoff-60", "B", "2026-11-03T", 7.0),
        ];
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let table = table(&records, &root).unwrap();
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].contains("| ours, A | the other side | ratio | cores apart | ours, B |"));
        assert_eq!(lines[1].matches("---|").count(), lines[0].matches('|').count() - 1);
        let expected = "| `handoff-60` | 20 Mpps | 10 Mpps | 2.00 † |  | 7 Mpps | 10 Mpps | 0.70 † \
                        |  | a pool |";
        assert_eq!(lines[2], expected);
        let expected = "| `handoff-1514` | 30 Mpps | 10 Mpps | 3.00 † |  | | | | | a pool |";
        assert_eq!((lines[3], lines.len()), (expected, 6));
        assert!(lines[5].contains("on A") && lines[5].contains("on B"), "{}", lines[5]);
        let nothing = Record { comparison: None, ..records[0].clone() };
        assert!(super::table(&[nothing], &root).unwrap_err().contains("compares nothing"));
    }

    #[test]
    fn a_table_goes_between_the_marks_and_nowhere_else() {
        let readme = format!("a\n{}old\n{}b\n", MARKS[0], MARKS[1]);
        let expected = format!("a\n{}new\n{}b\n", MARKS[0], MARKS[1]);
        assert_eq!(inserted(&readme, "new\n"), Some(expected));
        assert_eq!(inserted("a\nb\n", "new\n"), None);
    }
}
