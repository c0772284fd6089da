//! Bad addresses, devices that vanish, packets that do not fit.

use std::time::Instant;

use burstline_log::{Meta, Scratch};
use burstline_port::{Loss, OpenOptions, PortError, PortState, Sink};
use burstline_testbed::Bed;

use crate::alone;
use crate::common::live::{PATIENCE, lend_until};
use crate::common::{sink, source};

fn refusal(address: &str) -> String {
    let text = match source(address, &OpenOptions::default()) {
        Ok(_) => panic!("{address} opens"),
        Err(error) => error.to_string(),
    };
    assert!(!text.contains('\n'), "{text}");
    text
}

#[test]
fn what_does_not_open_is_said_in_a_line_and_with_the_mend() {
    let _alone = alone();
    // EAL runs from here on.
    drop(source("dpdk:net_null40", &OpenOptions::default()).unwrap());
    for (address, said) in [
        ("dpdk:net_nowhere0", "dpdk-devbind.py --status"),
        ("dpdk:0000:ff:1f.6", "dpdk-devbind.py --status"),
        ("dpdk:net_pcap40,rx_pcap=/nowhere.pcap", "/nowhere.pcap"),
        ("dpdk:net_null40,speed=7", "net_null40"),
        ("dpdk:net_ring40?queues=64", "64 queues requested"),
        ("dpdk:net_null41?pool=8388607", "pool=MBUFS"),
        ("dpdk:net_null42?eal=--foo", "DPDK already runs"),
        ("dpdk:net_null43?checksums=yes", "leave out checksums="),
        ("dpdk:net_virtio_user43,path=/dev/no-vhost-net", "modprobe vhost_net"),
    ] {
        let text = refusal(address);
        assert!(text.contains(said), "{address}: {text}");
    }
    // A failed opening leaves nothing behind.
    drop(source("dpdk:net_null41", &OpenOptions::default()).unwrap());
}

#[test]
fn a_queue_has_one_owner_and_a_device_one_shape() {
    let _alone = alone();
    let options = OpenOptions::default();
    let first = source("dpdk:net_ring44", &options).unwrap();
    let second = refusal("dpdk:net_ring44");
    assert!(second.contains("already used by another port of this job"), "{second}");
    let second = refusal("dpdk:net_ring44?ring=64");
    assert!(second.contains("already open with other options"), "{second}");
    drop(first);
    source("dpdk:net_ring44?ring=64", &options).unwrap();
}

/// Sends packets of these lengths, and returns the sink and the number taken.
fn send(address: &str, lengths: &[usize]) -> (Box<dyn Sink>, u64) {
    let mut to = sink(address, &OpenOptions::default()).unwrap();
    let (mut bytes, mut scratch) = (Vec::new(), Scratch::new());
    for &length in lengths {
        let meta = Meta::new(0, length as u32, 0);
        scratch.push(bytes.len() as u32, length as u32, &meta);
        bytes.resize(bytes.len() + length, length as u8);
    }
    let taken = to.transmit(&scratch.burst(&bytes, 0)).unwrap();
    (to, taken)
}

#[test]
fn jumbo_packets_fit_a_larger_mtu_and_no_other() {
    let _alone = alone();
    let lengths = [13, 14, 60, 1514, 1523, 9014];
    let (to, taken) = send("dpdk:net_ring45", &lengths);
    let lost = to.account().lost;
    assert_eq!((taken, lost.of(Loss::TooShort), lost.of(Loss::TooLong)), (3, 1, 2), "{lost:?}");
    drop(to);
    let address = "dpdk:net_ring46?mtu=9000";
    let mut from = source(address, &OpenOptions::default()).unwrap();
    let (to, taken) = send(address, &lengths);
    assert_eq!(taken, 5, "{:?}", to.account());
    let mut got = Vec::new();
    lend_until(&mut *from, &mut got, |got, _| got.len() == 5).unwrap();
    assert!(got.iter().map(|packet| packet.bytes.len()).eq(lengths[1..].iter().copied()));
}

#[test]
fn an_interface_that_is_deleted_ends_source_and_sink() {
    let _alone = alone();
    let Some(bed) = Bed::or_skip() else { return };
    let open = || {
        let options = OpenOptions::default();
        let address = "dpdk:net_tap47,iface=t47";
        (source(address, &options).unwrap(), sink(address, &options).unwrap())
    };
    let (mut from, mut to) = bed.near.run(open);
    bed.near.command("ip", &["link", "delete", "t47"]).unwrap();
    // From another network namespace than the interface was in.
    let error = lend_until(&mut *from, &mut Vec::new(), |_, _| false).unwrap_err();
    assert!(matches!(error, PortError::InterfaceGone { .. }), "{error}");
    let state = from.lend(&mut Scratch::new(), 1).unwrap().state;
    assert_eq!((state, from.account().in_flight), (PortState::Ended, 0));
    let mut load = source("gen:?start=5", &OpenOptions::default()).unwrap();
    let (mut scratch, start) = (Scratch::new(), Instant::now());
    let error = loop {
        assert!(start.elapsed() < PATIENCE, "{:?}", to.account());
        let lent = load.lend(&mut scratch, 10).unwrap();
        if let Err(error) = to.transmit(&lent.burst) {
            break error;
        }
    };
    assert!(matches!(error, PortError::InterfaceGone { .. }), "{error}");
    to.finish().unwrap();
    let account = to.account();
    assert_eq!((account.offered, account.in_flight), (account.lost.total(), 0), "{account:?}");
    assert!(account.lost.of(Loss::LinkDown) > 0, "{account:?}");
}
