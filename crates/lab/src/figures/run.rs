//! Measures a selected figure and creates its record.

use super::entry::{Entry, sources_of, version_of};
use super::{Context, Had};
use crate::compared::{Compared, OURS, Outcome, Side};
use crate::contenders::Sample;
use crate::readiness::why_then_fix;
use crate::record::{
    Chart, Comparison, ContenderInfo, Distance, Doubt, Pages, Record, Row, program_sources,
};
use crate::scenario::Begun;
use crate::scenario::run::distance::Look;
use crate::scenario::run::one_line;
use crate::threads::Cores;

/// Prefix of a doubt among a figure's details.
const DOUBT: &str = "doubt: ";

/// The pages of programs that ended too soon.
const UNSEEN: &str = "unknown: no process of it was seen";

/// The pages of a part of the kernel, or of a further contender that does not report them.
const UNWATCHED: &str = "unknown: nobody looked";

/// The outcome of a selected figure.
#[derive(Clone, Debug)]
pub enum Done {
    /// It was measured.
    Measured(Box<Record>),
    /// It ran at tiny sizes, and both sides agreed.
    Smoke,
    /// This machine lacks something. Holds what, and the fix.
    NotHere(String),
    /// It failed.
    Failed(String),
}

/// Measures a figure; `command` is the command line.
pub fn run(entry: &'static Entry, context: &Context, command: &str) -> Done {
    let begun = Begun::now();
    let Cores { producer, consumer } = context.cores;
    // A smoke run has no figures.
    let before = (!context.smoke).then(|| Look::between([producer, consumer])).flatten();
    let measured = entry.measure(context);
    // Of a figure that failed, too: the next one has its own.
    let seen = std::mem::take(&mut *context.seen.lock());
    let compared = match measured {
        Ok(Outcome::Measured(compared)) => compared,
        Ok(Outcome::Smoke) => return Done::Smoke,
        Ok(Outcome::NotHere(why)) => return Done::NotHere(why),
        Err(why) => return Done::Failed(why),
    };
    let distance = before.and_then(Look::again);
    let record = record(entry, begun.record(&entry.name, command), compared, distance);
    Done::Measured(Box::new(with(seen, record)))
}

/// Adds what was seen of turns that do not say it.
fn with(seen: Had, mut record: Record) -> Record {
    if record.interfaces.is_empty() {
        record.interfaces = seen.interfaces;
    }
    for (number, side) in record.contenders.iter_mut().enumerate() {
        if side.pages.is_none() && side.page_kinds.is_none() {
            let seen = seen.pages.get(number).copied().flatten();
            side.pages = seen.filter(|pages| *pages != Pages::default());
            let why = if seen.is_some() { UNSEEN } else { UNWATCHED };
            side.page_kinds = side.pages.is_none().then(|| why.to_owned());
        }
    }
    record
}

/// Formats the outcome of all selected figures: how many ran, and for each of the others the reason
/// and what to do. That is the fix, or for a figure that failed the command that runs it alone:
/// `alone` and its name.
pub fn table(all: &[(&str, Done)], alone: &str) -> String {
    let is_run = |done: &Done| matches!(done, Done::Measured(_) | Done::Smoke);
    let ran = all.iter().filter(|(_, done)| is_run(done)).count();
    let mut text = format!("ran {ran} of {} figures\n", all.len());
    let wide = all.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, done) in all {
        text += &match done {
            Done::NotHere(why) => format!("not run  {name:wide$}  {}\n", why_then_fix(why)),
            Done::Failed(why) => {
                format!("failed   {name:wide$}  {}  alone: {alone} {name}\n", one_line(why))
            }
            Done::Measured(_) | Done::Smoke => continue,
        };
    }
    text
}

/// Fills in the results.
fn record(
    entry: &'static Entry,
    mut record: Record,
    compared: Compared,
    distance: Option<Distance>,
) -> Record {
    let Compared { sides, metric, better, details } = compared.named([OURS, &entry.rival]);
    record.title = format!("Figure {}: ours beside {}", record.scenario, sides[1].contender);
    record.about = "A figure of the bench: both sides take turns in one process, after one \
                    warm-up turn each."
        .to_owned();
    record.rows = sides.iter().map(|side| Row::of(side.contender, &side.samples)).collect();
    record.contenders = sides.iter().map(|side| info(side, entry)).collect();
    record.interfaces = Sample::first_interfaces(sides.iter().flat_map(|side| &side.samples));
    let median = |row: &Row| row.metrics.get(metric).map_or(f64::NAN, |of| of.median);
    let unit = record.rows[0].metrics.get(metric).map(|of| of.unit.clone()).unwrap_or_default();
    record.chart = Chart {
        kind: "bars".to_owned(),
        x: "contender".to_owned(),
        y: metric.to_owned(),
        series: "contender".to_owned(),
        y_label: unit,
        x_label: String::new(),
    };
    record.sources = program_sources(&sources_of(&record.scenario));
    record.comparison = Some(Comparison {
        metric: metric.to_owned(),
        better,
        ours: sides[0].contender.to_owned(),
        rival: sides[1].contender.to_owned(),
        ratio: better.ratio(median(&record.rows[0]), median(&record.rows[1])),
        distance,
        ..Comparison::default()
    });
    for detail in details {
        match detail.strip_prefix(DOUBT) {
            Some(doubt) => record.doubts.push(Doubt::new("conditions", doubt)),
            None => record.notes.push(detail),
        }
    }
    if let Some(Distance { before_ns, after_ns, .. }) = distance.filter(Distance::has_changed) {
        let text = format!(
            "a cache line took {before_ns:.0} ns from core to core before, and {after_ns:.0} after"
        );
        record.doubts.push(Doubt::new("distance-changed", text));
    }
    record
}

/// Returns the info of a side; the rival's is from the table.
fn info(side: &Side, entry: &Entry) -> ContenderInfo {
    let version = match side.contender {
        OURS => format!("burstline {}", env!("CARGO_PKG_VERSION")),
        other => version_of(other),
    };
    let command = if side.contender == entry.rival { &entry.about } else { "" };
    let (name, command) = (side.contender.to_owned(), command.to_owned());
    let pages = side.samples.iter().find_map(|sample| sample.pages);
    let page_kinds = side.pages.clone();
    ContenderInfo { name, version, command, pages, page_kinds, ..ContenderInfo::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compared::Better;
    use crate::contest::Rounds;
    use crate::record::{Interface, Sides};

    fn made(after_ns: f64) -> Record {
        let rounds = Rounds { ours: vec![3.0, 1.0, 2.0], peer: vec![4.0; 3] };
        let details = vec!["log 1 MiB".to_owned(), "doubt: other load: 1 core".to_owned()];
        let compared = Compared::of("ns", Better::Lower, rounds, details).in_pages(["2 MiB"; 2]);
        let empty = Begun::now().record("handoff-60", "bench handoff-60");
        let distance = Distance { cores: [0, 1], before_ns: 60.0, after_ns };
        let entry = crate::figures::all().iter().find(|entry| entry.name == "handoff-60");
        record(entry.unwrap(), empty, compared, Some(distance))
    }

    #[test]
    fn a_figure_is_a_record_that_can_be_read_again() {
        let figure = made(70.0);
        let again = Record::parse(&figure.to_text()).unwrap();
        assert_eq!(again, figure);
        let Sides { comparison, ours, rival } = again.compared().unwrap();
        assert_eq!((comparison.ratio, &comparison.rival[..]), (2.0, "scattered-pool"));
        assert_eq!((&ours.samples[..], rival.median), (&[3.0, 1.0, 2.0][..], 4.0));
        assert_eq!(again.pages_of("scattered-pool").as_deref(), Some("2 MiB"));
        assert_eq!(again.sources.len(), sources_of("handoff-60").len());
        assert!(!again.is_old());
        assert!(again.notes.contains(&"log 1 MiB".to_owned()), "{:?}", again.notes);
    }

    #[test]
    fn a_live_figure_has_its_interfaces() {
        let interface = |name: &str| Interface { name: name.to_owned(), ..Interface::default() };
        let sample = |interfaces| {
            let mut sample = Sample { interfaces, ..Sample::default() };
            sample.set("mpps", "Mpps", 1.0);
            sample
        };
        let peer = vec![sample(vec![interface("v1")]), sample(vec![interface("v2")])];
        let rounds = Rounds { ours: vec![sample(Vec::new()); 2], peer };
        let compared = Compared::of_samples("mpps", Better::Higher, rounds, Vec::new());
        let entry = crate::figures::all().iter().find(|entry| entry.name == "xdp-rx-testpmd");
        let empty = Begun::now().record("xdp-rx-testpmd", "bench xdp-rx-testpmd");
        let record = record(entry.unwrap(), empty, compared, None);
        assert_eq!(record.interfaces, [interface("v1")]);
        assert!(made(70.0).interfaces.is_empty(), "no packet went through any");
    }

    #[test]
    fn each_side_has_pages_or_why_they_are_not_known() {
        let rounds = || Rounds { ours: vec![1.0], peer: vec![1.0] };
        let compared = || Compared::of("ns", Better::Lower, rounds(), Vec::new());
        let entry = crate::figures::all().iter().find(|entry| entry.name == "count-file-tcpdump");
        let empty = || Begun::now().record("count-file-tcpdump", "bench count-file-tcpdump");
        let made = |compared| record(entry.unwrap(), empty(), compared, None);
        let own = Pages { small_mib: 3.0, ..Pages::default() };
        let had = || Had { pages: [Some(own), Some(Pages::default())], ..Had::default() };
        let pages = |record: &Record| ["ours", "tcpdump"].map(|side| record.pages_of(side));
        let known = pages(&with(had(), made(compared())));
        assert_eq!(known, [Some(own.to_string()), Some(UNSEEN.to_owned())]);
        let known = pages(&with(Had::default(), made(compared())));
        assert_eq!(known.map(Option::unwrap), [UNWATCHED; 2]);
        let known = pages(&with(had(), made(compared().in_pages(["4 KiB"; 2]))));
        assert_eq!(known.map(Option::unwrap), ["4 KiB"; 2], "of packets, not of the process");
    }

    #[test]
    fn the_table_names_who_did_not_run_why_and_the_mend() {
        let lacks = "dpdk-testpmd is not installed: sudo apt-get install dpdk-dev".to_owned();
        let all = [
            ("a", Done::Smoke),
            ("bounce", Done::NotHere(lacks)),
            ("c", Done::Failed("wrong sum:\n1".to_owned())),
        ];
        let lines = [
            "ran 1 of 3 figures",
            "not run  bounce  dpdk-testpmd is not installed  fix: sudo apt-get install dpdk-dev",
            "failed   c       wrong sum: 1  alone: bench --smoke c",
        ];
        assert_eq!(table(&all, "bench --smoke"), lines.join("\n") + "\n");
    }

    #[test]
    fn load_and_another_distance_are_doubts() {
        let doubts = |after_ns| -> Vec<String> {
            let own = made(after_ns).doubts.into_iter();
            own.map(|doubt| doubt.name).collect()
        };
        let has = |after_ns, name: &str| doubts(after_ns).iter().any(|own| own == name);
        assert!(has(70.0, "conditions") && !has(70.0, "distance-changed"));
        assert!(has(120.0, "distance-changed") && has(30.0, "distance-changed"));
    }
}
