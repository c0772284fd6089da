//! Scenarios: an experiment as a file, contenders that take turns at it, and a record of it.
//!
//! ```text
//!   NAME.toml --parse--> Scenario --run--> for each point: contenders in turns --> Record
//!                                            |                 |                     |
//!                            size x rate x placement    contenders::Adapter       doubts
//! ```
//!
//! Those of the founding documents are part of the program; a user's own is a file. `docs/` of the
//! repository says how to write one.
//!
//! Invariants:
//! - S1: at each point every contender has as many turns as the others, unless it failed or the
//!   user ended the run. The seed sets their order.
//! - S2: what cannot be run is in the record, with the reason; nothing is estimated.
//! - S3: raw samples are kept, in the order in which they were taken.

mod begun;
pub mod budget;
pub mod compare;
pub mod doubts;
pub mod machine;
mod placement;
mod points;
mod reading;
mod remote;
pub mod run;
mod simulate;
mod time;
mod work;

use reading::{fields, file, options};

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::record::Chart;
use crate::rfc2544::Plan;
pub use begun::Begun;
pub use fields::ScenarioError;
pub use file::parse;
pub use placement::{Placement, Places};
pub use points::Point;
pub use remote::check as check_remote;
pub use work::Work;

/// An experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// What it is called on the command line.
    pub name: String,
    /// In a few words.
    pub title: String,
    /// What is done, with what, on what.
    pub about: String,
    /// Which of the founding documents it is of: `D0` to `D4`.
    pub document: Option<String>,
    /// What contenders do.
    pub work: Work,
    /// Their names.
    pub contenders: Vec<String>,
    /// Interfaces that packets come in by, of [`Work::Count`]; at least 1.
    pub ports: usize,
    /// Workers of [`Work::Balance`].
    pub workers: usize,
    /// What a full line is.
    pub link_gbps: f64,
    /// Frame sizes, FCS included; none where they mean nothing.
    pub sizes: Vec<u32>,
    /// Rates, at least one.
    pub rates: Vec<Rate>,
    /// Placements; none: as [`Placement::Auto`].
    pub placements: Vec<Placement>,
    /// Words of [`Work::cases`].
    pub cases: Vec<String>,
    /// How often and how long.
    pub amounts: Amounts,
    /// What else holds for a short run.
    pub quick: Quick,
    /// How it is best shown.
    pub chart: Chart,
    /// The document's own figures.
    pub figures: Vec<Figure>,
    /// What else is to be said.
    pub notes: Vec<String>,
    /// What [`Work::Rfc2544`] tests, and how.
    pub rfc2544: Plan,
}

/// How fast packets come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// As fast as the generator makes them.
    Max,
    /// This many a second.
    PerSecond(u64),
}

/// How often and how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Amounts {
    /// Turns of each contender at each point, at least 1.
    pub repeats: usize,
    /// How long each turn is.
    pub time: Duration,
    /// How many packets each turn has instead.
    pub packets: Option<u64>,
}

/// What a short run takes instead; what is empty stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quick {
    /// Frame sizes.
    pub sizes: Vec<u32>,
    /// Rates.
    pub rates: Vec<Rate>,
    /// Placements.
    pub placements: Vec<Placement>,
    /// Words of [`Work::cases`].
    pub cases: Vec<String>,
    /// Turns.
    pub repeats: Option<usize>,
    /// How long a turn is.
    pub time: Option<Duration>,
    /// Packets of a turn.
    pub packets: Option<u64>,
}

/// A figure of the document's.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Whose.
    pub contender: String,
    /// The rows: those whose points have these values.
    pub point: Map<String, Value>,
    /// By name.
    pub metrics: BTreeMap<String, f64>,
}

/// The files of those that are part of the program.
const BUILT_IN: [&str; 31] = [
    include_str!("../../scenarios/numa-rtc.toml"),
    include_str!("../../scenarios/numa-pipeline.toml"),
    include_str!("../../scenarios/numa-placement.toml"),
    include_str!("../../scenarios/numa-chain.toml"),
    include_str!("../../scenarios/dna-capture.toml"),
    include_str!("../../scenarios/dna-bounce.toml"),
    include_str!("../../scenarios/modma.toml"),
    include_str!("../../scenarios/pcie.toml"),
    include_str!("../../scenarios/dma.toml"),
    include_str!("../../scenarios/retention.toml"),
    include_str!("../../scenarios/burst-merge.toml"),
    include_str!("../../scenarios/burst-merge-live.toml"),
    include_str!("../../scenarios/snort-scale.toml"),
    include_str!("../../scenarios/ovs-architect.toml"),
    include_str!("../../scenarios/record-disk.toml"),
    include_str!("../../scenarios/record-rate.toml"),
    include_str!("../../scenarios/copy-cost.toml"),
    include_str!("../../scenarios/page-sizes.toml"),
    include_str!("../../scenarios/layout.toml"),
    include_str!("../../scenarios/burst-sizes.toml"),
    include_str!("../../scenarios/both-ways.toml"),
    include_str!("../../scenarios/work-per-packet.toml"),
    include_str!("../../scenarios/copy-or-share.toml"),
    include_str!("../../scenarios/interrupts.toml"),
    include_str!("../../scenarios/latency.toml"),
    include_str!("../../scenarios/rfc2544.toml"),
    include_str!("../../scenarios/send-rate.toml"),
    include_str!("../../scenarios/handoff.toml"),
    include_str!("../../scenarios/handoff-live.toml"),
    include_str!("../../scenarios/null-device.toml"),
    include_str!("../../scenarios/make-packets.toml"),
];

/// The scenarios that are part of the program.
///
/// # Panics
/// Never: a test reads them all.
pub fn built_in() -> Vec<Scenario> {
    BUILT_IN.iter().map(|text| parse(text).expect("a test reads them all")).collect()
}

impl Scenario {
    /// The short one.
    #[must_use]
    pub fn quickly(mut self) -> Self {
        let quick = self.quick.clone();
        let replace = |to: &mut Vec<_>, by: Vec<_>| {
            if !by.is_empty() {
                *to = by;
            }
        };
        replace(&mut self.sizes, quick.sizes);
        if !quick.rates.is_empty() {
            self.rates = quick.rates;
        }
        if !quick.placements.is_empty() {
            self.placements = quick.placements;
        }
        if !quick.cases.is_empty() {
            self.cases = quick.cases;
        }
        self.amounts.repeats = quick.repeats.unwrap_or(self.amounts.repeats);
        self.amounts.time = quick.time.unwrap_or(self.amounts.time);
        self.amounts.packets = quick.packets.or(self.amounts.packets);
        self
    }

    /// Threads of a contender beside its first: a worker each, or a thread for each further port.
    pub fn more_threads(&self) -> usize {
        self.workers.max(self.ports - 1)
    }

    /// The document's figures for a row.
    pub fn figures_of(
        &self,
        contender: &str,
        point: &Map<String, Value>,
    ) -> Option<BTreeMap<String, f64>> {
        let fits = |figure: &&Figure| {
            let is_there = |(key, value): (&String, &Value)| point.get(key) == Some(value);
            figure.contender == contender && figure.point.iter().all(is_there)
        };
        let found = self.figures.iter().find(fits);
        found.map(|figure| figure.metrics.clone())
    }
}

#[cfg(test)]
mod tests;
