//! Scenarios: an experiment in a file, contenders that take turns at it, and the record.
//!
//! ```text
//!   NAME.toml --parse--> Scenario --run--> for each point: contenders in turns --> Record
//!                                            |                 |                     |
//!                            size x rate x placement    contenders::Adapter       doubts
//! ```
//!
//! Scenarios of the founding documents are built in; a user's own is a file. `docs/` in the
//! repository explains how to write one.
//!
//! Invariants:
//! - S1: at each point all contenders have the same number of turns, unless one failed or the user
//!   stopped the run. The seed determines their order.
//! - S2: what cannot run is in the record with the reason; nothing is estimated.
//! - S3: raw samples are kept in the order of measurement.

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
    /// The name on the command line.
    pub name: String,
    /// The title, a few words.
    pub title: String,
    /// Description of the work, the tools and the setup.
    pub about: String,
    /// The founding document it belongs to: `D0` to `D4`.
    pub document: Option<String>,
    /// The work of the contenders.
    pub work: Work,
    /// The contenders' names.
    pub contenders: Vec<String>,
    /// Number of receiving interfaces for [`Work::Count`]; at least 1.
    pub ports: usize,
    /// Workers of [`Work::Balance`].
    pub workers: usize,
    /// Link speed.
    pub link_gbps: f64,
    /// Frame sizes, with FCS; empty if the work has none.
    pub sizes: Vec<u32>,
    /// Rates, at least one.
    pub rates: Vec<Rate>,
    /// Placements; empty for [`Placement::Auto`].
    pub placements: Vec<Placement>,
    /// Words of [`Work::cases`].
    pub cases: Vec<String>,
    /// Number and length of turns.
    pub amounts: Amounts,
    /// Replacements for a short run.
    pub quick: Quick,
    /// How to draw the record.
    pub chart: Chart,
    /// The figures that the document states.
    pub figures: Vec<Figure>,
    /// Other remarks.
    pub notes: Vec<String>,
    /// The plan of [`Work::Rfc2544`].
    pub rfc2544: Plan,
}

/// The rate of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// The generator's top speed.
    Max,
    /// Packets a second.
    PerSecond(u64),
}

/// Number and length of turns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Amounts {
    /// Turns of each contender at each point, at least 1.
    pub repeats: usize,
    /// Length of a turn.
    pub time: Duration,
    /// Packets per turn, instead of a length.
    pub packets: Option<u64>,
}

/// Replacements for a short run; an empty one changes nothing.
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
    /// Turns of each contender at each point.
    pub repeats: Option<usize>,
    /// Length of a turn.
    pub time: Option<Duration>,
    /// Packets per turn.
    pub packets: Option<u64>,
}

/// A result stated in the document.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The contender.
    pub contender: String,
    /// The point: applies to rows with these values.
    pub point: Map<String, Value>,
    /// The metrics by name.
    pub metrics: BTreeMap<String, f64>,
}

/// The files of the built-in scenarios.
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

/// Returns the built-in scenarios.
///
/// # Panics
/// Never: a test parses all of them.
pub fn built_in() -> Vec<Scenario> {
    BUILT_IN.iter().map(|text| parse(text).expect("a test reads them all")).collect()
}

impl Scenario {
    /// Returns the short form.
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

    /// Returns a contender's threads besides its first: one per worker, or per further port.
    pub fn more_threads(&self) -> usize {
        self.workers.max(self.ports - 1)
    }

    /// Returns the document's figures for a row.
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
