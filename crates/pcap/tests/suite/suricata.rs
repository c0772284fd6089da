//! Suricata 7: what it says of packets in a log, by ours, and in a file, by the real libpcap.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use burstline_skip::{skip, test_name};
use serde_json::Value;

use crate::common::{DEVICE, Folder, interrupt, repository, run, target, until};
use crate::traffic::{Packet, mix, pcap_file};

/// The last is a question, so its alert says that Suricata has looked at all.
const PACKETS: usize = 2992;

/// Alerts by the words of an application, by a stream's, and by a pattern.
const RULES: &str = r#"
alert http any any -> any any (msg:"a request"; http.method; content:"GET"; sid:1; rev:1;)
alert dns any any -> any any (msg:"a question"; dns.query; content:"example"; sid:2; rev:1;)
alert tcp any any -> any any (msg:"a server"; flow:to_client; content:"nginx"; sid:3; rev:1;)
alert http any any -> any any (msg:"an agent"; http.user_agent; pcre:"/curl\/7/"; sid:4; rev:1;)
"#;

/// Makes a command a Suricata that writes into folder `log`.
fn as_suricata(mut command: Command, log: &str, source: &[&str]) -> Command {
    command.env("CARGO_TARGET_DIR", target());
    command.args(["-S", "rules", "-l", log, "--runmode=single"]).args(source);
    command
}

/// Packets that come now: a live Suricata forgets flows by its own clock.
fn packets() -> Vec<Packet> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let mut packets = mix(PACKETS);
    let first = packets[0].time_ns;
    for packet in &mut packets {
        packet.time_ns = packet.time_ns - first + now;
    }
    packets
}

/// The lines of its `fast.log`, in order: an alert each.
fn alerts(log: &Path) -> Vec<String> {
    let said = fs::read_to_string(log.join("fast.log")).unwrap_or_default();
    let mut alerts: Vec<_> = said.lines().map(str::to_owned).collect();
    alerts.sort();
    alerts
}

/// Its flows, in order: both ends, protocols, and the packets and bytes of both directions.
fn flows(log: &Path) -> Vec<String> {
    let events = fs::read_to_string(log.join("eve.json")).unwrap();
    let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let said = events.filter(|event| event["event_type"] == "flow").map(|event| {
        let of_event = ["src_ip", "src_port", "dest_ip", "dest_port", "proto", "app_proto"];
        let of_flow = ["pkts_toserver", "pkts_toclient", "bytes_toserver", "bytes_toclient"];
        let ends = of_event.iter().map(|key| &event[key]);
        ends.chain(of_flow.iter().map(|key| &event["flow"][key]))
            .map(|value| format!("{value} "))
            .collect()
    });
    let mut flows: Vec<String> = said.collect();
    flows.sort();
    flows
}

#[test]
fn suricata_alerts_the_same() {
    // There `scripts/setup sensors` puts it.
    if !target().join("suricata/usr/bin/suricata").exists() {
        return skip(test_name(), "Suricata is not installed: scripts/setup sensors");
    }
    let starter = repository().join("scripts/suricata");
    let starter = starter.to_str().unwrap();
    let (folder, packets) = (Folder::new(), packets());
    fs::write(folder.at("file.pcap"), pcap_file(&packets)).unwrap();
    fs::write(folder.at("rules"), RULES).unwrap();
    let [of_file, of_log] = ["of-file", "of-log"].map(|name| folder.at(name));
    for log in [&of_file, &of_log] {
        fs::create_dir(log).unwrap();
    }
    run(&mut as_suricata(folder.command(starter), "of-file", &["-r", "file.pcap"]), 0);
    let expected = alerts(&of_file);
    for sid in 1..=4 {
        let rule = format!("[1:{sid}:1]");
        assert!(expected.iter().any(|alert| alert.contains(&rule)), "{rule}: {expected:?}");
    }

    let publishing = folder.publish(packets, 1);
    let device = format!("--pcap={DEVICE}");
    let mut live = as_suricata(folder.preloaded(starter), "of-log", &[&device]).spawn().unwrap();
    publishing.wait_for_readers();
    // What it has read it has still to look at, and it does not once it is interrupted.
    until("it has alerted on all", || alerts(&of_log).len() >= expected.len());
    interrupt(&live);
    assert!(live.wait().unwrap().success());
    publishing.end();
    assert_eq!(alerts(&of_log), expected);
    assert_eq!(flows(&of_log), flows(&of_file));
}
