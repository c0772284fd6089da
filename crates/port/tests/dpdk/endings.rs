//! Packets in a ring when a sink finishes are not delivered, though its driver counts them as sent.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use burstline_log::Scratch;
use burstline_port::{Loss, OpenOptions, Port, Sink};

use crate::alone;
use crate::common::live::PATIENCE;
use crate::common::{Folder, sink, source};
use crate::testpmd::Testpmd;

/// Fewer than the smallest ring can hold.
const PACKETS: u64 = 100;

/// Sends this many packets, all of which fit into the device.
fn send(to: &mut dyn Sink, packets: u64) {
    let mut scratch = Scratch::new();
    let mut load = source("gen:?packets=1000&start=5", &OpenOptions::default()).unwrap();
    let lent = load.lend(&mut scratch, packets).unwrap();
    assert_eq!(lent.burst.len() as u64, packets);
    assert_eq!(to.transmit(&lent.burst).unwrap(), packets, "{:?}", to.account());
}

/// Checks how many of the sent packets were taken, and how many of the rest are in flight.
fn check(to: &dyn Port, taken: u64, in_flight: u64) {
    let account = to.account();
    let left = account.offered - taken - in_flight;
    let seen = (account.in_flight, account.lost.of(Loss::TxRingFull), account.lost.total());
    assert_eq!(seen, (in_flight, left, left), "{account:?}");
}

#[test]
fn what_nobody_takes_out_of_a_ring_is_lost_to_it() {
    let _alone = alone();
    let (ring, options) = ("dpdk:net_ring50?burst=32", OpenOptions::default());
    let (mut from, mut to) = (source(ring, &options).unwrap(), sink(ring, &options).unwrap());
    send(&mut *to, PACKETS);
    check(&*to, 0, PACKETS);
    let taken = from.lend(&mut Scratch::new(), u64::MAX).unwrap().burst.len() as u64;
    assert!((1..PACKETS).contains(&taken), "{taken}");
    check(&*to, taken, PACKETS - taken);
    to.finish().unwrap();
    check(&*to, taken, 0);
    // The reader is late, but comes: then it was no loss.
    while !from.lend(&mut Scratch::new(), u64::MAX).unwrap().burst.is_empty() {}
    check(&*to, PACKETS, 0);
}

/// Opens a virtio sink as soon as the peer listens.
fn connected(socket: &Path) -> Box<dyn Sink> {
    let start = Instant::now();
    loop {
        let address = format!("dpdk:net_virtio_user51,path={}?ring=256", socket.display());
        match sink(&address, &OpenOptions::default()) {
            Ok(to) => return to,
            Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
        }
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_the_other_end_of_virtio_does_not_take_is_lost_to_the_ring() {
    let _alone = alone();
    let folder = Folder::new();
    let socket = folder.path("socket");
    let Some(taker) = Testpmd::start(&socket, "rxonly") else { return };
    let mut to = connected(&socket);
    send(&mut *to, PACKETS);
    let start = Instant::now();
    while to.account().in_flight > 0 {
        assert!(start.elapsed() < PATIENCE, "{:?}", to.account());
        to.flush().unwrap();
    }
    check(&*to, PACKETS, 0);
    // Closing the device waits for the peer, so that one continues first.
    let stopped = taker.stop();
    send(&mut *to, PACKETS / 2);
    check(&*to, PACKETS, PACKETS / 2);
    to.finish().unwrap();
    check(&*to, PACKETS, 0);
    drop(stopped);
}
