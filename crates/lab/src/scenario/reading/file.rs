//! Parses a TOML file into a [`Scenario`], or returns a one-line error.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value as Json};
use toml::{Table, Value};

use crate::contenders;
use crate::record::Chart;
use crate::rfc2544::Plan;
use crate::scenario::fields::{Fields, ScenarioError, shown};
use crate::scenario::placement::{self, Placement};
use crate::scenario::{Amounts, Figure, Quick, Rate, Scenario, Work};

/// Frame sizes of interfaces and of packets in memory, with FCS.
const LIVE_SIZES: std::ops::RangeInclusive<i64> = 64..=1518;
/// Sizes for a device under test and for the document on merging: includes jumbo frames.
const JUMBO_SIZES: std::ops::RangeInclusive<i64> = 64..=9018;
const MEMORY_SIZES: std::ops::RangeInclusive<i64> = 64..=65_536;
/// Sizes that fit into an mbuf.
const MERGE_SIZES: std::ops::RangeInclusive<i64> = 64..=16_384;

/// Keys in a document's figure that select the row; every other key is a metric.
const POINT_KEYS: [&str; 6] = ["size_bytes", "rate_pps", "placement", "case", "size", "every"];

/// Default number of turns.
const REPEATS: usize = 5;
const SECONDS: f64 = 2.0;
const LINK_GBPS: f64 = 10.0;

/// Parses a scenario.
///
/// # Errors
/// [`ScenarioError`]: the key, its value, and what is allowed.
pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
    let mut fields = Fields::parse(text)?;
    let name = fields.need("name", "lower-case letters, digits and - as \"numa-rtc\"", name)?;
    let title = fields.need("title", "a few words in quotes", text_of)?;
    let about = fields.need("about", "a paragraph in quotes", text_of)?;
    let document = fields.take("document", "\"D0\" to \"D4\"", |value| {
        value
            .as_str()
            .filter(|text| ["D0", "D1", "D2", "D3", "D4"].contains(text))
            .map(String::from)
    })?;
    let words = Work::ALL.map(Work::name).join(", ");
    let work =
        fields.need("work", &format!("one of {words}"), |value| Work::named(value.as_str()?))?;
    let names = contenders::names();
    let contenders =
        fields.list("contenders", &format!("one of {}", names.join(", ")), |value| {
            value.as_str().filter(|name| names.contains(name)).map(String::from)
        })?;
    if contenders.is_empty() {
        let wanted = format!("a list of {}", names.join(", "));
        fields.need("contenders", &wanted, |_| None::<()>)?;
    }
    let workers = fields.take("workers", "a number from 1 to 64", |value| number(value, 1..=64))?;
    let ports = ports(&mut fields, work)?;
    let link_gbps = fields.take("link_gbps", "a number from 0.001 to 100000", |value| {
        positive(value).filter(|gbps| (0.001..=100_000.0).contains(gbps))
    })?;
    let link_gbps = link_gbps.unwrap_or(LINK_GBPS);
    let axes = axes(&mut fields, work)?;
    let quick = fields.take("quick", "a table [quick]", |value| value.as_table().cloned())?;
    let chart = fields.take("chart", "a table [chart]", |value| value.as_table().cloned())?;
    let figures =
        fields.list("figures", "a table [[figures]]", |value| value.as_table().cloned())?;
    let plan = plan(&mut fields, work)?;
    let notes = fields.list("notes", "text in quotes", text_of)?;
    fields.end()?;
    let quick = quick.map_or(Ok(Quick::default()), |table| {
        let mut fields = Fields::new(table, "quick.");
        let axes = self::axes(&mut fields, work)?;
        fields.end().map(|()| axes)
    })?;
    let chart = chart_of(chart.unwrap_or_default(), work, !axes.sizes.is_empty())?;
    let figures = figures.into_iter().map(figure).collect::<Result<_, _>>()?;
    Ok(Scenario {
        name,
        title,
        about,
        document,
        work,
        contenders,
        ports,
        workers: workers.unwrap_or(0) as usize,
        link_gbps,
        amounts: Amounts {
            repeats: axes.repeats.unwrap_or(REPEATS),
            time: axes.time.unwrap_or(Duration::from_secs_f64(SECONDS)),
            packets: axes.packets,
        },
        sizes: axes.sizes,
        rates: if axes.rates.is_empty() { vec![Rate::Max] } else { axes.rates },
        placements: axes.placements,
        cases: axes.cases,
        quick,
        chart,
        figures,
        notes,
        rfc2544: plan,
    })
}

/// Takes the number of receiving interfaces.
fn ports(fields: &mut Fields, work: Work) -> Result<usize, ScenarioError> {
    let (most, wanted) = match work {
        Work::Count => (16, "a number from 1 to 16"),
        _ => (1, "1: only the work count can receive from several at once"),
    };
    let ports = fields.take("ports", wanted, |value| number(value, 1..=most))?;
    Ok(ports.unwrap_or(1) as usize)
}

/// Takes `[rfc2544]`.
fn plan(fields: &mut Fields, work: Work) -> Result<Plan, ScenarioError> {
    let wanted = match work {
        Work::Rfc2544 => "a table [rfc2544]",
        _ => "nothing: only the work rfc2544 has a plan",
    };
    let is_of_work = work == Work::Rfc2544;
    let table =
        fields.take("rfc2544", wanted, |value| Some(value.clone()).filter(|_| is_of_work))?;
    let Some(table) = table else { return Ok(Plan::default()) };
    table.clone().try_into().map_err(|error: toml::de::Error| ScenarioError::Value {
        place: String::new(),
        key: "rfc2544".to_owned(),
        value: shown(&table),
        wanted: format!("{wanted}: {}", error.message()),
    })
}

/// Takes the parameters: keys of the root table and of `[quick]`.
fn axes(fields: &mut Fields, work: Work) -> Result<Quick, ScenarioError> {
    let range = match work {
        Work::Merge => MERGE_SIZES,
        Work::Rfc2544 | Work::MergeLive => JUMBO_SIZES,
        work if work.is_live() => LIVE_SIZES,
        _ => MEMORY_SIZES,
    };
    let wanted = format!("a frame size from {} to {}, FCS included", range.start(), range.end());
    let sizes = fields.list("sizes", &wanted, |value| number(value, range.clone()))?;
    let rates = fields.list("rates", "\"max\" or packets a second from 1 to 1000000000", rate)?;
    let placements =
        fields.list("placements", placement::WANTED, |value| Placement::parse(value.as_str()?))?;
    let known = work.cases();
    let wanted = match known {
        [] => "nothing: this work has no cases".to_owned(),
        known => {
            let texts: Vec<String> = known.iter().map(|case| format!("\"{case}\"")).collect();
            format!("one of {}", texts.join(", "))
        }
    };
    let cases = fields.list("cases", &wanted, |value| {
        value.as_str().filter(|case| known.contains(case)).map(String::from)
    })?;
    let repeats =
        fields.take("repeats", "a number from 1 to 1000", |value| number(value, 1..=1000))?;
    let seconds = fields.take("seconds", "a number from 0.05 to 3600", |value| {
        positive(value).filter(|seconds| (0.05..=3600.0).contains(seconds))
    })?;
    let has_rates = rates.iter().any(|rate| *rate != Rate::Max);
    if has_rates && !work.takes_rates() {
        let wanted = "\"max\": this work has no rate";
        fields.refuse("rates", "a number", wanted)?;
    }
    let packets = fields.take("packets", "a number from 1 to 1000000000000", |value| {
        number(value, 1..=1_000_000_000_000)
    })?;
    Ok(Quick {
        sizes: sizes.into_iter().map(|size| size as u32).collect(),
        rates,
        placements,
        cases,
        repeats: repeats.map(|repeats| repeats as usize),
        time: seconds.map(Duration::from_secs_f64),
        packets,
    })
}

fn chart_of(table: Table, work: Work, has_sizes: bool) -> Result<Chart, ScenarioError> {
    let mut fields = Fields::new(table, "chart.");
    let kinds = ["lines", "bars", "cdf", "heat", "curve"];
    let kind = fields.take("kind", &format!("one of {}", kinds.join(", ")), |value| {
        value.as_str().filter(|kind| kinds.contains(kind)).map(String::from)
    })?;
    let wanted = format!("contender, or a key of {}", POINT_KEYS.join(", "));
    let mut key_of = |key, otherwise: &str| {
        let taken = fields.take(key, &wanted, |value| {
            text_of(value).filter(|text| text == "contender" || POINT_KEYS.contains(&text.as_str()))
        })?;
        Ok::<_, ScenarioError>(taken.unwrap_or_else(|| otherwise.to_owned()))
    };
    let x = key_of("x", if has_sizes { "size_bytes" } else { work.case_key() })?;
    let series = key_of("series", "contender")?;
    let mut text = |key, otherwise: &str| {
        let taken = fields.take(key, "text in quotes", text_of)?;
        Ok::<_, ScenarioError>(taken.unwrap_or_else(|| otherwise.to_owned()))
    };
    let y = text("y", if work == Work::Copy { "cycles" } else { "mpps" })?;
    let x_label = match x.as_str() {
        "size_bytes" => "frame size, bytes with FCS",
        other => other,
    };
    let y_label = match y.as_str() {
        "mpps" => "Mpps",
        other => other,
    };
    let (x_label, y_label) = (text("x_label", x_label)?, text("y_label", y_label)?);
    let kind = kind.unwrap_or_else(|| if has_sizes { "lines" } else { "bars" }.to_owned());
    fields.end()?;
    Ok(Chart { kind, x, y, series, y_label, x_label })
}

/// Parses a document's figure: `contender`, keys that select the row, and metrics.
fn figure(table: Table) -> Result<Figure, ScenarioError> {
    let mut fields = Fields::new(table, "figures.");
    let contender = fields.need("contender", "a contender's name in quotes", text_of)?;
    let (table, place) = fields.rest();
    let (mut point, mut metrics) = (Map::new(), BTreeMap::new());
    for (key, value) in table {
        if POINT_KEYS.contains(&key.as_str()) {
            let value = match &value {
                Value::Integer(number) => Json::from(*number),
                other => Json::from(other.as_str().unwrap_or_default()),
            };
            point.insert(key, value);
            continue;
        }
        let number = value.as_float().or_else(|| Some(value.as_integer()? as f64));
        let Some(number) = number.filter(|number| number.is_finite()) else {
            let wanted = format!("a number, as a metric; or a key of {}", POINT_KEYS.join(", "));
            return Err(ScenarioError::Value { place, key, value: shown(&value), wanted });
        };
        metrics.insert(key, number);
    }
    Ok(Figure { contender, point, metrics })
}

fn text_of(value: &Value) -> Option<String> {
    let text = value.as_str()?.split_whitespace().collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then_some(text)
}

fn name(value: &Value) -> Option<String> {
    let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let name = value.as_str()?;
    (!name.is_empty() && name.chars().all(is_fine)).then(|| name.to_owned())
}

fn number(value: &Value, range: std::ops::RangeInclusive<i64>) -> Option<u64> {
    value.as_integer().filter(|number| range.contains(number)).map(|number| number as u64)
}

fn positive(value: &Value) -> Option<f64> {
    let number = value.as_float().or_else(|| Some(value.as_integer()? as f64))?;
    (number > 0.0 && number.is_finite()).then_some(number)
}

fn rate(value: &Value) -> Option<Rate> {
    match value.as_str() {
        Some("max") => Some(Rate::Max),
        Some(_) => None,
        None => number(value, 1..=1_000_000_000).map(Rate::PerSecond),
    }
}
