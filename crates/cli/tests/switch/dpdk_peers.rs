//! A DPDK program as the peer: `dpdk-testpmd` over memif, and over virtio-user and vhost-user, in
//! both directions. Its statistics match our ledger.

use std::fs;
use std::io::Write;

use crate::ours::Ours;
use crate::support::live::wait_until;
use crate::support::virtual_port::VirtualPort;
use crate::support::{Directory, other, run_json};
use burstline_lab::programs::Mode;
use serde_json::Value;

const PACKETS: u64 = 20_000;

/// The two ends of shared memory over a socket: the first one listens.
const MEMORIES: [[&str; 2]; 2] = [
    [
        "net_memif0,role=server,id=0,socket=SOCKET,socket-abstract=no",
        "net_memif0,role=client,id=0,socket=SOCKET,socket-abstract=no",
    ],
    ["net_vhost0,iface=SOCKET", "net_virtio_user0,path=SOCKET"],
];

/// Starts a job that prints an interval every 20 ms.
fn start(directory: &Directory, arguments: &[&str]) -> Ours {
    Ours::start(directory, &[arguments, &["--stats", "20ms"]].concat())
}

fn wait_until_up(ours: &Ours) {
    wait_until("it has begun", || ours.text().contains('\n'));
}

/// Returns the last complete line so far.
fn last(ours: &Ours) -> Value {
    let text = ours.text();
    let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.next_back().unwrap_or_default()
}

fn delivered(ours: &Ours) -> u64 {
    last(ours)["delivered"].as_u64().unwrap_or(0)
}

/// Returns the report of a successful job.
fn ended_well(mut ours: Ours) -> Value {
    let (code, errors) = (ours.wait(), ours.errors());
    // Lines with a time report events: listening, losing packets, a peer that has gone.
    let is_news = |line: &str| line.contains("finishing; ") || line.contains(" UTC: ");
    let others: Vec<&str> = errors.lines().filter(|line| !is_news(line)).collect();
    assert_eq!((code, others), (Some(0), vec![]), "{}", ours.text());
    ours.report()
}

#[test]
fn testpmd_gets_what_we_send_to_the_packet() {
    if !VirtualPort::or_skip() {
        return;
    }
    for (name, ends) in ["memif", "vhost"].into_iter().zip(MEMORIES) {
        let directory = Directory::new(&format!("testpmd-gets-{name}"));
        let ends = ends.map(|end| end.replace("SOCKET", &directory.file("socket")));
        let testpmd = VirtualPort::start(&directory, "testpmd", &ends[0], Mode::Receive);
        testpmd.go();
        let (load, fifo) = (directory.file("load.pcap"), directory.file("fifo.pcap"));
        let packets = PACKETS.to_string();
        let sizes = ["--packets", &packets, "--size", "random:64-1518"];
        run_json(&[&["generate", "-o", &load], &sizes[..]].concat(), 0);
        assert_eq!(other("mkfifo", &[&fifo]).unwrap().code, Some(0));
        // It must outlive the last packet: testpmd drops packets from a peer that is gone.
        let sink = format!("dpdk:{}?huge=no&memory=128&wait_ms=20000", ends[1]);
        let ours = start(&directory, &["capture", &fifo, "-o", &sink]);
        let mut to = fs::File::create(&fifo).unwrap();
        to.write_all(&fs::read(&load).unwrap()).unwrap();
        wait_until("all is sent", || delivered(&ours) == PACKETS);
        wait_until("testpmd has all", || testpmd.counted().received >= PACKETS);
        assert_eq!(testpmd.stop().received, PACKETS, "{name}");
        drop(to);
        let report = ended_well(ours);
        assert_eq!(report["total"]["delivered"], PACKETS, "{name}: {report}");
    }
}

#[test]
fn we_get_what_testpmd_sends_to_the_packet() {
    if !VirtualPort::or_skip() {
        return;
    }
    for (name, ends) in ["memif", "vhost"].into_iter().zip(MEMORIES) {
        let directory = Directory::new(&format!("testpmd-sends-{name}"));
        let ends = ends.map(|end| end.replace("SOCKET", &directory.file("socket")));
        let source = format!("dpdk:{}?huge=no&memory=128", ends[0]);
        let ours = start(&directory, &["count", &source]);
        wait_until_up(&ours);
        let testpmd = VirtualPort::start(&directory, "testpmd", &ends[1], Mode::Send(64));
        testpmd.go();
        wait_until("packets come", || delivered(&ours) > PACKETS);
        let sent = testpmd.stop().sent;
        wait_until("we have all", || delivered(&ours) >= sent);
        ours.interrupt();
        let report = ended_well(ours);
        assert_eq!(report["total"]["delivered"], sent, "{name}: {report}");
        assert_eq!(report["total"]["offered"], sent, "{name}: {report}");
    }
}

#[test]
fn a_peer_that_is_killed_is_told_and_the_next_one_is_counted_too() {
    if !VirtualPort::or_skip() {
        return;
    }
    let directory = Directory::new("testpmd-killed");
    let ends = MEMORIES[0].map(|end| end.replace("SOCKET", &directory.file("socket")));
    let source = format!("dpdk:{}?huge=no&memory=128", ends[0]);
    let ours = start(&directory, &["count", &source]);
    // A client tries to connect for 9 s, and then never again.
    wait_until_up(&ours);
    for _ in 0..2 {
        let before = delivered(&ours);
        let testpmd = VirtualPort::start(&directory, "testpmd", &ends[1], Mode::Send(64));
        testpmd.go();
        wait_until("packets come", || delivered(&ours) > before + PACKETS);
        drop(testpmd);
    }
    ours.interrupt();
    let report = ended_well(ours);
    let notes = report["notes"].to_string();
    assert!(notes.contains("is down") && notes.contains("is up"), "{report}");
}

/// At a rate where hardly any burst is in progress when the peer goes: see docs/tested.md.
#[test]
fn a_sink_loses_by_name_while_its_peer_is_away_and_then_goes_on() {
    if !VirtualPort::or_skip() {
        return;
    }
    let directory = Directory::new("testpmd-sink");
    let ends = MEMORIES[0].map(|end| end.replace("SOCKET", &directory.file("socket")));
    let sink = format!("dpdk:{}?huge=no&memory=128&wait_ms=0", ends[0]);
    let ours = start(&directory, &["generate", "-o", &sink, "--rate", "1k"]);
    wait_until_up(&ours);
    for _ in 0..2 {
        let before = delivered(&ours);
        let testpmd = VirtualPort::start(&directory, "testpmd", &ends[1], Mode::Receive);
        testpmd.go();
        wait_until("packets go", || delivered(&ours) > before + 300);
        drop(testpmd);
        let lost = || last(&ours)["lost"]["link_down"].as_u64().unwrap_or(0);
        let before = lost();
        wait_until("they are lost", || lost() > before + 100);
    }
    ours.interrupt();
    // Packets taken by the first peer are not lost when the driver forgets it.
    let delivered = ended_well(ours)["total"]["delivered"].as_u64().unwrap();
    assert!(delivered > 350, "{delivered}");
}
