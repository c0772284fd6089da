//! The tables of a board.

use serde_json::Value;

use super::board::{Cell, Looks, Table, count, number, word};
use crate::words::{bytes_text, count_text, rate_text, size_text};

fn list<'v>(object: &'v Value, path: &str) -> &'v [Value] {
    object.pointer(path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn counted(object: &Value, path: &str) -> Cell {
    Cell::of(&count_text(count(object, path)))
}

/// Returns a number that may be missing.
fn shown(object: &Value, path: &str) -> Cell {
    Cell::of(&number(object, path).map_or("-".to_owned(), |number| number.to_string()))
}

fn lost_of(object: &Value) -> u64 {
    let causes = object["lost"].as_object();
    causes.map_or(0, |causes| causes.values().filter_map(Value::as_u64).sum())
}

fn rate(looks: &Looks<'_>, path: &str) -> Cell {
    Cell::of(&looks.rate(path).map_or("-".to_owned(), |rate| rate_text(rate, "pps")))
}

/// Returns a table with a row for each item of the list at `path`, or none if the list is empty.
fn table(
    looks: &Looks<'_>,
    path: &str,
    title: &str,
    columns: &'static [&'static str],
    row: impl Fn(usize, &Value) -> Vec<Cell>,
) -> Option<Table> {
    let rows: Vec<_> =
        list(looks.now, path).iter().enumerate().map(|(number, one)| row(number, one)).collect();
    (!rows.is_empty()).then(|| Table { title: title.to_owned(), columns, rows })
}

/// Returns the tables of a job.
pub(super) fn job(looks: &Looks<'_>) -> Vec<Table> {
    let published = word(looks.now, "/published/name");
    let title = match published {
        "" => "Logs".to_owned(),
        name => format!("Logs, published as {}", Cell::of(name).text),
    };
    let parts = [
        losses(looks.now),
        table(
            looks,
            "/ports",
            "Ports",
            &["port", "offered", "delivered", "a second", "bytes", "lost", "in flight"],
            |number, port| {
                vec![
                    Cell::of(word(port, "/port")),
                    counted(port, "/offered"),
                    counted(port, "/delivered"),
                    rate(looks, &format!("/ports/{number}/delivered")),
                    Cell::of(&bytes_text(count(port, "/bytes"))),
                    Cell::lost(lost_of(port)),
                    counted(port, "/in_flight"),
                ]
            },
        ),
        table(
            looks,
            "/workers",
            "Workers and files",
            &["worker", "delivered", "a second", "bytes", "lost", "file "],
            |number, worker| {
                vec![
                    Cell::of(word(worker, "/worker")),
                    counted(worker, "/delivered"),
                    rate(looks, &format!("/workers/{number}/delivered")),
                    Cell::of(&bytes_text(count(worker, "/bytes"))),
                    Cell::lost(lost_of(worker)),
                    Cell::of(worker["file"].as_str().unwrap_or("-")),
                ]
            },
        ),
        table(looks, "/logs", &title, LOG, |number, log| log_row(looks, number, log)),
        table(looks, "/published/readers", "Readers", READER, |_, one| reader_row(one)),
        table(
            looks,
            "/stages",
            "Threads",
            &["thread", "core", "node", "cpu", "sleeps", "age of packets"],
            |number, stage| stage_row(looks, number, stage),
        ),
    ];
    parts.into_iter().flatten().collect()
}

const LOG: &[&str] = &["log", "packets", "a second", "segments", "memory", "full", "seats taken"];

fn log_row(looks: &Looks<'_>, number: usize, log: &Value) -> Vec<Cell> {
    let full = self::number(looks.now, "/log_percent").map(|percent| format!("{percent:.1} %"));
    vec![
        Cell::of(&number.to_string()),
        counted(log, "/packets"),
        rate(looks, &format!("/logs/{number}/packets")),
        counted(log, "/segments"),
        Cell::of(&size_text(count(log, "/log_bytes") as usize)),
        Cell::of(&full.unwrap_or_else(|| "-".to_owned())),
        counted(log, "/seats_taken"),
    ]
}

const READER: &[&str] = &["reader", "log", "policy ", "read", "missed", "behind", "segments held"];

fn reader_row(reader: &Value) -> Vec<Cell> {
    let gone = if reader["there"] == false { ", gone" } else { "" };
    let policy = match reader["demoted"] == true {
        true => "was lossless",
        false => word(reader, "/policy"),
    };
    vec![
        Cell::of(&format!("{} ({}){gone}", word(reader, "/command"), count(reader, "/pid"))),
        counted(reader, "/log"),
        Cell::of(policy),
        counted(reader, "/delivered"),
        Cell::lost(count(reader, "/missed")),
        counted(reader, "/lag"),
        Cell::of(&format!("{} of {}", count(reader, "/held_segments"), count(reader, "/window"))),
    ]
}

fn stage_row(looks: &Looks<'_>, number: usize, stage: &Value) -> Vec<Cell> {
    let place = |what: &str| format!("/placement/threads/{number}/{what}");
    let recent = looks.rate(&format!("/stages/{number}/cpu_s")).map(|cores| cores * 100.0);
    let cpu = recent.or_else(|| self::number(stage, "/cpu_percent"));
    let age = self::number(stage, "/age_s").map(|age_s| format!("{:.3} ms", age_s * 1e3));
    let core = match shown(looks.now, &place("core")) {
        cell if cell.text == "-" => Cell::of("any"),
        cell => cell,
    };
    vec![
        Cell::of(word(stage, "/name")),
        core,
        shown(looks.now, &place("node")),
        Cell::of(&cpu.map_or("-".to_owned(), |percent| format!("{percent:.1} %"))),
        counted(stage, "/sleeps"),
        Cell::of(&age.unwrap_or_else(|| "-".to_owned())),
    ]
}

fn losses(job: &Value) -> Option<Table> {
    let causes = job.pointer("/total/lost")?.as_object()?.iter();
    let causes = causes.filter_map(|(cause, packets)| Some((cause, packets.as_u64()?)));
    let rows: Vec<_> = causes
        .filter(|(_, packets)| *packets > 0)
        .map(|(cause, packets)| vec![Cell::of(cause), Cell::of(&count_text(packets))])
        .collect();
    let title = "Losses by cause".to_owned();
    (!rows.is_empty()).then_some(Table { title, columns: &["cause", "packets"], rows })
}

/// Returns the tables of published names: the logs and readers of each.
pub(super) fn names(looks: &Looks<'_>, names: &[Value]) -> Vec<Table> {
    let mut tables = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let shown = Cell::of(word(name, "/name")).text;
        let error = word(name, "/error");
        if !error.is_empty() {
            let row = vec![Cell { is_bad: true, ..Cell::of(error) }];
            tables.push(Table {
                title: shown,
                columns: &["its publisher has gone "],
                rows: vec![row],
            });
            continue;
        }
        let (pid, uid) = (count(name, "/pid"), count(name, "/uid"));
        let title = format!("{shown}: process {pid} of user {uid}, for {} s", count(name, "/up_s"));
        // Names come and go, so compute rates only for the same name.
        let is_same = looks.before.is_some_and(|before| {
            let then = &before["names"][number];
            then["name"] == name["name"] && then["epoch"] == name["epoch"]
        });
        let then = looks.before.filter(|_| is_same).map(|before| &before["names"][number]);
        let of_name = Looks { now: name, before: then, seconds: looks.seconds };
        let columns = &["log", "packets", "a second", "segments", "memory", "kept", "seats taken"];
        tables.extend(table(&of_name, "/logs", &title, columns, |number, log| {
            let bytes = count(log, "/segments").saturating_mul(count(log, "/segment_bytes"));
            let kept = self::number(log, "/kept_s").filter(|kept_s| *kept_s > 0.0);
            vec![
                Cell::of(&number.to_string()),
                counted(log, "/packets"),
                rate(&of_name, &format!("/logs/{number}/packets")),
                counted(log, "/segments"),
                Cell::of(&size_text(bytes as usize)),
                Cell::of(&kept.map_or("-".to_owned(), |kept_s| format!("{kept_s:.1} s"))),
                Cell::of(&format!("{} of {}", count(log, "/seats_taken"), count(log, "/seats"))),
            ]
        }));
        let title = format!("Readers of {shown}");
        tables.extend(table(&of_name, "/readers", &title, READER, |_, one| reader_row(one)));
    }
    tables
}
