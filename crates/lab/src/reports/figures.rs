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
use crate::figures::all;
use crate::record::{Metric, OLD_MEANS, Record, Sides};

/// Marks before and after the table in a page.
pub const MARKS: [&str; 2] = ["<!-- figures: make figures -->\n", "<!-- end of figures -->\n"];
/// What stands around README's table.
pub const SHORT_MARKS: [&str; 2] =
    ["<!-- six figures: make figures -->\n", "<!-- end of six figures -->\n"];
/// The figures of README's table. One of them is a loss.
const SHORT: [&str; 6] = [
    "count-file-tcpdump",
    "capture-tcpdump",
    "record-dd",
    "dpdk-pipeline-60",
    "xdp-rx-testpmd",
    "share-readers-4",
];

/// The unit of rates per wall time.
const MPPS: &str = "Mpps";
const GBIT_OF_BUSY: &str = "Gbit/busy s";

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
    near: &'a Record,
    /// The record with cores far apart, if `near` is another one.
    far: Option<&'a Record>,
}

impl<'a> Measured<'a> {
    /// Finds the records of a figure on a machine; `None` if there are none.
    fn find(records: &'a [Record], name: &str, cpu: &str) -> Option<Self> {
        let is_it = |record: &&Record| record.scenario == name && record.machine.cpu == cpu;
        let all: Vec<&Record> = records.iter().filter(is_it).collect();
        let newest = |is_far: bool| {
            let such = all.iter().copied().filter(|record| record.is_far() == is_far);
            such.max_by_key(|record| &record.started)
        };
        let (near, far) = (newest(false), newest(true));
        Some(Self { near: near.or(far)?, far: far.filter(|_| near.is_some()) })
    }

    /// What the other side is.
    fn about(&self) -> &str {
        self.near.contenders.get(1).map_or("", |rival| &rival.command)
    }

    fn each(&self) -> impl Iterator<Item = &'a Record> {
        [self.near].into_iter().chain(self.far)
    }
}

/// Formats the table in Markdown, with the origin of the records below it. Ratios of old records
/// are marked. Of two records of a figure on the same processor model with cores both near or both
/// far, the newer one counts.
///
/// # Errors
/// If a record compares nothing.
pub fn table(records: &[Record]) -> Result<String, String> {
    let cpus = processors(records.iter());
    let mut text = head(&cpus);
    let mut origins = Origins::default();
    for name in all().iter().map(|entry| &entry.name[..]) {
        let on = |cpu: &&str| Measured::find(records, name, cpu);
        let all: Vec<Option<Measured<'_>>> = cpus.iter().map(on).collect();
        let Some(first) = all.iter().flatten().next() else { continue };
        let cells = all.iter().map(|measured| measured.as_ref().map_or(Ok(NONE.into()), cells));
        let cells = cells.collect::<Result<String, String>>()?;
        let about = first.about();
        text += &format!("| `{name}` |{cells} {about} |\n");
        all.iter().flatten().for_each(|measured| origins.add(measured));
    }
    Ok(text + &origins.line())
}

/// Returns the processors of these records, each once.
fn processors<'a>(records: impl Iterator<Item = &'a Record>) -> Vec<&'a str> {
    let mut cpus: Vec<&str> = Vec::new();
    for record in records {
        if !cpus.contains(&&record.machine.cpu[..]) {
            cpus.push(&record.machine.cpu);
        }
    }
    cpus
}

/// README's table, in Markdown: six figures, with a ratio for each machine that has one of them.
///
/// # Errors
/// As for [`table`], and if none of them has a record.
fn short_table(records: &[Record]) -> Result<String, String> {
    let is_shown = |record: &&Record| SHORT.contains(&&record.scenario[..]);
    let cpus = processors(records.iter().filter(is_shown));
    let [first, others @ ..] = &cpus[..] else {
        return Err("no record of a figure of the short table".to_owned());
    };
    let ratio = |cpu: &&str| format!(" ratio, {} (ours; the other side) |", model(cpu));
    let ratios: String = others.iter().map(ratio).collect();
    let (first, rules) = (model(first), "---|".repeat(5 + others.len()));
    let mut text = format!(
        "| `make bench FIGURE=` | ours, {first} | the other side | ratio, {first} |{ratios} \
         the other side is |\n|{rules}\n"
    );
    let mut origins = Origins::default();
    for entry in SHORT.iter().filter_map(|name| all().iter().find(|entry| entry.name == *name)) {
        let mut cells = String::new();
        for (place, cpu) in cpus.iter().enumerate() {
            let measured = Measured::find(records, &entry.name, cpu);
            cells += &short_cells(measured.as_ref(), place == 0)?;
            measured.iter().for_each(|measured| origins.add(measured));
        }
        text += &format!("| `{}` |{cells} {} |\n", entry.name, entry.about);
    }
    Ok(text + &origins.line())
}

/// Returns a machine's cells of README's table. Only the first machine has columns for both sides.
fn short_cells(measured: Option<&Measured<'_>>, is_first: bool) -> Result<String, String> {
    let Some(measured) = measured else {
        return Ok(" not measured |".repeat(if is_first { 3 } else { 1 }));
    };
    let Cells { ours, rival, ratio, far, .. } = Cells::of(measured)?;
    let far = if far.is_empty() { far } else { format!("; {far} with cores far apart") };
    Ok(match is_first {
        true => format!(" {ours} | {rival} | {ratio}{far} |"),
        false => format!(" {ratio} ({ours}; {rival}){far} |"),
    })
}

/// Returns a processor's name without what says nothing: `Intel Xeon`.
fn model(cpu: &str) -> String {
    let name = cpu.replace("(R)", "").replace("(TM)", "");
    let words = name.split(" @").next().unwrap_or_default().split_whitespace();
    words.filter(|word| !["CPU", "Processor"].contains(word)).collect::<Vec<_>>().join(" ")
}

/// When and where figures of a table were measured.
#[derive(Default)]
struct Origins {
    all: BTreeSet<String>,
    is_any_old: bool,
}

impl Origins {
    fn add(&mut self, measured: &Measured<'_>) {
        self.is_any_old |= measured.each().any(Record::is_old);
        self.all.extend(measured.each().map(origin));
    }

    /// An empty line, and the line below a table.
    fn line(self) -> String {
        let all = self.all.into_iter().collect::<Vec<_>>().join("; ");
        let old = match self.is_any_old {
            true => format!(" {OLD_MEANS}"),
            false => String::new(),
        };
        format!("\nMeasured {all}.{old}\n")
    }
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
    let Cells { ours, rival, ratio, apart, far, far_apart } = Cells::of(measured)?;
    let far = if far.is_empty() { far } else { format!("{far} at {far_apart}") };
    Ok(format!(" {ours} | {rival} | {ratio} | {apart} | {far} |"))
}

/// What there is to say of a figure on one machine, in words.
struct Cells {
    ours: String,
    rival: String,
    ratio: String,
    /// How far the cores were apart.
    apart: String,
    /// The same with cores far apart; empty if it was not measured.
    far: String,
    far_apart: String,
}

impl Cells {
    fn of(measured: &Measured<'_>) -> Result<Self, String> {
        let record = measured.near;
        let Sides { comparison, ours, rival } =
            record.compared().ok_or_else(|| format!("{} compares nothing", record.scenario))?;
        let cells = |record: &Record| {
            let comparison = record.comparison.as_ref()?;
            let apart = comparison.distance.map_or(String::new(), |distance| distance.to_string());
            Some((numbers::ratio(comparison.ratio) + record.mark(), apart))
        };
        let (ratio, apart) = cells(record).unwrap_or_default();
        let (far, far_apart) = measured.far.and_then(cells).unwrap_or_default();
        Ok(Self {
            ours: value(record, &comparison.ours, ours),
            rival: value(record, &comparison.rival, rival),
            ratio,
            apart,
            far,
            far_apart,
        })
    }
}

/// A page with a new table between its marks, which say which table; `None` where it has no marks.
///
/// # Errors
/// As for [`table`].
pub fn renewed(page: &str, records: &[Record]) -> Result<Option<String>, String> {
    if page.contains(SHORT_MARKS[0]) {
        return Ok(inserted(page, &short_table(records)?, SHORT_MARKS));
    }
    match page.contains(MARKS[0]) {
        true => Ok(inserted(page, &table(records)?, MARKS)),
        false => Ok(None),
    }
}

fn inserted(page: &str, table: &str, marks: [&str; 2]) -> Option<String> {
    let (before, rest) = page.split_once(marks[0])?;
    let (_, after) = rest.split_once(marks[1])?;
    Some(format!("{before}{}{table}{}{after}", marks[0], marks[1]))
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
    if let Some(gbps) = other("gbps").filter(|_| metric.unit == GBIT_OF_BUSY) {
        let _ = write!(text, ", {} Gbit/s by the clock", numbers::value(gbps));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contenders::Sample;
    use crate::figures::sources_of;
    use crate::record::{Comparison, ContenderInfo, Distance, Machine, Row, program_sources};

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
        let table = table(&records).unwrap();
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
        assert!(super::table(&[nothing]).unwrap_err().contains("compares nothing"));
    }

    fn at(mut record: Record, ns: f64) -> Record {
        let distance = Distance { cores: [0, 1], before_ns: ns, after_ns: ns };
        record.comparison.as_mut().unwrap().distance = Some(distance);
        record
    }

    #[test]
    fn the_short_table_has_a_ratio_for_each_machine_with_one_of_its_figures() {
        let intel = "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz";
        let records = [
            // It is not in the short table.
            record("handoff-60", "Z", "2026-11-02T", 20.0),
            record("record-dd", "A", "2026-11-02T", 20.0),
            at(record("dpdk-pipeline-60", "A", "2026-11-02T", 20.0), 55.0),
            at(record("dpdk-pipeline-60", "A", "2026-11-03T", 40.0), 270.0),
            record("record-dd", intel, "2026-11-02T", 5.0),
            record("share-readers-4", intel, "2026-11-02T", 7.0),
        ];
        let table = short_table(&records).unwrap();
        let head = "| ours, A | the other side | ratio, A \
                    | ratio, Intel Xeon Platinum 8481C (ours; the other side) |";
        assert!(table.lines().next().unwrap().contains(head), "{table}");
        let rows: Vec<&str> = table.lines().filter(|line| line.starts_with('|')).collect();
        let columns = |row: &&str| row.matches('|').count() == 7;
        assert!(rows.len() == 8 && rows.iter().all(columns), "{table}");
        let lacking = "| not measured | not measured | not measured |";
        for row in [
            "| `record-dd` | 20 Mpps | 10 Mpps | 2.00 † | 0.50 † (5 Mpps; 10 Mpps) |",
            "| 20 Mpps | 10 Mpps | 2.00 †; 4.00 † with cores far apart | not measured |",
            &format!("| `share-readers-4` {lacking} 0.70 † (7 Mpps; 10 Mpps) |"),
            &format!("| `capture-tcpdump` {lacking} not measured |"),
        ] {
            assert!(table.contains(row), "{row}: {table}");
        }
        assert!(short_table(&records[..1]).is_err());
    }

    #[test]
    fn a_ratio_of_far_cores_stands_beside_that_of_near_ones() {
        let near = at(record("handoff-60", "A", "2026-11-02T", 20.0), 55.0);
        let far = at(record("handoff-60", "A", "2026-11-03T", 5.0), 270.0);
        let row = |records: &[Record]| table(records).unwrap().lines().nth(2).unwrap().to_owned();
        let both = "| 2.00 † | 55 to 55 ns | 0.50 † at 270 to 270 ns |";
        assert!(row(&[near, far.clone()]).contains(both));
        assert!(row(&[far]).contains("| 0.50 † | 270 to 270 ns |  |"), "there is no other");
    }

    #[test]
    fn a_ratio_of_the_present_code_has_no_mark() {
        let mut new = record("handoff-60", "A", "2026-11-02T", 20.0);
        new.sources = program_sources(&sources_of("handoff-60"));
        assert!(!table(&[new.clone()]).unwrap().contains('†'));
        new.sources.insert("crates/log".to_owned(), "0".to_owned());
        assert!(table(&[new]).unwrap().contains(OLD_MEANS));
    }

    #[test]
    fn what_is_not_by_the_clock_stands_beside_what_is() {
        let mut record = record("bounce-64", "A", "2026-11-02T", 20.0);
        record.rows[0].metrics.insert("busy".to_owned(), Metric::new("M/busy s", vec![9.0]));
        let of = |name: &str| value(&record, "ours", &record.rows[0].metrics[name]);
        assert_eq!(of("busy"), "9 M/busy s, 20 Mpps by the clock");
        assert_eq!(of("mpps"), "20 Mpps");
        let metrics = &mut record.rows[0].metrics;
        metrics.clear();
        metrics.insert("gbps".to_owned(), Metric::new("Gbit/s", vec![8.0]));
        metrics.insert("busy".to_owned(), Metric::new(GBIT_OF_BUSY, vec![5.0]));
        let busy = value(&record, "ours", &record.rows[0].metrics["busy"]);
        assert_eq!(busy, "5 Gbit/busy s, 8 Gbit/s by the clock");
    }

    #[test]
    fn a_table_goes_between_the_marks_and_nowhere_else() {
        let readme = format!("a\n{}old\n{}b\n", MARKS[0], MARKS[1]);
        let expected = format!("a\n{}new\n{}b\n", MARKS[0], MARKS[1]);
        assert_eq!(inserted(&readme, "new\n", MARKS), Some(expected));
        assert_eq!(inserted("a\nb\n", "new\n", MARKS), None);
        assert_eq!(renewed("a\nb\n", &[]), Ok(None));
    }
}
