//! The comparison that a figure of the bench makes, and its output line.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use burstline_sys::distance::FAR_NS;
use serde::{Deserialize, Serialize};

use super::{Metric, Record};
use crate::compared::Better;
use crate::statistics::Quartiles;

/// A comparison of two contenders of a record by one metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The metric, a name of [`Row::metrics`](super::Row::metrics).
    pub metric: String,
    /// Which of its values are better.
    pub better: Better,
    /// Our contender.
    pub ours: String,
    /// The other contender.
    pub rival: String,
    /// How much better ours is, by medians; above 1 is better.
    pub ratio: f64,
    /// Page kinds by contender, in older records: see [`Record::pages_of`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pages: BTreeMap<String, String>,
    /// Distance of the two cores; `None` if there was only one or the distance was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance: Option<Distance>,
}

/// The time that a cache line takes from one core to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distance {
    /// The cores.
    pub cores: [u32; 2],
    /// Time before the measurement of the figure or point, in ns.
    pub before_ns: f64,
    /// Time after it, in ns.
    pub after_ns: f64,
}

impl Distance {
    /// A change of the distance by this factor or more raises a doubt.
    pub const CHANGE: f64 = 2.0;

    /// Returns whether the distance of the cores changed meanwhile: the two times are on different
    /// sides of [`FAR_NS`], or differ by a factor of [`CHANGE`](Self::CHANGE).
    pub fn has_changed(&self) -> bool {
        let (near, far) = (self.before_ns.min(self.after_ns), self.before_ns.max(self.after_ns));
        (near < FAR_NS && far >= FAR_NS) || far >= Self::CHANGE * near
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} to {:.0} ns", self.before_ns, self.after_ns)
    }
}

/// The two sides of a figure.
#[derive(Clone, Copy, Debug)]
pub struct Sides<'r> {
    /// The comparison.
    pub comparison: &'r Comparison,
    /// Our metric.
    pub ours: &'r Metric,
    /// The rival's metric.
    pub rival: &'r Metric,
}

impl Record {
    /// Returns the compared metrics, ours and the rival's. `None` if the record compares nothing.
    pub fn compared(&self) -> Option<Sides<'_>> {
        let comparison = self.comparison.as_ref()?;
        let of = |name: &str| {
            let row = self.rows.iter().find(|row| row.contender == name)?;
            row.metrics.get(&comparison.metric)
        };
        let (ours, rival) = (of(&comparison.ours)?, of(&comparison.rival)?);
        Some(Sides { comparison, ours, rival })
    }

    /// Returns whether the cores were far apart both before and after the figure.
    pub fn is_far(&self) -> bool {
        let distance = self.comparison.as_ref().and_then(|comparison| comparison.distance);
        distance.is_some_and(|of| of.before_ns.min(of.after_ns) >= FAR_NS)
    }

    /// Formats a figure as `bench` prints it: one line, and below it the facts needed to doubt it.
    pub fn figure_text(&self) -> Option<String> {
        let Sides { comparison, ours, rival: peer } = self.compared()?;
        let (unit, ratio) = (&ours.unit, comparison.ratio);
        let mut text = format!(
            "figure {} ours={:.4} peer={:.4} unit={unit} ratio={ratio:.3}",
            self.scenario, ours.median, peer.median
        );
        // Writing to a string cannot fail.
        if let Some(Distance { before_ns, after_ns, .. }) = comparison.distance {
            let _ = write!(text, " distance={before_ns:.0}..{after_ns:.0}");
        }
        for (side, metric) in [("ours", ours), ("peer", peer)] {
            let Quartiles { first, third, .. } = Quartiles::of(&metric.samples);
            let runs = metric.samples.len();
            let _ = write!(
                text,
                "\n  {side}: quartiles {first:.4} to {third:.4} {unit} of {runs} runs"
            );
        }
        self.notes.iter().for_each(|note| text += &format!("\n  {note}"));
        self.doubts.iter().for_each(|doubt| text += &format!("\n  doubt: {}", doubt.text));
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Doubt, Row};
    use super::*;
    use crate::contenders::Sample;

    fn figure() -> Record {
        let row = |name: &str, values: &[f64]| {
            let sample = |&value| {
                let mut sample = Sample::default();
                sample.set("mpps", "Mpps", value);
                sample
            };
            Row::of(name, &values.iter().map(sample).collect::<Vec<_>>())
        };
        let distance = Distance { cores: [0, 1], before_ns: 61.2, after_ns: 90.0 };
        let comparison = Comparison {
            metric: "mpps".to_owned(),
            ours: "ours".to_owned(),
            rival: "pool".to_owned(),
            ratio: 2.0,
            distance: Some(distance),
            ..Comparison::default()
        };
        Record {
            scenario: "x".to_owned(),
            rows: vec![row("ours", &[30.0, 10.0, 20.0]), row("pool", &[10.0; 3])],
            comparison: Some(comparison),
            notes: vec!["log 1 MiB".to_owned()],
            doubts: vec![Doubt::new("conditions", "other load")],
            ..Record::default()
        }
    }

    #[test]
    fn a_figure_is_a_line_with_quartiles_notes_and_doubts_below() {
        let text = figure().figure_text().unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let first = "figure x ours=20.0000 peer=10.0000 unit=Mpps ratio=2.000 distance=61..90";
        let ours = "  ours: quartiles 15.0000 to 25.0000 Mpps of 3 runs";
        assert_eq!((lines[0], lines[1]), (first, ours));
        assert_eq!(lines[3..], ["  log 1 MiB", "  doubt: other load"]);
        let nothing = Record { comparison: None, ..figure() };
        assert_eq!(nothing.figure_text(), None);
    }

    #[test]
    fn a_distance_changes_from_near_to_far_or_by_a_factor_of_two() {
        let changed =
            |before_ns, after_ns| Distance { cores: [0, 1], before_ns, after_ns }.has_changed();
        assert!(!changed(60.0, 119.0) && !changed(120.0, 230.0) && !changed(50.0, 50.0));
        assert!(changed(119.0, 120.0) && changed(215.0, 50.0), "from one side to the other");
        assert!(changed(26.0, 52.0) && changed(52.0, 26.0), "twice as far");
    }
}
