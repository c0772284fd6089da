//! What a figure says, as text or as JSON.

use std::fmt;

use serde_json::{Value, json};

use crate::contest::Rounds;
use crate::statistics::Quartiles;

/// Which values are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Rates.
    Higher,
    /// Times.
    Lower,
}

/// A comparison that was made.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// The unit of both sides.
    pub unit: &'static str,
    /// Which values are better.
    pub better: Better,
    /// All measured values.
    pub rounds: Rounds,
    /// Sizes, conditions and doubts, one a line.
    pub details: Vec<String>,
}

impl Figure {
    /// The medians of ours and of the rival.
    pub fn medians(&self) -> (f64, f64) {
        (Quartiles::of(&self.rounds.ours).median, Quartiles::of(&self.rounds.peer).median)
    }

    /// How much better ours is, by medians: above 1 is better.
    pub fn ratio(&self) -> f64 {
        let (ours, peer) = self.medians();
        match self.better {
            Better::Higher => ours / peer,
            Better::Lower => peer / ours,
        }
    }

    /// The same as JSON.
    pub fn to_json(&self) -> Value {
        let (ours, peer) = self.medians();
        json!({
            "figure": self.name, "ours": ours, "peer": peer, "unit": self.unit,
            "ratio": self.ratio(), "ours_runs": self.rounds.ours, "peer_runs": self.rounds.peer,
            "details": self.details,
        })
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((ours, peer), ratio) = (self.medians(), self.ratio());
        let (name, unit) = (&self.name, self.unit);
        write!(f, "figure {name} ours={ours:.4} peer={peer:.4} unit={unit} ratio={ratio:.3}")?;
        let runs = self.rounds.ours.len();
        for (side, values) in [("ours", &self.rounds.ours), ("peer", &self.rounds.peer)] {
            let Quartiles { first, third, .. } = Quartiles::of(values);
            write!(f, "\n  {side}: quartiles {first:.4} to {third:.4} {unit} of {runs} runs")?;
        }
        self.details.iter().try_for_each(|detail| write!(f, "\n  {detail}"))
    }
}

/// What became of a figure.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It was measured.
    Measured(Figure),
    /// It ran at tiny sizes, and both sides agreed.
    Smoke,
    /// This machine lacks what it takes: a rival, or a right. What, and the mend.
    NotHere(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(better: Better) -> Figure {
        let rounds = Rounds { ours: vec![30.0, 10.0, 20.0], peer: vec![10.0, 10.0, 10.0] };
        let (name, details) = ("x".to_owned(), vec!["log 1 MiB".to_owned()]);
        Figure { name, unit: "Mpps", better, rounds, details }
    }

    #[test]
    fn a_ratio_above_one_is_better_either_way() {
        assert_eq!(figure(Better::Higher).ratio(), 2.0);
        assert_eq!(figure(Better::Lower).ratio(), 0.5);
    }

    #[test]
    fn text_and_json() {
        let text = figure(Better::Higher).to_string();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("figure x ours=20.0000 peer=10.0000 unit=Mpps ratio=2.000"));
        assert_eq!(lines.next(), Some("  ours: quartiles 15.0000 to 25.0000 Mpps of 3 runs"));
        assert_eq!(lines.last(), Some("  log 1 MiB"));
        let json = figure(Better::Lower).to_json();
        assert_eq!((json["ratio"].as_f64(), json["ours"].as_f64()), (Some(0.5), Some(20.0)));
    }
}
