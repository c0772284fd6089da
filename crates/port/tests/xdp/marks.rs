//! Packet properties: tags, runts, several frames per packet, merged segments.

use std::io::Write;
use std::net::{TcpListener, TcpStream};

use burstline_afpacket::Sender;
use burstline_log::{Flags, Scratch};
use burstline_port::{Loss, Source};
use burstline_sys::clock;
use burstline_testbed::{Bed, FAR_ADDRESS, Frames, NEAR, Tag};

use crate::common::Got;
use crate::help::{
    MODES, bed_or_skip, check_closed, drain, drain_by_receiving, lend_until, notes, numbers, open,
    open_far, send_to, wait_for,
};

/// The longest frame that a veth accepts.
const LONGEST: usize = 65_535 + 14;

fn is_merged(packet: &Got) -> bool {
    packet.flags & Flags::MERGED.bits() != 0
}

fn tag(protocol: u16, control: u16) -> Tag {
    Tag { protocol, control }
}

/// Sends one frame of each length from `near`, numbered from 0.
fn send_lengths(bed: &Bed, near: &'static str, lengths: &[usize]) {
    let lengths = lengths.to_vec();
    bed.near.run(move || {
        let mut sender = Sender::open(near, true).unwrap();
        for (number, length) in (0..).zip(lengths) {
            let frame = Frames::new(1, length).frame(number);
            assert_eq!(sender.send(&[&frame[..length]]).unwrap(), 1, "{length} bytes");
        }
    });
}

/// Checks that they came in order and untruncated, byte for byte.
fn check_lengths(packets: &[Got], lengths: &[usize]) {
    assert_eq!(packets.len(), lengths.len());
    for ((number, &length), packet) in (0..).zip(lengths).zip(packets) {
        assert!(packet.bytes == Frames::new(1, length).frame(number)[..length], "{length} bytes");
        assert_eq!(packet.original_length, length);
    }
}

#[test]
fn frames_that_went_back_cannot_be_lent_again() {
    let Some(bed) = bed_or_skip() else { return };
    for mode in MODES {
        let (mut port, mut lent, mut other) =
            (open_far(&bed, mode, ""), Scratch::new(), Scratch::new());
        let frames = Frames::new(20, 60);
        let sent = send_to(&bed, &*port, &frames);
        wait_for(&*port, sent);
        let first = port.lend(&mut lent, 8).unwrap();
        assert_eq!(first.burst.len(), 8, "{mode}");
        let bytes = |port: &dyn Source, scratch: &mut Scratch| -> usize {
            port.lent(scratch).unwrap().packets().map(|packet| packet.bytes().len()).sum()
        };
        assert_eq!(bytes(&*port, &mut lent), 8 * 60, "{mode}: they are still held");
        let next = port.lend(&mut other, 8).unwrap();
        assert_eq!(next.burst.len(), 8, "{mode}");
        assert_eq!(bytes(&*port, &mut lent), 0, "{mode}: the kernel has them");
        assert_eq!(bytes(&*port, &mut other), 8 * 60, "{mode}");
    }
}

#[test]
fn tagged_frames_are_the_same_bytes_lent_and_received() {
    let Some(bed) = bed_or_skip() else { return };
    let stacks = [
        vec![tag(0x8100, 5)],
        vec![tag(0x8100, 0xefff)],
        vec![tag(0x88a8, 100), tag(0x8100, 200)],
        (1..=8).map(|number| tag(0x8100, number)).collect(),
    ];
    for mode in MODES {
        for tags in &stacks {
            for (length, drain) in
                [(64, drain as fn(&mut dyn Source) -> _), (1500, drain_by_receiving)]
            {
                let mut port = open_far(&bed, mode, "");
                let frames = Frames { tags: tags.clone(), ..Frames::new(50, length) };
                let sent = send_to(&bed, &*port, &frames);
                let packets = drain(&mut *port);
                assert_eq!(packets.len() as u64, sent);
                for (number, packet) in packets.iter().enumerate() {
                    assert_eq!(packet.bytes, frames.frame(number as u64), "{mode} {tags:x?}");
                    assert_eq!(packet.original_length, packet.bytes.len());
                }
                check_closed(&*port, sent, sent);
            }
        }
    }
}

#[test]
fn runts_come_whole() {
    let Some(bed) = bed_or_skip() else { return };
    let lengths = [14, 15, 22, 59, 60, 61, 1514];
    for mode in MODES {
        let mut port = open_far(&bed, mode, "");
        send_lengths(&bed, NEAR, &lengths);
        wait_for(&*port, lengths.len() as u64);
        check_lengths(&drain(&mut *port), &lengths);
        check_closed(&*port, lengths.len() as u64, lengths.len() as u64);
    }
}

#[test]
fn packets_of_several_frames_are_joined() {
    let Some(bed) = bed_or_skip() else { return };
    bed.connect("w0", "w1", 9000).unwrap();
    // Around one, two and more frames of 1792 and of 3840 bytes. A length divisible by 16 leaves no
    // gap between a packet and the time before the next one.
    let some = [1791, 1792, 1793, 3584, 3585, 3840, 3841, 9008, 9013, 9014, 60, 9008, 9008];
    let lengths = some.repeat(6);
    for mode in MODES {
        for frame in [2048, 4096] {
            for drain in [drain, drain_by_receiving] {
                let mut port = open(&bed.far, &format!("xdp:w1?mode={mode}&frame={frame}"));
                let before_ns = clock::realtime_ns();
                send_lengths(&bed, "w0", &lengths);
                wait_for(&*port, lengths.len() as u64);
                let after_ns = clock::realtime_ns();
                let packets = drain(&mut *port);
                check_lengths(&packets, &lengths);
                let is_then = |packet: &Got| (before_ns..=after_ns).contains(&packet.time_ns);
                assert!(packets.iter().all(is_then), "{mode}");
                assert!(packets.is_sorted_by_key(|packet| packet.time_ns), "{mode}");
                assert_eq!(notes(&*port), "", "{mode}");
                assert!(!packets.iter().any(is_merged));
                check_closed(&*port, lengths.len() as u64, lengths.len() as u64);
            }
        }
    }
}

#[test]
fn packets_that_fill_their_room_to_the_byte_are_followed_by_others() {
    let Some(bed) = bed_or_skip() else { return };
    bed.connect("w0", "w1", 9000).unwrap();
    // With the time before them they take 4096 and 8704 bytes each: 17 and 8 of them are exactly as
    // many as fit before another one begins.
    for (length, count) in [(4080, 40), (8688, 20)] {
        let mut port = open(&bed.far, "xdp:w1");
        send_lengths(&bed, "w0", &vec![length; count]);
        wait_for(&*port, count as u64);
        check_lengths(&drain(&mut *port), &vec![length; count]);
        check_closed(&*port, count as u64, count as u64);
    }
}

#[test]
fn the_longest_packets_come_whole() {
    let Some(bed) = bed_or_skip() else { return };
    bed.connect("w0", "w1", 65_535).unwrap();
    let lengths = [LONGEST, 65_536, 60, LONGEST - 1, LONGEST, LONGEST];
    for mode in MODES {
        let mut port = open(&bed.far, &format!("xdp:w1?mode={mode}"));
        send_lengths(&bed, "w0", &lengths);
        wait_for(&*port, lengths.len() as u64);
        check_lengths(&drain(&mut *port), &lengths);
        check_closed(&*port, lengths.len() as u64, lengths.len() as u64);
    }
}

/// Returns the payload of a TCP packet of at most 64 KiB, and its position in the stream.
fn payload(packet: &Got) -> (u32, &[u8]) {
    let ip = &packet.bytes[14..];
    let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    assert_eq!(total, ip.len().max(46), "as long as its header says");
    let tcp = &ip[usize::from(ip[0] & 15) * 4..total];
    let at = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
    (at, &tcp[usize::from(tcp[12] >> 4) * 4..])
}

#[test]
fn merged_segments_of_real_tcp_come_whole_and_are_flagged() {
    const BYTES: usize = 14_480;
    let Some(bed) = bed_or_skip() else { return };
    for mode in MODES {
        let listener = bed.far.run(|| TcpListener::bind((FAR_ADDRESS, 0)).unwrap());
        let place = listener.local_addr().unwrap();
        let mut client = bed.near.run(move || TcpStream::connect(place).unwrap());
        let _server = listener.accept().unwrap();
        // From here on nothing reaches the server, so the client sends the first ten segments and
        // then only retransmits.
        let mut port = open_far(&bed, mode, "");
        let stream: Vec<u8> = (0..BYTES).map(|at| (at / 7) as u8).collect();
        client.write_all(&stream).unwrap();
        let is_tcp = |packet: &&Got| packet.bytes[12..14] == [8, 0] && packet.bytes[23] == 6;
        let (mut all, mut seen) = (Vec::new(), vec![0; BYTES]);
        lend_until(&mut *port, &mut all, |all, _| {
            let bytes = all.iter().filter(is_tcp).map(|packet| payload(packet).1.len());
            bytes.sum::<usize>() >= BYTES
        })
        .unwrap();
        port.finish().unwrap();
        lend_until(&mut *port, &mut all, |_, _| false).unwrap();
        let start = all.iter().filter(is_tcp).map(|packet| payload(packet).0).min().unwrap();
        for packet in all.iter().filter(is_tcp) {
            let (at, bytes) = payload(packet);
            seen[(at - start) as usize..][..bytes.len()].copy_from_slice(bytes);
            assert_eq!(packet.original_length, packet.bytes.len());
            assert_eq!(is_merged(packet), packet.bytes.len() > 1514 + 32, "{mode}");
        }
        assert!(seen == stream, "{mode}");
        let merged = all.iter().filter(|packet| is_merged(packet)).count();
        let note = format!("{merged} packets are GSO/GRO aggregates");
        // A veth whose peer has a native program splits segments itself.
        let expected = if mode == "native" { (true, "") } else { (false, &note[..]) };
        assert_eq!((merged == 0, &notes(&*port)[..]), expected, "{mode}");
        // TCP retransmissions while the port ends go to the host.
        let account = port.account();
        let passed = account.lost.of(Loss::Passed);
        assert_eq!(account.lost.total(), passed);
        assert_eq!(account.offered, all.len() as u64 + passed);
    }
}

#[test]
fn a_raised_mtu_is_noted_and_longer_frames_come_whole() {
    let Some(bed) = bed_or_skip() else { return };
    for mode in MODES {
        let (near, far) = (format!("{}0", &mode[..1]), format!("{}1", &mode[..1]));
        bed.connect(&near, &far, 1500).unwrap();
        let mut port = open(&bed.far, &format!("xdp:{far}?mode={mode}"));
        for (host, name) in [(&bed.near, &near), (&bed.far, &far)] {
            host.command("ip", &["link", "set", name, "mtu", "9000"]).unwrap();
        }
        let mut all = Vec::new();
        let note = format!("{far}: MTU 1500 became 9000");
        lend_until(&mut *port, &mut all, |_, port| notes(port) == note).unwrap();
        let frames = Frames::new(200, 9014);
        let sent = bed.near.run({
            let frames = frames.clone();
            move || frames.send(&mut Sender::open(&near, true).unwrap()).unwrap()
        });
        wait_for(&*port, sent);
        port.finish().unwrap();
        lend_until(&mut *port, &mut all, |_, _| false).unwrap();
        assert!(numbers(&all).into_iter().eq(0..sent), "{mode}");
        assert!(all.iter().zip(0..).all(|(packet, number)| packet.bytes == frames.frame(number)));
        assert!(!all.iter().any(is_merged));
        check_closed(&*port, sent, sent);
    }
}

#[test]
fn what_was_selected_of_frames_is_not_lent_again() {
    let Some(bed) = bed_or_skip() else { return };
    let mut port = open_far(&bed, MODES[0], "");
    send_to(&bed, &*port, &Frames::new(20, 100));
    let (mut scratch, mut choice) = (Scratch::new(), Scratch::new());
    let lent = port.lend(&mut scratch, 1024).unwrap();
    let chosen = choice.select(&lent.burst, 0, |packet| Some((10, packet.meta())));
    assert!(!chosen.is_empty() && chosen.packets().all(|packet| packet.bytes().len() == 10));
    // By the time of a later request with the same numbers, the kernel may own the frames.
    assert!(choice.selected(&lent.burst).is_empty());
}
