//! `make programs`: creates the table of `docs/sensors.md`, program by program. Each gets the same
//! packets from a file with the real libpcap and from a published log with ours, and must find the
//! same. It also gets them from an interface with the real libpcap. That is the other way to
//! capture live; its arrival times differ.
//!
//! Invariants:
//! - T1: ns per packet come from a turn with all packets, less one with few, which excludes the
//!   start and end of a program. All of its processes count, by the kernel's account of children.
//! - T2: the table depends on the record only.

mod programs;
mod record;
mod turns;

use burstline_testbed::Bed;
use serde_json::{Map, Value, json};

use crate::suricata::RULES;
use crate::traffic::{Packet, mix_of_now};
use programs::{ALL, Program};
use turns::{Place, Source, Turn};

const PACKETS: usize = 120_000;
const FEW: usize = 600;
/// The time between two packets: all packets span some seconds, so that no flow expires.
const APART_NS: u64 = 20_010;
const TURNS: usize = 3;
const SOURCES: [(Source, &str); 3] =
    [(Source::File, "file"), (Source::Log, "log"), (Source::Interface, "veth")];

/// Returns the packets for the programs, with current times.
fn packets(count: usize) -> Vec<Packet> {
    let mut packets = mix_of_now(count);
    let first_ns = packets[0].time_ns;
    for (packet, number) in packets.iter_mut().zip(0..) {
        packet.time_ns = first_ns + number * APART_NS;
    }
    packets
}

fn measured(place: &Place, program: &Program) -> Value {
    let (mut ns, mut found, mut had) = (Map::new(), Map::new(), Map::new());
    let (mut is_same, mut difference) = (true, Value::Null);
    for _ in 0..TURNS {
        let (some, many, mut of_file) = (packets(FEW), packets(PACKETS), Vec::new());
        for (source, name) in SOURCES {
            let few = place.turn(program, source, &some);
            let all = place.turn(program, source, &many);
            let Turn { cpu_ns, found: what, packets: said, read } = all;
            if source != Source::File || program.of_file.is_some() {
                let ns_of = ns.entry(name).or_insert(json!([]));
                let each = cpu_ns.saturating_sub(few.cpu_ns) as f64 / (PACKETS - FEW) as f64;
                ns_of.as_array_mut().unwrap().push(json!(each));
            } else {
                ns.insert(name.to_owned(), json!([]));
            }
            found.insert(name.to_owned(), json!(what.len()));
            had.insert(name.to_owned(), json!(said));
            if let Some([read, missed]) = read {
                had.insert("log_read".to_owned(), json!(read));
                had.insert("log_missed".to_owned(), json!(missed));
            }
            match source {
                Source::File => of_file = what,
                Source::Interface => {}
                Source::Log => {
                    let differs = what.iter().zip(&of_file).find(|(one, other)| one != other);
                    is_same &= what == of_file && !what.is_empty();
                    difference = differs.map_or(difference, |pair| json!(pair));
                }
            }
        }
    }
    json!({
        "name": program.name, "version": program.version(), "command": program.command,
        "finds": program.finds, "packets": had, "found": found, "is_same": is_same,
        "difference": difference, "ns": ns,
    })
}

#[test]
fn the_page_has_the_table_of_the_record() {
    let [made, page] = record::pages();
    assert!(made == page, "docs/sensors.md is not up to date: make programs");
}

#[test]
fn the_record_has_every_program_and_nothing_that_differs() {
    let record = record::committed();
    let rows = record["programs"].as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ALL.map(|program| program.name));
    for row in rows {
        assert_eq!((&row["is_same"], &row["difference"]), (&json!(true), &Value::Null), "{row:#}");
        assert_eq!(row["packets"]["log_read"], record["packets"], "{row:#}");
    }
}

/// Writes record and table; fails if a program did not find the same.
#[test]
#[ignore = "make programs runs it: minutes, and a quiet machine"]
fn measure_programs() {
    let bed = Bed::new().expect("as root");
    let place = Place::new(bed, RULES);
    let only = std::env::var("PROGRAM").ok();
    let mut rows = Vec::new();
    for program in &ALL {
        if only.as_ref().is_some_and(|only| only != program.name) {
            continue;
        }
        let lacking = program.lacks();
        assert_eq!(lacking, None, "for {}: scripts/setup test sensors", program.name);
        let row = measured(&place, program);
        eprintln!("{row:#}");
        rows.push(row);
    }
    if only.is_none() {
        record::write([PACKETS, FEW], &rows);
    }
    let differ: Vec<_> = rows.iter().filter(|row| row["is_same"] != true).collect();
    assert!(differ.is_empty(), "{differ:#?}");
}
