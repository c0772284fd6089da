//! The output of `fetch`.

use std::fmt::Write as _;

use burstline_engine::Attempt;
use burstline_fleet::{Answer, Outcome};
use serde_json::{Value, json};

use crate::foreign::one_line;
use crate::view::values::losses;
use crate::words::{bytes_text, count_text, counted_text, packets_text};

/// The result of one sensor.
pub(crate) struct Fetched {
    pub(crate) name: String,
    pub(crate) answer: Answer,
    /// Number of packets received from the sensor.
    pub(crate) came: u64,
    /// Whether the received bytes are a readable capture.
    pub(crate) is_capture: bool,
}

/// The total ledger: received packets are written or lost.
pub(crate) struct Sum {
    pub(crate) came: u64,
    pub(crate) written: u64,
    pub(crate) lost: u64,
    pub(crate) unaccounted: i64,
}

impl Sum {
    pub(crate) fn of(sensors: &[Fetched], merged: Option<&Attempt>) -> Self {
        let came: u64 = sensors.iter().map(|sensor| sensor.came).sum();
        let source = merged.map_or(0, |merged| merged.extracted.source.lost.total());
        let sink = merged.map_or(0, |merged| merged.extracted.sink.lost.total());
        let passed = merged.map_or(0, |merged| merged.extracted.packets);
        // Packets that a source counts as lost never counted as received.
        let in_flight = merged.map_or(0, |merged| merged.extracted.source.in_flight);
        let unaccounted = came as i64 - (passed + in_flight) as i64;
        let stopped = merged.is_some_and(|one| one.extracted.is_stopped || one.failure.is_some());
        let unaccounted = if stopped { 0 } else { unaccounted };
        Self { came, written: passed.saturating_sub(sink), lost: source + sink, unaccounted }
    }
}

fn outcome(answer: &Answer) -> (&'static str, Option<&str>) {
    match &answer.outcome {
        Outcome::Whole => ("whole", None),
        Outcome::Partial(why) => ("partial", Some(why)),
        Outcome::Failed(why) => ("failed", Some(why)),
    }
}

/// Returns the lines for people.
pub(crate) fn text(sensors: &[Fetched], sum: &Sum, output: &str) -> String {
    let widest = sensors.iter().map(|sensor| sensor.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for sensor in sensors {
        let number = |key| sensor.answer.number(key).map_or("?".to_owned(), count_text);
        let (offered, found) = (number("offered"), number("delivered"));
        let (came, bytes) = (count_text(sensor.came), bytes_text(sensor.answer.bytes));
        let (name, (how, why)) = (&sensor.name, outcome(&sensor.answer));
        // Writing to a string cannot fail, here and below.
        let _ = write!(text, "{name:widest$}  {how:7}  had {offered}, found {found}, sent {came}");
        let _ = write!(text, " ({bytes})");
        if let Some(why) = why {
            let _ = write!(text, ": {}", one_line(why));
        }
        text += "\n";
    }
    let is_whole = |sensor: &&Fetched| sensor.answer.outcome == Outcome::Whole;
    let whole = sensors.iter().filter(is_whole).count();
    let output = one_line(output);
    let _ = match sensors.iter().any(|sensor| sensor.is_capture) {
        true => write!(text, "{} written to {output}, ", packets_text(sum.written)),
        false => write!(text, "nothing received: {output} is not written, "),
    };
    let all = counted_text(sensors.len() as u64, "sensor");
    let _ = writeln!(text, "lost {}, {whole} of {all} whole", count_text(sum.lost));
    text
}

/// Returns the JSON object.
pub(crate) fn object(
    sensors: &[Fetched],
    merged: Option<&Attempt>,
    sum: &Sum,
    is_success: bool,
) -> String {
    let sensor = |sensor: &Fetched| {
        let (how, why) = outcome(&sensor.answer);
        json!({
            "sensor": sensor.name,
            "outcome": how,
            "reason": why,
            "offered": sensor.answer.number("offered"),
            "found": sensor.answer.number("delivered"),
            "came": sensor.came,
            "bytes": sensor.answer.bytes,
            "lost": sensor.answer.report.as_ref().map_or(Value::Null, |of| of["lost"].clone()),
        })
    };
    let object = json!({
        "command": "fetch",
        "sensors": sensors.iter().map(sensor).collect::<Vec<_>>(),
        "came": sum.came,
        "written": sum.written,
        "lost": merged.map_or(json!({}), |merged| {
            let mut lost = merged.extracted.source.lost.clone();
            lost.merge(&merged.extracted.sink.lost);
            losses(&lost)
        }),
        "unaccounted": sum.unaccounted,
        "success": is_success,
    });
    format!("{object}\n")
}
