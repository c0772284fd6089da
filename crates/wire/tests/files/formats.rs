//! Every variant of the formats, built by hand in both byte orders.

use crate::build::*;
use burstline_wire::files::{
    Counters, DamageKind, Decoder, FileKind, FormatError, Interface, MAX_CAPTURED, Resolution,
};
use burstline_wire::headers::LinkType;

const T: u32 = 1_700_000_000;

fn ns(seconds: u32, fraction_ns: u64) -> u64 {
    u64::from(seconds) * 1_000_000_000 + fraction_ns
}

#[test]
fn classic_in_every_variant() {
    for order in ORDERS {
        for (magic, fraction_ns) in [(0xA1B2_C3D4, 1000), (0xA1B2_3C4D, 1), (0xA1B2_CD34, 1000)] {
            let mut file = pcap_header(order, magic, 1);
            for number in 0..5u32 {
                let mut record =
                    pcap_record(order, T + number, number, &payload(number, 61), 61 + number);
                if magic == 0xA1B2_CD34 {
                    record.splice(16..16, [0xEE; 8]);
                }
                file.extend(record);
            }
            let decoded = decode(&file);
            assert_eq!(decoded.damage, []);
            assert_eq!(decoded.packets.len(), 5, "{order:?} {magic:#x}");
            for (number, packet) in (0u32..).zip(&decoded.packets) {
                assert_eq!(packet.bytes, payload(number, 61));
                assert_eq!(packet.original_length, 61 + number);
                let time = ns(T + number, u64::from(number) * fraction_ns);
                assert_eq!((packet.time_ns, packet.link), (time, 1));
            }
        }
    }
}

#[test]
fn classic_link_type_is_16_bits_beside_the_fcs_length() {
    for order in ORDERS {
        let mut file = pcap_header(order, 0xA1B2_C3D4, 0x2400_0071);
        file.extend(pcap_record(order, T, 0, &payload(1, 60), 60));
        let mut decoder = Decoder::new();
        let decoded = decode_with(&mut decoder, &file, usize::MAX);
        assert_eq!(decoded.packets[0].link, 113);
        assert_eq!(decoder.interfaces()[0].fcs_bytes, Some(4));
        assert_eq!(decoder.interfaces()[0].snapshot_length, 65_535);
    }
}

#[test]
fn classic_accepts_what_is_odd_but_whole() {
    let order = Order::Little;
    let mut file = pcap_header(order, 0xA1B2_C3D4, 1);
    let mut expected = Vec::new();
    // - A jump of years forth and back.
    // - An original length below the captured one.
    // - More bytes than the snapshot length.
    // - A fraction above a second.
    // - No bytes at all.
    let odd = [(T, 5, 60, 60), (T / 2, 5, 60, 60), (T, 6, 60, 60), (T, 7, 60, 20)];
    let odder = [(T, 8, 262_144, 262_144), (T, 2_000_000, 60, 60), (T, 9, 0, 0), (T, 9, 60, 60)];
    for (number, (seconds, fraction, captured, wire)) in (0..).zip(odd.iter().chain(&odder)) {
        file.extend(pcap_record(order, *seconds, *fraction, &payload(number, *captured), *wire));
        expected.push(payload(number, *captured));
    }
    for number in 100..104 {
        file.extend(pcap_record(order, T, 10, &payload(number, 60), 60));
        expected.push(payload(number, 60));
    }
    let decoded = decode(&file);
    assert_eq!(decoded.damage, []);
    let bytes: Vec<_> = decoded.packets.into_iter().map(|packet| packet.bytes).collect();
    assert_eq!(bytes, expected);
}

fn data(number: u32) -> Vec<u8> {
    payload(number, 63)
}

/// Two sections with every type of block, and packets 0 to 6.
fn every_block(first: Order, second: Order) -> Vec<u8> {
    let o = first;
    let mut file = section(o);
    file.extend(interface(o, 1, 0, &[]));
    let named = [option(o, 2, b"eth7"), option(o, 9, &[9]), option(o, 14, &o.u64(3))];
    file.extend(interface(o, 1, 128, &[named.concat(), option(o, 0, b"")]));
    file.extend(interface(o, 101, 0, &[option(o, 9, &[0x80 | 10]), option(o, 13, &[32])]));
    file.extend(block(o, 4, &[0; 40]));
    file.extend(enhanced(o, 0, u64::from(T) * 1_000_000 + 7, &data(0), 63, &[]));
    file.extend(enhanced(o, 1, ns(T, 9), &data(1), 1500, &[]));
    file.extend(enhanced(o, 2, u64::from(T) << 10 | 512, &data(2), 63, &[]));
    file.extend(block(o, 10, &[7; 21]));
    file.extend(block(o, 0xBAD, &[7; 24]));
    file.extend(block(o, 0x4000_0BAD, &[7; 24]));
    file.extend(block(o, 0x8000_0123, &[7; 24]));
    file.extend(block(o, 0x0000_0999, &[7; 600_000]));
    // Obsolete Packet Block: interface and drops in half words.
    let mut body = [o.u16(1), o.u16(3)].concat();
    let time = ns(T, 11);
    body.extend(o.words(&[(time >> 32) as u32, time as u32, 63, 63]));
    body.extend(data(3));
    body.push(0);
    body.extend(option(o, 2, &o.u32(2)));
    file.extend(block(o, 2, &body));
    // Simple Packet Block: original length, then the bytes.
    file.extend(block(o, 3, &[o.u32(63).to_vec(), data(4)].concat()));
    let mut body = o.words(&[1, 0, 0]);
    for (code, count) in [(4, 100), (5, 10), (6, 90), (7, 5), (8, 85u64)] {
        body.extend(option(o, code, &o.u64(count)));
    }
    file.extend(block(o, 5, &body));
    // A second section in the other byte order, with other numbers for its interfaces.
    let o = second;
    file.extend(section(o));
    let named = [option(o, 2, b"eth7"), option(o, 9, &[9]), option(o, 14, &o.u64(3))];
    file.extend(interface(o, 1, 128, &named));
    file.extend(interface(o, 113, 0, &[]));
    file.extend(enhanced(o, 0, ns(T, 1), &data(5), 63, &[]));
    file.extend(enhanced(o, 1, 5, &data(6), 63, &[]));
    file
}

#[test]
fn pcapng_sections_interfaces_and_every_block() {
    for (first, second) in [(Order::Little, Order::Big), (Order::Big, Order::Little)] {
        let file = every_block(first, second);
        let mut decoder = Decoder::new();
        let decoded = decode_with(&mut decoder, &file, usize::MAX);
        assert_eq!(decoded.damage, []);
        let seen: Vec<_> = (decoded.packets.iter())
            .map(|p| (p.time_ns, p.interface, p.link, p.original_length))
            .collect();
        let expected = [
            (ns(T, 7_000), 0, 1, 63),
            (ns(T + 3, 9), 1, 1, 1500),
            (ns(T, 500_000_000), 2, 101, 63),
            (ns(T + 3, 11), 1, 1, 63),
            (0, 0, 1, 63),
            (ns(T + 3, 1), 1, 1, 63),
            (5_000, 3, 113, 63),
        ];
        assert_eq!(seen, expected);
        for (number, packet) in (0..).zip(&decoded.packets) {
            assert_eq!(packet.bytes, data(number));
            assert_eq!(packet.timed, number != 4);
        }
        let options = decoded.packets[3].options.unwrap();
        assert_eq!((options.drops_before, options.flags), (Some(3), Some(2)));
        let counters = Counters {
            received: Some(100),
            missed: Some(10),
            accepted: Some(90),
            lost: Some(5),
            delivered: Some(85),
        };
        let resolution = Resolution { offset_seconds: 3, ..Resolution::NANOSECONDS };
        let named = Interface {
            name: "eth7".into(),
            link: LinkType::ETHERNET,
            resolution,
            snapshot_length: 128,
            fcs_bytes: None,
            counters,
        };
        assert_eq!(decoder.interfaces()[1], named);
        assert_eq!(decoder.interfaces()[2].fcs_bytes, Some(4));
        assert_eq!(decoder.interfaces().len(), 4);
    }
}

#[test]
fn packet_options_are_read() {
    for o in ORDERS {
        let mut file = section(o);
        file.extend(interface(o, 1, 0, &[option(o, 9, &[9])]));
        let options = [
            option(o, 1, b"a comment"),
            option(o, 2, &o.u32(1)),
            option(o, 3, &[2, 0x11, 0x22, 0x33, 0x44]),
            option(o, 4, &o.u64(1 << 40)),
            option(o, 5, &o.u64(77)),
            option(o, 6, &o.u32(5)),
            option(o, 0, b""),
        ];
        file.extend(enhanced(o, 0, 5, &payload(0, 61), 61, &options));
        file.extend(enhanced(o, 0, 6, &payload(1, 61), 61, &[]));
        let decoded = decode(&file);
        let options = decoded.packets[0].options.unwrap();
        assert_eq!(options.flags, Some(1));
        assert_eq!(options.drops_before, Some(1 << 40));
        assert_eq!((options.packet_id, options.queue), (Some(77), Some(5)));
        assert_eq!(options.hash, Some((2, 0x4433_2211)));
        assert_eq!(decoded.packets[1].options, None);
        assert_eq!(decoded.packets[1].bytes, payload(1, 61));
    }
}

#[test]
fn simple_packets_are_cut_by_the_snapshot_length() {
    let o = Order::Little;
    let mut file = [section(o), interface(o, 1, 62, &[])].concat();
    file.extend(block(o, 3, &[o.u32(1500).to_vec(), payload(0, 62)].concat()));
    let decoded = decode(&file);
    assert_eq!(decoded.packets[0].bytes, payload(0, 62));
    assert_eq!(decoded.packets[0].original_length, 1500);
}

#[test]
fn absurd_lengths_are_damage_and_the_rest_is_read() {
    let o = Order::Little;
    let mut file = [section(o), interface(o, 1, 0, &[])].concat();
    let start = file.len() as u64;
    file.extend(enhanced(o, 0, 1, &vec![0x77; MAX_CAPTURED as usize + 4], 9, &[]));
    let skipped = file.len() as u64 - start;
    file.extend(enhanced(o, 0, 1, &vec![0x77; MAX_CAPTURED as usize], 9, &[]));
    file.extend(enhanced(o, 9, 1, &payload(1, 60), 60, &[]));
    file.extend(enhanced(o, 0, 1, &payload(2, 60), 60, &[]));
    let decoded = decode(&file);
    assert_eq!(decoded.packets.len(), 2);
    assert_eq!(decoded.packets[1].bytes, payload(2, 60));
    let kind = DamageKind::CapturedLength { captured: MAX_CAPTURED + 4, limit: MAX_CAPTURED };
    assert_eq!(decoded.damage[0].kind, kind);
    assert_eq!((decoded.damage[0].offset, decoded.damage[0].skipped), (start, skipped));
    assert_eq!(decoded.damage[1].kind, DamageKind::UnknownInterface { interface: 9 });
    assert_eq!(decoded.damage.len(), 2);
}

#[test]
fn what_is_no_capture_file_is_refused_with_a_reason() {
    assert_eq!(decode(b"").refused, Some(FormatError::Empty));
    let error = decode(b"PK\x03\x04 and so on").refused.unwrap();
    let text = "not a capture file: it starts with [50, 4b, 03, 04, 20, 61, 6e, 64]";
    assert_eq!(error.to_string(), text);
    assert_eq!(decode(b"ab").refused.unwrap().to_string().len(), 43);
    let cut = &pcap_header(Order::Big, 0xA1B2_C3D4, 1)[..20];
    assert_eq!(decode(cut).refused, Some(FormatError::HeaderCut { length: 20, needed: 24 }));
    let kind = FileKind::Gzip;
    assert_eq!(decode(&[0x1F, 0x8B, 8, 0]).refused, Some(FormatError::Compressed { kind }));
    assert_eq!(FileKind::detect(&[0x28, 0xB5, 0x2F, 0xFD]), FileKind::Zstd);
    let mut file = section(Order::Little);
    file[9] = 0;
    assert_eq!(decode(&file).refused, Some(FormatError::ByteOrder { magic: 0x1A2B_004D }));
}

#[test]
fn a_live_decoder_does_not_wait_for_the_next_packet() {
    let o = Order::Little;
    let mut file = pcap_header(o, 0xA1B2_3C4D, 1);
    file.extend(pcap_record(o, T, 1, &payload(1, 60), 60));
    let (mut position, mut waiting) = (0, 0);
    assert!(matches!(
        Decoder::live().next(&file, &mut position, false),
        burstline_wire::files::Step::Packet(_)
    ));
    assert!(matches!(
        Decoder::new().next(&file, &mut waiting, false),
        burstline_wire::files::Step::NeedMore { bytes: 92 }
    ));
}

#[test]
fn interfaces_are_bounded_and_shared_between_equal_sections() {
    let o = Order::Little;
    let one = [section(o), interface(o, 1, 0, &[option(o, 2, b"a")]), interface(o, 1, 0, &[])];
    let mut decoder = Decoder::new();
    decode_with(&mut decoder, &one.concat().repeat(5000), usize::MAX);
    assert_eq!(decoder.interfaces().len(), 2);
    let mut file = section(o);
    for number in 0..5000u32 {
        file.extend(interface(o, 1, number, &[option(o, 2, &[b'x'; 3000])]));
    }
    let mut decoder = Decoder::new();
    let decoded = decode_with(&mut decoder, &file, usize::MAX);
    assert_eq!(decoder.interfaces().len(), burstline_wire::files::MAX_INTERFACES);
    assert_eq!(decoder.interfaces()[0].name.len(), burstline_wire::files::MAX_NAME_BYTES);
    assert_eq!(decoded.damage.len(), 5000 - decoder.interfaces().len());
    let name = option(o, 2, &[b'x'; 3000]);
    // An interface of an earlier section is known even after one that is not kept.
    file.extend([section(o), interface(o, 1, 5001, &[]), interface(o, 1, 2, &[name])].concat());
    file.extend(enhanced(o, 0, 7, &payload(1, 60), 60, &[]));
    file.extend(enhanced(o, 1, 7, &payload(1, 60), 60, &[]));
    let decoded = decode(&file);
    let last = decoded.damage.last().map(|damage| damage.kind);
    assert_eq!(last, Some(DamageKind::UnknownInterface { interface: 0 }));
}

#[test]
fn an_interface_that_is_not_understood_keeps_its_number() {
    for order in ORDERS {
        // Its options are malformed.
        let malformed =
            block(order, 1, &[&order.u16(1)[..], &[0; 6], &order.u16(9), &[9, 9]].concat());
        let mut file = [section(order), interface(order, 1, 0, &[]), malformed].concat();
        file.extend(interface(order, 101, 0, &[]));
        for number in 0..3 {
            file.extend(enhanced(order, number, 7, &payload(number, 60), 60, &[]));
        }
        let decoded = decode(&file);
        let kinds: Vec<_> = decoded.damage.iter().map(|damage| damage.kind).collect();
        let unknown = DamageKind::UnknownInterface { interface: 1 };
        assert_eq!(kinds, [DamageKind::MalformedBlock { block_type: 1 }, unknown]);
        let links: Vec<_> = decoded.packets.iter().map(|packet| packet.link).collect();
        assert_eq!(links, [1, 101]);
        // A section without descriptions has those of the previous section: this one is unknown.
        file.extend(section(order));
        file.extend(enhanced(order, 1, 7, &payload(9, 60), 60, &[]));
        assert_eq!(decode(&file).damage.last().map(|damage| damage.kind), Some(unknown));
    }
}

#[test]
fn a_packet_longer_than_the_snapshot_length_is_whole_where_the_next_one_follows() {
    for order in ORDERS {
        let mut file = pcap_header(order, 0xA1B2_C3D4, 1);
        file[16..20].copy_from_slice(&order.u32(64));
        // Longer than the file's snapshot length; the second is also longer than on the wire.
        for (number, length, wire) in
            [(0, 60, 60), (1, 80, 80), (2, 80, 60), (3, 90, 1500), (4, 80, 70)]
        {
            file.extend(pcap_record(order, T + number, 0, &payload(number, length), wire));
        }
        let decoded = decode(&file);
        assert_eq!(decoded.damage, []);
        let lengths: Vec<_> = decoded.packets.iter().map(|packet| packet.bytes.len()).collect();
        assert_eq!(lengths, [60, 80, 80, 90, 80]);
        let mut blocks = section(order);
        blocks.extend(interface(order, 1, 64, &[]));
        blocks.extend(enhanced(order, 0, 7, &payload(1, 80), 80, &[]));
        blocks.extend(enhanced(order, 0, 8, &payload(2, 80), 60, &[]));
        let decoded = decode(&blocks);
        assert_eq!((decoded.damage.len(), decoded.packets.len()), (0, 2));
        assert!(decoded.packets.iter().all(|packet| packet.bytes.len() == 80));
    }
}

#[test]
fn an_interface_that_is_described_late_is_that_of_the_section_before() {
    for order in ORDERS {
        let mut file = section(order);
        file.extend(interface(order, 1, 0, &[]));
        file.extend(enhanced(order, 0, 7, &data(0), 63, &[]));
        file.extend(section(order));
        file.extend(enhanced(order, 0, 8, &data(1), 63, &[]));
        file.extend(interface(order, 1, 0, &[]));
        file.extend(enhanced(order, 0, 9, &data(2), 63, &[]));
        // This interface has no description.
        file.extend(enhanced(order, 1, 9, &data(3), 63, &[]));
        let decoded = decode(&file);
        assert_eq!(decoded.packets.len(), 3, "{:?}", decoded.damage);
        assert!(decoded.packets.iter().all(|packet| packet.link == 1 && packet.interface == 0));
        assert_eq!(decoded.damage[0].kind, DamageKind::UnknownInterface { interface: 1 });
    }
}

#[test]
fn sections_say_what_they_are() {
    for o in ORDERS {
        let section = |texts: &[(u16, &str)]| {
            let mut body =
                [o.u32(0x1A2B_3C4D).to_vec(), o.u16(1).to_vec(), o.u16(0).to_vec()].concat();
            body.extend([0xFF; 8]);
            for (code, text) in texts {
                body.extend(option(o, *code, text.as_bytes()));
            }
            block(o, 0x0A0D_0D0A, &body)
        };
        let long = "x".repeat(5000);
        let first =
            section(&[(1, "one"), (1, "two"), (2, "a card"), (3, "a system"), (4, "a tool")]);
        let file = [first.clone(), section(&[(1, &long), (4, &long)]), first].concat();
        let mut decoder = Decoder::new();
        assert_eq!(decode_with(&mut decoder, &file, usize::MAX).damage, []);
        let [first, second] = decoder.sections() else { panic!("{:?}", decoder.sections()) };
        assert_eq!(first.comment, "one\ntwo");
        let texts = [&first.hardware, &first.os, &first.application];
        assert_eq!(texts, ["a card", "a system", "a tool"]);
        assert_eq!((second.comment.len(), second.application.len()), (4096, 256));
        // No more are kept than the limit.
        let numbers: Vec<_> = (0..100).map(|number| format!("{number}")).collect();
        let file: Vec<_> = numbers.iter().flat_map(|text| section(&[(1, text)])).collect();
        let mut decoder = Decoder::new();
        decode_with(&mut decoder, &file, usize::MAX);
        assert_eq!(decoder.sections().len(), burstline_wire::files::MAX_SECTIONS);
    }
}
