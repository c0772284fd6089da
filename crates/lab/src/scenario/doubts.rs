//! Doubts about metrics: other activity of the machine, and the spread of samples.

use std::fs;

use super::compare::pairs::{Pair, WITHIN_PERCENT};
use super::points::words;
use super::{Rate, Scenario, Work};
use crate::conditions::Ticks;
use crate::contenders;
use crate::record::{Doubt, Machine, Metric, Row, Stage, Status};
use crate::rfc2544::{Limited, RFC_TRIAL};
use crate::symbols::OTHER_PROGRAMS;
use crate::symbols::stages::Part;

/// Number of cores busy with other programs that raises a doubt.
const NOISY_CORES: f64 = 0.1;
/// Time stolen by the host that raises a doubt, in per cent of all cores.
const STOLEN_PERCENT: f64 = 1.0;
/// Maximum difference of frequencies at start and end, in per cent.
const FREQUENCY_PERCENT: f64 = 5.0;
/// Maximum spread of a row's samples, in per cent of their median.
const SPREAD_PERCENT: f64 = 5.0;
/// Minimum number of samples to judge their spread.
const SAMPLES: usize = 3;
/// Minimum share of the requested rate that a generator must reach.
const OFFERED_PERCENT: f64 = 99.0;

/// Time in functions of unknown stage that raises a doubt, in per cent of all samples.
const UNKNOWN_PERCENT: f64 = 30.0;
/// Number of such functions to name.
const UNKNOWN_NAMES: usize = 3;

/// A doubt that can occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The name in records.
    pub name: &'static str,
    /// The condition.
    pub when: &'static str,
    /// The remedy.
    pub remedy: &'static str,
}

/// All doubts, of scenarios and of figures.
pub const KNOWN: &[Known] = &[
    Known {
        name: "noisy-neighbour",
        when: "other programs took 0.1 cores or more",
        remedy: "stop other programs (top), or isolate cores",
    },
    Known {
        name: "steal-time",
        when: "the host took 1 % of the cores' time or more",
        remedy: "use a machine of your own, or repeat at a quieter hour",
    },
    Known {
        name: "frequency-change",
        when: "a core's frequency at the end is more than 5 % from that at the start",
        remedy: "governor performance, turbo off; burstline doctor prints the commands",
    },
    Known {
        name: "too-few-samples",
        when: "a row has fewer than 3",
        remedy: "more turns: --repeats N",
    },
    Known {
        name: "wide-spread",
        when: "samples of a row are more than 5 % of their median apart",
        remedy: "more turns, and fewer other programs; take the quartiles, not the median",
    },
    Known {
        name: "ratio-spread",
        when: "turn by turn, the ratio of two contenders at a point has quartiles more than 5 % \
               of its median apart: repeating the scenario may give another ratio",
        remedy: "more turns; call it no difference where the quartiles include 1",
    },
    Known {
        name: "empty-chart",
        when: "no row has the metric that [chart] asks for",
        remedy: "correct [chart] of the scenario: burstline lab list",
    },
    Known {
        name: "unknown-stages",
        when: "more than 30 % of the samples were in functions of unknown stages: the row's \
               other, without other programs",
        remedy: "build with symbols (debug = 1), or add them to crates/lab/src/symbols/stages.toml",
    },
    Known {
        name: "generator-limited",
        when: "nothing was lost and the generator was at its limit: the contender may be \
               better",
        remedy: "use a faster generator: more cores, or another machine",
    },
    Known {
        name: "receiver-limited",
        when: "of rfc2544: the tester's receiver lost packets itself, so the device may be \
               better",
        remedy: "give the tester's receiver a core, or more queues",
    },
    Known {
        name: "short-trials",
        when: "of rfc2544: trials last less than the RFC's 60 s",
        remedy: "run trials of 60 s, as the RFC requires",
    },
    Known {
        name: "above-line-rate",
        when: "more than link_gbps: a veth pair does not limit the rate",
        remedy: "read it as a figure of processors, not of a line",
    },
    Known {
        name: "missing-counters",
        when: "the processor's counters are not available",
        remedy: "echo 0 > /proc/sys/kernel/perf_event_paranoid; virtual machines may have none",
    },
    Known {
        name: "few-cores",
        when: "threads share cores that should have one each",
        remedy: "use a machine with a core for each thread",
    },
    Known {
        name: "distance-changed",
        when: "the distance between a point's two cores changed while contenders took turns: a \
               cache line took less than 120 ns before and more after, or the reverse, or \
               twice as long. It names the rows; distance_ns of each row has the times",
        remedy: "pin virtual cores on the host, or compare turns with equal distance_ns",
    },
    Known {
        name: "interrupted",
        when: "the user stopped the run: the record has the turns done by then",
        remedy: "run it again, to the end",
    },
    Known {
        name: "cut-short",
        when: "there was no time for some turns: --quick takes some nine minutes for all \
               scenarios together, shared by their size; a search for a contender's best \
               settings is not taken from the share. Each contender has a turn at each point \
               before any has a second one",
        remedy: "run it without --quick",
    },
    Known {
        name: "failed",
        when: "a contender failed after some turns; it has no more at that point",
        remedy: "the row's error says why; fix the cause and run again",
    },
    Known {
        name: "foreign-packets",
        when: "frames came over the cable that the generator on another machine had not sent: \
               they count as delivered",
        remedy: "use a cable on which only the generator sends",
    },
    Known {
        name: "clock-moved",
        when: "the offset to another machine's clock changed in the run by more than its \
               uncertainty and 0.1 % of the time: a clock was set, or cannot be compared",
        remedy: "stop time services on both machines for the run",
    },
    Known {
        name: "other-program",
        when: "the generator on another machine is of another commit, or its commit is unknown",
        remedy: "build both from one commit",
    },
    Known {
        name: "conditions",
        when: "of a figure: cores were shared, or other programs ran",
        remedy: "repeat it on a quiet machine",
    },
];

/// Observes the machine while contenders run.
#[derive(Clone, Debug)]
pub struct Watch {
    start: Option<Ticks>,
    frequencies: Vec<f64>,
}

impl Watch {
    /// Starts.
    pub fn start() -> Self {
        Self { start: Ticks::now(), frequencies: frequencies() }
    }

    /// Returns the doubts about the time since the start.
    pub fn doubts(&self) -> Vec<Doubt> {
        let mut doubts = match self.start.zip(Ticks::now()) {
            Some((start, now)) => of_ticks(now.since(start)),
            None => vec![Doubt::new("noisy-neighbour", "unknown: /proc/stat is unreadable")],
        };
        let changed = self.frequencies.iter().zip(frequencies()).enumerate();
        doubts.extend(changed.filter_map(|(core, (&start, end))| {
            let percent = 100.0 * (end - start).abs() / start.max(1.0);
            (percent > FREQUENCY_PERCENT).then(|| {
                let text = format!("core {core} ran at {start:.0} MHz, then at {end:.0} MHz");
                Doubt::new("frequency-change", text)
            })
        }));
        doubts
    }
}

/// Returns the doubts about other programs and the host.
fn of_ticks(spent: Ticks) -> Vec<Doubt> {
    if spent.all() == 0 {
        return Vec::new();
    }
    let others = spent.others(spent.programs());
    let stolen = 100.0 * spent.stolen() as f64 / spent.all() as f64;
    let mut doubts = Vec::new();
    if others >= NOISY_CORES {
        let text = format!("{others:.2} cores were busy with other programs");
        doubts.push(Doubt::new("noisy-neighbour", text));
    }
    if stolen >= STOLEN_PERCENT {
        let text = format!("the host took {stolen:.1} % of the cores' time");
        doubts.push(Doubt::new("steal-time", text));
    }
    doubts
}

/// Returns the frequency of each core in MHz, if the kernel reports it.
fn frequencies() -> Vec<f64> {
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let lines = processor.lines().filter_map(|line| line.split_once(':'));
    let lines = lines.filter(|(name, _)| name.trim() == "cpu MHz");
    lines.filter_map(|(_, value)| value.trim().parse().ok()).collect()
}

/// Returns doubts about the rows, and about counters that the machine does not have.
pub fn of_rows(scenario: &Scenario, machine: &Machine, rows: &[Row]) -> Vec<Doubt> {
    let (is_live, y) = (scenario.work.is_live(), &scenario.chart.y);
    let mut doubts = of_samples(y, rows);
    let mut say = |name, found: Option<String>| {
        doubts.extend(found.map(|text| Doubt::new(name, text)));
    };
    let rows = that_ran(rows);
    let has_none = !rows.is_empty() && rows.iter().all(|row| !row.metrics.contains_key(y));
    say("empty-chart", has_none.then(|| format!("no row has the metric '{y}' of [chart]")));
    say("ratio-spread", ratios(&rows, scenario));
    say("distance-changed", distances(&rows));
    say("unknown-stages", together(&rows, unknown));
    say("generator-limited", together(&rows, |row| generator(row, scenario)));
    for limited in [Limited::Generator, Limited::Receiver] {
        say(limited.name(), together(&rows, |row| tester(row, limited)));
    }
    let seconds = scenario.amounts.time.as_secs_f64();
    let is_short = scenario.work == Work::Rfc2544 && scenario.amounts.time < RFC_TRIAL;
    let text = || format!("trials of {seconds} s: SHORTER than the 60 s of RFC 2544");
    say("short-trials", is_short.then(text));
    let above = |row: &Row| {
        let percent = row.metrics.get("line_percent")?.median;
        (percent > 100.0).then(|| {
            format!(
                "{percent:.0} % of {} Gbit/s: a veth pair does not limit the rate",
                scenario.link_gbps
            )
        })
    };
    say("above-line-rate", together(&rows, above));
    if is_live && machine.counters.starts_with("none") {
        let why = machine.counters.trim_start_matches("none");
        let text = format!("no hardware counters{why}");
        doubts.push(Doubt::new("missing-counters", text));
    }
    doubts
}

/// Returns doubts about the spread of a metric's samples.
pub fn of_samples(metric: &str, rows: &[Row]) -> Vec<Doubt> {
    let rows = that_ran(rows);
    let few = |row: &Row| {
        let samples = samples(row, metric)?;
        (samples.len() < SAMPLES).then(|| format!("{} of {SAMPLES} samples", samples.len()))
    };
    let few = together(&rows, few).map(|text| Doubt::new("too-few-samples", text));
    let wide = widest(&rows, metric).map(|text| Doubt::new("wide-spread", text));
    few.into_iter().chain(wide).collect()
}

fn that_ran(rows: &[Row]) -> Vec<&Row> {
    rows.iter().filter(|row| row.status == Status::Run).collect()
}

fn samples<'a>(row: &'a Row, name: &str) -> Option<&'a [f64]> {
    row.metrics.get(name).map(|metric| metric.samples.as_slice())
}

/// Describes a generator that was too slow.
fn generator(row: &Row, scenario: &Scenario) -> Option<String> {
    let (offered, lost) =
        (row.metrics.get("offered_mpps")?.median, row.metrics.get("lost")?.median);
    let asked = match row.point.get("rate_pps") {
        Some(rate) => rate.as_u64().map(|packets| packets as f64 / 1e6),
        None => scenario.rates.iter().find_map(|rate| match rate {
            Rate::PerSecond(packets) => Some(*packets as f64 / 1e6),
            Rate::Max => None,
        }),
    };
    match asked {
        _ if lost > 0.0 => None,
        Some(asked) if offered < asked * OFFERED_PERCENT / 100.0 => {
            Some(format!("{offered:.3} of {asked:.3} Mpps were offered, and nothing was lost"))
        }
        Some(_) => None,
        None => Some(format!("{offered:.3} Mpps is the generator's limit; nothing was lost")),
    }
}

/// Describes a tester that limited the throughput of a device.
fn tester(row: &Row, limited: Limited) -> Option<String> {
    let text = match limited {
        Limited::Generator => "less than 99 % of the target rate was offered, and nothing lost",
        Limited::Receiver => "the receiver of the tester lost packets itself",
    };
    let is_so = row.rfc2544.iter().any(|found| found.limited() == Some(limited));
    is_so.then(|| text.to_owned())
}

/// Combines rows into one sentence: the first row with a remark, and the number of others.
fn together(rows: &[&Row], say: impl Fn(&Row) -> Option<String>) -> Option<String> {
    let mut said = rows.iter().filter_map(|row| Some(format!("{}: {}", title(row), say(row)?)));
    let first = said.next()?;
    match said.count() {
        0 => Some(first),
        more => Some(format!("{first}; and {more} more of {} rows", rows.len())),
    }
}

fn widest(rows: &[&Row], name: &str) -> Option<String> {
    let spreads = rows.iter().filter_map(|row| {
        let metric: &Metric = row.metrics.get(name)?;
        let spread = metric.spread_percent();
        (spread > SPREAD_PERCENT).then_some((spread, metric.samples.len(), *row))
    });
    let mut spreads: Vec<_> = spreads.collect();
    spreads.sort_by(|a, b| b.0.total_cmp(&a.0));
    let &(spread, repeats, row) = spreads.first()?;
    Some(format!(
        "{name} lies more than {SPREAD_PERCENT} % apart in {} of {} rows, most in {}: {spread:.1} \
         % in {repeats} repeats",
        spreads.len(),
        rows.len(),
        title(row)
    ))
}

/// Describes how far the ratios of comparable contenders vary between turns, if too far.
fn ratios(rows: &[&Row], scenario: &Scenario) -> Option<String> {
    let name = &scenario.chart.y;
    let role = |name| contenders::role(contenders::named(name)?, scenario.work);
    let mut pairs = Pair::all(rows, name);
    pairs.retain(|pair| {
        let [first, second] = pair.contenders();
        role(first) == role(second)
    });
    let spreads = pairs.iter().filter_map(|pair| Some((pair.spread(SAMPLES)?, pair)));
    let spreads: Vec<_> = spreads.collect();
    let wide = spreads.iter().filter(|((_, percent), _)| *percent > WITHIN_PERCENT);
    let ((quartiles, percent), pair) = wide.clone().max_by(|a, b| a.0.1.total_cmp(&b.0.1))?;
    Some(format!(
        "half of the turns of {} of {} pairs of contenders give ratios of {name} more than \
         {WITHIN_PERCENT} % apart, most of {}: {:.3} to {:.3}, {percent:.1} %",
        wide.count(),
        spreads.len(),
        pair.title(),
        quartiles.first,
        quartiles.third
    ))
}

/// Describes points where the distance between cores changed during the turns. Names all rows of
/// those points, because their ratios mean little.
fn distances(rows: &[&Row]) -> Option<String> {
    let is_moved = |row: &&&Row| row.distance_ns.is_some_and(|distance| distance.has_changed());
    let moved: Vec<&Row> = rows.iter().filter(is_moved).copied().collect();
    let points = moved.chunk_by(|row, next| row.point == next.point).map(|rows| {
        let names: Vec<&str> = rows.iter().map(|row| row.contender.as_str()).collect();
        let distance = rows[0].distance_ns.unwrap_or_default();
        format!("{distance} at {} ({})", words(&rows[0].point), names.join(", "))
    });
    let points: Vec<String> = points.collect();
    let text = format!("a cache line took from core to core {}", points.join("; "));
    (!points.is_empty()).then_some(text)
}

/// Describes a row that spent much time in functions of unknown stage. Time in other programs on
/// its cores raises another doubt.
fn unknown(row: &Row) -> Option<String> {
    let of = |part: Part| row.stages.iter().find(|stage| stage.name == part.name());
    let shares = Part::ALL.into_iter().map(|part| of(part).map(|stage| stage.cpu_percent));
    let (all, other) = (shares.sum::<Option<f64>>()?, of(Part::Other)?.cpu_percent);
    let (strangers, functions): (Vec<&Stage>, Vec<&Stage>) = row
        .symbols
        .iter()
        .filter(|symbol| Part::of(&symbol.name) == Part::Other)
        .partition(|symbol| symbol.name == OTHER_PROGRAMS);
    let strangers: f64 = strangers.iter().map(|symbol| symbol.cpu_percent).sum();
    let percent = 100.0 * (other - strangers) / (all - strangers);
    let names: Vec<&str> =
        functions.iter().take(UNKNOWN_NAMES).map(|symbol| symbol.name.as_str()).collect();
    (percent > UNKNOWN_PERCENT).then(|| {
        format!("{percent:.0} % of it in functions of unknown stages: {}", names.join(", "))
    })
}

fn title(row: &Row) -> String {
    format!("{} at {}", row.contender, words(&row.point))
}

#[cfg(test)]
mod tests;
