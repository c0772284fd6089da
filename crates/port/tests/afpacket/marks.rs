//! Packet properties: tags, directions, merged segments, pending checksums.

use burstline_log::Flags;
use burstline_testbed::{Bed, FAR, FAR_ADDRESS, Frames, NEAR, Tag, serve_bytes};

use crate::common::Got;
use crate::help::{
    check_closed, drain, drain_by_receiving, lend_until, open, open_far, send, send_by,
};

fn with(packets: &[Got], flag: Flags) -> usize {
    packets.iter().filter(|packet| packet.flags & flag.bits() != 0).count()
}

#[test]
fn tagged_frames_are_the_same_bytes_lent_and_received() {
    let Some(bed) = Bed::or_skip() else { return };
    let tag = |protocol, control| Tag { protocol, control };
    let stacks = [
        vec![tag(0x8100, 5)],
        vec![tag(0x8100, 0xefff)],
        vec![tag(0x88a8, 100), tag(0x8100, 200)],
        (1..=8).map(|number| tag(0x8100, number)).collect(),
    ];
    for tags in stacks {
        for length in [64, 1500] {
            let (mut lent, mut received) = (open_far(&bed, ""), open_far(&bed, ""));
            // The sender's side shows frames with the tag still in place.
            let mut leaving = open(&bed.near, &format!("afpacket:{NEAR}?direction=out"));
            let frames = Frames { tags: tags.clone(), ..Frames::new(50, length) };
            let sent = send_by(&bed, &frames, false);
            let ways =
                [drain(&mut *lent), drain_by_receiving(&mut *received), drain(&mut *leaving)];
            for packets in ways {
                assert_eq!(packets.len() as u64, sent);
                for (number, packet) in packets.iter().enumerate() {
                    assert_eq!(packet.bytes, frames.frame(number as u64), "{tags:x?}");
                    assert_eq!(packet.original_length, packet.bytes.len());
                }
            }
        }
    }
}

#[test]
fn runts_and_jumbos_come_whole() {
    let Some(bed) = Bed::or_skip() else { return };
    bed.connect("w0", "w1", 9000).unwrap();
    let mut port = open(&bed.far, "afpacket:w1");
    for length in [14, 15, 22, 60, 9014] {
        bed.near.run(move || {
            let mut sender = burstline_afpacket::Sender::open("w0", true).unwrap();
            let frame = Frames::new(1, length).frame(0);
            assert_eq!(sender.send(&[&frame[..length]]).unwrap(), 1);
        });
    }
    let packets = drain(&mut *port);
    let lengths: Vec<usize> = packets.iter().map(|packet| packet.bytes.len()).collect();
    assert_eq!(lengths, [14, 15, 22, 60, 9014]);
    assert_eq!(with(&packets, Flags::MERGED), 0);
    check_closed(&*port, 5, 5);
}

#[test]
fn directions_are_told_apart() {
    let Some(bed) = Bed::or_skip() else { return };
    let queries = ["direction=in", "direction=out", "direction=both"];
    let mut ports = queries.map(|query| open_far(&bed, query));
    bed.near.command("ping", &["-c", "3", "-i", "0.01", "-W", "5", FAR_ADDRESS]).unwrap();
    let [arriving, leaving, both] = ports.each_mut().map(|port| drain(&mut **port));
    // At least three echoes and an ARP each way.
    assert!(arriving.len() >= 4 && leaving.len() >= 4, "{} {}", arriving.len(), leaving.len());
    assert_eq!(both.len(), arriving.len() + leaving.len());
    assert_eq!(with(&arriving, Flags::OUTGOING), 0);
    assert_eq!(with(&leaving, Flags::OUTGOING), leaving.len());
    assert_eq!(with(&both, Flags::OUTGOING), leaving.len());
    let is_echo = |packet: &&Got| packet.bytes[12..14] == [8, 0] && packet.bytes[23] == 1;
    assert_eq!(arriving.iter().filter(is_echo).count(), 3);
    assert_eq!(leaving.iter().filter(is_echo).count(), 3);
}

#[test]
fn a_download_shows_merged_segments_and_unfinished_checksums() {
    const BYTES: usize = 4 << 20;
    let Some(bed) = Bed::or_skip() else { return };
    let server = serve_bytes(&bed.far, FAR_ADDRESS, BYTES).unwrap();
    let mut port = open_far(&bed, "direction=out");
    let url = format!("http://{server}/");
    let body = bed.near.command("curl", &["--silent", "--max-time", "60", &url]).unwrap();
    assert_eq!(body.len(), BYTES);
    let mut packets = drain(&mut *port);
    packets.retain(|packet| packet.bytes[12..14] == [8, 0]);
    let payload = |packet: &Got| {
        let ip = &packet.bytes[14..];
        let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
        // A merged packet of 64 KiB or more has no length in its header.
        let total = if total == 0 { ip.len() } else { total };
        total
            - usize::from(ip[0] & 15) * 4
            - usize::from(ip[(usize::from(ip[0] & 15)) * 4 + 12] >> 4) * 4
    };
    let bytes: usize = packets.iter().map(payload).sum();
    assert!(bytes >= BYTES, "{bytes} bytes of TCP");
    let merged: Vec<&Got> = packets.iter().filter(|packet| packet.bytes.len() > 1514).collect();
    assert!(!merged.is_empty(), "veth passes segments on merged");
    assert!(merged.iter().all(|packet| packet.flags & Flags::MERGED.bits() != 0));
    assert!(with(&packets, Flags::PARTIAL_CHECKSUM) > 0);
    let notes = port.account().notes.join("; ");
    let expected = format!("{} packets are GSO/GRO aggregates", with(&packets, Flags::MERGED));
    assert!(
        notes.contains(&expected) && notes.contains("a device still has to fill in"),
        "{notes}"
    );
}

#[test]
fn a_raised_mtu_is_noted_and_longer_frames_are_not_called_merged() {
    let Some(bed) = Bed::or_skip() else { return };
    let mut port = open_far(&bed, "");
    let mut all = Vec::new();
    lend_until(&mut *port, &mut all, |_, _| true).unwrap();
    for host in [(&bed.near, NEAR), (&bed.far, FAR)] {
        host.0.command("ip", &["link", "set", host.1, "mtu", "4000"]).unwrap();
    }
    let is_noted = |_: &[Got], port: &dyn burstline_port::Port| {
        port.account().notes.iter().any(|note| note == "v1: MTU 1500 became 4000")
    };
    lend_until(&mut *port, &mut all, is_noted).unwrap();
    let sent = send(&bed, &Frames::new(10, 4014));
    port.finish().unwrap();
    lend_until(&mut *port, &mut all, |_, _| false).unwrap();
    assert_eq!((all.len() as u64, with(&all, Flags::MERGED)), (sent, 0));
}
