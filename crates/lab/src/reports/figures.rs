//! Creates the table of figures from records: a line per figure, a group of columns per machine.
//!
//! ```text
//!   runs/figures/NAME.json ------\           | figure | AMD EPYC: ours, rival, ratio | ... |
//!   runs/figures-intel/NAME.json -+- Record --> between two marks of a Markdown file
//!   runs/far/NAME.json ----------/
//! ```
//!
//! Each ratio is shown with its figures, so that a fast machine does not look like a fast program.
//! It is shown beside the ratios of all other machines, so the better one never appears alone. If
//! the figure was also measured while the cores were far apart, that ratio is shown, too.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

use super::numbers;
use crate::figures::{all, sources_of};
use crate::record::{Distance, Metric, Record, Sides};
use crate::sources;

/// Marks before and after the table in a page.
pub const MARKS: [&str; 2] = ["<!-- figures: make figures -->\n", "<!-- end of figures -->\n"];

/// The unit of rates per wall time.
const MPPS: &str = "Mpps";

/// Mark for the ratio of a figure whose code has changed since its measurement.
const OLD: &str = " †";

/// Returns the figure records of a folder, in the order of measurement.
///
/// # Errors
/// If a file cannot be read or contains no record.
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

/// The records of a figure on one machine.
struct Measured<'a> {
    near: One<'a>,
    /// The record with cores far apart, if `near` is another one.
    far: Option<One<'a>>,
}

/// One measurement.
struct One<'a> {
    record: &'a Record,
    is_old: bool,
}

impl<'a> Measured<'a> {
    /// Selects from all records of a figure on a machine; `None` if there are none.
    fn of(all: &[&'a Record], root: &Path) -> Result<Option<Self>, String> {
        let newest = |is_far: bool| {
            let such = all.iter().filter(|record| record.is_far() == is_far);
            such.max_by_key(|record| &record.started)
        };
        let one = |record: &&'a Record| {
            let is_old = is_old(record, root).map_err(|error| error.to_string())?;
            Ok::<_, String>(One { record, is_old })
        };
        let (near, far) = (newest(false), newest(true));
        let Some(shown) = near.or(far) else { return Ok(None) };
        let far = far.filter(|_| near.is_some()).map(one).transpose()?;
        Ok(Some(Self { near: one(shown)?, far }))
    }

    fn each(&self) -> impl Iterator<Item = &One<'a>> {
        [&self.near].into_iter().chain(&self.far)
    }
}

/// Formats the table in Markdown, with the origin of the records below it. `root` is the
/// repository: ratios whose sources have changed since the record are marked. Of two records of a
/// figure on the same processor model with cores both near or both far, the newer one counts.
///
/// # Errors
/// If a source cannot be read or a record compares nothing.
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
            Measured::of(&records.iter().filter(is_it).collect::<Vec<_>>(), root)
        };
        let all: Vec<Option<Measured<'_>>> = cpus.iter().map(on).collect::<Result<_, _>>()?;
        let Some(first) = all.iter().flatten().next() else { continue };
        let cells = all.iter().map(|measured| measured.as_ref().map_or(Ok(NONE.into()), cells));
        let cells = cells.collect::<Result<String, String>>()?;
        let about = first.near.record.contenders.get(1).map_or("", |rival| &rival.command);
        text += &format!("| `{name}` |{cells} {about} |\n");
        let each = || all.iter().flatten().flat_map(Measured::each);
        is_any_old |= each().any(|one| one.is_old);
        origins.extend(each().map(|one| origin(one.record)));
    }
    text += "\nMeasured ";
    text += &origins.into_iter().collect::<Vec<_>>().join("; ");
    text += ".";
    if is_any_old {
        text += " †: the code that it measures has changed since.";
    }
    Ok(text + "\n")
}

/// Returns the header: a group of columns for each processor.
fn head(cpus: &[&str]) -> String {
    let group = |cpu: &&str| {
        format!(" ours, {cpu} | the other side | ratio | cores apart | ratio, cores far apart |")
    };
    let groups: String = cpus.iter().map(group).collect();
    let rules = "---|".repeat(2 + 5 * cpus.len());
    format!("| figure |{groups} the other side is |\n|{rules}\n")
}

/// The group of a machine without a record of the figure.
const NONE: &str = " | | | | |";

/// Returns a figure's cells for one machine.
fn cells(measured: &Measured<'_>) -> Result<String, String> {
    let record = measured.near.record;
    let Sides { comparison, ours, rival } =
        record.compared().ok_or_else(|| format!("{} compares nothing", record.scenario))?;
    let [near, far] = [Some(&measured.near), measured.far.as_ref()].map(|one| {
        let (ratio, apart) = one.and_then(One::ratio)?;
        Some((ratio, apart.map_or(String::new(), |distance| distance.to_string())))
    });
    let (ratio, apart) = near.unwrap_or_default();
    Ok(format!(
        " {} | {} | {ratio} | {apart} | {} |",
        value(record, &comparison.ours, ours),
        value(record, &comparison.rival, rival),
        far.map_or(String::new(), |(ratio, apart)| format!("{ratio} at {apart}"))
    ))
}

impl One<'_> {
    /// Returns the ratio, marked if it is old, and the distance of the cores.
    fn ratio(&self) -> Option<(String, Option<Distance>)> {
        let comparison = self.record.comparison.as_ref()?;
        let mark = if self.is_old { OLD } else { "" };
        Some((numbers::ratio(comparison.ratio) + mark, comparison.distance))
    }
}

/// Replaces the table between a page's marks; `None` if it has no marks.
pub fn inserted(page: &str, table: &str) -> Option<String> {
    let (before, rest) = page.split_once(MARKS[0])?;
    let (_, after) = rest.split_once(MARKS[1])?;
    Some(format!("{before}{}{table}{}{after}", MARKS[0], MARKS[1]))
}

/// Formats a side's median, with the number of cores and the rate per second of core time if known.
/// If the metric is not a rate per wall time, that rate is added.
fn value(record: &Record, contender: &str, metric: &Metric) -> String {
    let row = record.rows.iter().find(|row| row.contender == contender);
    let other = |name: &str| row.and_then(|row| row.metrics.get(name)).map(|of| of.median);
    let mut text = format!("{} {}", numbers::value(metric.median), metric.unit);
    if let (Some(cores), Some(per_cpu)) = (other("cores"), other("mpps_per_cpu_s")) {
        // Cannot fail, as above.
        let _ = write!(text, " on {cores:.2} cores, {} a core", numbers::value(per_cpu));
    }
    if let Some(mpps) = other("mpps").filter(|_| metric.unit != MPPS) {
        let _ = write!(text, ", {} {MPPS} by the clock", numbers::value(mpps));
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
        let head = "| ours, A | the other side | ratio | cores apart | ratio, cores far apart | \
                    ours, B |";
        assert!(lines[0].contains(head), "{}", lines[0]);
        assert_eq!(lines[1].matches("---|").count(), lines[0].matches('|').count() - 1);
        let expected = "| `handoff-60` | 20 Mpps | 10 Mpps | 2.00 † |  |  | 7 Mpps | 10 Mpps \
                        | 0.70 † |  |  | a pool |";
        assert_eq!(lines[2], expected);
        let expected = "| `handoff-1514` | 30 Mpps | 10 Mpps | 3.00 † |  |  | | | | | | a pool |";
        assert_eq!((lines[3], lines.len()), (expected, 6));
        assert!(lines[5].contains("on A") && lines[5].contains("on B"), "{}", lines[5]);
        let nothing = Record { comparison: None, ..records[0].clone() };
        assert!(super::table(&[nothing], &root).unwrap_err().contains("compares nothing"));
    }

    #[test]
    fn a_ratio_of_far_cores_stands_beside_that_of_near_ones() {
        let at = |mut record: Record, ns| {
            let distance = Distance { cores: [0, 1], before_ns: ns, after_ns: ns };
            record.comparison.as_mut().unwrap().distance = Some(distance);
            record
        };
        let near = at(record("handoff-60", "A", "2026-11-02T", 20.0), 55.0);
        let far = at(record("handoff-60", "A", "2026-11-03T", 5.0), 270.0);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let row = |records: &[Record]| {
            super::table(records, &root).unwrap().lines().nth(2).unwrap().to_owned()
        };
        let both = "| 2.00 † | 55 to 55 ns | 0.50 † at 270 to 270 ns |";
        assert!(row(&[near, far.clone()]).contains(both));
        assert!(row(&[far]).contains("| 0.50 † | 270 to 270 ns |  |"), "there is no other");
    }

    #[test]
    fn what_is_not_by_the_clock_stands_beside_what_is() {
        let mut record = record("bounce-64", "A", "2026-11-02T", 20.0);
        record.rows[0].metrics.insert("busy".to_owned(), Metric::new("M/busy s", vec![9.0]));
        let of = |name: &str| value(&record, "ours", &record.rows[0].metrics[name]);
        assert_eq!(of("busy"), "9 M/busy s, 20 Mpps by the clock");
        assert_eq!(of("mpps"), "20 Mpps");
    }

    #[test]
    fn a_table_goes_between_the_marks_and_nowhere_else() {
        let readme = format!("a\n{}old\n{}b\n", MARKS[0], MARKS[1]);
        let expected = format!("a\n{}new\n{}b\n", MARKS[0], MARKS[1]);
        assert_eq!(inserted(&readme, "new\n"), Some(expected));
        assert_eq!(inserted("a\nb\n", "new\n"), None);
    }
}
