//! Compares the outputs of Suricata 7 for packets in a log, with ours, and in a file, with libpcap.

use std::fs;
use std::path::Path;
use std::process::Command;

use burstline_skip::skip;
use serde_json::Value;

use crate::common::{DEVICE, Folder, interrupt, repository, run, target, until};
use crate::suricata_said::{alerts, flows};
use crate::traffic::{Packet, mix_of_now, pcap_file};
use crate::verdicts::{Got, decided_until};

/// The last packet is a DNS query, so its alert shows that Suricata has processed all packets.
const PACKETS: usize = 2992;
/// The number of packets that wait for verdicts.
const WAITING: usize = 600;

/// Rules that alert on application fields, on a stream, and on a pattern.
pub(crate) const RULES: &str = r#"
alert http any any -> any any (msg:"a request"; http.method; content:"GET"; sid:1; rev:1;)
alert dns any any -> any any (msg:"a question"; dns.query; content:"example"; sid:2; rev:1;)
alert tcp any any -> any any (msg:"a server"; flow:to_client; content:"nginx"; sid:3; rev:1;)
alert http any any -> any any (msg:"an agent"; http.user_agent; pcre:"/curl\/7/"; sid:4; rev:1;)
"#;

/// Rules that drop all DNS queries, and half of the hosts' conversations from their request on.
const DROPS: &str = r#"
drop dns any any -> any any (msg:"a question"; dns.query; content:"example"; sid:5; rev:1;)
drop http 10.0.0.0/25 any -> any any (msg:"a request"; http.method; content:"GET"; sid:6; rev:1;)
"#;

/// Its outputs in line, as `make install-pcap` installs them.
const IN_LINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/suricata-in-line.yaml");

/// Returns the start script of `scripts/setup sensors`; without it, counts the test as skipped.
fn starter_or_skip() -> Option<String> {
    if !target().join("suricata/usr/bin/suricata").exists() {
        skip("Suricata is not installed: scripts/setup sensors");
        return None;
    }
    Some(repository().join("scripts/suricata").to_str().unwrap().to_owned())
}

/// Turns a command into a Suricata that writes into folder `log`.
fn as_suricata(mut command: Command, log: &str, source: &[&str]) -> Command {
    command.env("CARGO_TARGET_DIR", target());
    command.args(["-S", "rules", "-l", log, "--runmode=single"]).args(source);
    command
}

#[test]
fn suricata_alerts_the_same() {
    let Some(starter) = starter_or_skip() else { return };
    let (folder, packets) = (Folder::new(), mix_of_now(PACKETS));
    fs::write(folder.at("file.pcap"), pcap_file(&packets)).unwrap();
    fs::write(folder.at("rules"), RULES).unwrap();
    let [of_file, of_log] = ["of-file", "of-log"].map(|name| folder.at(name));
    for log in [&of_file, &of_log] {
        fs::create_dir(log).unwrap();
    }
    run(&mut as_suricata(folder.command(&starter), "of-file", &["-r", "file.pcap"]), 0);
    let expected = alerts(&of_file);
    for sid in 1..=4 {
        let rule = format!("[1:{sid}:1]");
        assert!(expected.iter().any(|alert| alert.contains(&rule)), "{rule}: {expected:?}");
    }

    let publishing = folder.publish(packets, 1);
    let device = format!("--pcap={DEVICE}");
    let mut live = as_suricata(folder.preloaded(&starter), "of-log", &[&device]).spawn().unwrap();
    publishing.wait_for_readers();
    // It has not processed all packets it has read, and does not do so once interrupted.
    until("it has alerted on all", || alerts(&of_log).len() >= expected.len());
    interrupt(&live);
    assert!(live.wait().unwrap().success());
    publishing.end();
    assert_eq!(alerts(&of_log), expected);
    assert_eq!(flows(&of_log), flows(&of_file));
}

/// In line, its filter decides what passes; alerts stay the same.
#[test]
fn suricata_in_line_alerts_on_what_its_filter_lets_pass() {
    let Some(starter) = starter_or_skip() else { return };
    let (folder, packets) = (Folder::new(), mix_of_now(WAITING));
    fs::write(folder.at("rules"), RULES).unwrap();
    let log = folder.at("log");
    fs::create_dir(&log).unwrap();
    let device = "--pcap=burst:ips?start=oldest&verdict=pass&rest=drop";
    let mut live = as_suricata(folder.preloaded(&starter), "log", &[device, "tcp"]);
    let (said, got) = decided_until(&folder, &mut live, &packets, interrupt);
    let is_tcp = |packet: &Packet| packet.bytes[12..14] == [8, 0] && packet.bytes[23] == 6;
    let wanted = packets.iter().map(|packet| if is_tcp(packet) { Got::Pass } else { Got::Drop });
    assert_eq!(got, wanted.collect::<Vec<_>>(), "{said}");
    let alerts = alerts(&log);
    for (sid, is_there) in [(1, true), (2, false), (3, true), (4, true)] {
        let rule = format!("[1:{sid}:1]");
        assert_eq!(
            alerts.iter().any(|alert| alert.contains(&rule)),
            is_there,
            "{rule}: {alerts:?}"
        );
    }
}

/// Returns the packets of the file that it drops, from 0, according to its log.
fn dropped_of_file(log: &Path) -> Vec<usize> {
    let events = fs::read_to_string(log.join("drops.json")).unwrap();
    let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.map(|event| event["pcap_cnt"].as_u64().unwrap() as usize - 1).collect()
}

/// Its rules decide: it drops the same packets of a log as of a file with the real libpcap.
#[test]
fn suricata_in_line_drops_by_its_rules() {
    let Some(starter) = starter_or_skip() else { return };
    let (folder, packets) = (Folder::new(), mix_of_now(WAITING));
    fs::write(folder.at("rules"), DROPS).unwrap();
    fs::write(folder.at("file.pcap"), pcap_file(&packets)).unwrap();
    for log in ["of-file", "of-log"] {
        fs::create_dir(folder.at(log)).unwrap();
    }
    let in_line = ["--simulate-ips", "--include", IN_LINE];
    let of_file = [&in_line[..], &["-r", "file.pcap"]].concat();
    run(&mut as_suricata(folder.command(&starter), "of-file", &of_file), 0);
    let mut wanted = vec![Got::Pass; WAITING];
    for number in dropped_of_file(&folder.at("of-file")) {
        wanted[number] = Got::Drop;
    }
    let dropped = wanted.iter().filter(|got| **got == Got::Drop).count();
    assert!(dropped > WAITING / 5 && dropped < WAITING / 2, "{dropped}: {wanted:?}");

    let file = folder.at("of-log/drops.json");
    let device =
        format!("--pcap=burst:ips?start=oldest&verdict=pass&drops={}", file.to_str().unwrap());
    let of_log = [&in_line[..], &[&device]].concat();
    let mut live = as_suricata(folder.preloaded(&starter), "of-log", &of_log);
    let (said, got) = decided_until(&folder, &mut live, &packets, interrupt);
    assert_eq!(got, wanted, "{said}");
    assert_eq!(fs::metadata(file).unwrap().len(), 0, "it is emptied");
}
