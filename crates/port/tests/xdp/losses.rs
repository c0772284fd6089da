//! Each cause of loss, forced alone, changes only its own count, by the exact number.

use burstline_port::{Loss, Port, RingFill, RingKind};
use burstline_testbed::{Frames, NEAR};

use crate::help::{
    MODES, bed_or_skip, check_closed, check_lost, drain, empty, lend_until, numbers, open,
    open_far, send_to, wait_for,
};

/// Returns the rx ring and the fill ring.
fn rings(port: &dyn Port) -> [RingFill; 2] {
    let rings: [RingFill; 2] = port.account().rings.try_into().unwrap();
    assert_eq!(rings.map(|ring| ring.ring), [RingKind::Rx, RingKind::Fill]);
    rings
}

#[test]
fn a_ring_that_nobody_empties_loses_what_it_has_no_room_for() {
    let Some(bed) = bed_or_skip() else { return };
    for mode in MODES {
        let mut port = open_far(&bed, mode, "ring=64&frames=4096");
        let sent = send_to(&bed, &*port, &Frames::new(1_000, 60));
        check_lost(&*port, Loss::RxRingFull, sent - 64);
        assert_eq!(port.account().in_flight, 64);
        let [rx, fill] = rings(&*port);
        assert_eq!((rx.filled, rx.size, fill.size), (64, 64, 4096), "{mode}");
        assert!(numbers(&drain(&mut *port)).into_iter().eq(0..64), "{mode}");
        check_closed(&*port, sent, 64);
        assert_eq!(rings(&*port)[0].filled, 0, "{mode}");
    }
}

#[test]
fn frames_that_nobody_gives_back_are_what_is_lost() {
    let Some(bed) = bed_or_skip() else { return };
    for mode in MODES {
        let mut port = open_far(&bed, mode, "frames=64&ring=4096");
        let sent = send_to(&bed, &*port, &Frames::new(1_000, 60));
        check_lost(&*port, Loss::FillRingEmpty, sent - 64);
        assert_eq!(port.account().in_flight, 64);
        let [rx, fill] = rings(&*port);
        let (rx, fill) = ((rx.filled, rx.size), (fill.filled, fill.size));
        assert_eq!((rx, fill), ((64, 4096), (0, 64)), "{mode}");
        assert!(numbers(&drain(&mut *port)).into_iter().eq(0..64), "{mode}");
        check_closed(&*port, sent, 64);
    }
}

#[test]
fn packets_of_several_frames_are_lost_by_the_same_names() {
    let Some(bed) = bed_or_skip() else { return };
    bed.connect("w0", "w1", 9000).unwrap();
    // 9014 bytes are six frames of 1792: 64 frames, or 64 entries, hold ten packets.
    for mode in MODES {
        for (query, cause) in
            [("frames=64&ring=4096", Loss::FillRingEmpty), ("ring=64", Loss::RxRingFull)]
        {
            let mut port = open(&bed.far, &format!("xdp:w1?mode={mode}&{query}"));
            let frames = Frames::new(100, 9014);
            let sent = bed.near.run(move || {
                let mut sender = burstline_afpacket::Sender::open("w0", true).unwrap();
                frames.send(&mut sender).unwrap()
            });
            wait_for(&*port, sent);
            check_lost(&*port, cause, sent - 10);
            assert_eq!(port.account().in_flight, 10);
            assert!(numbers(&drain(&mut *port)).into_iter().eq(0..10), "{mode}");
            check_closed(&*port, sent, 10);
        }
    }
}

#[test]
fn after_starvation_everything_comes_again() {
    let Some(bed) = bed_or_skip() else { return };
    for (mode, query) in
        MODES.iter().zip(["frames=64", "ring=64"]).chain(MODES.iter().zip(["ring=64", "frames=64"]))
    {
        let mut port = open_far(&bed, mode, query);
        let (mut sent, mut taken) = (0, 0);
        for round in 1..=20 {
            sent += send_to(&bed, &*port, &Frames::new(300, 60));
            let now = empty(&mut *port);
            assert_eq!(now, 64, "{mode} {query}: round {round}");
            taken += now;
            check_closed(&*port, sent, taken);
            // All of them fit: none is lost.
            sent += send_to(&bed, &*port, &Frames::new(64, 60));
            taken += empty(&mut *port);
            check_closed(&*port, sent, taken);
            assert_eq!(taken, round * 128);
        }
    }
}

#[test]
fn a_frame_for_each_packet_is_enough_for_ever() {
    let Some(bed) = bed_or_skip() else { return };
    for mode in MODES {
        let mut port = open_far(&bed, mode, "frames=64");
        let mut all = Vec::new();
        for round in 0..200 {
            let first = round * 64;
            send_to(&bed, &*port, &Frames { first, ..Frames::new(64, 60) });
            let expected = first as usize + 64;
            lend_until(&mut *port, &mut all, |all, _| all.len() == expected).unwrap();
            assert_eq!(empty(&mut *port), 0);
        }
        assert!(numbers(&all).into_iter().eq(0..200 * 64), "{mode}");
        check_closed(&*port, 200 * 64, 200 * 64);
    }
    assert_eq!(bed.near.counts(NEAR).sent_dropped, 0);
}
