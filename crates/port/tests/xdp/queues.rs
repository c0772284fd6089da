//! Several receive queues: one port each, all behind one program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use burstline_afpacket::Sender;
use burstline_log::Scratch;
use burstline_port::{Loss, Port, PortState};
use burstline_skip::skip;
use burstline_testbed::Bed;

use crate::common::Got;
use crate::help::{
    MODES, PATIENCE, bed_or_skip, check_closed, check_lost, datagram, drain, empty, notes, open,
    open_all, wait_for,
};

/// Enough flows that each of four queues gets some.
const FLOWS: u16 = 100;

/// Datagrams of each flow.
const EACH: usize = 10;

const SENT: u64 = FLOWS as u64 * EACH as u64;

/// Sends datagrams of many flows from `w0`, which distributes flows over its queues.
fn send_flows(bed: &Bed) {
    bed.near.run(|| {
        let mut sender = Sender::open("w0", false).unwrap();
        for _ in 0..EACH {
            for from in 1..=FLOWS {
                assert_eq!(sender.send(&[&datagram(from, 53)]).unwrap(), 1);
            }
        }
    });
}

/// Waits until the ports have seen `packets` in total.
fn wait_for_all(ports: &[&dyn Port], packets: u64) {
    let start = Instant::now();
    while ports.iter().map(|port| port.account().offered).sum::<u64>() < packets {
        assert!(start.elapsed() < PATIENCE);
        std::thread::yield_now();
    }
}

fn wait_for_some(port: &dyn Port) {
    let start = Instant::now();
    while port.account().offered == 0 {
        assert!(start.elapsed() < PATIENCE);
        std::thread::yield_now();
    }
}

/// Returns the flows of these packets, ascending; all packets of each must be here.
fn whole_flows(packets: &[Got]) -> Vec<u16> {
    let from = |packet: &Got| u16::from_be_bytes([packet.bytes[34], packet.bytes[35]]);
    let mut flows: Vec<u16> = packets.iter().map(from).collect();
    flows.sort_unstable();
    assert!(flows.chunk_by(|a, b| a == b).all(|flow| flow.len() == EACH), "{flows:?}");
    flows.dedup();
    flows
}

#[test]
fn each_queue_is_a_port_with_a_ledger_of_its_own() {
    let Some(bed) = bed_or_skip() else { return };
    bed.connect_queues("w0", "w1", 1500, 4).unwrap();
    for mode in MODES {
        let mut ports = open_all(&bed, &format!("xdp:w1?mode={mode}"));
        let names: Vec<&str> = ports.iter().map(|port| port.info().name.as_str()).collect();
        assert_eq!(names, ["xdp:w1@0", "xdp:w1@1", "xdp:w1@2", "xdp:w1@3"]);
        send_flows(&bed);
        wait_for_all(&ports.iter().map(|port| &**port as &dyn Port).collect::<Vec<_>>(), SENT);
        // While one port ends, the others keep their packets.
        let (mut flows, mut used) = (Vec::new(), 0);
        for port in &mut ports {
            let packets = drain(&mut **port);
            used += usize::from(!packets.is_empty());
            check_closed(&**port, packets.len() as u64, packets.len() as u64);
            assert_eq!(notes(&**port), "");
            flows.extend(whole_flows(&packets));
        }
        flows.sort_unstable();
        assert!(flows.into_iter().eq(1..=FLOWS), "{mode}");
        // In generic mode a veth reports a queue number one lower, and so never the last.
        assert_eq!(used, if mode == "native" { 4 } else { 3 });
    }
}

#[test]
fn what_comes_by_a_queue_without_a_port_reaches_the_host() {
    let Some(bed) = bed_or_skip() else { return };
    bed.connect_queues("w0", "w1", 1500, 4).unwrap();
    for mode in MODES {
        let mut taking = open(&bed.far, &format!("xdp:w1@1?mode={mode}"));
        let mut host = open(&bed.far, "afpacket:w1?direction=in");
        send_flows(&bed);
        wait_for_all(&[&*taking, &*host], SENT);
        let (taken, passed) = (drain(&mut *taking), drain(&mut *host));
        let offered = taken.len() as u64;
        check_closed(&*taking, offered, offered);
        let passed_count = passed.len();
        let note =
            format!("{passed_count} packets arrived on its other queues and went to the host");
        assert_eq!(notes(&*taking), note);
        let mut flows = [whole_flows(&taken), whole_flows(&passed)].concat();
        flows.sort_unstable();
        assert!(flows.into_iter().eq(1..=FLOWS), "{mode}");
    }
}

/// Gives both ends of the cable between `w0` and `w1` this many queues in this direction. A veth
/// with a program needs as many receive queues as the other end has send queues.
fn widen(bed: &Bed, queues: &str) {
    bed.far.command("ethtool", &["-L", "w1", "rx", queues]).unwrap();
    // In native mode a veth runs its program on new queues only after it was down.
    bed.far.command("ip", &["link", "set", "w1", "down"]).unwrap();
    bed.far.command("ip", &["link", "set", "w1", "up"]).unwrap();
    bed.near.command("ethtool", &["-L", "w0", "tx", queues]).unwrap();
    let (up, start) = (["link", "show", "w0"], Instant::now());
    while !bed.near.command("ip", &up).unwrap().contains("state UP") {
        assert!(start.elapsed() < PATIENCE);
        std::thread::yield_now();
    }
    // Without effect, but it waits for the kernel to finish what it began with that state.
    bed.near.command("ip", &["link", "set", "w0", "up"]).unwrap();
}

#[test]
fn what_comes_by_a_queue_that_was_added_is_lost_by_name_or_was_not_requested() {
    let Some(bed) = bed_or_skip() else { return };
    if bed.far.command("ethtool", &["--version"]).is_err() {
        skip("needs ethtool");
        return;
    }
    bed.connect_queues("w0", "w1", 1500, 4).unwrap();
    for (mode, queue) in MODES.into_iter().flat_map(|mode| [(mode, ""), (mode, "@0")]) {
        bed.near.command("ethtool", &["-L", "w0", "tx", "1"]).unwrap();
        bed.far.command("ethtool", &["-L", "w1", "rx", "1"]).unwrap();
        let mut taking = open(&bed.far, &format!("xdp:w1{queue}?mode={mode}"));
        widen(&bed, "4");
        let mut host = open(&bed.far, "afpacket:w1?direction=in");
        send_flows(&bed);
        let (start, arrived) = (Instant::now(), || {
            let account = taking.account();
            account.offered - account.lost.of(Loss::QueueAdded) + host.account().offered
        });
        while arrived() < SENT {
            assert!(start.elapsed() < PATIENCE);
            std::thread::yield_now();
        }
        let lost = taking.account().lost.of(Loss::QueueAdded);
        let delivered = drain(&mut *taking).len() as u64;
        let passed_count = drain(&mut *host).len() as u64;
        assert!(passed_count > 0 && delivered + passed_count == SENT, "{mode} {queue}");
        let elsewhere =
            format!("{passed_count} packets arrived on its other queues and went to the host");
        let expected = if queue.is_empty() { passed_count } else { 0 };
        assert_eq!(lost, expected, "{mode} {queue}");
        check_lost(&*taking, Loss::QueueAdded, expected);
        check_closed(&*taking, delivered + expected, delivered);
        // There may be one on the link, which was down.
        let notes = notes(&*taking);
        assert_eq!(notes.contains(&elsewhere), !queue.is_empty(), "{mode} {queue}: {notes}");
    }
}

#[test]
fn a_port_that_has_finished_leaves_its_packets_to_the_host() {
    let Some(bed) = bed_or_skip() else { return };
    bed.connect_queues("w0", "w1", 1500, 2).unwrap();
    for mode in MODES {
        let mut ports = open_all(&bed, &format!("xdp:w1?mode={mode}"));
        send_flows(&bed);
        wait_for_all(&[&*ports[0], &*ports[1]], SENT);
        let shares = [ports[0].account().offered, ports[1].account().offered];
        let mut host = open(&bed.far, "afpacket:w1?direction=in");
        ports[0].finish().unwrap();
        // The program is still attached for the other queue, and passes these.
        send_flows(&bed);
        wait_for(&*ports[0], 2 * shares[0]);
        check_lost(&*ports[0], Loss::Passed, shares[0]);
        wait_for(&*host, shares[0]);
        assert_eq!(empty(&mut *ports[0]), shares[0]);
        assert_eq!(drain(&mut *host).len() as u64, shares[0], "{mode}");
        let mut scratch = Scratch::new();
        assert_eq!(ports[0].lend(&mut scratch, 1).unwrap().state, PortState::Ended);
        // Packets passed after the end are no longer counted by the port.
        send_flows(&bed);
        wait_for(&*ports[1], 3 * shares[1]);
        check_closed(&*ports[0], 2 * shares[0], shares[0]);
        assert_eq!(drain(&mut *ports[1]).len() as u64, 3 * shares[1]);
        check_closed(&*ports[1], 3 * shares[1], 3 * shares[1]);
    }
}

#[test]
fn a_ledger_closes_while_the_program_goes_on_for_another_queue() {
    let Some(bed) = bed_or_skip() else { return };
    bed.connect_queues("w0", "w1", 1500, 2).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Both queues have packets throughout.
        let sender = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                send_flows(&bed);
            }
        });
        for _ in 0..8 {
            let mut ports = open_all(&bed, "xdp:w1");
            wait_for_some(&*ports[0]);
            let packets = drain(&mut *ports[0]).len() as u64;
            let offered = ports[0].account().offered;
            check_closed(&*ports[0], offered, packets);
        }
        is_over.store(true, Ordering::Relaxed);
        sender.join().unwrap();
    });
}
