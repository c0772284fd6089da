//! Filters on live interfaces: the kernel's part and ours, and exact counts of rejected packets.

use burstline_afpacket::{SEND_MAX, Sender};
use burstline_port::{Filter, Loss, OpenOptions, Port, PortState, Source};
use burstline_skip::skip;
use burstline_sys::pcap::{self, PcapError};
use burstline_testbed::{Bed, FAR, FAR_ADDRESS, Frames, Host, NEAR, Tag, sequence_of};

use crate::common::{Folder, Got, drain_by_lending, pcap, source};
use crate::help::{
    check_closed, drain, drain_by_receiving, drain_into, lend_while, send_by, try_open, wait_for,
};

/// Odd numbers, of frames with 0 and 1 tags.
const ODD: &str = "ether[12:2] = 0x88b5 and ether[21] & 1 = 1";
const ODD_IN_VLAN_7: &str = "vlan 7 and ether[25] & 1 = 1";

/// Returns `None`, and the test counts as skipped, if libpcap is missing.
fn bed() -> Option<Bed> {
    match pcap::compile("ip", 1, 64, true) {
        Err(error @ PcapError::NotInstalled { .. }) => {
            skip(error);
            None
        }
        _ => Bed::or_skip(),
    }
}

fn with(filter: &str) -> OpenOptions {
    OpenOptions { filter: filter.parse().unwrap(), ..OpenOptions::default() }
}

fn open(host: &Host, address: &str, filter: &str) -> Box<dyn Source> {
    try_open(host, address, with(filter)).unwrap()
}

fn open_far(bed: &Bed, query: &str, filter: &str) -> Box<dyn Source> {
    open(&bed.far, &format!("afpacket:{FAR}?{query}"), filter)
}

fn filtered(port: &dyn Port) -> u64 {
    port.account().lost.of(Loss::Filtered)
}

fn tagged(count: u64, length: usize, vlans: &[u16]) -> Frames {
    let tag = |vlan: &u16| Tag { protocol: 0x8100, control: *vlan };
    Frames { tags: vlans.iter().map(tag).collect(), ..Frames::new(count, length) }
}

/// Sends arbitrary frames.
fn send_all(bed: &Bed, frames: &[Vec<u8>]) {
    let frames = frames.to_vec();
    bed.near.run(move || {
        let mut sender = Sender::open(NEAR, false).unwrap();
        for batch in frames.chunks(SEND_MAX) {
            let mut rest: Vec<&[u8]> = batch.iter().map(Vec::as_slice).collect();
            while !rest.is_empty() {
                let sent = sender.send(&rest).unwrap();
                rest.drain(..sent);
            }
        }
    });
}

#[test]
fn what_the_kernel_filters_is_counted_to_the_packet() {
    let Some(bed) = bed() else { return };
    for drain in [drain, drain_by_receiving] {
        let mut port = open_far(&bed, "", ODD);
        let frames = Frames::new(50_000, 60);
        let sent = send_by(&bed, &frames, true);
        wait_for(&*port, sent);
        let account = port.account();
        assert_eq!((account.offered, filtered(&*port)), (sent, sent / 2));
        // The kernel filtered: rejected packets are not in the ring.
        assert_eq!(account.in_flight, sent / 2);
        let packets = drain(&mut *port);
        let numbers = packets.iter().map(|packet| sequence_of(&packet.bytes).unwrap());
        assert!(numbers.eq((0..sent).filter(|number| number % 2 == 1)));
        check_closed(&*port, sent, sent / 2);
        // Neither socket counts after the end.
        send_by(&bed, &frames, true);
        check_closed(&*port, sent, sent / 2);
    }
}

#[test]
fn the_ledger_closes_at_every_moment_with_a_filter_too() {
    let Some(bed) = bed() else { return };
    for (query, vlans) in [("", vec![]), ("block=128k&blocks=2", vec![]), ("", vec![7])] {
        let filter = if vlans.is_empty() { ODD } else { ODD_IN_VLAN_7 };
        let mut port = open_far(&bed, query, filter);
        let frames = tagged(60_000, 64, &vlans);
        let mut all = Vec::new();
        let sent = lend_while(&mut *port, &mut all, || send_by(&bed, &frames, true));
        drain_into(&mut *port, &mut all);
        let account = port.account();
        check_closed(&*port, sent, all.len() as u64);
        let lost = account.lost.of(Loss::RxRingFull);
        assert!(filtered(&*port) + lost >= sent / 2, "{account:?}");
        assert_eq!(account.lost.missing(), lost);
        assert!(all.iter().map(|packet| packet.drops_before).sum::<u64>() <= lost);
    }
}

#[test]
fn tags_are_judged_where_they_were_on_the_wire() {
    let Some(bed) = bed() else { return };
    let folder = Folder::new();
    let stacks = [vec![], vec![7], vec![8], vec![7, 9], vec![0xe007]];
    let frames: Vec<Vec<u8>> =
        (0..500).map(|number| tagged(1, 64, &stacks[number % 5]).frame(number as u64)).collect();
    let list: Vec<_> =
        frames.iter().map(|frame| (1, 0, frame.len() as u32, frame.clone())).collect();
    let file = folder.file("tags.pcap", &pcap(0xa1b2_c3d4, false, 1, &list));
    for (filter, expected) in [
        (ODD_IN_VLAN_7, 100),
        ("vlan 7", 300),
        ("vlan 7 and vlan 9", 100),
        ("vlan 7 and not vlan 9 and ether[12:2] = 0x8100", 200),
        ("vlan", 400),
        ("not vlan", 100),
        ("ether proto 0x88b5", 100),
        ("vlan and ether proto 0x88b5", 300),
        ("len = 64", 500),
        ("len < 64", 0),
        ("ether[60:4] != 0", 500),
        ("ether[64] = 0", 0),
    ] {
        let address = format!("file:{}", file.display());
        let from_file = drain_by_lending(&mut *source(&address, &with(filter)).unwrap(), 99);
        assert_eq!(from_file.len(), expected, "{filter}");
        for drain in [drain, drain_by_receiving] {
            let mut port = open_far(&bed, "direction=in", filter);
            send_all(&bed, &frames);
            let packets = drain(&mut *port);
            let bytes = |got: &[Got]| got.iter().map(|got| got.bytes.clone()).collect::<Vec<_>>();
            assert!(bytes(&packets) == bytes(&from_file), "{filter}: {} packets", packets.len());
            check_closed(&*port, 500, expected as u64);
            assert_eq!(filtered(&*port), 500 - expected as u64, "{filter}");
        }
    }
}

#[test]
fn kernel_and_file_want_the_same_of_mixed_traffic() {
    let Some(bed) = bed() else { return };
    let folder = Folder::new();
    let mut frames = Vec::new();
    for query in ["size=random:64-1400", "size=64&vlan=7", "size=64"] {
        let address = format!("gen:?packets=300&start=1&flows=40&protocol=mix&ip=mix&{query}");
        let mut made = source(&address, &OpenOptions::default()).unwrap();
        frames.extend(drain_by_lending(&mut *made, 99).into_iter().map(|got| got.bytes));
    }
    // Some are truncated, so that loads fail; the kernel drops frames that end after their first
    // tag.
    for (number, frame) in frames.iter_mut().enumerate().filter(|(number, _)| number % 3 == 0) {
        frame.truncate(20 + number % 50);
    }
    let list: Vec<_> =
        frames.iter().map(|frame| (1, 0, frame.len() as u32, frame.clone())).collect();
    let file = folder.file("mixed.pcap", &pcap(0xa1b2_c3d4, false, 1, &list));
    for filter in [
        "udp",
        "not udp",
        "tcp port 7 or udp port 7",
        "ip6 or vlan",
        "vlan and ip and udp",
        "not (vlan and udp)",
        "tcp[tcpflags] & tcp-ack != 0",
        "not tcp[13] & 16 = 0",
        "ip[2:2] > 200",
        "udp[8:4] = 0",
        "not udp[8:4] = 0",
        "ether[ip[0] & 0xf + 14] > 3",
        "not ether[len - 60] = 0",
        "ip[ip[0] - 300] = 2",
        "less 60",
        "greater 900",
    ] {
        let address = format!("file:{}", file.display());
        let expected = drain_by_lending(&mut *source(&address, &with(filter)).unwrap(), 99).len();
        let mut port = open_far(&bed, "direction=in", filter);
        send_all(&bed, &frames);
        let packets = drain(&mut *port);
        assert_eq!(packets.len(), expected, "{filter}");
        check_closed(&*port, frames.len() as u64, expected as u64);
    }
}

#[test]
fn directions_and_filters_go_together() {
    let Some(bed) = bed() else { return };
    let queries = ["direction=in", "direction=out", "direction=both"];
    let mut ports = queries.map(|query| open_far(&bed, query, "icmp[icmptype] = icmp-echo"));
    let mut all = queries.map(|query| open_far(&bed, query, ""));
    bed.near.command("ping", &["-c", "5", "-i", "0.01", "-W", "5", FAR_ADDRESS]).unwrap();
    let [arriving, leaving, both] = ports.each_mut().map(|port| drain(&mut **port));
    assert_eq!((arriving.len(), leaving.len(), both.len()), (5, 0, 5));
    for (port, (packets, all)) in ports.iter().zip([5, 0, 5].into_iter().zip(&mut all)) {
        let offered = drain(&mut **all).len() as u64;
        assert!(offered > packets);
        check_closed(&**port, offered, packets);
    }
    // The sender's side shows frames with the tag still in place.
    let mut leaving = open(&bed.near, &format!("afpacket:{NEAR}?direction=out"), ODD_IN_VLAN_7);
    let sent = send_by(&bed, &tagged(100, 64, &[7]), false);
    assert_eq!(drain(&mut *leaving).len() as u64, sent / 2);
    check_closed(&*leaving, sent, sent / 2);
}

#[test]
fn a_filter_sees_what_a_snapshot_length_cuts_off() {
    let Some(bed) = bed() else { return };
    // The pattern of frame n has byte n + 500 at 500.
    for (vlans, filter) in
        [(vec![], "ether[500] & 3 = 1"), (vec![7], "vlan 7 and ether[500] & 3 = 1")]
    {
        let frames = tagged(200, 600, &vlans);
        let options = OpenOptions { snapshot_bytes: Some(40), ..with(filter) };
        let mut port = try_open(&bed.far, &format!("afpacket:{FAR}"), options).unwrap();
        let sent = send_by(&bed, &frames, false);
        let packets = drain(&mut *port);
        let wanted = (0..sent).map(|number| frames.frame(number));
        let wanted: Vec<_> = wanted.filter(|frame| frame[500] & 3 == 1).collect();
        assert_eq!((packets.len(), wanted.len()), (50, 50), "{filter}");
        for (packet, frame) in packets.iter().zip(&wanted) {
            assert_eq!((&packet.bytes[..], packet.original_length), (&frame[..40], 600));
        }
        assert_eq!(port.account().truncated, 50);
        check_closed(&*port, sent, 50);
    }
}

#[test]
fn members_of_a_group_count_their_own_share() {
    let Some(bed) = bed() else { return };
    let mut ports = [0, 1].map(|_| open_far(&bed, "fanout=lb:78", ODD));
    let sent = send_by(&bed, &Frames::new(10_000, 60), true);
    let (mut offered, mut numbers) = (0, Vec::new());
    for port in &mut ports {
        let packets = drain(&mut **port);
        numbers.extend(packets.iter().map(|packet| sequence_of(&packet.bytes).unwrap()));
        check_closed(&**port, 5_000, packets.len() as u64);
        offered += port.account().offered;
    }
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq((0..sent).filter(|number| number % 2 == 1)));
    assert_eq!(offered, sent);
}

#[test]
fn a_call_ends_though_nothing_is_wanted() {
    let Some(bed) = bed() else { return };
    // In a group, so that all filtering is done here; blocks of 128 KiB hold fewer than 1,000 of
    // these.
    let mut port = open_far(&bed, "fanout=lb:79&block=128k&blocks=64", "len = 9");
    let sent = send_by(&bed, &Frames::new(20_000, 60), true);
    port.finish().unwrap();
    let (_log, mut writer, _reader) = crate::common::log(64 << 10, 8);
    let (mut busy, mut before) = (0, 0);
    loop {
        let received = port.receive(&mut writer, u64::MAX).unwrap();
        assert_eq!(received.packets, 0);
        let now = filtered(&*port);
        assert!(now - before <= 2_000, "{} in a call", now - before);
        before = now;
        busy += u64::from(received.state == PortState::Busy);
        if received.state == PortState::Ended {
            break;
        }
    }
    check_closed(&*port, sent, 0);
    assert!(busy > 10 && before == sent, "{busy} calls");
}

#[test]
fn a_filter_that_does_not_fit_is_refused_on_opening() {
    let Some(bed) = bed() else { return };
    let filter: Filter = "udp prot 53".parse().unwrap();
    let options = OpenOptions { filter, ..OpenOptions::default() };
    let error = try_open(&bed.far, &format!("afpacket:{FAR}"), options).err().unwrap();
    let text = error.to_string();
    let words = "afpacket:v1, link type 1: filter `udp prot 53`: ";
    assert!(text.starts_with(words) && text.contains("syntax error"), "{text}");
}
