//! The points of a scenario: all combinations of its parameters.

use serde_json::{Map, Value};

use super::{Placement, Rate, Scenario, Work};

/// One combination of the parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The frame size, with FCS, if the work has one.
    pub size_bytes: Option<u32>,
    /// The rate.
    pub rate: Rate,
    /// The placement.
    pub placement: Placement,
    /// The kind of traffic or of memory.
    pub case: Option<String>,
    /// The keys in records. Parameters with a single value are left out, except the size.
    pub keys: Map<String, Value>,
}

impl Point {
    /// Returns all points, in the order of measurement.
    pub fn all(scenario: &Scenario) -> Vec<Self> {
        let placements = match scenario.placements.as_slice() {
            [] => vec![Placement::Auto],
            some => some.to_vec(),
        };
        let mut points = Vec::new();
        for placement in &placements {
            for &rate in &scenario.rates {
                for case in optional(&scenario.cases) {
                    for size_bytes in optional(&scenario.sizes) {
                        let mut point = Self {
                            size_bytes,
                            rate,
                            placement: placement.clone(),
                            case: case.clone(),
                            keys: Map::new(),
                        };
                        point.keys = point.make_keys(scenario);
                        points.push(point);
                    }
                }
            }
        }
        points
    }

    fn make_keys(&self, scenario: &Scenario) -> Map<String, Value> {
        let mut keys = Map::new();
        if let Some(size_bytes) = self.size_bytes {
            keys.insert("size_bytes".to_owned(), size_bytes.into());
        }
        if scenario.rates != [Rate::Max] {
            let rate = match self.rate {
                Rate::Max => Value::from("max"),
                Rate::PerSecond(packets) => packets.into(),
            };
            keys.insert("rate_pps".to_owned(), rate);
        }
        if !scenario.placements.is_empty() {
            keys.insert("placement".to_owned(), self.placement.to_string().into());
        }
        if let Some(case) = &self.case {
            let number = case.parse::<u64>().ok().filter(|_| scenario.work == Work::Keep);
            let value = number.map_or(Value::from(case.as_str()), Value::from);
            keys.insert(scenario.work.case_key().to_owned(), value);
        }
        keys
    }
}

/// Returns each value, or `None` once if there are none.
fn optional<T: Clone>(values: &[T]) -> Vec<Option<T>> {
    match values {
        [] => vec![None],
        some => some.iter().cloned().map(Some).collect(),
    }
}

/// Describes a point in a few words: `size_bytes 64, rate_pps max`.
pub(super) fn words(keys: &Map<String, Value>) -> String {
    let word = |(key, value): (&String, &Value)| match value {
        Value::String(text) => format!("{key} {text}"),
        other => format!("{key} {other}"),
    };
    let words: Vec<String> = keys.iter().map(word).collect();
    if words.is_empty() { "all of it".to_owned() } else { words.join(", ") }
}
