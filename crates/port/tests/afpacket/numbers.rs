//! Counts: what was sent, offered, delivered and lost.

use burstline_port::OpenOptions;
use burstline_testbed::{Bed, FAR, Frames, sequence_of};

use crate::help::{
    check_closed, drain, drain_by_receiving, drain_into, drain_through_full_log, lend_until,
    lend_while, numbers, open_far, ring_full, send, try_open, wait_for,
};

#[test]
fn every_frame_that_was_sent_is_offered_and_delivered() {
    let Some(bed) = Bed::or_skip() else { return };
    for drain in [drain, drain_by_receiving] {
        let mut port = open_far(&bed, "");
        let frames = Frames::new(100_000, 60);
        let sent = send(&bed, &frames);
        wait_for(&*port, sent);
        let before = port.account();
        assert_eq!((before.offered, before.in_flight, ring_full(&before)), (sent, sent, 0));
        let packets = drain(&mut *port);
        assert!(numbers(&packets).into_iter().eq(0..sent));
        assert!((0..sent).all(|number| packets[number as usize].bytes == frames.frame(number)));
        assert!(packets.is_sorted_by_key(|packet| packet.time_ns));
        check_closed(&*port, sent, sent);
    }
}

#[test]
fn the_ledger_closes_at_every_moment_while_packets_arrive_and_are_lost() {
    let Some(bed) = Bed::or_skip() else { return };
    for query in ["", "block=128k&blocks=2"] {
        let mut port = open_far(&bed, query);
        let frames = Frames::new(100_000, 60);
        let mut all = Vec::new();
        let sent = lend_while(&mut *port, &mut all, || send(&bed, &frames));
        drain_into(&mut *port, &mut all);
        let lost = ring_full(&port.account());
        assert!(numbers(&all).is_sorted_by(|a, b| a < b));
        check_closed(&*port, sent, sent - lost);
        assert_eq!(all.len() as u64 + lost, sent, "{query}");
    }
}

#[test]
fn a_stalled_reader_loses_just_what_the_ring_had_no_room_for() {
    let Some(bed) = Bed::or_skip() else { return };
    let mut port = open_far(&bed, "block=128k&blocks=2");
    let sent = send(&bed, &Frames::new(20_000, 60));
    wait_for(&*port, sent);
    let stalled = port.account();
    assert_eq!(stalled.offered, sent);
    assert!(ring_full(&stalled) > 0 && stalled.in_flight > 0);
    assert_eq!(stalled.offered, ring_full(&stalled) + stalled.in_flight);

    let mut all = Vec::new();
    let in_ring = stalled.in_flight;
    lend_until(&mut *port, &mut all, |all, _| all.len() as u64 == in_ring).unwrap();
    check_closed(&*port, sent, in_ring);
    // The next packets report the losses before them.
    let more = Frames { first: sent, ..Frames::new(10, 60) };
    // The drained block returns to the kernel when the port is called again.
    lend_until(&mut *port, &mut all, |_, port| {
        port.account().in_flight > 0 || send(&bed, &more) > 0
    })
    .unwrap();
    drain_into(&mut *port, &mut all);
    let account = port.account();
    // While its timer closes a block, the kernel may drop a packet although the next block is
    // free, and marks no block then. So a loss may be reported late, but never early.
    let mut told = 0;
    let mut expected = 0;
    for (index, packet) in (0u64..).zip(&all) {
        let number = sequence_of(&packet.bytes).unwrap();
        told += packet.drops_before;
        let missing = number - index;
        assert!(told <= missing, "{told} of {missing} told before {number}");
        assert!(index < in_ring || told == missing, "{told} of {missing} told before {number}");
        expected = number + 1;
    }
    // On a busy machine, the kernel may close the one free block after the first of them.
    let behind_the_last = sent + 10 - expected;
    assert_eq!(told + behind_the_last, ring_full(&account));
    assert!(behind_the_last < 10, "what came next is what says it");
    check_closed(&*port, sent + 10, all.len() as u64);
}

#[test]
fn a_full_log_leaves_packets_in_the_ring() {
    let Some(bed) = Bed::or_skip() else { return };
    let mut port = open_far(&bed, "");
    let sent = send(&bed, &Frames::new(5_000, 60));
    assert!(numbers(&drain_through_full_log(&mut *port)).into_iter().eq(0..sent));
}

#[test]
fn a_group_of_two_shares_every_packet_out_once() {
    let Some(bed) = Bed::or_skip() else { return };
    // A group for each mode: a group that has just ended may live on in a child that is being
    // started, and takes no member with another mode.
    for (group, mode) in (77..).zip(["lb", "hash", "cpu", "qm"]) {
        let query = format!("fanout={mode}:{group}");
        let mut ports = [open_far(&bed, &query), open_far(&bed, &query)];
        let sent = send(&bed, &Frames::new(10_000, 60));
        let mut all = Vec::new();
        let mut shares = Vec::new();
        for port in &mut ports {
            let packets = drain(&mut **port);
            check_closed(&**port, packets.len() as u64, packets.len() as u64);
            shares.push(packets.len());
            all.extend(numbers(&packets));
        }
        all.sort_unstable();
        assert!(all.into_iter().eq(0..sent), "{mode}: {shares:?} of {sent}");
        assert!(mode != "lb" || shares.iter().all(|&share| share == 5_000), "{shares:?}");
    }
}

#[test]
fn a_snapshot_length_cuts_packets_and_says_so() {
    let Some(bed) = Bed::or_skip() else { return };
    for drain in [drain, drain_by_receiving] {
        let options = OpenOptions { snapshot_bytes: Some(40), ..OpenOptions::default() };
        let mut port = try_open(&bed.far, &format!("afpacket:{FAR}"), options).unwrap();
        let frames = Frames::new(100, 600);
        let sent = send(&bed, &frames);
        let packets = drain(&mut *port);
        assert_eq!(packets.len() as u64, sent);
        for (number, packet) in packets.iter().enumerate() {
            assert_eq!(packet.bytes, frames.frame(number as u64)[..40]);
            assert_eq!(packet.original_length, 600);
        }
        assert_eq!(port.account().truncated, sent);
    }
}
