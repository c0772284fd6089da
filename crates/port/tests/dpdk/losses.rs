//! Losses before a source, and that nothing else is counted as lost.

use std::time::Instant;

use burstline_afpacket::Sender;
use burstline_log::Scratch;
use burstline_port::{Crossing, Loss, OpenOptions, PortState, Source, Treatment};
use burstline_testbed::{Bed, FAR, Frames, Host, NEAR};

use crate::alone;
use crate::common::live::{PATIENCE, check_closed, open};
use crate::common::{Folder, source, write_pcap};
use crate::passing::crossing;
use crate::testpmd::Testpmd;

/// More than any ring can hold.
const MANY: u64 = 30_000;

/// Sends from an interface, through its queueing discipline.
fn send(host: &Host, interface: &'static str, frames: Frames) {
    let count = frames.count;
    let sent = host.run(move || frames.send(&mut Sender::open(interface, false).unwrap()).unwrap());
    assert_eq!(sent, count);
}

/// Takes packets until these and the lost ones are `all`, and ends; returns how many came.
fn take(port: &mut dyn Source, all: u64) -> u64 {
    let (mut scratch, mut taken, start) = (Scratch::new(), 0, Instant::now());
    while taken + port.account().lost.total() < all {
        assert!(start.elapsed() < PATIENCE, "{taken} of {all}: {:?}", port.account());
        taken += port.lend(&mut scratch, u64::MAX).unwrap().burst.len() as u64;
    }
    port.finish().unwrap();
    while port.lend(&mut scratch, u64::MAX).unwrap().state != PortState::Ended {}
    taken
}

#[test]
fn what_the_kernel_has_no_room_for_is_lost_by_name() {
    let _alone = alone();
    let Some(bed) = Bed::or_skip() else { return };
    for address in [
        format!("dpdk:net_af_packet70,iface={FAR},framecnt=512,blocksz=4096?pool=2047"),
        format!("dpdk:net_af_xdp71,iface={FAR}?pool=4095"),
        "dpdk:net_tap72,iface=t72?pool=2047".to_owned(),
    ] {
        let mut port = open(&bed.far, &address);
        // The driver receives packets that are sent to a tap from the other side.
        match address.contains("tap") {
            true => send(&bed.far, "t72", Frames::new(MANY, 60)),
            false => send(&bed.near, NEAR, Frames::new(MANY, 60)),
        }
        let taken = take(&mut *port, MANY);
        let lost = port.account().lost;
        assert_eq!(lost.of(Loss::RxRingFull), MANY - taken, "{address}: {lost:?}");
        assert!((1..MANY).contains(&taken), "{address}: {taken}");
        check_closed(&*port, MANY, taken);
    }
}

#[test]
fn what_the_kernel_lost_is_that_of_the_drivers_interface_and_not_of_its_name() {
    let _alone = alone();
    let Some(bed) = Bed::or_skip() else { return };
    let mut port = open(&bed.far, "dpdk:net_tap76,iface=t76?pool=2047");
    for command in [
        "link set t76 down",
        "link set t76 name t77",
        "link set t77 up",
        "link add t76 type veth peer name t78",
    ] {
        bed.far.command("ip", &command.split(' ').collect::<Vec<_>>()).unwrap();
    }
    send(&bed.far, "t77", Frames::new(MANY, 60));
    let taken = take(&mut *port, MANY);
    assert_eq!(port.account().lost.of(Loss::RxRingFull), MANY - taken);
    assert!((1..MANY).contains(&taken), "{taken}");
    check_closed(&*port, MANY, taken);
}

#[test]
fn what_the_driver_calls_missed_is_lost_by_that_name() {
    let _alone = alone();
    let Some(bed) = Bed::or_skip() else { return };
    for (host, end) in [(&bed.near, NEAR), (&bed.far, FAR)] {
        host.command("ip", &["link", "set", end, "mtu", "3000"]).unwrap();
    }
    let mut port = open(&bed.far, &format!("dpdk:net_af_xdp73,iface={FAR}?pool=4095"));
    // None of the driver's frames in the kernel is long enough.
    send(&bed.near, NEAR, Frames::new(10, 2900));
    send(&bed.near, NEAR, Frames::new(20, 60));
    let taken = take(&mut *port, 30);
    assert_eq!((taken, port.account().lost.of(Loss::DeviceMissed)), (20, 10));
    check_closed(&*port, 30, taken);
}

#[test]
fn a_driver_that_drops_what_it_has_no_mbuf_for_has_lost_it() {
    let _alone = alone();
    let folder = Folder::new();
    let file = folder.path("many.pcap");
    // More packets than mbufs, with a ring that is not drained.
    write_pcap("gen:?packets=2000&start=5", &file);
    let entry = format!("dpdk:net_pcap74,rx_pcap={}?pool=255&burst=32", file.display());
    let mut way = crossing(&entry, "dpdk:net_ring74?wait_ms=0", &Treatment::default());
    let start = Instant::now();
    while way.account().offered < 2000 {
        assert!(start.elapsed() < PATIENCE, "{:?}", way.account());
        way.pass(1024).unwrap();
    }
    let account = way.account();
    let lost = account.lost.of(Loss::NoMbuf);
    assert!((2000 - 255..2000).contains(&lost), "{account:?}");
    assert_eq!((account.lost.total(), account.offered - account.in_flight), (lost, lost));
}

#[test]
fn a_driver_that_waits_for_an_mbuf_has_lost_nothing_by_it() {
    let _alone = alone();
    let folder = Folder::new();
    let socket = folder.path("socket");
    let Some(_testpmd) = Testpmd::start(&socket, "txonly") else { return };
    let entry = format!("dpdk:net_virtio_user75,path={}?ring=256&pool=511", socket.display());
    let exit = "dpdk:net_ring75?wait_ms=0";
    let mut way = crossing(&entry, exit, &Treatment::default());
    let mut out = source(exit, &OpenOptions::default()).unwrap();
    let has_waited = |way: &dyn Crossing| {
        way.account().notes.iter().any(|note| note.contains("virtio_user found no free mbuf"))
    };
    let start = Instant::now();
    while !has_waited(&*way) {
        assert!(start.elapsed() < PATIENCE, "{:?}", way.account());
        way.pass(1024).unwrap();
    }
    let held = way.account().in_flight;
    assert!((1..=511).contains(&held), "{held}");
    let (mut scratch, mut taken) = (Scratch::new(), 0);
    while taken < 3 * held {
        assert!(start.elapsed() < PATIENCE, "{taken} of {held}: {:?}", way.account());
        taken += out.lend(&mut scratch, 1024).unwrap().burst.len() as u64;
        way.pass(1024).unwrap();
    }
    let account = way.account();
    let sum = way.carried().packets + account.in_flight;
    assert_eq!((account.offered, account.lost.total()), (sum, 0), "{account:?}");
}
