//! Damage at every position of small files: all other packets are delivered, and decoding ends.

use crate::build::*;
use burstline_wire::files::{
    Counters, Damage, DamageKind, Decoder, InterfaceDescription, MAX_BLOCK, MAX_NEED,
    PacketToWrite, SectionDescription, SegmentEncoder, Step,
};
use burstline_wire::hash::HashKind;
use burstline_wire::headers::LinkType;
use proptest::prelude::*;
use std::ops::Range;

const T: u32 = 1_700_000_000;

/// A file, and where the record of each packet is in it.
struct Sample {
    name: String,
    file: Vec<u8>,
    records: Vec<Range<usize>>,
    /// Returns the bytes of packet `number`, with this length.
    data: fn(u32, usize) -> Vec<u8>,
}

/// Returns a packet of zeros and ones, which looks like small headers at every offset.
fn sparse(number: u32, length: usize) -> Vec<u8> {
    let mut data: Vec<u8> = (0..length).map(|at| u8::from(at % 16 == 14)).collect();
    data[4..8].copy_from_slice(&(number << 8 | 0xFF).to_be_bytes());
    data
}

fn length_of(number: u32) -> usize {
    [60, 61, 130, 594, 62, 63][number as usize % 6]
}

fn classic(order: Order, packets: u32, data: fn(u32, usize) -> Vec<u8>) -> Sample {
    let mut file = pcap_header(order, 0xA1B2_3C4D, 1);
    let mut records = Vec::new();
    for number in 0..packets {
        let data = data(number, length_of(number));
        let record = pcap_record(order, T + number / 10, number, &data, data.len() as u32);
        records.push(file.len()..file.len() + record.len());
        file.extend(record);
    }
    Sample { name: format!("pcap {order:?}"), file, records, data }
}

fn pcapng(order: Order, packets: u32) -> Sample {
    let mut file = section(order);
    file.extend(interface(order, 1, 0, &[option(order, 9, &[9]), option(order, 0, b"")]));
    let mut records = Vec::new();
    for number in 0..packets {
        let data = payload(number, length_of(number));
        let time = u64::from(T) * 1_000_000_000 + u64::from(number);
        let dropped = [option(order, 4, &order.u64(7)), option(order, 0, b"")];
        let options = if number % 5 == 4 { &dropped[..] } else { &[] };
        let record = enhanced(order, 0, time, &data, data.len() as u32, options);
        records.push(file.len()..file.len() + record.len());
        file.extend(record);
    }
    Sample { name: format!("pcapng {order:?}"), file, records, data: payload }
}

fn segmented(packets: u32) -> Sample {
    segmented_from(packets, 0)
}

/// Returns a file of a recording whose earlier files have the `first` packets.
fn segmented_from(packets: u32, first: u64) -> Sample {
    let size = 4096;
    let mut encoder = SegmentEncoder::new(size, LinkType::ETHERNET, 0, HashKind::None, first);
    let mut segment = vec![0xEE; size];
    let interface = InterfaceDescription::new(LinkType::ETHERNET, "eth0");
    encoder.header(&mut segment, &SectionDescription::default(), &[interface]).unwrap();
    let (mut file, mut records) = (segment.clone(), Vec::new());
    encoder.advance();
    let mut start = 0;
    for number in 0..packets {
        let data = payload(number, length_of(number));
        let packet = PacketToWrite::new(&data, u64::from(T) * 1_000_000_000 + u64::from(number));
        if !encoder.push(&mut segment, &packet).unwrap() {
            encoder.finish(&mut segment, &[0; 8]);
            file.extend(&segment);
            encoder.advance();
            start = 0;
            assert!(encoder.push(&mut segment, &packet).unwrap());
        }
        let length = 32 + data.len().next_multiple_of(4);
        records.push(file.len() + start..file.len() + start + length);
        start += length;
    }
    let counters = Counters { delivered: Some(packets.into()), ..Counters::default() };
    if !encoder.push_statistics(&mut segment, 0, 1, &counters).unwrap() {
        encoder.finish(&mut segment, &[0; 8]);
        file.extend(&segment);
        encoder.advance();
        assert!(encoder.push_statistics(&mut segment, 0, 1, &counters).unwrap());
    }
    encoder.finish(&mut segment, &[0; 8]);
    file.extend(&segment);
    Sample { name: "segmented".into(), file, records, data: payload }
}

fn samples(packets: u32) -> Vec<Sample> {
    let of = |order| {
        let classics = [payload, sparse].map(|data| classic(order, packets, data));
        classics.into_iter().chain([pcapng(order, packets)])
    };
    let mut samples: Vec<_> = ORDERS.into_iter().flat_map(of).collect();
    samples.push(segmented(packets));
    samples
}

/// Returns the packets of a recording in sound segments, plus those reported as unchecked.
fn told(file: &[u8]) -> u64 {
    let mut decoder = Decoder::new();
    let decoded = decode_with(&mut decoder, file, usize::MAX);
    let unchecked = decoded.damage.iter().map(|damage| match damage.kind {
        DamageKind::NotClosed { unchecked } => unchecked,
        _ => 0,
    });
    decoder.recorded().packets + unchecked.sum::<u64>()
}

/// Checks that every packet outside `touched` is delivered, in order. Extra packets may only come
/// from the touched bytes and their records.
fn check(sample: &Sample, damaged: &[u8], touched: Range<usize>) {
    let decoded = decode(damaged);
    let mut delivered = decoded.packets.iter().peekable();
    let mut invented = 0;
    for (number, record) in (0..).zip(&sample.records) {
        if record.start < touched.end && touched.start < record.end {
            continue;
        }
        let data = (sample.data)(number, length_of(number));
        while delivered.peek().is_some_and(|packet| packet.bytes != data) {
            delivered.next();
            invented += 1;
        }
        assert!(
            delivered.next().is_some(),
            "{}: {touched:?} lost packet {number} at {record:?}: {:?}",
            sample.name,
            decoded.damage
        );
    }
    let hit = sample.records.iter().filter(|r| r.start < touched.end && touched.start < r.end);
    let invented = invented + delivered.count();
    assert!(invented <= hit.count(), "{}: {touched:?} made up {invented}", sample.name);
}

#[test]
fn the_samples_are_whole() {
    for sample in samples(60) {
        let decoded = decode(&sample.file);
        assert_eq!(decoded.damage, [], "{}", sample.name);
        assert_eq!(decoded.packets.len(), 60, "{}", sample.name);
        check(&sample, &sample.file, 0..0);
    }
}

#[test]
fn cut_at_every_byte() {
    for sample in samples(12) {
        for cut in 0..sample.file.len() {
            let decoded = decode(&sample.file[..cut]);
            let whole = sample.records.iter().filter(|record| record.end <= cut).count();
            if decoded.refused.is_none() {
                assert_eq!(decoded.packets.len(), whole, "{} cut at {cut}", sample.name);
                let lost: u64 = decoded.damage.iter().map(|damage| damage.skipped).sum();
                let inside = sample.records.iter().any(|r| r.start < cut && cut < r.end);
                assert!(!inside || lost > 0, "{} cut at {cut}: said nothing", sample.name);
                let cause = decoded.damage.first().map(|damage| damage.kind);
                let cut_short = matches!(cause, Some(DamageKind::Truncated { .. }));
                assert!(!inside || cut_short, "{} cut at {cut}: {cause:?}", sample.name);
                if sample.name == "segmented" && whole > 0 {
                    assert_eq!(told(&sample.file[..cut]), whole as u64, "cut at {cut}");
                }
            } else {
                assert_eq!(whole, 0);
            }
        }
    }
}

#[test]
fn zeros_in_every_window() {
    for sample in samples(60) {
        let first = sample.records[0].start;
        for window in [64, 512, 4096] {
            for start in (first..sample.file.len()).step_by(16) {
                let end = (start + window).min(sample.file.len());
                let mut damaged = sample.file.clone();
                damaged[start..end].fill(0);
                check(&sample, &damaged, start..end);
            }
        }
    }
}

#[test]
fn every_bit_flipped() {
    for sample in samples(14) {
        let first = sample.records[0].start;
        for bit in 0..8 * sample.file.len() {
            let mut damaged = sample.file.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            if bit / 8 < first {
                // The description of the packets is damaged: they may be refused or misread.
                decode(&damaged);
            } else {
                check(&sample, &damaged, bit / 8..bit / 8 + 1);
            }
        }
    }
}

#[test]
fn a_hole_in_two_hundred_packets_loses_what_it_touches() {
    for sample in samples(200) {
        let middle = sample.records[100].start + 3;
        let hole = middle..middle + 4096;
        let mut damaged = sample.file.clone();
        damaged[hole.clone()].fill(0);
        check(&sample, &damaged, hole.clone());
        let lost: u64 = decode(&damaged).damage.iter().map(|damage| damage.skipped).sum();
        assert!((3500..6000).contains(&lost), "{}: {lost} bytes skipped", sample.name);
    }
}

#[test]
fn a_section_behind_a_torn_tail_is_found() {
    for torn in 1..40 {
        let sample = pcapng(Order::Little, 10);
        let cut = sample.records[9].end - torn;
        let file = [&sample.file[..cut], &pcapng(Order::Big, 10).file].concat();
        let decoded = decode(&file);
        assert_eq!(decoded.packets.len(), 19, "torn by {torn}");
        let [Damage { offset, .. }] = decoded.damage[..] else { panic!("{:?}", decoded.damage) };
        assert_eq!(offset, sample.records[9].start as u64);
    }
}

#[test]
fn damage_is_said_once_with_its_cause() {
    let o = Order::Little;
    let mut file = [section(o), interface(o, 1, 0, &[])].concat();
    file.extend(enhanced(o, 0, 1, &payload(0, 60), 60, &[]));
    let start = file.len();
    // A packet with the start of a block in it, but not its end.
    let fake = [o.words(&[6, 64, 0, 0, 0, 32, 32]), payload(7, 36)].concat();
    file.extend(enhanced(o, 0, 1, &fake, 64, &[]));
    let trailing = file.len() - 4;
    file.extend(enhanced(o, 0, 1, &payload(1, 60), 60, &[]));
    file[trailing] ^= 1;
    let decoded = decode(&file);
    let kind = DamageKind::LengthMismatch { leading: 96, trailing: 97 };
    assert_eq!(decoded.damage, [Damage { offset: start as u64, kind, skipped: 96 }]);
    assert_eq!(decoded.packets.len(), 2);
    // A captured length that leaves zeros where options should be.
    file[trailing] ^= 1;
    file[start + 28..start + 92].fill(0);
    file[start + 20] = 32;
    let decoded = decode(&file);
    let kind = DamageKind::MalformedBlock { block_type: 6 };
    assert_eq!(decoded.damage, [Damage { offset: start as u64, kind, skipped: 96 }]);

    let mut file = pcap_header(o, 0xA1B2_C3D4, 1);
    file.extend(pcap_record(o, T, 1, &payload(1, 60), 60));
    let start = file.len() as u64;
    file.extend(pcap_record(o, T, 1, &payload(2, 262_145), 262_145));
    let skipped = file.len() as u64 - start;
    file.extend(pcap_record(o, T, 1, &payload(3, 60), 60));
    file.extend(pcap_record(o, T, 1, &payload(4, 60), 60));
    let decoded = decode(&file);
    assert_eq!(decoded.packets.len(), 3);
    let [Damage { offset, skipped: passed, .. }] = decoded.damage[..] else {
        panic!("{:?}", decoded.damage)
    };
    assert_eq!((offset, passed), (start, skipped));
    // A live decoder delivers the first record before it sees the second.
    let (mut live, mut position) = (Decoder::live(), 0);
    assert!(matches!(live.next(&file[..100], &mut position, false), Step::Packet(_)));
    let Step::Damage(damage) = live.next(&file, &mut position, true) else { panic!() };
    assert_eq!((damage.offset, damage.skipped), (start, skipped));
    // The same with the damaged record as the first one: no successor check preceded it.
    file.drain(24..start as usize);
    let decoded = decode(&file);
    let kind = DamageKind::CapturedLength { captured: 262_145, limit: 262_144 };
    assert_eq!(decoded.damage, [Damage { offset: 24, kind, skipped }]);
    assert_eq!(decoded.packets.len(), 2);
}

/// A slot of half a mebibyte of blocks of 12 bytes, of which the first and the last are damaged.
/// Every position of it leads to the last block. Following each would take 10^9 steps.
#[test]
fn a_slot_whose_blocks_lead_to_a_bad_one_is_passed() {
    let size = 1 << 19;
    let mut encoder = SegmentEncoder::new(size, LinkType::ETHERNET, 0, HashKind::None, 0);
    let mut file = vec![0; size];
    let interface = InterfaceDescription::new(LinkType::ETHERNET, "eth0");
    encoder.header(&mut file, &SectionDescription::default(), &[interface]).unwrap();
    let mut slot = block(Order::Little, 4, &[]).repeat(size / 12);
    slot.resize(size, 0);
    slot[4] = 16;
    file.extend(slot);
    let decoded = decode(&file);
    let skipped: u64 = decoded.damage.iter().map(|damage| damage.skipped).sum();
    assert_eq!(skipped, size as u64, "{:?}", decoded.damage);
}

/// Section headers of 16 bytes, each of which leads to the same bad block, almost as far away as a
/// packet may be long. Following each to it would take half a billion steps.
#[test]
fn section_headers_that_lead_to_a_bad_block_are_passed() {
    for order in ORDERS {
        let mut file = [section(order), interface(order, 1, 0, &[])].concat();
        file.extend(enhanced(order, 0, 1, &payload(0, 60), 60, &[]));
        let start = file.len();
        let header = block(order, 0x0A0D_0D0A, &order.u32(0x1A2B_3C4D));
        assert_eq!(header.len(), 16);
        for _ in 0..4 {
            file.extend([0xFF; 16]);
            file.extend(header.repeat(16_000));
        }
        file.extend([0xFF; 16]);
        let decoded = decode_with(&mut Decoder::new(), &file, 256 << 10);
        assert_eq!(decoded.packets.len(), 1);
        let [Damage { offset, skipped, .. }] = decoded.damage[..] else {
            panic!("{:?}", decoded.damage)
        };
        assert_eq!((offset, skipped), (start as u64, (file.len() - start) as u64));
        // The same headers are real if they lead to the end of the file.
        file.truncate(file.len() - 16);
        let [Damage { skipped, .. }] = decode(&file).damage[..] else { panic!() };
        assert_eq!(skipped, (file.len() - start - 16_000 * 16) as u64);
    }
}

#[test]
fn a_file_that_does_not_begin_with_packet_0_has_not_lost_those_before_it() {
    let first = 5_000_000;
    let sample = segmented_from(60, first);
    let within = |segment| sample.records.iter().filter(|r| r.start / 4096 == segment).count();
    let lost = |damaged: &[u8]| {
        let told = decode(damaged).damage.into_iter().map(|damage| match damage.kind {
            DamageKind::Corrupt { packets, .. } => packets,
            DamageKind::MissingSegments { .. } => panic!("none is missing"),
            _ => 0,
        });
        told.sum::<u64>()
    };
    // By the trailer of segment 0, and by that of segment 1.
    let mut damaged = sample.file.clone();
    (damaged[100], damaged[4096 + 100]) = (!damaged[100], !damaged[4096 + 100]);
    assert_eq!(lost(&damaged), within(1) as u64);
    damaged[..4096].fill(0);
    assert_eq!(lost(&damaged), within(1) as u64);
    // Without both, only those that were found.
    damaged[4096 + 4000..8192].fill(0);
    assert!(lost(&damaged) <= within(1) as u64, "{}", lost(&damaged));
    // A recording's first file begins with packet 0.
    let mut damaged = segmented(60).file;
    damaged[..8192].fill(0);
    assert_eq!(lost(&damaged), within(1) as u64);
}

/// A probe for segments needs 16 MiB at a time. One for each of many small sections would read a
/// million times the file's size.
#[test]
fn few_sections_are_searched_for_segments() {
    let section = [section(Order::Little), block(Order::Little, 0x8888, &[])].concat();
    let file = section.repeat((MAX_NEED + (8 << 10)) / section.len());
    let (mut decoder, mut position, mut start, mut end) = (Decoder::new(), 0, 0, 0);
    let mut searched = 0;
    while decoder.file_offset() < 4 << 10 {
        match decoder.next(&file[start..end], &mut position, false) {
            Step::NeedMore { bytes } => {
                searched += usize::from(bytes == MAX_NEED);
                (start, position) = (start + position, 0);
                end = start + bytes;
            }
            step => panic!("{step:?}"),
        }
    }
    assert!((1..20).contains(&searched), "{searched} times {MAX_NEED} bytes");
}

/// A torn header may claim any length, also one beyond the end of the file.
#[test]
fn a_long_block_with_a_wrong_length_hides_no_packet() {
    let sample = pcapng(Order::Little, 40);
    let long = block(Order::Little, 0x8888, &vec![0; 1 << 20]);
    for (length, behind) in [(600 << 10, 0), (MAX_BLOCK, 0), (600 << 10, 1), (MAX_BLOCK, 17)] {
        let mut file = sample.file.clone();
        let at = sample.records[10].start;
        file.splice(at..at, Order::Little.words(&[0x8888, length, 0]));
        file.extend(long.repeat(behind));
        for chunk in [100, 1 << 20, usize::MAX] {
            let decoded = decode_with(&mut Decoder::new(), &file, chunk);
            let place = (length, behind, chunk);
            assert_eq!(decoded.packets.len(), 40, "{place:?}");
            let [damage] = decoded.damage[..] else { panic!("{place:?}: {:?}", decoded.damage) };
            assert_eq!((damage.offset, damage.skipped), (at as u64, 12), "{place:?}");
        }
    }
}

/// The end of a long block needs 16 MiB at a time.
#[test]
fn few_long_blocks_with_wrong_lengths_are_asked_for() {
    let wrong = Order::Little.words(&[0x8888, MAX_BLOCK, 0]);
    let pair = [block(Order::Little, 0x8888, &[]), wrong].concat();
    let pairs = pair.repeat((2 * MAX_NEED) / pair.len());
    let file = [section(Order::Little), pairs].concat();
    let (mut asked, mut decoder, mut position, mut lent) = (0, Decoder::new(), 0, 0..0);
    while decoder.file_offset() < 64 << 10 {
        match decoder.next(&file[lent.clone()], &mut position, false) {
            Step::NeedMore { bytes } => {
                asked += usize::from(bytes == MAX_BLOCK as usize);
                let start = lent.start + position;
                (lent, position) = (start..start + bytes, 0);
            }
            Step::Damage(_) => {}
            step => panic!("{step:?}"),
        }
    }
    assert!((1..20).contains(&asked), "{asked} times {MAX_BLOCK} bytes");
}

#[test]
fn a_block_does_not_cross_a_segment_boundary() {
    // A damaged length that happens to match the bytes after the boundary.
    let mut sample = segmented(60);
    let last = sample.records.iter().rposition(|record| record.end <= 8192).unwrap();
    let record = sample.records[last].clone();
    let length = (8192 + 400 - record.start) as u32;
    sample.file[record.start + 4..record.start + 8].copy_from_slice(&length.to_le_bytes());
    sample.file[8192 + 396..8192 + 400].copy_from_slice(&length.to_le_bytes());
    let first = sample.records[last + 1].start;
    let untouched = sample.records.iter().position(|record| record.start > 8192 + 400).unwrap();
    assert_eq!(first, 8192);
    let decoded = decode(&sample.file);
    let lost = untouched - 1 - (last + 1) + 1;
    assert!(decoded.packets.len() >= 60 - lost - 1, "{:?}", decoded.damage);
    assert!(decoded.damage[0].offset == record.start as u64);
    assert!(decoded.damage[0].offset + decoded.damage[0].skipped <= 8192);
}

/// Random edits of a valid file.
fn edited() -> impl Strategy<Value = Vec<u8>> {
    let edit = (0..10_000usize, any::<u32>(), 1..=4usize);
    (0..7usize, prop::collection::vec(edit, 0..12), any::<bool>()).prop_map(
        |(which, edits, small)| {
            let mut file = samples(24).swap_remove(which).file;
            for (at, value, bytes) in edits {
                let at = at % file.len();
                let value = if small { value & 0xFF } else { value };
                for (place, byte) in file[at..].iter_mut().zip(&value.to_le_bytes()[..bytes]) {
                    *place = *byte;
                }
            }
            file
        },
    )
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn random_bytes_end(
        magic in 0..6usize,
        bytes in prop::collection::vec(any::<u8>(), 0..4000),
        chunk in 1..5000usize,
    ) {
        let start = match magic {
            0 => pcap_header(Order::Little, 0xA1B2_C3D4, 1),
            1 => pcap_header(Order::Big, 0xA1B2_CD34, 1),
            2 => section(Order::Little),
            3 => [section(Order::Big), interface(Order::Big, 1, 0, &[])].concat(),
            4 => [section(Order::Little), vec![6, 0, 0, 0]].concat(),
            _ => Vec::new(),
        };
        decode_with(&mut Decoder::new(), &[start, bytes].concat(), chunk);
    }

    #[test]
    fn what_is_seen_does_not_depend_on_the_chunks(file in edited(), chunk in 1..6000usize) {
        let whole = decode(&file);
        let pieces = decode_with(&mut Decoder::new(), &file, chunk);
        prop_assert_eq!(&whole.packets, &pieces.packets);
        prop_assert_eq!(&whole.damage, &pieces.damage);
        decode_with(&mut Decoder::live(), &file, chunk);
    }
}
