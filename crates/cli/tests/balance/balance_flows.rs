//! Each flow of live traffic reaches one worker: traffic of real programs, and generated fragments.
//!
//! ```text
//!  near host  v0 ------ v1  balance afpacket:v1 --workers 4 -o w{k}.pcapng    both directions
//! ```
//!
//! Needs root, or `unshare -Urn`; without, each test says that it was skipped.

use std::collections::{HashMap, HashSet};
use std::fs;

use crate::conversations::{FRAME_BYTES, Name, Whereabouts, datagrams, flows, frames_of};
use crate::support::live::{Live, wait_until};
use crate::support::sharing::{Names, start};
use crate::support::talk::{iperf3, talk};
use crate::support::{Directory, PROGRAM, judged_packets, other, other_or_skip, two_cores_or_skip};
use burstline_afpacket::Sender;
use burstline_testbed::{Bed, FAR, FAR_ADDRESS, Host, NEAR, Program};
use serde_json::Value;

const WORKERS: usize = 4;
const FLOWS: u16 = 200;

/// Sends frames from an interface, through its queue, so that a capture there sees them leave.
fn send(host: &Host, interface: &'static str, frames: Vec<Vec<u8>>) {
    host.run(move || {
        let mut sender = Sender::open(interface, false).unwrap();
        let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        let mut rest = &frames[..];
        while !rest.is_empty() {
            rest = &rest[sender.send(rest).unwrap()..];
        }
    });
}

/// Returns the files of a template, and the packets that each worker reports.
fn workers(template: &str, report: &Value) -> Vec<(String, u64)> {
    let group = &report["balance"]["groups"][0];
    assert_eq!((&group["unaccounted"], &report["total"]["lost_total"]), (&0.into(), &0.into()));
    let worker = |row: &Value| {
        assert_eq!((&row["offered"], &row["unaccounted"]), (&row["delivered"], &0.into()), "{row}");
        let path = template.replace("{k}", &row["worker"].to_string());
        (path, row["delivered"].as_u64().unwrap())
    };
    group["workers"].as_array().unwrap().iter().map(worker).collect()
}

#[test]
fn each_flow_is_at_one_worker_with_both_directions_and_fragments() {
    let Some(bed) = Bed::or_skip() else { return };
    let directory = Directory::new("balance-flows");
    let template = directory.file("w{k}.pcapng");
    let job = format!("balance afpacket:{FAR} --workers {WORKERS} --lossless -o '{template}'");
    let live = Live::start(&bed, &directory, &job);
    (0..4).for_each(|_| talk(&bed, FAR_ADDRESS).unwrap());
    // Fragments made by the kernel: ICMP in both directions, and UDP.
    bed.near.command("ping", &["-c", "20", "-i", "0.01", "-s", "4000", FAR_ADDRESS]).unwrap();
    let long = ["--udp", "--length", "4000", "--bitrate", "20M", "--time", "1"];
    iperf3(&bed, FAR_ADDRESS, &long).unwrap();
    send(&bed.near, NEAR, datagrams(FLOWS, 10, false));
    send(&bed.far, FAR, datagrams(FLOWS, 10, true));
    let report = live.stop();
    let files = workers(&template, &report);
    let frames: Vec<_> = files.iter().map(|(path, _)| frames_of(path)).collect();
    for ((path, packets), frames) in files.iter().zip(&frames) {
        assert!(*packets > 0, "{path}: a worker of {WORKERS} without a packet: {report}");
        assert_eq!(frames.len() as u64, *packets, "{path}");
        for (who, judged) in judged_packets(path) {
            assert_eq!(judged, *packets, "{who} {path}");
        }
    }
    let sum: u64 = files.iter().map(|(_, packets)| packets).sum();
    assert_eq!(delivered(&report), sum, "{report}");
    check_flows(&flows(&frames));
}

fn check_flows(flows: &HashMap<Name, Whereabouts>) {
    for (name, flow) in flows {
        assert_eq!(flow.packets.len(), 1, "{name:?} is in two files: {flow:?}");
    }
    let is_made = |name: &Name| name.1.0[..2] == [10, 8] || name.2.0[..2] == [10, 8];
    let (made, real): (Vec<_>, Vec<_>) = flows.iter().partition(|(name, _)| is_made(name));
    assert_eq!(made.len(), usize::from(FLOWS));
    for (name, flow) in made {
        assert_eq!((flow.ways, flow.fragments), ([15, 15], 20), "{name:?}");
    }
    let real_of = |protocol: u8| real.iter().filter(move |(name, _)| name.0 == protocol);
    // One flow for all echoes, one per download, and two per run of iperf3.
    assert!(real_of(1).count() == 1 && real_of(6).count() >= 4, "{real:?}");
    assert!(real_of(6).all(|(_, flow)| flow.ways[0] > 0 && flow.ways[1] > 0), "{real:?}");
    assert!(real_of(1).all(|(_, flow)| flow.ways == [140, 140] && flow.fragments == 120));
    if other("iperf3", &["--version"]).is_some() {
        assert!(real_of(17).any(|(_, flow)| flow.fragments > 100), "{real:?}");
    }
}

#[test]
fn several_receive_threads_on_one_interface_keep_flows_whole() {
    let Some(cores) = two_cores_or_skip() else { return };
    let Some(bed) = Bed::or_skip() else { return };
    let names = Names::new("balance-fanout");
    // The kernel assigns a flow to one of the two sockets, but its fragments maybe to the other.
    // The worker is the same.
    let source = format!("{FAR}?direction=in&fanout=hash:7");
    let job = ["balance", &source, &source, "--workers", "2", "--cores", &cores];
    let flags = ["--publish", "tap", "--pages", "4k", "--json"];
    let mut command = names.command(&[&job[..], &flags].concat());
    let report = names.0.file("balancer");
    let balancer = bed.far.run(move || start(&mut command, report));
    names.wait_for_readers("tap", 0);
    let paths: Vec<String> = (0..4).map(|log| names.0.file(&format!("{log}.pcapng"))).collect();
    let read = |(log, path): (usize, &String)| {
        names.start(&["capture", &format!("log:tap@{log}?follow=no"), "-w", path])
    };
    let readers: Vec<_> = paths.iter().enumerate().map(read).collect();
    names.wait_for_readers("tap", 4);
    let frames = [datagrams(FLOWS, 10, false), datagrams(FLOWS, 10, true)].concat();
    let sent = frames.len() as u64;
    send(&bed.near, NEAR, frames);
    names.wait_until_published("tap", sent);
    balancer.signal("-INT");
    let report = balancer.end();
    assert_eq!(report["total"]["delivered"], sent, "{report}");
    assert_eq!(report["stages"].as_array().unwrap().len(), 2, "two receive threads: {report}");
    assert!(report["ports"].as_array().unwrap().iter().all(|row| row["offered"] != 0), "{report}");
    let readers: Vec<Value> = readers.into_iter().map(|reader| reader.end()).collect();
    assert_eq!(readers.iter().map(delivered).sum::<u64>(), sent, "{readers:?}\n{report}");
    // Worker k has a log from each receive thread: k and k + 2.
    let of = |worker: usize| [frames_of(&paths[worker]), frames_of(&paths[worker + 2])].concat();
    let found = flows(&[of(0), of(1)]);
    assert_eq!(found.len(), usize::from(FLOWS));
    assert!(found.values().all(|flow| flow.packets.len() == 1 && flow.ways == [15, 15]));
}

fn delivered(report: &Value) -> u64 {
    report["total"]["delivered"].as_u64().unwrap()
}

/// A stand-in for a sensor that reads an interface: Suricata, Zeek, Snort.
struct Sensor {
    program: Program,
    path: String,
}

impl Sensor {
    fn start(host: &Host, interface: &str, directory: &Directory) -> Self {
        let (path, said) = (directory.file(interface), directory.file(&format!("{interface}.txt")));
        // Slots as long as the captured packets: by default there is room for only a few.
        let room = "--immediate-mode -s 256 -B 8192";
        let script = format!("exec tcpdump -Z root {room} -U -i {interface} -w {path} 2> {said}");
        let program = host.start("sh", &["-c", &script], &[]).unwrap();
        wait_until("tcpdump listens", || {
            fs::read_to_string(&said).is_ok_and(|text| text.contains("listening on"))
        });
        Self { program, path }
    }

    /// Returns the frames it has seen, once there are this many.
    fn end(self, frames: u64) -> Vec<Vec<u8>> {
        // A header of 24 bytes, and 16 bytes per packet. Source: draft-ietf-opsawg-pcap.
        let bytes = 24 + frames * (16 + FRAME_BYTES as u64);
        wait_until(&format!("{frames} frames in {}", self.path), || {
            fs::metadata(&self.path).is_ok_and(|file| file.len() >= bytes)
        });
        let process = self.program.process_id();
        burstline_testbed::signal(process, "-INT").unwrap();
        self.program.finish().unwrap();
        frames_of(&self.path)
    }
}

#[test]
fn a_sensor_on_a_workers_interface_sees_just_its_packets() {
    let Some(bed) = Bed::or_skip() else { return };
    if other_or_skip("tcpdump", &["--version"]).is_none() {
        return;
    }
    let directory = Directory::new("balance-sensors");
    let mut sensors = Vec::new();
    for number in 0..3 {
        let (end, far_end) = (format!("w{number}"), format!("ids{number}"));
        let link = ["link", "add", &end, "type", "veth", "peer", "name", &far_end];
        bed.far.command("ip", &link).unwrap();
        for end in [&end, &far_end] {
            bed.far.command("ip", &["link", "set", end, "up"]).unwrap();
        }
        sensors.push(Sensor::start(&bed.far, &far_end, &directory));
    }
    let job = format!("balance '{FAR}?direction=in' --workers 3 -o 'afpacket:w{{k}}'");
    let live = Live::start(&bed, &directory, &job);
    let sent = [datagrams(FLOWS, 10, false), datagrams(FLOWS, 10, true)].concat();
    let before = bed.far.counts(FAR).received;
    send(&bed.near, NEAR, sent.clone());
    wait_until("all have come", || bed.far.counts(FAR).received - before == sent.len() as u64);
    let report = live.stop();
    assert!(report["total"]["delivered"] == sent.len(), "{report}");
    let counts = workers("{k}", &report);
    let seen: Vec<_> = sensors
        .into_iter()
        .zip(&counts)
        .map(|(sensor, (_, packets))| sensor.end(*packets))
        .collect();
    for (frames, (number, packets)) in seen.iter().zip(&counts) {
        assert!(frames.len() as u64 == *packets && *packets > 0, "worker {number}: {report}");
    }
    let found = flows(&seen);
    assert_eq!(found.len(), usize::from(FLOWS));
    assert!(found.values().all(|flow| flow.packets.len() == 1 && flow.ways == [15, 15]));
    // Byte for byte what was sent, once, and in order.
    let mut all = seen.concat();
    let (mut wanted, mut at) = (sent.clone(), vec![0; 3]);
    for frame in &sent {
        let mut own = (0..3).filter(|&number| seen[number].get(at[number]) == Some(frame));
        let own = own.next_back().expect("a sensor has it next");
        at[own] += 1;
    }
    all.sort_unstable();
    wanted.sort_unstable();
    assert!(all == wanted);
}

#[test]
fn a_sensor_reads_a_workers_log_from_a_pipe() {
    if other_or_skip("tshark", &["--version"]).is_none() {
        return;
    }
    let names = Names::new("balance-pipe");
    let job = ["balance", "gen:?rate=50k&flows=300&size=64", "--workers", "2"];
    let balancer = names.start(&[&job[..], &["--publish", "tap", "--pages", "4k"]].concat());
    names.wait_for_readers("tap", 0);
    let mut flows = Vec::new();
    // tshark once as a reader of a file, and once as a capturing program.
    for (number, how) in [(0, "-r"), (1, "-i"), (1, "-r"), (0, "-i")] {
        let script = format!(
            "{PROGRAM} capture log:tap@{number} --packets 2000 -w - | \
             tshark {how} - -T fields -e ip.addr -e udp.port"
        );
        let mut command = std::process::Command::new("sh");
        let output = command.args(["-c", &script]).env("BURSTLINE_RUN", &names.0.0).output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said.lines().count(), 2000, "{how}: {error}");
        flows.push((number, said.lines().map(str::to_owned).collect::<HashSet<_>>()));
    }
    balancer.signal("-INT");
    balancer.end();
    for (one, (number, own)) in flows.iter().enumerate() {
        assert!(own.len() > 100, "{} flows of log {number}", own.len());
        for (other, theirs) in &flows[..one] {
            assert_eq!(own.is_disjoint(theirs), number != other, "logs {number} and {other}");
        }
    }
}
