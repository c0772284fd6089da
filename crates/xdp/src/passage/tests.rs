//! Packets and frames after impossible descriptors. The kernel never sends any, so the tests
//! falsify our own records.

use std::os::fd::{AsFd, AsRawFd};
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::bpf::{
    Assembler, Helper, Link, Map, MapKind, MapOptions, Program, ProgramOptions, Register::*, Size,
    XdpMode, xdp_action, xdp_context,
};
use crate::tests::{frame, with_pair};
use crate::{Sender, SenderOptions};

const PATIENCE: Duration = Duration::from_secs(60);
const FRAMES: u32 = 256;

/// Redirects an interface's packets to a passage's entry.
fn redirect_to(passage: &Passage) -> (Map, Link) {
    let options = MapOptions {
        name: "test",
        kind: MapKind::Sockets,
        key_bytes: 4,
        value_bytes: 4,
        entries: 1,
        flags: 0,
    };
    let map = Map::create(&options).unwrap();
    map.set(0, passage.entry().as_fd().as_raw_fd() as u32).unwrap();
    let mut code = Assembler::new();
    code.load(Size::Word, R2, R1, xdp_context::QUEUE_INDEX)
        .load_map(R1, &map)
        .mov(R3, xdp_action::PASS)
        .call(Helper::RedirectMap)
        .exit();
    let program = Program::load(&code.finish().unwrap(), &ProgramOptions::default()).unwrap();
    let index = passage.entry().interface().link.index;
    let link = Link::attach_xdp(&program, index, XdpMode::Generic).unwrap();
    (map, link)
}

/// Opens a passage from `v1` back to `v1` with `packets` packets in its rx ring.
fn with_packets(packets: u32) -> (Passage, (Map, Link)) {
    let options = PassageOptions { frames: FRAMES, ..PassageOptions::default() };
    let mut passages = Passage::open([("v1", 0), ("v1", 0)], false, &options).unwrap();
    let passage = passages.remove(0);
    let redirect = redirect_to(&passage);
    let mut sender = Sender::open("v0", 0, &SenderOptions::default()).unwrap();
    let start = Instant::now();
    for number in 0..packets {
        assert!(sender.push(&frame(number, 60)));
    }
    while passage.in_rx() < packets {
        sender.send().unwrap();
        assert!(start.elapsed() < PATIENCE, "{} of {packets}", passage.in_rx());
        thread::yield_now();
    }
    (passage, redirect)
}

fn number(packet: &[u8]) -> u8 {
    packet[17]
}

#[test]
fn what_was_done_before_a_bad_descriptor_is_told_and_the_rest_goes_on() {
    with_pair(|| {
        let (mut passage, _redirect) = with_packets(10);
        // By our records the fourth packet's frame does not belong to the kernel.
        let fourth = passage.rx.peek().nth(3).unwrap();
        let frame = passage.memory.frame_of(fourth.addr, fourth.len).unwrap();
        assert!(passage.owners.hand_over(frame, Owner::Entry, Owner::Us));
        let mut seen = Vec::new();
        let mut pass = |passage: &mut Passage| {
            passage.pass(64, 0, |packet| {
                seen.push(number(packet));
                if number(packet) == 1 { Fate::Drop } else { Fate::Send }
            })
        };
        let (passed, outcome) = pass(&mut passage);
        assert_eq!(passed, Passed { taken: 4, full: 0, bad: 1 });
        let Err(XdpError::BadDescriptor { interface, address, .. }) = outcome else { panic!() };
        assert_eq!((interface.as_str(), address), ("v1", fourth.addr));
        assert_eq!((passage.in_rx(), passage.in_exit()), (6, 2));
        let (passed, outcome) = pass(&mut passage);
        outcome.unwrap();
        assert_eq!(passed, Passed { taken: 6, full: 0, bad: 0 });
        assert_eq!(seen, [0, 1, 2, 4, 5, 6, 7, 8, 9]);
        let start = Instant::now();
        while passage.in_exit() > 0 {
            passage.send().unwrap();
            passage.recycle().unwrap();
            assert!(start.elapsed() < PATIENCE);
        }
        // The bad packet's frame has no owner from now on.
        let census = passage.census();
        assert_eq!((census.elsewhere(), passage.counts().completed), (1, 8), "{census:?}");
    });
}

#[test]
fn frames_that_came_back_before_one_that_was_never_sent_are_counted() {
    with_pair(|| {
        let (mut passage, _redirect) = with_packets(5);
        let frames: Vec<u64> = passage.rx.peek().map(|desc| desc.addr).collect();
        let (passed, outcome) = passage.pass(64, 0, |_| Fate::Send);
        outcome.unwrap();
        assert_eq!(passed.taken, 5);
        let start = Instant::now();
        while passage.out.returned() < 5 {
            passage.send().unwrap();
            assert!(start.elapsed() < PATIENCE);
        }
        let third = passage.memory.frame_of(frames[2], 0).unwrap();
        assert!(passage.owners.hand_over(third, Owner::Exit, Owner::Us));
        assert!(matches!(passage.recycle(), Err(XdpError::BadDescriptor { .. })));
        assert_eq!(passage.counts().completed, 2);
        assert_eq!(passage.recycle().unwrap(), 2);
        // By the counts, one is at the exit forever: it will be given up, by name.
        assert_eq!((passage.counts().completed, passage.in_exit()), (4, 1));
    });
}
