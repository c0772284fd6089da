//! Properties of every sink that sends by an interface, whatever happens to the interface.

mod rig;

use std::thread;
use std::time::Duration;

use burstline_port::{Loss, OpenOptions, PortError};
use burstline_testbed::{FAR, NEAR};

use crate::common::live::try_open;
use rig::{arrived, for_each_sink, numbered, with_burst};

#[test]
fn what_is_sent_arrives_byte_for_byte_and_in_order() {
    for_each_sink(|rig| {
        let mut far = rig.listen();
        let packets = numbered(5_000, &[60, 61, 1514, 18, 350, 999]);
        let (first, second) = packets.split_at(2_000);
        assert_eq!(rig.send(first, 97).unwrap(), 2_000, "{}", rig.address);
        assert_eq!(rig.send(&[], 1).unwrap(), 0, "{}", rig.address);
        assert_eq!(rig.with(|sink| with_burst(&[], |empty| sink.transmit(empty))).unwrap(), 0);
        assert_eq!(rig.send(second, 1_000).unwrap(), 3_000, "{}", rig.address);
        rig.with(|sink| sink.flush().unwrap());
        let account = rig.with(|sink| sink.account());
        assert_eq!((account.offered, account.in_flight), (5_000, 0), "{account:?}");
        let bytes: usize = packets.iter().map(Vec::len).sum();
        assert_eq!((account.bytes_copied, account.truncated), (bytes as u64, 0));
        let (sent, finished) = rig.finish();
        finished.unwrap();
        let got = arrived(&mut *far, sent);
        assert_eq!(account.lost.total(), 0, "{}: {account:?}", rig.address);
        assert!(got == packets, "{}: {} of 5000, or not the same", rig.address, got.len());
    });
}

#[test]
fn packets_that_cannot_be_sent_are_named_and_the_others_go() {
    for_each_sink(|rig| {
        let mut far = rig.listen();
        let mut packets =
            numbered(14, &[0, 1, 13, 14, 15, 59, 60, 1514, 1515, 1518, 1519, 2049, 4097, 9000]);
        let mut tagged = numbered(3, &[1518, 1519, 1518]);
        for (packet, kind) in tagged.iter_mut().zip([[0x81, 0], [0x81, 0], [0x88, 0xa8]]) {
            packet[12..14].copy_from_slice(&kind);
        }
        packets.extend(tagged.clone());
        let expected = [&packets[3..8], &[tagged[0].clone(), tagged[2].clone()]].concat();
        assert_eq!(rig.send(&packets, 100).unwrap(), 7, "{}", rig.address);
        let (sent, finished) = rig.finish();
        finished.unwrap();
        let (lost, which) = rig.with(|sink| (sink.account().lost, sink.lost()));
        let bytes = packets.iter().filter(|packet| !expected.contains(packet)).map(Vec::len);
        assert_eq!(which.tally_of(0).bytes, bytes.sum::<usize>() as u64, "{}", rig.address);
        let (short, long) = (lost.of(Loss::TooShort), lost.of(Loss::TooLong));
        assert_eq!((sent, short, long), (7, 3, 7), "{}: {lost:?}", rig.address);
        let (mut got, mut expected) = (arrived(&mut *far, sent), expected);
        if rig.is_inward() {
            // The stack passes tagged packets of a batch to packet sockets before the others.
            got.sort();
            expected.sort();
        }
        let lengths: Vec<_> = got.iter().map(Vec::len).collect();
        assert!(got == expected, "{}: lengths {lengths:?}", rig.address);
    });
}

#[test]
fn an_mtu_that_shrinks_is_noticed_and_the_ledger_stays_exact() {
    for_each_sink(|rig| {
        let mut far = rig.listen();
        let packets = numbered(500, &[1514, 60]);
        rig.send(&packets, 50).unwrap();
        rig.ip(rig.host(), &format!("link set {} mtu 1000", rig.interface()));
        // A sink checks its interface periodically. Until then arriving packets are not drained, so
        // send only a few.
        while rig.with(|sink| sink.account().lost.of(Loss::TooLong)) < 100 {
            rig.send(&packets[..20], 20).unwrap();
            thread::sleep(Duration::from_millis(5));
        }
        let (sent, finished) = rig.finish();
        finished.unwrap();
        let account = rig.with(|sink| sink.account());
        let note = account.notes.iter().any(|note| note.contains("MTU 1500 became 1000"));
        assert!(note, "{}: {account:?}", rig.address);
        assert_eq!(arrived(&mut *far, sent).len() as u64, sent, "{}: {account:?}", rig.address);
    });
}

/// Takes an interface down during a transfer and up again, and returns the losses.
fn interrupt(rig: &rig::Rig, which: &str) -> burstline_port::Losses {
    let mut far = rig.listen();
    let host = if which == NEAR { &rig.bed.near } else { &rig.bed.far };
    let packets = numbered(200, &[60, 1514]);
    assert_eq!(rig.send(&packets, 50).unwrap(), 200);
    rig.with(|sink| sink.flush().unwrap());
    rig.ip(host, &format!("link set {which} down"));
    // More than any ring can hold.
    for _ in 0..100 {
        rig.send(&packets, 50).unwrap();
    }
    let stuck = rig.with(|sink| sink.account());
    assert!(stuck.lost.total() > 0, "{}: {stuck:?}", rig.address);
    rig.ip(host, &format!("link set {which} up"));
    // The carrier may take a moment.
    loop {
        rig.with(|sink| sink.flush().unwrap());
        let before = rig.with(|sink| sink.account());
        rig.send(&packets[..1], 1).unwrap();
        rig.with(|sink| sink.flush().unwrap());
        let after = rig.with(|sink| sink.account());
        if after.in_flight == 0 && after.lost.total() == before.lost.total() {
            break;
        }
    }
    assert_eq!(rig.send(&packets, 50).unwrap(), 200);
    let (sent, finished) = rig.finish();
    finished.unwrap();
    let account = rig.with(|sink| sink.account());
    let got = arrived(&mut *far, sent);
    assert_eq!(got.len() as u64, sent, "{}: {account:?}", rig.address);
    assert!(got.ends_with(&packets), "{}", rig.address);
    account.lost
}

#[test]
fn an_interface_that_goes_down_loses_by_name_and_goes_on() {
    for_each_sink(|rig| {
        let lost = interrupt(rig, rig.interface());
        assert!(lost.of(Loss::LinkDown) > 0, "{}: {lost:?}", rig.address);
    });
}

#[test]
fn a_peer_that_goes_down_loses_by_name_and_the_sink_goes_on() {
    for_each_sink(|rig| {
        if rig.address.contains("bypass=off") {
            // Without a carrier the queueing discipline takes all packets and drops them, and
            // reports that only in its counters.
            return;
        }
        if rig.is_inward() {
            // Nothing leaves by the interface, so its peer does not matter.
            return;
        }
        let other = if rig.interface() == NEAR { FAR } else { NEAR };
        let lost = interrupt(rig, other);
        let named = lost.of(Loss::TxRingFull) + lost.of(Loss::TxRefused);
        assert_eq!(named, lost.total(), "{}: {lost:?}", rig.address);
    });
}

#[test]
fn an_interface_that_is_deleted_ends_the_sink_with_an_exact_ledger() {
    for_each_sink(|rig| {
        let packets = numbered(50, &[60]);
        rig.send(&packets, 50).unwrap();
        rig.with(|sink| sink.flush().unwrap());
        rig.ip(rig.host(), &format!("link delete {}", rig.interface()));
        let mut offered = 50;
        let error = loop {
            offered += 50;
            if let Err(error) = rig.send(&packets, 50) {
                break error;
            }
        };
        assert!(matches!(error, PortError::InterfaceGone { .. }), "{}: {error}", rig.address);
        rig.send(&packets, 50).unwrap_err();
        // It also fails if something was in flight.
        let (sent, _) = rig.finish();
        let account = rig.with(|sink| sink.account());
        assert_eq!((account.offered, sent), (offered + 50, 50), "{}: {account:?}", rig.address);
        assert_eq!(account.lost.of(Loss::LinkDown), offered, "{}: {account:?}", rig.address);
    });
}

#[test]
fn an_open_sink_needs_no_rights() {
    for_each_sink(|rig| {
        let mut far = rig.listen();
        let packets = numbered(300, &[60, 700]);
        let sent = packets.clone();
        rig.with(move |sink| {
            // On a separate thread, since this cannot be reverted.
            std::thread::scope(|scope| {
                let work = scope.spawn(|| {
                    burstline_sys::privileges::give_up().unwrap();
                    with_burst(&sent, |burst| assert_eq!(sink.transmit(burst).unwrap(), 300));
                    sink.flush().unwrap();
                });
                work.join().unwrap();
            });
        });
        let (sent, finished) = rig.finish();
        finished.unwrap();
        assert!(arrived(&mut *far, sent) == packets, "{}", rig.address);
    });
}

#[test]
fn what_is_injected_goes_to_whichever_program_is_on_the_interface() {
    for_each_sink(|rig| {
        if !rig.is_injector() {
            return;
        }
        let packets = numbered(2_000, &[60, 1514, 300, 61]);
        // No program, one attached after the sink was opened, a different one, and none again.
        for has_program in [false, true, true, false] {
            let address =
                if has_program { "xdp:v1?mode=native" } else { "afpacket:v1?retire_ms=1" };
            let mut far = try_open(&rig.bed.far, address, OpenOptions::default()).unwrap();
            // The sink checks its interface periodically.
            std::thread::sleep(Duration::from_millis(60));
            assert_eq!(rig.send(&packets, 500).unwrap(), 2_000);
            assert!(arrived(&mut *far, 2_000) == packets, "{address}");
        }
        let (sent, finished) = rig.finish();
        finished.unwrap();
        assert_eq!(sent, 8_000);
    });
}
