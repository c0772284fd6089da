//! The record of one run of a scenario, stored as one JSON object.
//!
//! ```text
//! Record
//!   machine, build, interfaces   where it ran, how it was compiled, its network interfaces
//!   generator    the machine that sent the frames, if another one, and the offset of its clocks
//!   contenders   name, version and command of each, or why it did not run
//!   rows         contender x point (what varies): metrics with raw samples, stages, losses
//!   doubts       reasons to doubt the figures, with the numbers
//! ```
//!
//! A record can be read without this program: it stores units and bases with the figures, and raw
//! samples with the medians. Reports use records only.
//!
//! Invariants:
//! - R1: a row whose status is not `run` or `model` has no metrics: nothing is estimated.
//! - R2: `median` is the median of `samples`, which are in the order in which they were taken.
//! - R3: every rate in bits has a basis.

mod age;
mod comparison;
mod generator;
mod machine;
mod uncommitted;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::distribution::Distribution;
use crate::rfc2544::Found;
use crate::scenario::doubts::KNOWN;
use crate::statistics::Quartiles;
pub use age::{OLD_MEANS, program_sources};
pub use comparison::{Comparison, Distance, Sides};
pub use generator::{Clock, Generator};
pub use machine::{Build, Cache, Interface, Machine, Pages};
pub use uncommitted::refusal;

/// Value of [`Record::schema`].
pub const SCHEMA: &str = "burstline-lab-1";

/// Role of a contender that forwards all frames, in contrast to switches, which learn and look up.
pub const BOUNCE: &str = "bounce (no switch)";

/// Prefix of a status that says why there are no figures.
const NOT_RUN: &str = "not run because ";

/// One run of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: String,
    /// The scenario's name.
    pub scenario: String,
    /// The title, a few words.
    pub title: String,
    /// The founding document it belongs to: `D0` to `D4`.
    pub document: Option<String>,
    /// A paragraph on the work, the tools and the setup.
    pub about: String,
    /// The command line.
    pub command: String,
    /// Start time, RFC 3339, in UTC.
    pub started: String,
    /// Wall time of the whole run, in s.
    pub elapsed_s: f64,
    /// Seed for the order of the contenders.
    pub seed: u64,
    /// Version of Burstline.
    pub version: String,
    /// Commit of the sources, if known.
    pub commit: Option<String>,
    /// Whether this was a quick run.
    pub is_quick: bool,
    /// The machine it ran on.
    pub machine: Machine,
    /// How the program was compiled.
    #[serde(default, skip_serializing_if = "Build::is_unknown")]
    pub build: Build,
    /// The sources that it measures: by folder or file of the repository, a hash. Empty in old
    /// records.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sources: BTreeMap<String, String>,
    /// The machine that sent the frames, if it was another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<Generator>,
    /// The network interfaces of both hosts that packets used; empty if all was in memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<Interface>,
    /// The contenders.
    pub contenders: Vec<ContenderInfo>,
    /// How to draw the rows.
    pub chart: Chart,
    /// The results.
    pub rows: Vec<Row>,
    /// For a figure of the bench: what is compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
    /// Reasons to doubt the figures.
    pub doubts: Vec<Doubt>,
    /// Other remarks.
    pub notes: Vec<String>,
}

/// A contender of the record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ContenderInfo {
    /// The name, as in rows.
    pub name: String,
    /// The version it reports; empty if unknown.
    pub version: String,
    /// The command line or the function that ran.
    pub command: String,
    /// Why it did not run: `because ...`.
    pub not_run: Option<String>,
    /// What it does instead of the work, if it does less than the others: [`BOUNCE`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Pages of its processes in its first turn, in figures perhaps the first that counts. In older
    /// records of figures, maybe of the measuring process. `None` if they are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<Pages>,
    /// Page kinds of its packet memory in the measuring process, as words, or `shared: ` or
    /// `unknown: ` and the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_kinds: Option<String>,
}

/// How to draw rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Chart {
    /// `lines`, `bars`, `cdf`, `heat` or `curve`.
    pub kind: String,
    /// X axis: a key of points.
    pub x: String,
    /// Y axis: a key of metrics.
    pub y: String,
    /// What separates series: `contender`, or a key of points.
    pub series: String,
    /// Label of the y axis.
    pub y_label: String,
    /// Label of the x axis.
    pub x_label: String,
}

/// The result of one contender at one point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// A name of [`Record::contenders`].
    pub contender: String,
    /// The parameters: `size_bytes`, `placement`, `rate_pps`, ...
    pub point: Map<String, Value>,
    /// Whether it ran.
    pub status: Status,
    /// The metrics by name.
    pub metrics: BTreeMap<String, Metric>,
    /// Distributions over all repeats, for values that are too many to store as samples.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub distributions: BTreeMap<String, Distribution>,
    /// Where the CPU time went.
    pub stages: Vec<Stage>,
    /// The functions and files that took most samples on its cores.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub symbols: Vec<Stage>,
    /// Lost packets, by the place of the loss.
    pub losses: BTreeMap<String, u64>,
    /// Distance between the two cores, before and after the turns at this point. `None` if no cache
    /// line moves between two cores, or if the distance could not be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance_ns: Option<Distance>,
    /// Results of tests of a device under test, trial by trial: one per repeat, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rfc2544: Vec<Found>,
    /// The figures that the document states, with the keys of `metrics`.
    pub document: Option<BTreeMap<String, f64>>,
}

/// Whether a row was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Status {
    /// It ran on this machine.
    Run,
    /// It was calculated.
    Model,
    /// It could not run: the rest of the sentence after "not run because".
    NotRun(String),
}

/// A metric with its samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// The unit.
    pub unit: String,
    /// What a rate of bits counts of each packet: `l2` (without FCS), `line` (with preamble, FCS
    /// and gap), `payload`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub basis: Option<String>,
    /// Median of the samples.
    pub median: f64,
    /// One per repeat, in order. For `lost_each_second`, one per second over all repeats.
    pub samples: Vec<f64>,
}

/// A share of the CPU time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// `user`, `system` or `interrupts` by the kernel's accounting; by samples, the names of
    /// [`Part`](crate::symbols::stages::Part); by the contender's own accounting, `own ` and its
    /// word. Each of the three accounts covers all of the time.
    pub name: String,
    /// Per cent of one core.
    pub cpu_percent: f64,
    /// Per cent of a core for each Gbit/s of line rate.
    pub rho: f64,
}

/// A reason to doubt the figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// The name, one of [`KNOWN`].
    pub name: String,
    /// A sentence with the numbers.
    pub text: String,
}

/// Returns a text with control characters, if there is one.
fn controlling(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => Some(text.as_str()).filter(|text| text.contains(char::is_control)),
        Value::Array(values) => values.iter().find_map(controlling),
        Value::Object(fields) => fields.iter().find_map(|(name, value)| {
            Some(name.as_str())
                .filter(|name| name.contains(char::is_control))
                .or(controlling(value))
        }),
        _ => None,
    }
}

impl Record {
    /// Parses a record.
    ///
    /// # Errors
    /// If the text is not JSON, not a record, or has another schema. The error is a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        // It is shown line by line, and may be somebody else's.
        if let Some(text) = controlling(&value) {
            return Err(format!("it has a text with control characters: {text:?}"));
        }
        let record: Self = serde_json::from_value(value).map_err(|error| error.to_string())?;
        match record.schema.as_str() {
            SCHEMA => Ok(record),
            other => Err(format!("schema is `{other}`, this program reads `{SCHEMA}`")),
        }
    }

    /// Returns what a contender does instead of the work, if it does less than the others.
    pub fn role(&self, contender: &str) -> Option<&str> {
        let info = self.contenders.iter().find(|info| info.name == contender)?;
        info.role.as_deref()
    }

    /// Returns which pages a contender had, of its processes or in the measuring process. `None` if
    /// the record does not say.
    pub fn pages_of(&self, contender: &str) -> Option<String> {
        let info = self.contenders.iter().find(|info| info.name == contender)?;
        let own = info.pages.as_ref().map(ToString::to_string);
        let older = || self.comparison.as_ref()?.pages.get(contender).cloned();
        own.or_else(|| info.page_kinds.clone()).or_else(older)
    }

    /// Returns a contender's name for display, with its role if it has one.
    pub fn label(&self, contender: &str) -> String {
        match self.role(contender) {
            Some(role) => format!("{contender}, {role}"),
            None => contender.to_owned(),
        }
    }

    /// Renames each contender to its [`label`](Self::label), for display.
    #[must_use]
    pub fn labelled(mut self) -> Self {
        let whole = self.clone();
        self.rows.iter_mut().for_each(|row| row.contender = whole.label(&row.contender));
        self.contenders.iter_mut().for_each(|info| info.name = whole.label(&info.name));
        self
    }

    /// Formats the record for a file: indented JSON with a final line feed.
    ///
    /// # Panics
    /// Never: every map's keys are strings.
    pub fn to_text(&self) -> String {
        serde_json::to_string_pretty(self).expect("keys are strings") + "\n"
    }
}

impl Metric {
    /// Creates a metric from at least one sample, none of them NaN.
    pub fn new(unit: &str, samples: Vec<f64>) -> Self {
        let median = Quartiles::of(&samples).median;
        Self { unit: unit.to_owned(), basis: None, median, samples }
    }

    /// Sets the basis.
    #[must_use]
    pub fn on(mut self, basis: &str) -> Self {
        self.basis = Some(basis.to_owned());
        self
    }

    /// Returns the largest sample less the smallest, in per cent of the median; 0 if the median is
    /// 0.
    pub fn spread_percent(&self) -> f64 {
        let most = self.samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let least = self.samples.iter().copied().fold(f64::INFINITY, f64::min);
        if self.median == 0.0 { 0.0 } else { 100.0 * (most - least) / self.median.abs() }
    }
}

impl Doubt {
    /// Creates a doubt.
    pub fn new(name: &str, text: impl Into<String>) -> Self {
        debug_assert!(KNOWN.iter().any(|known| known.name == name), "{name} is not in the list");
        Self { name: name.to_owned(), text: text.into() }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run => f.write_str("run"),
            Self::Model => f.write_str("model"),
            Self::NotRun(why) => write!(f, "{NOT_RUN}{why}"),
        }
    }
}

impl From<Status> for String {
    fn from(status: Status) -> Self {
        status.to_string()
    }
}

impl TryFrom<String> for Status {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "run" => Ok(Self::Run),
            "model" => Ok(Self::Model),
            _ => match text.strip_prefix(NOT_RUN) {
                Some(why) if !why.is_empty() => Ok(Self::NotRun(why.to_owned())),
                _ => Err(format!("status `{text}`: run, model, or {NOT_RUN}...")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!("../tests/data/numa-rtc.json");

    #[test]
    fn the_example_is_read_and_written_as_it_is() {
        let record = Record::parse(EXAMPLE).unwrap();
        assert_eq!(record.to_text(), EXAMPLE);
        assert_eq!(record.rows[0].metrics["mpps"].median, 1.25);
        let is_whole =
            |row: &Row| matches!(row.status, Status::NotRun(_)) == row.metrics.is_empty();
        assert!(record.rows.iter().all(is_whole));
    }

    #[test]
    fn who_does_less_is_called_so_by_name() {
        let mut record = Record::parse(EXAMPLE).unwrap();
        assert_eq!(record.clone().labelled(), record, "nobody has a role");
        record.contenders[0].role = Some(BOUNCE.to_owned());
        let labelled = record.clone().labelled();
        let label = format!("{}, bounce (no switch)", record.contenders[0].name);
        assert_eq!((&labelled.contenders[0].name, &labelled.rows[0].contender), (&label, &label));
        assert_eq!((labelled.role(&label), record.role("testpmd")), (Some(BOUNCE), None));
        assert_eq!(Record::parse(&record.to_text()).unwrap(), record);
    }

    #[test]
    fn the_pages_of_a_contender_are_those_of_its_processes_or_of_its_memory_here() {
        let mut record = Record::parse(EXAMPLE).unwrap();
        let name = record.contenders[0].name.clone();
        record.contenders[0].pages = None;
        assert_eq!((record.pages_of(&name), record.pages_of("snort")), (None, None));
        let pages = [(name.clone(), "4 KiB".to_owned())].into();
        record.comparison = Some(Comparison { pages, ..Comparison::default() });
        assert_eq!(record.pages_of(&name).as_deref(), Some("4 KiB"), "as older records have it");
        record.contenders[0].page_kinds = Some("2 MiB".to_owned());
        assert_eq!(record.pages_of(&name).as_deref(), Some("2 MiB"));
        let pages = Pages { small_mib: 3.0, ..Pages::default() };
        record.contenders[0].pages = Some(pages);
        assert_eq!(record.pages_of(&name), Some(pages.to_string()));
    }

    #[test]
    fn what_is_no_record_is_refused_in_a_sentence() {
        let other = EXAMPLE.replace(SCHEMA, "burstline-lab-0");
        assert!(Record::parse(&other).unwrap_err().contains("`burstline-lab-0`"));
        let status = EXAMPLE.replace("\"status\": \"run\"", "\"status\": \"ran\"");
        assert!(Record::parse(&status).unwrap_err().contains("status `ran`: run, model, or"));
        assert!(Record::parse("{").is_err());
    }

    #[test]
    fn a_metric_has_median_and_spread() {
        let metric = Metric::new("Mpps", vec![2.0, 1.9, 2.2]).on("line");
        assert_eq!((metric.median, metric.basis.as_deref()), (2.0, Some("line")));
        assert!((metric.spread_percent() - 15.0).abs() < 1e-9);
        assert_eq!(Metric::new("", vec![0.0, 0.0]).spread_percent(), 0.0);
    }
}
