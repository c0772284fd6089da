//! Counts instructions, cache and TLB misses of contenders in memory when the processor's counters
//! are not available: each runs again under cachegrind.
//!
//! Each row's point becomes a separate scenario, which this program runs under valgrind for a few
//! packets and for more. The difference is the work of the packets between.

use std::fs;
use std::path::Path;

use burstline_sys::temporary::TemporaryFolder;

use super::{Scenario, Work};
use crate::contest::go_on;
use crate::instructions::{self, Level, Simulated};
use crate::record::{Metric, Record, Row, Status};
use crate::scenario::options::Options;

/// Packets of the two runs: the second has enough to make the program's start negligible.
const FEW: u64 = 1 << 14;
const MORE: u64 = FEW + (1 << 16);

/// The function of a simulated card's driver that forwards packets.
const DRIVER: &str = "*forward_part*";

/// Page size for a contender that does not report its pages.
const PAGE_BYTES: u64 = 4096;

/// Basis of the metrics.
const BASIS: &str = "simulated";

/// Adds `instructions`, `l1d_misses`, `llc_misses` and `dtlb_misses` per packet to rows of
/// contenders in memory, and notes for those that are not counted.
pub(super) fn add(scenario: &Scenario, options: &Options, record: &mut Record) {
    let why_not = match scenario.work {
        Work::Model => return,
        Work::Keep => Some("the simulated card would be counted, too"),
        work if work.is_live() => Some("they need interfaces"),
        Work::Merge | Work::Spread | Work::Pipeline | Work::Match => {
            Some("their threads wait for each other")
        }
        _ => None,
    };
    if let Some(why) = why_not {
        record
            .notes
            .push(format!("instructions and caches of contenders are not simulated: {why}"));
        if scenario.work == Work::Count {
            record.notes.extend(scenario.sizes.iter().map(|&size| counted(options, size)));
        }
        return;
    }
    let is_run = |row: &&mut Row| row.status == Status::Run;
    for row in record.rows.iter_mut().filter(is_run) {
        let text = scenario_of(scenario, row);
        let found = match scenario.work {
            Work::Dma => of_driver(options, &text),
            _ => of_a_packet(options, |packets, folder| lab_run(&text, packets, folder)),
        };
        match found {
            Ok(figures) => {
                for (name, value) in figures {
                    let metric = Metric::new("per packet", vec![value]).on(BASIS);
                    row.metrics.insert(name.to_owned(), metric);
                }
            }
            Err(why) => {
                let note = format!("{} is not simulated: {why}", row.contender);
                if !record.notes.contains(&note) {
                    record.notes.push(note);
                }
            }
        }
    }
}

/// Describes the counts of our own live count, with generated packets instead of an interface.
fn counted(options: &Options, size_bytes: u32) -> String {
    let of = |packets: u64, _: &Path| {
        let source = format!("gen:?packets={packets}&size={size_bytes}");
        Ok(["count", "--json", &source].map(str::to_owned).to_vec())
    };
    let what = format!("burstline count gen: of {size_bytes} bytes");
    match of_a_packet(options, of) {
        Ok(figures) => {
            let figures = figures.into_iter().map(|(name, value)| format!("{name} {value:.3}"));
            let figures: Vec<String> = figures.collect();
            format!("{what}, simulated, per packet: {}; without the interface", figures.join(", "))
        }
        Err(why) => format!("{what} is not simulated: {why}"),
    }
}

/// Prefix of folder names.
const PREFIX: &str = "burstline-simulate-";

/// Metrics per packet, by name.
type Figures = Vec<(&'static str, f64)>;

/// Returns the metrics per additional packet of a command, which gets a packet count and a folder.
fn of_a_packet(
    options: &Options,
    command: impl Fn(u64, &Path) -> Result<Vec<String>, String>,
) -> Result<Figures, String> {
    let folder = TemporaryFolder::create(PREFIX).map_err(|error| error.to_string())?;
    let run = |packets: u64, level: Level| {
        go_on(&options.stop)?;
        let command = command(packets, folder.path())?;
        let (counts, said) = Simulated::run(&options.program, &command, level)?;
        // A contender finishes a round that it has started.
        let done = metric(&said, "packets").unwrap_or(packets as f64);
        Ok::<_, String>((counts, done, metric(&said, "page_bytes")))
    };
    // Two starts of the program differ by a few misses, so the difference may be negative.
    let each = |more: u64, few: u64, packets: f64| more.saturating_sub(few) as f64 / packets;
    let ((few, few_done, page), (more, more_done, _)) =
        (run(FEW, Level::Caches)?, run(MORE, Level::Caches)?);
    let packets = more_done - few_done;
    if packets <= 0.0 {
        return Err(format!("{more_done} packets in the longer run, {few_done} in the shorter"));
    }
    let tlb = Level::Tlb(page.map_or(PAGE_BYTES, |bytes| bytes as u64));
    let ((few_pages, few_done, _), (more_pages, more_done, _)) = (run(FEW, tlb)?, run(MORE, tlb)?);
    let pages = each(
        more_pages.last_data_misses,
        few_pages.last_data_misses,
        (more_done - few_done).max(1.0),
    );
    Ok(vec![
        ("instructions", each(more.instructions, few.instructions, packets)),
        ("l1d_misses", each(more.first_misses, few.first_misses, packets)),
        ("llc_misses", each(more.last_misses, few.last_misses, packets)),
        ("dtlb_misses", pages),
    ])
}

/// Returns the driver's instructions per packet, without the device's.
fn of_driver(options: &Options, text: &str) -> Result<Figures, String> {
    let folder = TemporaryFolder::create(PREFIX).map_err(|error| error.to_string())?;
    go_on(&options.stop)?;
    let command = lab_run(text, FEW, folder.path())?;
    let (counted, said) = instructions::of_function(&options.program, &command, DRIVER)?;
    let packets = metric(&said, "packets").ok_or("the run did not report its packets")?;
    Ok(vec![("instructions", counted as f64 / packets)])
}

/// Returns a metric from the only row of a printed record.
fn metric(said: &str, name: &str) -> Option<f64> {
    let record = Record::parse(said.lines().next_back()?).ok()?;
    Some(record.rows.first()?.metrics.get(name)?.median)
}

/// Returns a scenario of one contender at one point.
fn scenario_of(scenario: &Scenario, row: &Row) -> String {
    let mut text = format!(
        "name = \"one-point\"\ntitle = \"one point\"\nabout = \"one point\"\nwork = \"{}\"\n\
         contenders = [\"{}\"]\nrepeats = 1\n",
        scenario.work, row.contender
    );
    let case = scenario.work.case_key();
    for (key, list) in [("size_bytes", "sizes"), (case, "cases"), ("placement", "placements")] {
        // Numbers and plain words are the same in TOML and JSON.
        if let Some(value) = row.point.get(key) {
            text += &format!("{list} = [{value}]\n");
        }
    }
    text
}

/// Returns the arguments for one run with this many packets.
fn lab_run(text: &str, packets: u64, folder: &Path) -> Result<Vec<String>, String> {
    let file = folder.join("one-point.toml");
    fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    let (file, folder) = (file.display().to_string(), folder.display().to_string());
    let packets = packets.to_string();
    let words = ["lab", "run", &file, "--packets", &packets, "--out", &folder, "--json", "--quiet"];
    Ok(words.map(str::to_owned).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Point, parse};

    #[test]
    fn a_rows_point_is_a_scenario_that_is_read_and_has_that_point_alone() {
        let text = "name = \"a\"\ntitle = \"t\"\nabout = \"x\"\nwork = \"touch\"\ncontenders = \
                    [\"layout-slots\"]\nsizes = [64, 128]\ncases = [\"256\", \"4096\"]\n";
        let scenario = parse(text).unwrap();
        let record = include_str!("../../tests/data/numa-rtc.json");
        let mut row = Record::parse(record).unwrap().rows.remove(0);
        for point in Point::all(&scenario) {
            row.contender = "layout-slots".to_owned();
            row.point = point.keys.clone();
            let alone = parse(&scenario_of(&scenario, &row)).unwrap();
            assert_eq!((alone.work, &alone.contenders), (scenario.work, &scenario.contenders));
            assert_eq!(Point::all(&alone), [point]);
        }
    }

    #[test]
    fn what_a_run_did_is_in_its_record() {
        let mut record = Record::parse(include_str!("../../tests/data/numa-rtc.json")).unwrap();
        let packets = Metric::new("packets", vec![65_536.0]);
        record.rows[0].metrics.insert("packets".to_owned(), packets);
        let line = serde_json::to_string(&record).unwrap();
        assert_eq!(metric(&format!("first\n{line}\n"), "packets"), Some(65_536.0));
        assert_eq!((metric("{}", "packets"), metric("", "packets")), (None, None));
    }
}
