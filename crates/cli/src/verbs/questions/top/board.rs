//! The content of `top`: a title, a state, a rate over time, and tables. Built from JSON, drawn
//! elsewhere.

use std::collections::VecDeque;
use std::time::Instant;

use serde_json::Value;

use super::parts;
use super::source::News;
use crate::foreign::one_line;
use crate::words::{count_text, packets_text, rate_text};

/// Seconds of the past to keep.
const PAST: usize = 180;

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) text: String,
    /// Whether the value signals a problem.
    pub(super) is_bad: bool,
}

impl Cell {
    /// Returns a cell with untrusted text.
    pub(super) fn of(text: &str) -> Self {
        Self { text: one_line(text).into_owned(), is_bad: false }
    }

    /// Returns a cell with a number of packets that should be 0.
    pub(super) fn lost(packets: u64) -> Self {
        Self { text: count_text(packets), is_bad: packets > 0 }
    }
}

/// A table: the first column is text, the others are numbers unless their name ends in a space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) title: String,
    pub(super) columns: &'static [&'static str],
    pub(super) rows: Vec<Vec<Cell>>,
}

/// The state of the job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mood {
    /// No data yet.
    #[default]
    Waiting,
    Good,
    Bad,
}

/// The whole content of the screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Board {
    pub(super) title: String,
    pub(super) state: String,
    pub(super) mood: Mood,
    /// A sentence that sums up the tables.
    pub(super) sum: String,
    /// Packets per second over the last minutes, the newest last.
    pub(super) rates: Vec<u64>,
    pub(super) tables: Vec<Table>,
}

/// Two samples of an object, from which rates are computed.
pub(super) struct Looks<'a> {
    pub(super) now: &'a Value,
    pub(super) before: Option<&'a Value>,
    pub(super) seconds: f64,
}

impl Looks<'_> {
    /// Returns the growth rate of the counter at `path`, or `None` if it is not known yet.
    pub(super) fn rate(&self, path: &str) -> Option<f64> {
        let (before, now) = (self.before?.pointer(path)?.as_f64()?, number(self.now, path)?);
        (self.seconds > 0.0).then(|| (now - before).max(0.0) / self.seconds)
    }
}

pub(super) fn number(object: &Value, path: &str) -> Option<f64> {
    object.pointer(path)?.as_f64()
}

/// Returns a counter, or 0 if it is missing.
pub(super) fn count(object: &Value, path: &str) -> u64 {
    object.pointer(path).and_then(Value::as_u64).unwrap_or(0)
}

pub(super) fn word<'v>(object: &'v Value, path: &str) -> &'v str {
    object.pointer(path).and_then(Value::as_str).unwrap_or("")
}

/// The data received so far.
#[derive(Debug, Default)]
pub(super) struct Series {
    /// Displayed until the job reports its name.
    name: String,
    now: Option<(Instant, Value)>,
    before: Option<(Instant, Value)>,
    rates: VecDeque<u64>,
    lost: Option<String>,
    is_over: bool,
    /// Number of updates received.
    heard: u64,
}

impl Series {
    pub(super) fn new(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    /// Processes an update.
    pub(super) fn hear(&mut self, news: News) {
        self.hear_at(news, Instant::now());
    }

    /// Returns the number of updates received.
    pub(super) fn heard(&self) -> u64 {
        self.heard
    }

    pub(super) fn hear_at(&mut self, news: News, now: Instant) {
        self.heard += 1;
        match news {
            News::Lost(why) => self.lost = Some(why),
            News::Past(past) => {
                self.rates = rates_of(&past);
                (self.now, self.before) = (None, None);
            }
            News::State(state) => {
                self.lost = None;
                self.before = self.now.replace((now, state));
                if let Some(rate) = self.looks().and_then(|looks| looks.rate("/total/delivered")) {
                    self.rates.push_back(rate as u64);
                }
                while self.rates.len() > PAST {
                    self.rates.pop_front();
                }
            }
            News::End(report) => {
                self.lost = None;
                (self.now, self.before, self.is_over) = (Some((now, report)), None, true);
            }
        }
    }

    fn looks(&self) -> Option<Looks<'_>> {
        let (at, now) = self.now.as_ref()?;
        let before = self.before.as_ref();
        let span = before.map_or(0.0, |(then, _)| (*at - *then).as_secs_f64());
        // A job reports the time of each sample itself.
        let own = before
            .and_then(|(_, then)| Some(number(now, "/elapsed_s")? - number(then, "/elapsed_s")?));
        let seconds = own.unwrap_or(span);
        Some(Looks { now, before: before.map(|(_, value)| value), seconds })
    }

    /// Returns the current content.
    pub(super) fn board(&self) -> Board {
        let mut board = Board { title: self.name.clone(), ..Board::default() };
        let Some(looks) = self.looks() else {
            board.state = self.lost.clone().unwrap_or_else(|| "connecting".to_owned());
            board.mood = if self.lost.is_some() { Mood::Bad } else { Mood::Waiting };
            return board;
        };
        board.rates = self.rates.iter().copied().collect();
        match looks.now["names"].is_array() {
            true => names(&mut board, &looks),
            false => job(&mut board, &looks, self.is_over),
        }
        if let Some(why) = &self.lost {
            board.state = format!("connection lost, the figures are old: {}", one_line(why));
            board.mood = Mood::Bad;
        }
        board
    }
}

fn rates_of(past: &Value) -> VecDeque<u64> {
    let column = |name: &str| -> Vec<f64> {
        let values = past[name].as_array().map(Vec::as_slice).unwrap_or_default();
        values.iter().filter_map(Value::as_f64).take(10 * PAST).collect()
    };
    let (times, packets) = (column("elapsed_s"), column("delivered"));
    let points: Vec<_> = times.into_iter().zip(packets).collect();
    let rate = |pair: &[(f64, f64)]| {
        let seconds = pair[1].0 - pair[0].0;
        if seconds > 0.0 { ((pair[1].1 - pair[0].1).max(0.0) / seconds) as u64 } else { 0 }
    };
    points.windows(2).map(rate).collect()
}

/// Fills the board with this machine's published logs.
fn names(board: &mut Board, looks: &Looks<'_>) {
    let names = looks.now["names"].as_array().map(Vec::as_slice).unwrap_or_default();
    board.title = "burstline top: published logs".to_owned();
    board.mood = Mood::Good;
    board.state = match names.len() {
        0 => {
            "no log is published: burstline capture SOURCE --publish NAME publishes one".to_owned()
        }
        1 => "1 name".to_owned(),
        count => format!("{count} names"),
    };
    board.rates = Vec::new();
    board.tables = parts::names(looks, names);
}

/// Fills the board with a running job, or one that has ended.
fn job(board: &mut Board, looks: &Looks<'_>, is_over: bool) {
    let now = looks.now;
    let (command, sink) = (word(now, "/command"), word(now, "/sink"));
    let to = if sink.is_empty() { String::new() } else { format!(" to {sink}") };
    board.title = one_line(&format!("burstline {command}{to}")).into_owned();
    let elapsed_s = number(now, "/elapsed_s").unwrap_or(0.0);
    (board.state, board.mood) = match word(now, "/state") {
        "starting" => ("starting: opening ports".to_owned(), Mood::Waiting),
        "running" => (format!("running for {elapsed_s:.0} s"), Mood::Good),
        state => (ended(now, state), if state == "ended" { Mood::Good } else { Mood::Bad }),
    };
    let delivered = count(now, "/total/delivered");
    let average = delivered as f64 / elapsed_s.max(1e-9);
    let rate = match (is_over, looks.rate("/total/delivered")) {
        (false, Some(rate)) => rate_text(rate, "pps"),
        _ => format!("{} on average", rate_text(average, "pps")),
    };
    let bits = looks.rate("/total/wire_bytes").map(|bytes| rate_text(bytes * 8.0, "bit/s"));
    let bits = bits.map_or(String::new(), |bits| format!(", {bits}"));
    let missing = number(now, "/outcome/lost").map_or(count(now, "/total/missing"), |n| n as u64);
    let lost = count_text(missing);
    board.sum = format!("{rate}{bits}; {} delivered, {lost} lost", packets_text(delivered));
    board.tables = parts::job(looks);
}

fn ended(report: &Value, state: &str) -> String {
    let texts = |path: &str| -> Vec<String> {
        let list = report.pointer(path).and_then(Value::as_array);
        let texts = list.into_iter().flatten().filter_map(Value::as_str);
        texts.filter(|text| *text != "error").map(|text| one_line(text).into_owned()).collect()
    };
    let mut parts: Vec<String> = Vec::new();
    if state != "ended" {
        parts.extend(texts("/errors"));
        parts.extend(texts("/outcome/faults"));
    }
    if let Some(lost) = report.pointer("/outcome/lost").and_then(Value::as_u64) {
        let lost = if lost == 0 { "no packets".to_owned() } else { packets_text(lost) };
        let unaccounted = report.pointer("/total/unaccounted").and_then(Value::as_i64);
        parts.push(format!("{lost} lost, {} unaccounted", unaccounted.unwrap_or(0)));
    }
    let verb = if state == "ended" { "ended" } else { "failed" };
    format!("the job has {verb}: {}", parts.join("; "))
}
