//! Crossings between two devices: mbufs are passed on without a copy.

use std::time::{Duration, Instant};

use burstline_log::Scratch;
use burstline_port::{
    Address, Crossing, OpenOptions, PortState, Rewrite, Touch, Treatment, open_crossings,
};

use crate::alone;
use crate::common::{drain_by_lending, prepare, sink, source};

pub(crate) fn crossing(from: &str, to: &str, treatment: &Treatment) -> Box<dyn Crossing> {
    prepare(from);
    let ends: [Address; 2] = [from, to].map(|end| end.parse().unwrap());
    let options = OpenOptions::default();
    let opened = open_crossings(ends.each_ref(), false, treatment, &options).unwrap();
    opened.expect("mbufs can stay where they are").pop().unwrap()
}

fn finish(crossing: &mut dyn Crossing) {
    crossing.finish().unwrap();
    while crossing.pass(1024).unwrap().state != PortState::Ended {}
}

/// Checks that nothing is left in flight, and every offered packet is accounted for.
fn check_closed(crossing: &mut dyn Crossing) -> u64 {
    finish(crossing);
    crossing.close().unwrap();
    let (account, carried) = (crossing.account(), crossing.carried());
    let sum = carried.packets + account.lost.total();
    assert_eq!((account.offered, account.in_flight), (sum, 0), "{account:?}");
    carried.packets
}

#[test]
fn packets_are_rewritten_where_they_lie_and_go_on() {
    let _alone = alone();
    let load = "gen:?packets=500&start=5&size=random:64-1518&seed=4";
    let options = OpenOptions::default();
    let mut to = sink("dpdk:net_ring20", &options).unwrap();
    let mut out = source("dpdk:net_ring21", &options).unwrap();
    let (mut scratch, mut from) = (Scratch::new(), source(load, &options).unwrap());
    let lent = from.lend(&mut scratch, 1000).unwrap();
    let treatment =
        Treatment { touch: Touch::Payload, rewrite: Rewrite::Swap, ..Treatment::default() };
    let mut way = crossing("dpdk:net_ring20", "dpdk:net_ring21", &treatment);
    let packets = lent.burst.len() as u64;
    assert_eq!((to.transmit(&lent.burst).unwrap(), packets > 100), (packets, true));
    finish(&mut *way);
    // In the ring between them, and not carried before it is drained.
    assert_eq!((way.carried().packets, way.account().in_flight), (0, packets));
    out.finish().unwrap();
    let got = drain_by_lending(&mut *out, u64::MAX);
    let carried = check_closed(&mut *way);
    assert_eq!(carried, packets, "{:?}", way.account());
    assert_eq!(way.treatment().found.packets, packets);
    assert_eq!(way.account().bytes_copied, 0);
    assert_eq!(got.len() as u64, packets);
    for (got, sent) in got.iter().zip(lent.burst.packets()) {
        let sent = sent.bytes();
        let swapped = [&sent[6..12], &sent[..6], &sent[12..]].concat();
        assert!(got.bytes == swapped);
    }
}

#[test]
fn without_free_mbufs_for_ten_seconds_nothing_comes_in_and_then_it_goes_on() {
    let _alone = alone();
    let (entry, exit) = ("dpdk:net_null30?pool=255&burst=32", "dpdk:net_ring30?wait_ms=0");
    let mut way = crossing(entry, exit, &Treatment::default());
    let mut out = source(exit, &OpenOptions::default()).unwrap();
    // The exit is not drained.
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(10) {
        way.pass(1024).unwrap();
    }
    // Every mbuf is in the ring, so nothing comes in.
    let held = way.account().in_flight;
    assert!((1..=255).contains(&held), "{held} packets");
    assert_eq!((way.carried().packets, way.account().lost.total()), (0, 0));
    let (mut scratch, mut taken) = (Scratch::new(), 0);
    while taken < 3 * held {
        taken += out.lend(&mut scratch, 1024).unwrap().burst.len() as u64;
        way.pass(1024).unwrap();
    }
    let carried = check_closed(&mut *way);
    assert!(carried >= taken);
}

#[test]
fn an_exit_that_stands_still_loses_by_name() {
    let _alone = alone();
    let exit = "dpdk:net_ring33?wait_ms=0";
    let mut way = crossing("dpdk:net_null33?pool=4095&burst=64", exit, &Treatment::default());
    while way.account().lost.total() == 0 {
        way.pass(1024).unwrap();
    }
    let account = way.account();
    let lost: Vec<_> = account.lost.iter().filter(|(_, packets)| *packets > 0).collect();
    assert_eq!(lost[0].0.name(), "tx_ring_full", "{lost:?}");
    check_closed(&mut *way);
}
