//! Counts, bytes, times: what was sent, offered and delivered.

use burstline_afpacket::Sender;
use burstline_log::Scratch;
use burstline_port::{OpenOptions, Source, TimestampSource};
use burstline_sys::clock;
use burstline_testbed::{FAR, Frames, NEAR};
use burstline_wire::hash::{FlowHasher, HashKind};
use burstline_wire::headers::LinkType;

use crate::common::Got;
use crate::help::{
    MODES, bed_or_skip, check_closed, datagram, drain, drain_by_receiving, drain_into,
    drain_through_full_log, lend_while, notes, numbers, open_far, send, send_to, try_open,
    wait_for,
};

#[test]
fn every_frame_that_was_sent_is_offered_and_delivered() {
    let Some(bed) = bed_or_skip() else { return };
    for mode in MODES {
        for (drain, copied) in [(drain as fn(&mut dyn Source) -> _, 0), (drain_by_receiving, 60)] {
            let mut port = open_far(&bed, mode, "frames=8192");
            let frames = Frames::new(5_000, 60);
            let before_ns = clock::realtime_ns();
            let sent = send_to(&bed, &*port, &frames);
            let after_ns = clock::realtime_ns();
            let account = port.account();
            let seen = (account.in_flight, account.lost.total());
            assert_eq!(seen, (sent, 0), "{mode}");
            let packets = drain(&mut *port);
            assert!(numbers(&packets).into_iter().eq(0..sent), "{mode}");
            assert!((0..sent).all(|number| packets[number as usize].bytes == frames.frame(number)));
            assert!(packets.is_sorted_by_key(|packet| packet.time_ns), "{mode}");
            let is_then = |packet: &Got| (before_ns..=after_ns).contains(&packet.time_ns);
            assert!(packets.iter().all(is_then), "{mode}");
            assert_eq!(port.info().timestamps, TimestampSource::Program);
            assert_eq!(notes(&*port), "", "{mode}");
            assert_eq!(port.account().bytes_copied, copied * sent);
            check_closed(&*port, sent, sent);
        }
    }
}

#[test]
fn times_of_the_poll_are_later_and_one_for_all_that_it_found() {
    let Some(bed) = bed_or_skip() else { return };
    for mode in MODES {
        let mut port = open_far(&bed, mode, "timestamps=poll");
        assert_eq!(port.info().timestamps, TimestampSource::Poll);
        let sent = send_to(&bed, &*port, &Frames::new(100, 60));
        let after_ns = clock::realtime_ns();
        let packets = drain(&mut *port);
        assert_eq!(packets.len() as u64, sent);
        assert!(packets.iter().all(|packet| packet.time_ns >= after_ns));
        assert!(packets.iter().all(|packet| packet.time_ns == packets[0].time_ns));
    }
}

#[test]
fn the_ledger_closes_at_every_moment_while_packets_arrive_and_are_lost() {
    let Some(bed) = bed_or_skip() else { return };
    for (mode, query) in
        [("native", ""), ("generic", ""), ("native", "frames=64"), ("generic", "ring=64")]
    {
        let mut port = open_far(&bed, mode, query);
        let frames = Frames::new(50_000, 60);
        let mut all = Vec::new();
        let sent = lend_while(&mut *port, &mut all, || send(&bed, &frames));
        wait_for(&*port, sent);
        drain_into(&mut *port, &mut all);
        assert!(numbers(&all).is_sorted_by(|a, b| a < b));
        check_closed(&*port, sent, all.len() as u64);
    }
}

#[test]
fn a_full_log_leaves_packets_in_the_ring() {
    let Some(bed) = bed_or_skip() else { return };
    for mode in MODES {
        let mut port = open_far(&bed, mode, "frames=8192");
        let sent = send_to(&bed, &*port, &Frames::new(5_000, 60));
        assert!(numbers(&drain_through_full_log(&mut *port)).into_iter().eq(0..sent));
    }
}

#[test]
fn lent_packets_stay_as_they_are_while_others_arrive() {
    let Some(bed) = bed_or_skip() else { return };
    for mode in MODES {
        let mut port = open_far(&bed, mode, "frames=64");
        let frames = Frames::new(40, 60);
        send_to(&bed, &*port, &frames);
        let mut scratch = Scratch::new();
        let lent = port.lend(&mut scratch, u64::MAX).unwrap();
        assert_eq!(lent.burst.len(), 40);
        // Many more packets than frames.
        let more = Frames { first: 1_000, ..Frames::new(500, 60) };
        let sent = send(&bed, &more);
        for (number, packet) in lent.burst.packets().enumerate() {
            assert_eq!(packet.bytes(), frames.frame(number as u64), "{mode}");
        }
        wait_for(&*port, 40 + sent);
        let rest = drain_by_receiving(&mut *port);
        assert!(numbers(&rest).into_iter().eq(1_000..1_024), "{mode}");
        check_closed(&*port, 40 + sent, 40 + 24);
    }
}

#[test]
fn a_snapshot_length_cuts_packets_and_says_so() {
    let Some(bed) = bed_or_skip() else { return };
    for mode in MODES {
        for drain in [drain, drain_by_receiving] {
            let options = OpenOptions { snapshot_bytes: Some(40), ..OpenOptions::default() };
            let mut port = try_open(&bed.far, &format!("xdp:{FAR}?mode={mode}"), options).unwrap();
            let frames = Frames::new(100, 600);
            let sent = send_to(&bed, &*port, &frames);
            let packets = drain(&mut *port);
            assert_eq!(packets.len() as u64, sent);
            for (number, packet) in packets.iter().enumerate() {
                assert_eq!(packet.bytes, frames.frame(number as u64)[..40]);
                assert_eq!(packet.original_length, 600);
            }
            assert_eq!(port.account().truncated, sent);
        }
    }
}

#[test]
fn the_hash_is_that_of_the_bytes() {
    let Some(bed) = bed_or_skip() else { return };
    for mode in MODES {
        for hash in [HashKind::FiveTuple, HashKind::Rss, HashKind::None] {
            let options = OpenOptions { hash, ..OpenOptions::default() };
            let mut port = try_open(&bed.far, &format!("xdp:{FAR}?mode={mode}"), options).unwrap();
            bed.near.run(|| {
                let mut sender = Sender::open(NEAR, true).unwrap();
                for from in 1..=20 {
                    assert_eq!(sender.send(&[&datagram(from, 53)]).unwrap(), 1);
                }
            });
            wait_for(&*port, 20);
            let packets = drain(&mut *port);
            assert_eq!(packets.len(), 20);
            let mut hasher = FlowHasher::new(hash);
            for (from, packet) in (1..).zip(&packets) {
                assert_eq!(packet.bytes, datagram(from, 53));
                assert_eq!(packet.hash, hasher.hash(LinkType::ETHERNET, &packet.bytes));
                assert_eq!(packet.hash == 0, hash == HashKind::None);
            }
        }
    }
}
