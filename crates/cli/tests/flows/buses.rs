//! Flow records to real buses: acknowledged records arrive exactly once, despite faults of bus,
//! network or sensor. `make buses` builds the program with both clients and runs these tests.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::support::buses::{Bus, Kind, STREAM, batches, enter};
use crate::support::endless::{self, Endless};
use crate::support::{Directory, PROGRAM, REAL, REAL_PACKETS, run, run_json};
use burstline_testbed::{Bed, FAR_ADDRESS, NEAR};
use serde_json::Value;

/// Each packet is a record, because its flow is idle for 10 ms.
const STEADY: &str = "gen:?rate=20000&flows=200&size=64";
const SHORT: [&str; 4] = ["--idle", "5ms", "--active", "5ms"];
/// 300,000 records of one packet each, without pause: about 8 MB of messages.
const MANY: &str = "gen:?packets=300000&flows=300000&size=64";
/// Time for events to happen; nothing is asserted about it.
const WHILE: Duration = Duration::from_secs(2);

/// Defines a test for each bus.
macro_rules! on_both {
    ($($name:ident),*) => { $(
        mod $name {
            #[test]
            fn kafka() {
                super::$name(super::Kind::Kafka);
            }

            #[test]
            fn nats() {
                super::$name(super::Kind::Nats);
            }
        }
    )* };
}

on_both!(
    all_is_acknowledged_and_there,
    a_bus_that_is_killed_comes_back_to_what_it_missed,
    a_sensor_that_is_killed_sends_the_rest_at_its_next_start,
    a_full_spool_loses_records_by_name,
    an_absent_or_silent_bus_loses_records_by_name,
    a_cut_cable_loses_nothing
);

/// A sensor that runs until it is asked to end.
struct Sensor(Endless);

impl Sensor {
    /// Starts the sensor and waits until packets arrive.
    fn start(prefix: &[String], arguments: &[&str]) -> Self {
        let program = [PROGRAM.to_owned(), "flows".to_owned()];
        let words: Vec<&String> = prefix.iter().chain(&program).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(arguments).stdin(Stdio::null());
        let mut job = endless::spawn(command);
        job.wait_for_packets();
        Self(job)
    }

    /// Ends the sensor and returns its report.
    fn end(self) -> Value {
        closed(endless::end(self.0, "-INT"))
    }

    fn kill(self) {
        drop(self);
    }
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key}: {value}"))
}

fn sink(report: &Value) -> &Value {
    &report["flows"]["sinks"][0]
}

/// Checks that all records, and so packets, are acknowledged, spooled or lost by name.
fn closed(report: Value) -> Value {
    let (flows, sink) = (&report["flows"], sink(&report));
    let by_name = flows["records_dropped_by"].as_object().unwrap().values();
    assert_eq!(
        by_name.map(|lost| lost.as_u64().unwrap()).sum::<u64>(),
        number(flows, "records_dropped")
    );
    let records = number(sink, "records") + number(sink, "records_spooled");
    assert_eq!(records + number(flows, "records_dropped"), number(flows, "records"), "{flows}");
    let packets = number(sink, "packets") + number(sink, "packets_spooled");
    let lost = number(flows, "packets_in_records_dropped");
    assert_eq!(packets + lost, number(flows, "packets_in_records"), "{flows}");
    assert_eq!(number(flows, "unaccounted"), 0);
    report
}

/// Sends records to a bus from a finite source.
fn send(bus: &Bus, source: &str, more: &[&str]) -> Value {
    send_with_code(bus, source, more, 0)
}

/// The same, expecting this exit code.
fn send_with_code(bus: &Bus, source: &str, more: &[&str], code: i32) -> Value {
    let words = [&["flows", source, "--sensor", "one"], &bus.flag()[..], more].concat();
    closed(run_json(&words, code))
}

/// Sends real packets, and the spool's content, until the spool is empty. Returns the number of
/// records made by these starts, and found in the spool.
fn drain(bus: &Bus, spool: &str) -> [u64; 2] {
    let [mut made, mut found] = [0, 0];
    for turn in 0..5 {
        let report = send(bus, REAL, &["--spool", spool]);
        let (sink, earlier) = (sink(&report), &sink(&report)["earlier"]);
        made += number(&report["flows"], "records");
        if turn == 0 {
            found = number(earlier, "records");
        }
        assert_eq!(
            (number(&report["flows"], "records_dropped"), number(earlier, "records_lost")),
            (0, 0)
        );
        let waits = number(earlier, "records") - number(earlier, "records_sent");
        if waits + number(sink, "records_spooled") == 0 {
            return [made, found];
        }
    }
    panic!("the spool is not empty after 5 starts");
}

/// Gathers all messages of a bus in a tree and returns its records. Checks by name that no start's
/// messages have a gap.
fn gathered(bus: &Bus, directory: &Directory) -> u64 {
    records_there(bus, directory, true)
}

/// The same, but with gaps if some are lost by name.
fn records_there(bus: &Bus, directory: &Directory, is_complete: bool) -> u64 {
    let tree = directory.file("gathered");
    let names = bus.gather(&tree);
    let mut starts: BTreeMap<String, u64> = BTreeMap::new();
    for (start, batch) in batches(&names) {
        let next = starts.entry(start).or_default();
        assert!(
            batch == *next || !is_complete,
            "{:?}: a batch is missing of {} messages",
            bus.kind,
            names.len()
        );
        *next += 1;
    }
    number(&run_json(&["flows", "compact", &tree], 0), "records")
}

fn all_is_acknowledged_and_there(kind: Kind) {
    let Some(bus) = Bus::start(kind) else { return };
    let directory = Directory::new("bus-counted");
    let report = send(&bus, REAL, &[]);
    assert_eq!(number(&report["total"], "delivered"), REAL_PACKETS);
    let small = number(sink(&report), "records");
    let report = send(&bus, MANY, &["--fail-on-loss"]);
    let records = number(sink(&report), "records");
    assert_eq!(records, number(&report["flows"], "records"), "{report}");
    let rights = &report["placement"]["threads"][0]["rights"];
    assert_eq!((&rights["capabilities"], &rights["filtered"]), (&0.into(), &true.into()));
    assert_eq!(gathered(&bus, &directory), small + records);
}

fn a_bus_that_is_killed_comes_back_to_what_it_missed(kind: Kind) {
    let Some(mut bus) = Bus::start(kind) else { return };
    let directory = Directory::new("bus-killed");
    let spool = directory.file("spool");
    let more = ["--sensor", "one", "--spool", &spool];
    let sensor = Sensor::start(&[], &[&[STEADY], &SHORT[..], &bus.flag(), &more].concat());
    for _ in 0..2 {
        thread::sleep(WHILE);
        bus.kill();
        thread::sleep(WHILE);
        bus.up();
    }
    thread::sleep(WHILE);
    let report = sensor.end();
    assert_eq!(number(&report["flows"], "records_dropped"), 0, "{report}");
    assert!(number(sink(&report), "records") > 0, "{report}");
    let [made, found] = drain(&bus, &spool);
    assert_eq!(found, number(sink(&report), "records_spooled"));
    assert_eq!(gathered(&bus, &directory), number(&report["flows"], "records") + made);
}

fn a_sensor_that_is_killed_sends_the_rest_at_its_next_start(kind: Kind) {
    let Some(bus) = Bus::start(kind) else { return };
    let directory = Directory::new("bus-sensor-killed");
    let spool = directory.file("spool");
    let more = ["--sensor", "one", "--spool", &spool];
    let mut left = 0;
    for _ in 0..3 {
        let sensor = Sensor::start(&[], &[&[STEADY], &SHORT[..], &bus.flag(), &more].concat());
        thread::sleep(WHILE);
        // The sensor does not see later acknowledgements.
        bus.signal("-STOP");
        thread::sleep(WHILE / 2);
        sensor.kill();
        bus.signal("-CONT");
        let report = send(&bus, REAL, &["--spool", &spool]);
        let earlier = &sink(&report)["earlier"];
        assert!(earlier["last_start"]["records_not_written"].is_u64(), "{report}");
        left += number(earlier, "records");
    }
    assert!(left > 0, "nothing was left to send");
    drain(&bus, &spool);
    assert!(gathered(&bus, &directory) > left);
}

fn a_full_spool_loses_records_by_name(kind: Kind) {
    let Some(mut bus) = Bus::start(kind) else { return };
    bus.kill();
    let directory = Directory::new("bus-spool-full");
    let spool = directory.file("spool");
    let report = send(&bus, MANY, &["--spool", &format!("{spool}?size=1m")]);
    assert_eq!(number(&report["total"], "delivered"), 300_000, "{report}");
    let (sink, lost) = (sink(&report), &report["flows"]["records_dropped_by"]);
    assert_eq!((number(sink, "records"), lost.as_object().unwrap().len()), (0, 1), "{lost}");
    let spooled = number(sink, "records_spooled");
    assert!(number(lost, "spool_full") > 0 && spooled > 0, "{report}");
    bus.up();
    let [made, found] = drain(&bus, &spool);
    assert_eq!(found, spooled);
    assert_eq!(records_there(&bus, &directory, false), made + spooled);
    let refused =
        run(&[&["flows", MANY, "--fail-on-loss", "--sensor", "one"], &bus.flag()[..]].concat());
    assert_eq!(refused.code, Some(0), "the bus is there: {}", refused.stderr);
}

fn an_absent_or_silent_bus_loses_records_by_name(kind: Kind) {
    let Some(mut bus) = Bus::start(kind) else { return };
    for is_silent in [true, false] {
        if is_silent {
            bus.signal("-STOP");
        } else {
            bus.kill();
        }
        let report = send_with_code(&bus, REAL, &[], 1);
        assert_eq!(number(&report["total"], "delivered"), REAL_PACKETS, "{report}");
        let lost = report["flows"]["records_dropped_by"].as_object().unwrap();
        let by_bus = ["bus_absent", "bus_slow"]
            .map(|name| lost.get(name).map_or(0, |n| n.as_u64().unwrap()));
        assert_eq!(by_bus[0] + by_bus[1], number(&report["flows"], "records"), "{report}");
        assert!(is_silent || by_bus[1] == 0, "{report}");
    }
}

fn a_cut_cable_loses_nothing(kind: Kind) {
    let Some(bed) = Bed::or_skip() else { return };
    bed.far.command("ip", &["link", "set", "lo", "up"]).unwrap();
    let Some(bus) = Bus::start_on(kind, Some((&bed.far, FAR_ADDRESS))) else { return };
    let directory = Directory::new("bus-cut");
    let spool = directory.file("spool");
    let more = ["--sensor", "one", "--spool", &spool];
    let words = [&[STEADY], &SHORT[..], &bus.flag(), &more].concat();
    let sensor = Sensor::start(&enter(&bed.near), &words);
    for _ in 0..2 {
        thread::sleep(WHILE);
        bed.near.command("ip", &["link", "set", NEAR, "down"]).unwrap();
        thread::sleep(2 * WHILE);
        bed.near.command("ip", &["link", "set", NEAR, "up"]).unwrap();
    }
    thread::sleep(2 * WHILE);
    let report = sensor.end();
    assert_eq!(number(&report["flows"], "records_dropped"), 0, "{report}");
    let mut records = number(&report["flows"], "records");
    let mut waits = number(sink(&report), "records_spooled");
    // Later starts send what was left in the spool.
    for _ in 0..5 {
        if waits == 0 {
            break;
        }
        let sensor = Sensor::start(&enter(&bed.near), &words);
        thread::sleep(WHILE);
        let report = sensor.end();
        let earlier = &sink(&report)["earlier"];
        records += number(&report["flows"], "records");
        waits = number(earlier, "records") - number(earlier, "records_sent")
            + number(sink(&report), "records_spooled");
    }
    assert_eq!((gathered(&bus, &directory), waits), (records, 0));
}

#[test]
fn a_server_that_takes_no_messages_is_named_with_the_cause() {
    for (words, why) in [
        (&[][..], "JetStream is not enabled on that server: start it with -js"),
        (&["--user", "a", "--pass", "b"], "the server refused the credentials"),
    ] {
        let Some(bus) = Bus::start_nats(words) else { return };
        let report = send_with_code(&bus, REAL, &[], 1);
        let notes = sink(&report)["notes"].to_string();
        assert!(notes.contains(why), "{notes}");
        let lost = &report["flows"]["records_dropped_by"]["bus_absent"];
        assert_eq!(lost, &report["flows"]["records"], "{report}");
    }
}

/// A stream with a small limit that refuses messages beyond it.
#[test]
fn a_full_stream_has_the_rest_wait_in_the_spool() {
    let Some(bus) = Bus::start(Kind::Nats) else { return };
    let directory = Directory::new("bus-full");
    let (spool, tree) = (directory.file("spool"), directory.file("gathered"));
    bus.administer(&format!(
        "await streams.add_stream(name='{STREAM}', subjects=['burstline.flows.>'], \
         max_bytes=1 << 20, discard='new')"
    ));
    let report = send(&bus, MANY, &["--spool", &spool]);
    let (sent, waits) =
        (number(sink(&report), "records"), number(sink(&report), "records_spooled"));
    assert!(sent > 0 && waits > 0, "{report}");
    assert!(sink(&report)["notes"].to_string().contains("maximum bytes exceeded"), "{report}");
    let mut names = bus.gather(&tree);
    // After the stream has room again, the rest arrives.
    bus.administer(&format!("await streams.purge_stream('{STREAM}')"));
    bus.administer(&format!(
        "await streams.update_stream(name='{STREAM}', subjects=['burstline.flows.>'], \
         max_bytes=1 << 30, discard='new')"
    ));
    let [made, found] = drain(&bus, &spool);
    names.extend(bus.gather(&tree));
    assert_eq!(found, waits);
    assert_eq!(batches(&names).len(), names.len(), "nothing came twice");
    let records = number(&run_json(&["flows", "compact", &tree], 0), "records");
    assert_eq!(records, made + sent + waits);
}

/// A broker with a full disk and no other exits.
#[test]
fn a_brokers_full_disk_has_the_rest_wait_in_the_spool() {
    let Some(mut bus) = Bus::start_on_disk(Kind::Kafka, 4) else { return };
    let directory = Directory::new("bus-disk-full");
    let spool = directory.file("spool");
    let report = send(&bus, MANY, &["--spool", &spool]);
    let waits = number(sink(&report), "records_spooled");
    assert!(waits > 0 && number(sink(&report), "records") > 0, "{report}");
    assert_eq!(number(&report["flows"], "records_dropped"), 0, "{report}");
    bus.kill();
    bus.resize_disk(256);
    bus.up();
    let [made, found] = drain(&bus, &spool);
    assert_eq!(found, waits);
    assert_eq!(gathered(&bus, &directory), made + number(&report["flows"], "records"));
}

#[cfg(not(any(feature = "kafka", feature = "nats")))]
#[test]
fn without_a_client_the_flag_says_how_to_get_it() {
    for (flag, kind) in [("--kafka", "kafka"), ("--nats", "nats")] {
        let run = run(&["flows", REAL, flag, "127.0.0.1:1"]);
        let said = format!("built without {kind}: make buses builds a program with it");
        assert_eq!(run.code, Some(2), "{}", run.stderr);
        assert!(run.stderr.contains(&said), "{}", run.stderr);
    }
    let run = run(&["flows", REAL, "--spool", "x"]);
    assert_eq!((run.code, &run.stdout[..]), (Some(2), ""), "{}", run.stderr);
}
