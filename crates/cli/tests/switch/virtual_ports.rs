//! `vhost:` and `memif:` against DPDK: testpmd's counters match our ledger.
//!
//! ```text
//!   testpmd, virtio-user or memif == socket, shared memory == burstline count, generate, switch
//! ```

use std::fs;

use crate::ours::Ours;
use crate::support::live::wait_until;
use crate::support::virtual_port::VirtualPort;
use crate::support::{Directory, command, last_object};
use burstline_lab::programs::Mode;
use burstline_testbed::signal;
use serde_json::Value;

fn start(directory: &Directory, words: &str) -> Ours {
    let words: Vec<&str> = words.split(' ').filter(|word| !word.is_empty()).collect();
    Ours::start(directory, &words)
}

fn ended(mut ours: Ours) -> Value {
    ours.wait();
    ours.report()
}

fn interrupted(ours: Ours) -> Value {
    ours.interrupt();
    ended(ours)
}

/// Both ends of a connection: our address, testpmd's device, and which end listens.
struct Ends {
    ours: String,
    theirs: String,
    is_ours_first: bool,
    socket: String,
}

/// Returns the ends of a connection at which we listen, and of one at which they do.
fn both_ways(socket: &str, ours: [String; 2], theirs: [String; 2]) -> [Ends; 2] {
    let ([our_server, our_client], [their_client, their_server]) = (ours, theirs);
    let ends = |ours, theirs, is_ours_first| {
        let socket = socket.to_owned();
        Ends { ours, theirs, is_ours_first, socket }
    };
    [ends(our_server, their_client, true), ends(our_client, their_server, false)]
}

fn vhost(directory: &Directory, name: &str) -> [Ends; 2] {
    let socket = directory.file(name);
    let ours = ["", "?client"].map(|keys| format!("vhost:{socket}{keys}"));
    let theirs = ["", ",server=1"]
        .map(|more| format!("net_virtio_user0,path={socket},queues=1,queue_size=256{more}"));
    both_ways(&socket, ours, theirs)
}

fn memif(directory: &Directory, name: &str) -> [Ends; 2] {
    let socket = directory.file(name);
    let ours = ["", "&client&ring=256"].map(|keys| format!("memif:{socket}?id=3{keys}"));
    let theirs = ["client", "server"].map(|role| {
        format!("net_memif0,role={role},id=3,socket={socket},socket-abstract=no,rsize=8")
    });
    both_ways(&socket, ours, theirs)
}

impl Ends {
    fn start(&self, directory: &Directory, words: &str, mode: Mode) -> (Ours, VirtualPort) {
        let ours = start(directory, &words.replace("OURS", &self.ours));
        // If testpmd listens, it starts its device, and reports that, when a peer has connected.
        if self.is_ours_first {
            wait_until("we listen", || fs::metadata(&self.socket).is_ok());
        }
        (ours, VirtualPort::start(directory, "testpmd", &self.theirs, mode))
    }
}

fn total(report: &Value, name: &str) -> u64 {
    report["total"][name].as_u64().unwrap_or_else(|| panic!("{name}: {report}"))
}

fn we_count_what_it_sends(ends: &Ends, directory: &Directory) {
    let (ours, testpmd) = ends.start(directory, "count OURS", Mode::Send(64));
    testpmd.go();
    wait_until("it has sent", || testpmd.counted().sent > 100_000);
    let counted = testpmd.stop();
    let report = interrupted(ours);
    assert_eq!(total(&report, "offered"), counted.sent, "{}: {report}", ends.ours);
    assert_eq!(total(&report, "delivered"), counted.sent, "{report}");
    assert_eq!(total(&report, "bytes"), 64 * counted.sent, "{report}");
    assert!(report["notes"].to_string().contains("2 rings of 256"), "{report}");
}

/// testpmd polls. A sleeping peer is notified, by a thread that has dropped its rights.
#[test]
fn a_peer_that_sleeps_is_woken() {
    let directory = Directory::new("bells");
    let socket = directory.file("socket");
    let jobs = [format!("memif:{socket}"), format!("memif:{socket}?client")].map(|end| {
        let name = if end.contains('?') { "counts" } else { "sends" };
        let own = Directory::new(&format!("bells-{name}"));
        let words = match name {
            "sends" => format!("switch --port gen:?rate=500 --port {end}"),
            _ => format!("count {end} --packets 100 --poll interrupt"),
        };
        (start(&own, &words), own)
    });
    let [(sends, _sends_in), (counts, _counts_in)] = jobs;
    let report = ended(counts);
    assert_eq!(total(&report, "delivered"), 100, "{report}");
    assert!(report["stages"].to_string().contains("\"sleeps\""), "{report}");
    interrupted(sends);
}

/// testpmd must receive from the start: its driver drops packets that arrived before. Our job keeps
/// running: a device that goes away takes packets with it that its guest has not read.
fn it_receives_what_we_send(ends: &Ends, directory: &Directory) {
    let packets = 20_000;
    let separator = if ends.ours.contains('?') { '&' } else { '?' };
    let words = format!("switch --name two --port OURS{separator}wait_ms=60000");
    let (ours, testpmd) = ends.start(directory, &words, Mode::Receive);
    testpmd.go();
    wait_until("it forwards", || testpmd.text().contains("rxonly packet forwarding"));
    let from = format!("gen:?packets={packets}&rate=20k&size=random:64-1514");
    let mut adding = command(&["switch", "add-port", "two", &from]);
    let added = adding.env("BURSTLINE_RUN", &directory.0).output().unwrap();
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    wait_until("it has all", || testpmd.counted().received == packets);
    let report = interrupted(ours);
    let rows = report["ports"].as_array().unwrap();
    let is_out = |name: &str| name.starts_with("> vhost:") || name.starts_with("> memif:");
    let row = rows.iter().find(|row| is_out(row["port"].as_str().unwrap())).unwrap();
    assert_eq!(row["delivered"], packets, "{}: {report}", ends.ours);
}

#[test]
fn vhost_counts_what_testpmd_sends() {
    if VirtualPort::or_skip() {
        for ends in vhost(&Directory::new("vhost-counts"), "guest") {
            we_count_what_it_sends(&ends, &Directory::new("vhost-counts-job"));
        }
    }
}

#[test]
fn testpmd_receives_what_vhost_sends() {
    if VirtualPort::or_skip() {
        for ends in vhost(&Directory::new("vhost-sends"), "guest") {
            it_receives_what_we_send(&ends, &Directory::new("vhost-sends-job"));
        }
    }
}

#[test]
fn memif_counts_what_testpmd_sends() {
    if VirtualPort::or_skip() {
        for ends in memif(&Directory::new("memif-counts"), "peer") {
            we_count_what_it_sends(&ends, &Directory::new("memif-counts-job"));
        }
    }
}

#[test]
fn testpmd_receives_what_memif_sends() {
    if VirtualPort::or_skip() {
        for ends in memif(&Directory::new("memif-sends"), "peer") {
            it_receives_what_we_send(&ends, &Directory::new("memif-sends-job"));
        }
    }
}

/// Guests connect, are killed in the middle of a burst, and others follow. Each packet counted as
/// received was sent, and each packet we sent was taken or lost by name.
#[test]
fn vhost_outlives_guests_that_are_killed_stopped_and_end() {
    if !VirtualPort::or_skip() {
        return;
    }
    let directory = Directory::new("vhost-outlives");
    let [ends, _] = vhost(&directory, "guest");
    let (ours, first) = ends.start(&directory, "count OURS", Mode::Send(64));
    first.go();
    wait_until("it has sent", || first.counted().sent > 10_000);
    let mut least = first.counted().sent;
    drop(first);
    for cycle in 0..cycles() {
        let testpmd = VirtualPort::start(&directory, "testpmd", &ends.theirs, Mode::Send(64));
        testpmd.go();
        let before = testpmd.counted().sent;
        wait_until("it has sent", || testpmd.counted().sent > before + 10_000);
        match cycle % 3 {
            // SIGKILL, possibly within a burst.
            0 => least += testpmd.counted().sent,
            1 => {
                signal(testpmd.process_id(), "-STOP").unwrap();
                signal(testpmd.process_id(), "-CONT").unwrap();
                least += testpmd.stop().sent;
            }
            _ => {
                least += testpmd.stop().sent;
                testpmd.quit();
            }
        }
    }
    let report = interrupted(ours);
    let taken = total(&report, "delivered");
    assert!(taken >= least, "{taken} {least}: {report}");
    assert_eq!(taken, total(&report, "offered"));
    let notes = report["notes"].to_string();
    for guest in 1..cycles() + 2 {
        assert!(notes.contains(&format!("peer {guest}: 2 rings")), "{guest}: {notes}");
    }
}

fn cycles() -> usize {
    std::env::var("BURSTLINE_CYCLES").map_or(3, |cycles| cycles.parse().unwrap())
}

/// Two guests and a tap behind a switch: one guest sends to the other, whose address is known.
#[test]
fn a_switch_between_two_testpmds_accounts_for_every_frame() {
    if !VirtualPort::or_skip() {
        return;
    }
    let directory = Directory::new("vhost-switch");
    let [a, b] = ["a", "b"].map(|name| directory.file(name));
    let words = format!("switch --port vhost:{a} --port vhost:{b} --name two");
    let ours = start(&directory, &words);
    wait_until("both sockets are there", || [&a, &b].iter().all(|at| fs::metadata(at).is_ok()));
    let device = |path: &str| format!("net_virtio_user0,path={path},queues=1,queue_size=256");
    let receiver = VirtualPort::start(&directory, "receiver", &device(&b), Mode::Receive);
    receiver.go();
    let sender = VirtualPort::start(&directory, "sender", &device(&a), Mode::Send(64));
    sender.go();
    wait_until("frames cross", || receiver.counted().received > 50_000);
    let sent = sender.stop().sent;
    let out = format!("vhost:{b}");
    wait_until("the switch has taken all, and the receiver what left", || {
        let mut showing = command(&["switch", "show", "two", "--json"]);
        let shown = showing.env("BURSTLINE_RUN", &directory.0).output().unwrap();
        let shown = last_object(&String::from_utf8_lossy(&shown.stdout));
        let port = |name: &str| {
            let mut ports = shown["ports"].as_array().unwrap().iter();
            ports.find(|port| port["port"] == name).unwrap()
        };
        let (taken, to) = (&port(&format!("vhost:{a}"))["in"]["offered"], &port(&out)["out"]);
        let lost = to["lost"].as_object().unwrap().values();
        let lost: u64 = lost.map(|packets| packets.as_u64().unwrap()).sum();
        let left = to["copies"].as_u64().unwrap() - lost;
        *taken == sent && receiver.counted().received == left
    });
    let received = receiver.stop().received;
    let report = interrupted(ours);
    let rows = report["ports"].as_array().unwrap();
    let row = |name: String| rows.iter().find(|row| row["port"] == name).unwrap();
    assert_eq!(row(format!("vhost:{a}"))["offered"], sent, "{report}");
    let out = row(format!("> vhost:{b}"));
    assert_eq!(out["offered"], sent, "{report}");
    assert_eq!(out["delivered"], received, "{report}");
}
