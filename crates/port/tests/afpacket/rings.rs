//! Tests of the ring: filters, fanout programs, waiting, clocks.

use std::time::Duration;

use burstline_afpacket::{Fanout, FanoutMode, Ring, RingOptions};
use burstline_log::Scratch;
use burstline_port::{Port, PortState, TimestampSource};
use burstline_sys::clock;
use burstline_sys::filter::Instruction;
use burstline_testbed::{Bed, FAR, Frames, sequence_of};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::help::{drain, open_far, ring_full, send};

fn instruction(code: u16, jump_true: u8, jump_false: u8, operand: u32) -> Instruction {
    Instruction { code, jump_true, jump_false, operand }
}

fn open_ring(bed: &Bed, options: &RingOptions) -> Ring {
    let options = options.clone();
    bed.far.run(move || Ring::open(FAR, &options)).unwrap()
}

/// Returns the numbers of all packets in the ring; no more may arrive.
fn numbers(ring: &mut Ring) -> Vec<u64> {
    let mut numbers = Vec::new();
    while ring.in_ring() > 0 {
        let Some(mut block) = ring.next_block() else {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        let mut packets = Vec::new();
        while let Some(packet) = block.next_packet() {
            packets.push(packet);
        }
        let bytes = block.into_bytes();
        numbers.extend(packets.iter().filter_map(|packet| {
            let start = packet.offset as usize;
            sequence_of(&bytes[start..start + packet.length as usize])
        }));
    }
    numbers
}

#[test]
fn the_kernel_runs_the_filter() {
    let Some(bed) = Bed::or_skip() else { return };
    // Odd numbers only: ldb [21]; jset #1, 0, 1; ret #-1; ret #0.
    let filter = vec![
        instruction(0x30, 0, 0, 21),
        instruction(0x45, 0, 1, 1),
        Instruction::keep(u32::MAX),
        Instruction::keep(0),
    ];
    let mut ring = open_ring(&bed, &RingOptions { filter, ..RingOptions::default() });
    let sent = send(&bed, &Frames::new(1_000, 60));
    assert_eq!(ring.statistics().packets, sent / 2);
    assert!(numbers(&mut ring).into_iter().eq((0..sent).filter(|number| number % 2 == 1)));
}

#[test]
fn a_ring_says_how_many_of_its_blocks_wait() {
    let Some(bed) = Bed::or_skip() else { return };
    let mut port = open_far(&bed, "block=128k&blocks=4");
    let fill = |port: &dyn Port| {
        let rings = port.account().rings;
        assert_eq!((rings.len(), rings[0].unit, rings[0].size), (1, "blocks", 4));
        rings[0].filled
    };
    assert_eq!(fill(&*port), 0);
    send(&bed, &Frames::new(1_000, 1514));
    assert_eq!((fill(&*port), ring_full(&port.account()) > 0), (4, true));
    drain(&mut *port);
    assert!(fill(&*port) <= 1, "the last one is held: {}", fill(&*port));
}

#[test]
fn a_program_shares_packets_out() {
    let Some(bed) = Bed::or_skip() else { return };
    // By the number's last byte, which the program sees 7 bytes after the Ethernet header.
    let program = vec![instruction(0x30, 0, 0, 7), instruction(0x16, 0, 0, 0)];
    let fanout = Some(Fanout { mode: FanoutMode::Program(program), group: 9 });
    let options = RingOptions { fanout, ..RingOptions::default() };
    let mut rings = [open_ring(&bed, &options), open_ring(&bed, &options)];
    let sent = send(&bed, &Frames::new(1_000, 60));
    let mut shares = rings.each_mut().map(numbers);
    shares.sort();
    for (parity, share) in (0..).zip(shares) {
        assert!(share.into_iter().eq((0..sent).filter(|number| number % 2 == parity)));
    }
}

#[test]
fn the_descriptor_is_readable_when_there_is_something_and_only_then() {
    let Some(bed) = Bed::or_skip() else { return };
    let mut port = open_far(&bed, "");
    let (mut scratch, mut delivered) = (Scratch::new(), 0);
    let wait = |port: &dyn burstline_port::Port, seconds| {
        let descriptor = port.readiness().unwrap();
        let mut list = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
        poll(&mut list, Some(&Timespec { tv_sec: seconds, tv_nsec: 0 })).unwrap()
    };
    for round in 1..=300 {
        let sent = send(&bed, &Frames::new(3, 60));
        while delivered < sent * round {
            assert_eq!(wait(&*port, 60), 1, "{delivered} packets, round {round}");
            delivered += port.lend(&mut scratch, 2).unwrap().burst.len() as u64;
        }
        assert_eq!(port.lend(&mut scratch, 2).unwrap().state, PortState::Idle);
        assert_eq!(wait(&*port, 0), 0, "round {round}");
    }
}

#[test]
fn times_are_the_kernels_where_the_device_has_none() {
    let Some(bed) = Bed::or_skip() else { return };
    let mut port = open_far(&bed, "timestamps=hardware");
    assert_eq!(port.info().timestamps, TimestampSource::Hardware);
    let before_ns = clock::realtime_ns();
    send(&bed, &Frames::new(10, 60));
    let after_ns = clock::realtime_ns();
    let packets = drain(&mut *port);
    assert!(packets.iter().all(|packet| (before_ns..=after_ns).contains(&packet.time_ns)));
    let notes = port.account().notes.join("; ");
    assert!(notes.starts_with("10 packets without hardware time: sudo hwstamp_ctl -i v1"));
}
