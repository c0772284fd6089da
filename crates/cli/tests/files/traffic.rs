//! Traffic of real programs through both kinds of live port at once, checked by other tools.
//!
//! ```text
//!  near host   v0 ---- v1   afpacket:v1               ping, curl, iperf3 by TCP and UDP
//!              w0 ---- w1   xdp:w1 --only udp         the same, and datagrams
//! ```
//!
//! The host does not get packets that `xdp:` takes. So it takes UDP only, and `--only` leaves the
//! rest of the conversation to the host. Needs root; otherwise skipped.

use std::net::UdpSocket;

use crate::support::live::Live;
use crate::support::talk::{iperf3, talk};
use crate::support::{Directory, is_root, judged_packets, other};
use burstline_skip::skip;
use burstline_testbed::{Bed, FAR, FAR_ADDRESS};
use serde_json::Value;

const SECOND_FAR: &str = "10.78.0.2";

const DATAGRAMS: u64 = 100;

#[test]
fn real_traffic_through_both_kinds_of_port_is_in_the_file_to_the_packet() {
    let Some(bed) = Bed::or_skip() else { return };
    if !is_root() {
        skip("XDP programs need root");
        return;
    }
    lay_second_cable(&bed);
    let directory = Directory::new("traffic");
    let file = directory.file("both.pcapng");
    let ports = format!("afpacket:{FAR}?direction=in xdp:w1");
    let live = Live::start(&bed, &directory, &format!("capture {ports} --only udp -w {file}"));
    let before = ["v0", "w0"].map(|interface| bed.near.counts(interface).sent);
    for address in [FAR_ADDRESS, SECOND_FAR] {
        talk(&bed, address).unwrap();
    }
    iperf3(&bed, FAR_ADDRESS, &["--udp", "--bitrate", "20M", "--time", "1"]).unwrap();
    send_datagrams(&bed, SECOND_FAR);
    let sent = [0, 1].map(|at| bed.near.counts(["v0", "w0"][at]).sent - before[at]);
    let report = live.stop();
    let rows = report["ports"].as_array().unwrap();
    let count = |row: usize, key: &str| rows[row][key].as_u64().unwrap();
    assert_eq!([count(0, "offered"), count(1, "offered")], sent, "{report}");
    let passed = rows[1]["lost"]["passed"].as_u64().unwrap();
    assert_eq!(count(1, "delivered") + passed, sent[1], "the host kept the rest: {report}");
    assert_eq!(count(1, "delivered"), DATAGRAMS, "{report}");
    assert!(passed > 100, "TCP and ping went on: {report}");
    judge(&file, &report);
}

fn lay_second_cable(bed: &Bed) {
    bed.connect("w0", "w1", 1500).unwrap();
    bed.near.command("ip", &["address", "add", "10.78.0.1/24", "dev", "w0"]).unwrap();
    bed.far.command("ip", &["address", "add", &format!("{SECOND_FAR}/24"), "dev", "w1"]).unwrap();
}

/// Sends datagrams without waiting for answers, since there will be none.
fn send_datagrams(bed: &Bed, far: &str) {
    let to = format!("{far}:4789");
    bed.near.run(move || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        for number in 0..DATAGRAMS {
            assert_eq!(socket.send_to(&number.to_be_bytes(), &to).unwrap(), 8);
        }
    });
}

/// Checks that other tools find as many packets, in total and per port.
fn judge(file: &str, report: &Value) {
    let delivered = report["total"]["delivered"].as_u64().unwrap();
    for (who, packets) in judged_packets(file) {
        assert_eq!(packets, delivered, "{who}");
    }
    let by_interface = ["-T", "fields", "-e", "frame.interface_name", "-e", "udp.srcport"];
    let Some(tshark) = other("tshark", &[&["-r", file], &by_interface[..]].concat()) else {
        return;
    };
    for (interface, row) in [FAR, "w1"].into_iter().zip(report["ports"].as_array().unwrap()) {
        let is_of = |line: &&str| line.split('\t').next() == Some(interface);
        let packets = tshark.stdout.lines().filter(is_of).count();
        assert_eq!(packets as u64, row["delivered"].as_u64().unwrap(), "{interface}");
    }
    let is_udp = |line: &str| !line.ends_with('\t');
    let taken = tshark.stdout.lines().filter(|line| line.starts_with("w1"));
    assert!(taken.into_iter().all(is_udp), "xdp: took only what was asked for");
}
