//! Flow records by IPFIX, as read by common collectors.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::collectors::{await_listener, await_reader, free_port, nfdump, start};
use crate::support::buses::enter;
use crate::support::live::wait_until;
use crate::support::{Directory, PROGRAM, REAL, Run, last_object, other_or_skip, run_json};
use burstline_testbed::{Bed, FAR_ADDRESS, NEAR, NEAR_ADDRESS};
use serde_json::Value;

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key}: {value}"))
}

/// Splits the bytes of datagrams or a connection into messages.
fn messages(bytes: &[u8]) -> Vec<&[u8]> {
    let (mut rest, mut messages) = (bytes, Vec::new());
    while !rest.is_empty() {
        assert_eq!(rest[..2], [0, 10], "no IPFIX after {} messages", messages.len());
        let length = usize::from(u16::from_be_bytes([rest[2], rest[3]]));
        let (message, more) = rest.split_at(length);
        messages.push(message);
        rest = more;
    }
    messages
}

#[test]
fn nfcapd_and_nfdump_read_every_record() {
    let directory = Directory::new("ipfix");
    let (port, folder) = (free_port(), directory.file("nfcapd"));
    fs::create_dir(&folder).unwrap();
    let arguments = ["-w", &folder, "-b", "127.0.0.1", "-p", &port.to_string(), "-t", "3600"];
    let Some(collector) = start("nfcapd", &arguments, "test") else { return };
    await_listener(port);
    let to = format!("udp:127.0.0.1:{port}");
    let report = run_json(&["flows", REAL, "--ipfix", &to], 0);
    let flows = &report["flows"];
    let (records, packets) = (number(flows, "records"), number(flows, "packets_in_records"));
    assert_eq!((records, packets), (18, 147), "{report}");
    assert_eq!((number(&flows["sinks"][0], "records"), number(flows, "unaccounted")), (18, 0));
    await_reader(port);
    collector.end();
    let read = nfdump(&folder).unwrap();
    let sum = |key: &str| read.iter().map(|record| record[key].as_u64().unwrap_or(0)).sum::<u64>();
    assert_eq!(sum("in_packets"), 147, "{read:?}");
    let (total, both) = (&report["total"], sum("in_bytes"));
    assert!(both > 0 && both <= number(total, "wire_bytes"), "{both} {total}");
    // Each direction with packets is a record, with the packets' timestamps.
    assert!((19..=36).contains(&read.len()), "{}", read.len());
    assert!(read.iter().all(|record| record["first"].as_str().unwrap().starts_with("2026-11-21")));
}

#[test]
fn pmacct_adds_up_to_the_ledger() {
    let directory = Directory::new("ipfix");
    let (port, table, log) =
        (free_port(), directory.file("table.json"), directory.file("nfacctd.log"));
    let settings = format!(
        "daemonize: false\nnfacctd_ip: 127.0.0.1\nnfacctd_port: {port}\nplugins: print\n\
         aggregate: src_host, dst_host, src_port, dst_port, proto\nprint_refresh_time: 1\n\
         print_output: json\nprint_output_file: {table}\nprint_output_file_append: true\n\
         logfile: {log}\n"
    );
    let file = directory.file("nfacctd.conf");
    fs::write(&file, settings).unwrap();
    let Some(collector) = start("nfacctd", &["-f", &file], "sensors") else { return };
    await_listener(port);
    // Messages that arrive before its writer is ready are lost.
    wait_until("nfacctd has written its first table", || {
        fs::read_to_string(&log).is_ok_and(|said| said.contains("Purging cache - END"))
    });
    let to = format!("udp:127.0.0.1:{port}");
    let report = run_json(&["flows", REAL, "--ipfix", &to], 0);
    assert_eq!(number(&report["flows"]["sinks"][0], "records"), 18, "{report}");
    let sum = |key: &str| {
        let lines = fs::read_to_string(&table).unwrap_or_default();
        // The last line may be incomplete.
        let rows = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        rows.map(|row| number(&row, key)).sum::<u64>()
    };
    wait_until("nfacctd has written its table", || sum("packets") >= 147);
    collector.end_by("-INT");
    assert_eq!((sum("packets"), sum("bytes")), (147, 70_642));
}

#[test]
fn tshark_decodes_what_goes_over_tcp() {
    let directory = Directory::new("ipfix");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("tcp:{}?domain=42", listener.local_addr().unwrap());
    let collected = thread::spawn(move || {
        let mut bytes = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let report = run_json(&["flows", REAL, "--ipfix", &to], 0);
    assert_eq!(number(&report["flows"]["sinks"][0], "records"), 18, "{report}");
    let bytes = collected.join().unwrap();
    let messages = messages(&bytes);
    assert_eq!(number(&report["flows"]["sinks"][0], "parts"), messages.len() as u64);
    // Each message in its own datagram, for tshark.
    let mut dump = String::new();
    for message in &messages {
        for (line, bytes) in message.chunks(16).enumerate() {
            let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            dump += &format!("{:06x} {}\n", line * 16, bytes.join(" "));
        }
        dump += "\n";
    }
    let (text, capture) = (directory.file("dump.txt"), directory.file("dump.pcap"));
    fs::write(&text, dump).unwrap();
    let words = ["-q", "-u", "4739,4739", &text, &capture];
    let Some(made) = other_or_skip("text2pcap", &words) else { return };
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let fields = ["-d", "udp.port==4739,cflow", "-T", "json", "-V"];
    let words = [&["-r", &capture][..], &fields].concat();
    let Some(read) = other_or_skip("tshark", &words) else { return };
    assert!(!read.stdout.contains("Malformed") && !read.stdout.contains("_ws.expert"), "malformed");
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for line in read.stdout.lines() {
        let Some((key, value)) = line.trim().trim_end_matches(',').split_once(": ") else {
            continue;
        };
        let value = value.trim_matches('"');
        if let ("\"cflow.packets\"" | "\"cflow.od_id\"", Ok(value)) = (key, value.parse::<u64>()) {
            *sums.entry(key).or_default() += value;
        }
    }
    assert_eq!(sums.get("\"cflow.packets\""), Some(&147), "{sums:?}");
    let domains = sums.get("\"cflow.od_id\"").copied().unwrap_or(0);
    assert!(domains >= 42 * messages.len() as u64, "{sums:?}");
}

#[test]
fn an_absent_collector_loses_records_by_name_and_no_packets() {
    // Nobody has this one: ports that the kernel chooses are higher.
    let port = 1;
    for (scheme, name) in [("udp", "collector_refused"), ("tcp", "collector_absent")] {
        let to = format!("{scheme}:127.0.0.1:{port}");
        let report = run_json(&["flows", REAL, "--ipfix", &to], 1);
        assert_eq!(report["outcome"]["faults"], serde_json::json!(["all_records_lost"]));
        assert_eq!(number(&report["total"], "delivered"), 149, "{report}");
        let flows = &report["flows"];
        assert_eq!(number(flows, "unaccounted"), 0);
        let (sent, lost) = (number(&flows["sinks"][0], "records"), &flows["records_dropped_by"]);
        assert_eq!((sent, number(lost, name)), (0, 18), "{report}");
        assert_eq!(number(flows, "packets_in_records_dropped"), 147);
    }
}

#[test]
fn a_collector_without_a_route_is_asked_again_and_the_tree_is_written() {
    let Some(bed) = Bed::or_skip() else { return };
    let directory = Directory::new("ipfix-route");
    let tree = directory.file("tree");
    bed.near.command("ip", &["link", "set", NEAR, "down"]).unwrap();
    let mut words = enter(&bed.near);
    let to = format!("udp:{FAR_ADDRESS}:4739");
    let load = "gen:?rate=2000&flows=100";
    let rest = ["flows", load, "--idle", "5ms", "--ipfix", &to, "-o", &tree, "--sensor", "s"];
    words.extend([&[PROGRAM][..], &rest, &["--json"]].concat().into_iter().map(str::to_owned));
    let mut job = Command::new(&words[0]);
    let job = job.args(&words[1..]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Some messages with a route and some without: each wait is at most half a second.
    thread::sleep(Duration::from_secs(3));
    bed.near.command("ip", &["link", "set", NEAR, "up"]).unwrap();
    thread::sleep(Duration::from_secs(4));
    burstline_testbed::signal(job.id(), "-INT").unwrap();
    let done: Run = job.wait_with_output().unwrap().into();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let said = done.stderr.matches("Network is unreachable").count();
    assert_eq!(said, 1, "{}", done.stderr);
    let report = last_object(&done.stdout);
    let (flows, lost) = (&report["flows"], &report["flows"]["records_dropped_by"]);
    assert_eq!(number(&flows["sinks"][1], "records"), number(flows, "records"), "{report}");
    assert!(number(lost, "collector_unreachable") > 0, "{report}");
    // No listener there, which is only detected for a message that arrived.
    assert!(number(lost, "collector_refused") > 0, "{report}");
}

#[test]
fn a_sensor_whose_address_changes_goes_on_from_the_new_one() {
    let Some(bed) = Bed::or_skip() else { return };
    let collector = bed.far.run(|| UdpSocket::bind((FAR_ADDRESS, 4739)).unwrap());
    collector.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // Another thread reads, so that the socket has room while this one changes the address.
    let (tell, heard) = mpsc::channel();
    thread::spawn(move || {
        let mut room = [0; 2048];
        while let Ok((_, from)) = collector.recv_from(&mut room) {
            let set_id = u16::from_be_bytes([room[16], room[17]]);
            if tell.send((from.ip().to_string(), set_id)).is_err() {
                return;
            }
        }
    });
    let mut words = enter(&bed.near);
    let to = format!("udp:{FAR_ADDRESS}:4739");
    let rest = ["flows", "gen:?rate=2000&flows=100", "--idle", "5ms", "--ipfix", &to, "--json"];
    words.extend([&[PROGRAM][..], &rest].concat().into_iter().map(str::to_owned));
    let mut job = Command::new(&words[0]);
    let job = job.args(&words[1..]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Returns the set ID of the next message from an address.
    let hear = |address: &str| {
        loop {
            let (from, set_id) = heard.recv_timeout(Duration::from_secs(60)).ok()?;
            if from == address {
                return Some(set_id);
            }
        }
    };
    let (templates, new) = (2, "10.77.0.9");
    let first = hear(NEAR_ADDRESS);
    bed.near.command("ip", &["addr", "del", &format!("{NEAR_ADDRESS}/24"), "dev", NEAR]).unwrap();
    bed.near.command("ip", &["addr", "add", &format!("{new}/24"), "dev", NEAR]).unwrap();
    let second = hear(new);
    burstline_testbed::signal(job.id(), "-INT").unwrap();
    let done: Run = job.wait_with_output().unwrap().into();
    assert_eq!((first, second), (Some(templates), Some(templates)), "{}", done.stderr);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let flows = &last_object(&done.stdout)["flows"];
    assert_eq!(number(flows, "unaccounted"), 0, "{flows}");
}

#[test]
fn a_collector_that_reads_nothing_loses_records_and_no_packets() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("tcp:{}", listener.local_addr().unwrap());
    // A record per packet: more than socket and queue can hold.
    let load = "gen:?packets=1500000&flows=1000000&size=64";
    let report = run_json(&["flows", load, "--ipfix", &to], 0);
    let flows = &report["flows"];
    assert_eq!(number(&report["total"], "delivered"), 1_500_000, "{report}");
    assert_eq!(number(flows, "unaccounted"), 0);
    let (sent, lost) = (number(&flows["sinks"][0], "records"), number(flows, "records_dropped"));
    assert!(lost > 0, "{report}");
    assert_eq!(sent + lost, number(flows, "records"), "{report}");
    drop(listener);
}
