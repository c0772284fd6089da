//! Tests over a veth pair: order, rejected packets, a link that disappears.

use std::os::fd::AsRawFd;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::{PlainReceiver, Ring, RingOptions, Sender};
use burstline_skip::skip;
use burstline_sys::namespace::enter_new_network;

/// Long enough for a busy machine; only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(60);

fn ip(command: &str) {
    assert!(Command::new("ip").args(command.split(' ')).status().unwrap().success(), "{command}");
}

/// Runs a test in a namespace with a veth pair, `v0` and `v1`; reports if it may not.
fn with_pair(job: impl FnOnce() + Send + 'static) {
    let work = move || {
        enter_new_network()?;
        for command in ["link add v0 type veth peer name v1", "link set v0 up", "link set v1 up"] {
            ip(command);
        }
        job();
        Ok::<_, io::Error>(())
    };
    match thread::spawn(work).join() {
        Ok(Ok(())) => {}
        Ok(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
            skip(error);
        }
        Ok(Err(error)) => panic!("{error}"),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn open(slots: usize, bypasses_queue: bool) -> TxRing {
    TxRing::open("v0", &TxRingOptions { slots, bypasses_queue, inherited: None }).unwrap()
}

fn frame(number: u32, length: usize) -> Vec<u8> {
    let mut frame = [&[0xff; 12], &[0x88, 0xb5][..], &number.to_be_bytes()].concat();
    frame.resize(length, number as u8);
    frame
}

/// Receives our packets, up to `count`.
fn arrived(ring: &mut Ring, count: usize) -> Vec<Vec<u8>> {
    let (mut all, start) = (Vec::new(), Instant::now());
    while all.len() < count {
        assert!(start.elapsed() < PATIENCE, "{} of {count}", all.len());
        let Some(mut block) = ring.next_block() else {
            thread::yield_now();
            continue;
        };
        let packets: Vec<_> = std::iter::from_fn(|| block.next_packet()).collect();
        let bytes = block.into_bytes();
        let frames = packets
            .iter()
            .map(|packet| &bytes[packet.offset as usize..])
            .zip(&packets)
            .map(|(bytes, packet)| bytes[..packet.length as usize].to_vec());
        all.extend(frames.filter(|frame| frame[12..14] == [0x88, 0xb5]));
    }
    all
}

/// Sends until the driver is done with all packets.
fn drain(sender: &mut TxRing) {
    let start = Instant::now();
    while sender.counts().sent + sender.counts().rejected < sender.counts().pushed {
        sender.send().unwrap();
        assert!(start.elapsed() < PATIENCE, "{:?}", sender.counts());
    }
}

#[test]
fn what_is_sent_arrives_in_order_round_the_ring() {
    with_pair(|| {
        for bypasses_queue in [true, false] {
            let mut ring = Ring::open("v1", &RingOptions::default()).unwrap();
            let mut sender = open(64, bypasses_queue);
            let frames: Vec<_> =
                (0..1_000).map(|number| frame(number, 18 + number as usize)).collect();
            for frame in &frames {
                while !sender.push(frame) {
                    sender.send().unwrap();
                }
            }
            drain(&mut sender);
            assert_eq!(arrived(&mut ring, 1_000), frames);
            let all = TxRingCounts { pushed: 1_000, sent: 1_000, rejected: 0 };
            assert_eq!((sender.counts(), sender.waiting()), (all, 0));
        }
    });
}

#[test]
fn what_the_kernel_rejects_is_counted_and_the_others_keep_their_order() {
    with_pair(|| {
        let mut ring = Ring::open("v1", &RingOptions::default()).unwrap();
        let mut sender = open(64, true);
        let mut expected = Vec::new();
        for round in 0..40_u32 {
            for number in 0..50 {
                // 13 bytes are less than an Ethernet header.
                let is_bad = [0, 1, 20, 49].contains(&((number + round) % 50));
                let frame = frame(number, if is_bad { 13 } else { 60 });
                assert!(sender.push(&frame));
                expected.extend((!is_bad).then_some(frame));
            }
            assert!(sender.send().unwrap());
            drain(&mut sender);
        }
        assert_eq!(arrived(&mut ring, expected.len()), expected);
        let all = TxRingCounts { pushed: 2_000, sent: 1_840, rejected: 160 };
        assert_eq!(sender.counts(), all);
    });
}

#[test]
fn what_the_link_does_not_take_waits() {
    with_pair(|| {
        let mut ring = Ring::open("v1", &RingOptions::default()).unwrap();
        let mut sender = open(64, true);
        let frames: Vec<_> = (0..64).map(|number| frame(number, 60)).collect();
        let (first, second) = frames.split_at(30);
        ip("link set v1 down");
        first.iter().for_each(|frame| assert!(sender.push(frame)));
        assert!(!sender.send().unwrap(), "no carrier");
        ip("link set v0 down");
        second.iter().for_each(|frame| assert!(sender.push(frame)));
        assert!(!sender.send().unwrap(), "down");
        assert!(!sender.push(&frames[0]), "full");
        assert_eq!((sender.waiting(), sender.counts().sent), (64, 0));
        ["link set v0 up", "link set v1 up"].into_iter().for_each(ip);
        drain(&mut sender);
        assert_eq!(arrived(&mut ring, 64), frames);
        ip("link delete v0");
        assert!(sender.push(&frames[0]));
        assert!(sender.send().is_err());
        assert_eq!((sender.waiting(), sender.link_state().unwrap()), (1, LinkState::Gone));
    });
}

#[test]
fn shapes_that_make_no_sense_are_refused() {
    for slots in [0, 32, 65, 1 << 17] {
        let options = TxRingOptions { slots, ..TxRingOptions::default() };
        let error = TxRing::open("lo", &options).err().unwrap();
        assert!(matches!(error, AfPacketError::BadTxRing { .. }), "{error}");
    }
}

#[test]
fn without_rings_frames_arrive_as_they_were_sent() {
    with_pair(|| {
        let mut receiver = PlainReceiver::open("v1", 1 << 20).unwrap();
        let mut sender = Sender::open("v0", false).unwrap();
        let frames: Vec<_> = (0..100).map(|number| frame(number, 60 + number as usize)).collect();
        let parts: Vec<&[u8]> = frames.iter().map(|frame| &frame[..]).collect();
        let (mut sent, mut all, start) = (0, Vec::new(), Instant::now());
        while all.len() < frames.len() {
            assert!(start.elapsed() < PATIENCE, "{sent} sent, {} received", all.len());
            sent += if sent < frames.len() { sender.send(&parts[sent..]).unwrap() } else { 0 };
            let keep = |packet: &[u8]| {
                if packet[12..14] == [0x88, 0xb5] {
                    all.push(packet.to_vec());
                }
            };
            receiver.receive(keep).unwrap();
        }
        assert!(all == frames);
        assert_eq!(receiver.statistics().unwrap().1, 0);
    });
}

#[test]
fn a_ring_takes_a_socket_that_was_left_to_it_and_no_other_file() {
    with_pair(|| {
        let open = |number| {
            let inherited = Some(number);
            TxRing::open("v0", &TxRingOptions { slots: 64, bypasses_queue: false, inherited })
        };
        let left = crate::socket_to_inherit().unwrap();
        let mut ring = Ring::open("v1", &RingOptions::default()).unwrap();
        let mut sender = open(left.as_raw_fd()).unwrap();
        assert!(sender.push(&frame(7, 60)));
        drain(&mut sender);
        assert_eq!(arrived(&mut ring, 1), [frame(7, 60)]);
        let other = std::fs::File::open("/dev/null").unwrap();
        for number in [other.as_raw_fd(), -1] {
            assert!(matches!(open(number), Err(AfPacketError::BadInherited { .. })));
        }
    });
}
