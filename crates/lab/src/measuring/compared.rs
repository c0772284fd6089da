//! The results of contenders that took turns, before they become a record.
//!
//! ```text
//!   figures (bench) ---\
//!                       >-- Compared: samples of each side --> rows --> Record --> a line, a file
//!   scenarios ---------/
//! ```

use serde::{Deserialize, Serialize};

use crate::contenders::Sample;
use crate::contest::Rounds;

/// The name of our side in a figure.
pub const OURS: &str = "ours";

/// The pages of a side whose memory in this process is of an unknown kind.
pub(crate) const SHARED: &str = "shared: both sides are in one process";

/// Which values are better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Higher, for rates.
    #[default]
    Higher,
    /// Lower, for times.
    Lower,
}

impl Better {
    /// Returns how much better ours is: above 1 is better.
    pub fn ratio(self, ours: f64, peer: f64) -> f64 {
        match self {
            Self::Higher => ours / peer,
            Self::Lower => peer / ours,
        }
    }
}

/// A contender's turns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// Its name in the record; [`OURS`] in a figure.
    pub contender: &'static str,
    /// One sample per turn.
    pub samples: Vec<Sample>,
    /// Page kind of its memory, if that belongs to this process.
    pub pages: Option<String>,
}

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Compared {
    /// The sides, ours first.
    pub sides: Vec<Side>,
    /// The metric in all samples that is compared.
    pub metric: &'static str,
    /// Which of its values are better.
    pub better: Better,
    /// Sizes and conditions, one a line; doubts begin with `doubt: `.
    pub details: Vec<String>,
}

impl Compared {
    /// Creates one from one value per turn. The unit determines the name in records.
    pub fn of(unit: &'static str, better: Better, rounds: Rounds, details: Vec<String>) -> Self {
        let metric = metric_of(unit);
        let sample = |value: f64| {
            let mut sample = Sample::default();
            sample.set(metric, unit, value);
            sample
        };
        let samples = |values: Vec<f64>| values.into_iter().map(sample).collect();
        let rounds = Rounds { ours: samples(rounds.ours), peer: samples(rounds.peer) };
        Self::of_samples(metric, better, rounds, details)
    }

    /// Creates one from several metrics per turn; compares `metric`.
    pub fn of_samples(
        metric: &'static str,
        better: Better,
        rounds: Rounds<Sample>,
        details: Vec<String>,
    ) -> Self {
        let pages = rounds.pages();
        let side = |contender, samples| Side { contender, samples, pages: None };
        let sides = vec![side(OURS, rounds.ours), side("peer", rounds.peer)];
        Self { sides, metric, better, details }.in_known_pages(pages)
    }

    /// Sets the names of the sides.
    #[must_use]
    pub fn named(mut self, names: [&'static str; 2]) -> Self {
        for (side, name) in self.sides.iter_mut().zip(names) {
            side.contender = name;
        }
        self
    }

    /// Sets the page kinds of the sides: adds a line, and a doubt if they differ.
    #[must_use]
    pub fn in_pages<P: ToString>(self, pages: [P; 2]) -> Self {
        self.in_known_pages(pages.map(|pages| Some(pages.to_string())))
    }

    /// The same if a page kind is unknown or the memory is not of this process.
    pub(crate) fn in_known_pages(mut self, pages: [Option<String>; 2]) -> Self {
        if let [Some(ours), Some(peer)] = &pages {
            self.details.push(format!("pages: ours {ours}, peer {peer}"));
            if ours != peer {
                self.details.push("doubt: the sides have different pages".to_owned());
            }
        }
        for (side, pages) in self.sides.iter_mut().zip(pages) {
            side.pages = pages.or(side.pages.take());
        }
        self
    }
}

/// Returns the values of a metric that all samples have.
///
/// # Panics
/// If one has none.
pub(crate) fn values_of(samples: &[Sample], metric: &str) -> Vec<f64> {
    samples.iter().map(|sample| sample.figures[metric].value).collect()
}

impl Rounds<Sample> {
    /// Returns the values of a metric that all samples have.
    ///
    /// # Panics
    /// If one has none.
    pub(crate) fn values_of(&self, metric: &str) -> Rounds {
        Rounds { ours: values_of(&self.ours, metric), peer: values_of(&self.peer, metric) }
    }

    /// Returns the page kinds of the sides' memory in this process.
    fn pages(&self) -> [Option<String>; 2] {
        [&self.ours, &self.peer].map(|samples| Sample::page_kinds(samples.iter()))
    }

    /// Checks that each side reports its pages, in this process or in its own.
    ///
    /// # Errors
    /// If one does not.
    pub(crate) fn have_pages(&self) -> Result<(), String> {
        for (side, samples) in [(OURS, &self.ours), ("the peer", &self.peer)] {
            let has = |sample: &Sample| sample.page.is_some() || sample.pages.is_some();
            if !samples.iter().any(has) {
                return Err(format!("{side} does not report its pages"));
            }
        }
        Ok(())
    }
}

/// The outcome of a figure.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It was measured.
    Measured(Compared),
    /// It ran at tiny sizes, and both sides agreed.
    Smoke,
    /// This machine lacks something: a rival or a permission. Holds what, and the fix. If a part of
    /// our own build is missing, that is an error.
    NotHere(String),
}

impl Outcome {
    /// Sets the page kinds of the sides, if they were measured.
    pub(crate) fn in_pages<P: ToString>(self, pages: [P; 2]) -> Self {
        self.in_known_pages(pages.map(|pages| Some(pages.to_string())))
    }

    /// The same if a page kind is unknown or the memory is not of this process.
    pub(crate) fn in_known_pages(self, pages: [Option<String>; 2]) -> Self {
        match self {
            Self::Measured(compared) => Self::Measured(compared.in_known_pages(pages)),
            other => other,
        }
    }

    /// Says that both sides ran in this process, where their page kinds are not known.
    pub(crate) fn here(mut self) -> Self {
        if let Self::Measured(compared) = &mut self {
            for side in &mut compared.sides {
                side.pages.get_or_insert_with(|| SHARED.to_owned());
            }
        }
        self
    }
}

/// Returns a metric's name in records, by its unit.
fn metric_of(unit: &str) -> &'static str {
    match unit {
        "Mpps" => "mpps",
        "M/busy s" => "mpps_per_busy_s",
        "ns" => "ns",
        "s" => "s",
        "cycles" => "cycles",
        "% of a core" => "cpu_percent",
        "% received" => "received_percent",
        "us late at p99" => "late_p99_us",
        _ => "value",
    }
}

#[cfg(test)]
mod tests {
    use burstline_sys::memory::PageKind;

    use super::*;
    use crate::record::Pages;

    #[test]
    fn a_ratio_above_one_is_better_either_way() {
        assert_eq!((Better::Higher.ratio(20.0, 10.0), Better::Lower.ratio(20.0, 10.0)), (2.0, 0.5));
    }

    #[test]
    fn pages_are_those_of_each_sides_samples() {
        let here = |page| Sample { page: Some(page), ..Sample::default() };
        let own = Sample { pages: Some(Pages::default()), ..Sample::default() };
        let of = |ours: &Sample, peer: &Sample| Rounds {
            ours: vec![ours.clone()],
            peer: vec![peer.clone()],
        };
        let rounds = of(&here(PageKind::Size2M), &own);
        assert_eq!(rounds.have_pages(), Ok(()));
        let compared = Compared::of_samples("mpps", Better::Higher, rounds, Vec::new());
        let pages: Vec<_> = compared.sides.iter().map(|side| side.pages.as_deref()).collect();
        assert_eq!((pages, compared.details.len()), (vec![Some("2 MiB"), None], 0));
        let rounds = of(&here(PageKind::Size2M), &here(PageKind::Size4K));
        let compared = Compared::of_samples("mpps", Better::Higher, rounds, Vec::new());
        assert_eq!(compared.details[1], "doubt: the sides have different pages");
        let kinds = [PageKind::Size2M, PageKind::Size4K, PageKind::Size2M].map(here);
        assert_eq!(Sample::page_kinds(kinds.iter()).as_deref(), Some("2 MiB and 4 KiB"));
        let missing = of(&own, &Sample::default()).have_pages().unwrap_err();
        assert_eq!(missing, "the peer does not report its pages");
    }

    #[test]
    fn different_pages_are_a_doubt() {
        let rounds = || Rounds { ours: vec![2.0], peer: vec![1.0] };
        let compared = || Compared::of("Mpps", Better::Higher, rounds(), Vec::new());
        assert_eq!(
            compared().in_pages(["2 MiB", "2 MiB"]).details,
            ["pages: ours 2 MiB, peer 2 MiB"]
        );
        let compared = compared().in_pages(["2 MiB", "4 KiB"]).named([OURS, "pool"]);
        assert_eq!(compared.details[1], "doubt: the sides have different pages");
        let pages: Vec<_> = compared.sides.iter().map(|side| side.pages.as_deref()).collect();
        assert_eq!(pages, [Some("2 MiB"), Some("4 KiB")]);
        assert_eq!(compared.sides[1].contender, "pool");
    }

    #[test]
    fn sides_of_unknown_pages_here_share_those_of_the_process() {
        let rounds = Rounds { ours: vec![2.0], peer: vec![1.0] };
        let compared = Compared::of("ns", Better::Lower, rounds, Vec::new());
        let compared = compared.in_known_pages([Some("2 MiB".to_owned()), None]);
        let Outcome::Measured(compared) = Outcome::Measured(compared).here() else { panic!() };
        let pages: Vec<_> = compared.sides.iter().map(|side| side.pages.as_deref()).collect();
        assert_eq!((pages, compared.details.len()), (vec![Some("2 MiB"), Some(SHARED)], 0));
    }
}
