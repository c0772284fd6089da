//! A record: everything that is known of one run of a scenario, as one JSON object.
//!
//! ```text
//! Record
//!   machine, build, interfaces   where it ran, compiled how, through what
//!   generator    the other machine, if frames came from one, and how far its clocks were apart
//!   contenders   who took part, with version and command, or why not
//!   rows         contender x point (what varies): metrics with raw samples, stages, losses
//!   doubts       what speaks against the figures, with the numbers
//! ```
//!
//! A record can be read again without this program: units and bases stand beside the figures, and
//! raw samples beside the medians. Reports are made of records and of nothing else.
//!
//! Invariants:
//! - R1: a row whose status is not `run` or `model` has no metrics: nothing is estimated.
//! - R2: `median` is the median of `samples`, which are in the order in which they were taken.
//! - R3: every rate in bits has a basis.

mod comparison;
mod generator;
mod machine;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::distribution::Distribution;
use crate::rfc2544::Found;
use crate::scenario::doubts::KNOWN;
use crate::statistics::Quartiles;
pub use comparison::{Comparison, Distance, Sides};
pub use generator::{Clock, Generator};
pub use machine::{Build, Cache, Interface, Machine, Pages};

/// What [`Record::schema`] says.
pub const SCHEMA: &str = "burstline-lab-1";

/// The role of who passes on all that comes in, beside switches, which learn and look up.
pub const BOUNCE: &str = "bounce (no switch)";

/// What a status begins with that says why there is nothing.
const NOT_RUN: &str = "not run because ";

/// One run of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: String,
    /// The scenario's name.
    pub scenario: String,
    /// In a few words.
    pub title: String,
    /// Which of the founding documents it is of: `D0` to `D4`.
    pub document: Option<String>,
    /// What is done, with what, on what: a paragraph.
    pub about: String,
    /// What was typed.
    pub command: String,
    /// RFC 3339, in UTC.
    pub started: String,
    /// Wall time of all of it, in s.
    pub elapsed_s: f64,
    /// What contenders' order is drawn with.
    pub seed: u64,
    /// Burstline's.
    pub version: String,
    /// Of the sources, where that is known.
    pub commit: Option<String>,
    /// Whether it was a short one.
    pub is_quick: bool,
    /// Where it ran.
    pub machine: Machine,
    /// With what the program was compiled.
    #[serde(default, skip_serializing_if = "Build::is_unknown")]
    pub build: Build,
    /// Where frames were made, if that was another machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<Generator>,
    /// The interfaces that packets went through, of both hosts; none where all was in memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<Interface>,
    /// Who took part.
    pub contenders: Vec<ContenderInfo>,
    /// How it is best shown.
    pub chart: Chart,
    /// The figures.
    pub rows: Vec<Row>,
    /// Of a figure of the bench's: what is compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
    /// What speaks against the figures.
    pub doubts: Vec<Doubt>,
    /// What else is to be said.
    pub notes: Vec<String>,
}

/// Who took part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ContenderInfo {
    /// As in rows.
    pub name: String,
    /// As it says itself; empty if it could not be asked.
    pub version: String,
    /// The command line that ran, or the function.
    pub command: String,
    /// Why it did not take part: `because ...`.
    pub not_run: Option<String>,
    /// What it does in place of the work, where it does less than others: [`BOUNCE`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Pages that its processes had at the end of its first turn; `None` if it has no process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<Pages>,
}

/// How rows are best shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Chart {
    /// `lines`, `bars`, `cdf`, `heat` or `curve`.
    pub kind: String,
    /// A key of points.
    pub x: String,
    /// A key of metrics.
    pub y: String,
    /// `contender`, or a key of points.
    pub series: String,
    /// What stands at the y axis.
    pub y_label: String,
    /// What stands at the x axis.
    pub x_label: String,
}

/// One contender at one point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// A name of [`Record::contenders`].
    pub contender: String,
    /// What varies: `size_bytes`, `placement`, `rate_pps`, ...
    pub point: Map<String, Value>,
    /// Whether it ran.
    pub status: Status,
    /// The figures by name.
    pub metrics: BTreeMap<String, Metric>,
    /// How values are distributed that there are too many of for samples: of all repeats.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub distributions: BTreeMap<String, Distribution>,
    /// Where the time went.
    pub stages: Vec<Stage>,
    /// What ran on its cores, by samples: the functions and files that took most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub symbols: Vec<Stage>,
    /// Packets that did not come through, by name of the place.
    pub losses: BTreeMap<String, u64>,
    /// Between the two cores, before and after the turns at its point. `None`: no line goes between
    /// two cores, or the distance could not be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance_ns: Option<Distance>,
    /// What tests of a device under test found, trial by trial: one a repeat, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rfc2544: Vec<Found>,
    /// The document's own figures, keys as in `metrics`.
    pub document: Option<BTreeMap<String, f64>>,
}

/// Whether a row was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Status {
    /// It ran here.
    Run,
    /// It was worked out.
    Model,
    /// It could not be run: the rest of the sentence after "not run because".
    NotRun(String),
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// The unit.
    pub unit: String,
    /// What of a packet counts in a rate of bits: `l2` (FCS not counted), `line` (preamble, FCS
    /// and gap counted), `payload`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub basis: Option<String>,
    /// Of the samples.
    pub median: f64,
    /// One a repeat, in order; of `lost_each_second` one a second, of all repeats.
    pub samples: Vec<f64>,
}

/// A part of the work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// By the kernel's account `user`, `system`, `interrupts`; by samples those of
    /// [`Part`](crate::symbols::stages::Part); by the contender's own account `own ` and its word.
    /// Each of the three is of all of the time.
    pub name: String,
    /// Of one core.
    pub cpu_percent: f64,
    /// Per cent of a core for each Gbit/s of line rate.
    pub rho: f64,
}

/// A reason to doubt the figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// One of [`KNOWN`].
    pub name: String,
    /// A sentence with the numbers.
    pub text: String,
}

impl Record {
    /// Reads a record.
    ///
    /// # Errors
    /// It is not JSON, not a record, or one of another schema: a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let record: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        match record.schema.as_str() {
            SCHEMA => Ok(record),
            other => Err(format!("schema is `{other}`, this program reads `{SCHEMA}`")),
        }
    }

    /// What a contender does in place of the work, if it does less than others.
    pub fn role(&self, contender: &str) -> Option<&str> {
        let info = self.contenders.iter().find(|info| info.name == contender)?;
        info.role.as_deref()
    }

    /// A contender's name as people read it: with its role, if it has one.
    pub fn label(&self, contender: &str) -> String {
        match self.role(contender) {
            Some(role) => format!("{contender}, {role}"),
            None => contender.to_owned(),
        }
    }

    /// The record as people read it: each contender is called by its [`label`](Self::label).
    #[must_use]
    pub fn labelled(mut self) -> Self {
        let whole = self.clone();
        self.rows.iter_mut().for_each(|row| row.contender = whole.label(&row.contender));
        self.contenders.iter_mut().for_each(|info| info.name = whole.label(&info.name));
        self
    }

    /// The record as it is written to a file: indented, with a line feed at the end.
    ///
    /// # Panics
    /// Never: every map's keys are strings.
    pub fn to_text(&self) -> String {
        serde_json::to_string_pretty(self).expect("keys are strings") + "\n"
    }
}

impl Metric {
    /// A figure of at least one sample, none of them NaN.
    pub fn new(unit: &str, samples: Vec<f64>) -> Self {
        let median = Quartiles::of(&samples).median;
        Self { unit: unit.to_owned(), basis: None, median, samples }
    }

    /// The same with a basis.
    #[must_use]
    pub fn on(mut self, basis: &str) -> Self {
        self.basis = Some(basis.to_owned());
        self
    }

    /// How far samples lie apart: the largest less the smallest, in per cent of the median; 0 where
    /// the median is.
    pub fn spread_percent(&self) -> f64 {
        let most = self.samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let least = self.samples.iter().copied().fold(f64::INFINITY, f64::min);
        if self.median == 0.0 { 0.0 } else { 100.0 * (most - least) / self.median.abs() }
    }
}

impl Doubt {
    /// A doubt.
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
