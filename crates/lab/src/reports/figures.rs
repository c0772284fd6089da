//! The table of figures in README, made of records.
//!
//! ```text
//!   runs/figures/NAME.json --Record--> a line each --table--> between two marks of README
//! ```

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

use super::numbers;
use crate::figures::{all, sources_of};
use crate::record::{Metric, Record};
use crate::sources;

/// What stands before the table in README, and behind it.
pub const MARKS: [&str; 2] = ["<!-- figures: make figures -->\n", "<!-- end of figures -->\n"];

/// Behind the name of a figure whose code has changed since it was measured.
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

/// The table, in Markdown, with what was measured where below it. `root` is the repository: a
/// figure whose sources there are others than its record says is marked.
///
/// # Errors
/// A source cannot be read, or a record compares nothing.
pub fn table(records: &[Record], root: &Path) -> Result<String, String> {
    let mut text = "| figure | ours | the other side | ratio | cores apart | the other side is |\n\
                    |---|---|---|---|---|---|\n"
        .to_owned();
    let mut is_any_old = false;
    let mut origins = BTreeSet::new();
    for record in records {
        let name = &record.scenario;
        let (comparison, ours, rival) =
            record.compared().ok_or_else(|| format!("{name} compares nothing"))?;
        let is_old = is_old(record, root).map_err(|error| error.to_string())?;
        is_any_old |= is_old;
        let apart = comparison.distance.map_or(String::new(), |distance| {
            format!("{:.0} to {:.0} ns", distance.before_ns, distance.after_ns)
        });
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "| `{name}`{} | {} | {} | {} | {apart} | {} |",
            if is_old { OLD } else { "" },
            value(record, &comparison.ours, ours),
            value(record, &comparison.rival, rival),
            numbers::ratio(comparison.ratio),
            record.contenders.get(1).map_or("", |rival| &rival.command)
        );
        origins.insert(origin(record));
    }
    text += "\nMeasured ";
    text += &origins.into_iter().collect::<Vec<_>>().join("; ");
    text += ".";
    if is_any_old {
        text += " †: the code that it measures has changed since.";
    }
    Ok(text + "\n")
}

/// A README with another table between its marks; `None` where it has no marks.
pub fn inserted(readme: &str, table: &str) -> Option<String> {
    let (before, rest) = readme.split_once(MARKS[0])?;
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

    #[test]
    fn a_table_goes_between_the_marks_and_nowhere_else() {
        let readme = format!("a\n{}old\n{}b\n", MARKS[0], MARKS[1]);
        let expected = format!("a\n{}new\n{}b\n", MARKS[0], MARKS[1]);
        assert_eq!(inserted(&readme, "new\n"), Some(expected));
        assert_eq!(inserted("a\nb\n", "new\n"), None);
    }
}
