//! Damaged recordings in a row: no packet of the second one gets an interface of the first one.

use crate::build::*;
use burstline_wire::files::{
    Counters, Decoder, InterfaceDescription, PacketToWrite, SectionDescription, SegmentEncoder,
    SegmentIndex, Trailer,
};
use burstline_wire::hash::HashKind;
use burstline_wire::headers::LinkType;

const S: usize = 4096;

/// Bytes of a packet, and of its block.
const PACKET: usize = 60;
const BLOCK: usize = PACKET + 32;

/// Packets of a recording: they fill a segment, and a part of the next one.
const PACKETS: usize = 60;

/// The byte that all packets of the first and of the second recording consist of.
const FIRST: u8 = 0xA1;
const SECOND: u8 = 0xB2;

/// Returns a recording of the interface `name`: descriptions, and two segments with packets.
fn recording(name: &str, byte: u8) -> Vec<u8> {
    let file = recording_in(S, name, byte);
    assert_eq!(file.len(), 3 * S);
    file
}

/// Returns a recording in segments of this many bytes.
fn recording_in(segment_bytes: usize, name: &str, byte: u8) -> Vec<u8> {
    let mut encoder = SegmentEncoder::new(segment_bytes, LinkType::ETHERNET, 0, HashKind::None, 0);
    let mut segment = vec![0; segment_bytes];
    let interface = InterfaceDescription::new(LinkType::ETHERNET, name);
    encoder.header(&mut segment, &SectionDescription::default(), &[interface]).unwrap();
    let mut file = segment.clone();
    encoder.advance();
    let data = [byte; PACKET];
    for number in 0..PACKETS as u64 {
        let packet = PacketToWrite::new(&data, number);
        if !encoder.push(&mut segment, &packet).unwrap() {
            encoder.finish(&mut segment, &[0; 8]);
            file.extend(&segment);
            encoder.advance();
            assert!(encoder.push(&mut segment, &packet).unwrap());
        }
    }
    assert!(encoder.push_statistics(&mut segment, 0, 1, &Counters::default()).unwrap());
    encoder.finish(&mut segment, &[0; 8]);
    file.extend(&segment);
    file
}

/// Returns the name of the interface of each packet of this byte.
fn names(file: &[u8], byte: u8, chunk: usize) -> Vec<String> {
    let mut decoder = Decoder::new();
    let decoded = decode_with(&mut decoder, file, chunk);
    assert!(!decoded.damage.is_empty());
    let own = decoded.packets.iter().filter(|packet| packet.bytes == [byte; PACKET]);
    own.map(|packet| decoder.interfaces()[packet.interface as usize].name.clone()).collect()
}

/// The slots of the first one reach over the second one. The last of them is cut, and blocks lead
/// to its end.
#[test]
fn a_recording_between_the_slots_of_another_one_has_none_of_its_interfaces() {
    let first = recording("first", FIRST);
    let whole = recording("second", SECOND);
    let mut headless = whole.clone();
    headless[..12].fill(0);
    for second in [whole, headless] {
        let file = [&first[..S + 30 * BLOCK], &second].concat();
        for chunk in [100, usize::MAX] {
            assert_eq!(names(&file, FIRST, chunk), ["first"; 30]);
            assert_eq!(names(&file, SECOND, chunk), [""; 0]);
        }
    }
}

#[test]
fn a_plain_file_behind_a_torn_slot_has_its_own_interfaces_and_units() {
    let o = Order::Little;
    let named = [option(o, 2, b"second"), option(o, 0, b"")];
    let packet = enhanced(o, 0, 7, &[SECOND; PACKET], PACKET as u32, &[]);
    let plain = [section(o), interface(o, 1, 0, &named), packet.repeat(3)].concat();
    let file = [&recording("first", FIRST)[..S + 2 * BLOCK], &plain].concat();
    assert_eq!(names(&file, FIRST, usize::MAX), ["first"; 2]);
    assert_eq!(names(&file, SECOND, usize::MAX), ["second"; 3]);
    let packets = decode(&file).packets;
    let own = packets.iter().filter(|packet| packet.bytes == [SECOND; PACKET]);
    assert!(own.clone().all(|packet| packet.time_ns == 7_000), "{own:?}");
}

#[test]
fn a_damaged_section_header_begins_its_section() {
    // The first one misses as many packets as the second one has in the same place.
    let mut file = [recording("first", FIRST), recording("second", SECOND)].concat();
    file[S + 40] ^= 1;
    // The length of its block.
    let mut flipped = file.clone();
    flipped[3 * S + 4] ^= 1;
    // All that a reader knows it by.
    file[3 * S..3 * S + 12].fill(0);
    for file in [flipped, file] {
        for chunk in [100, usize::MAX] {
            assert_eq!(names(&file, SECOND, chunk), ["second"; PACKETS]);
        }
    }
}

#[test]
fn a_recording_in_the_last_slot_of_another_one_takes_no_packet_before_it() {
    let first = recording_in(4 * S, "first", FIRST);
    let mut second = recording("second", SECOND);
    second[..12].fill(0);
    let file = [&first[..4 * S + 30 * BLOCK], &second].concat();
    for chunk in [100, usize::MAX] {
        assert_eq!(names(&file, FIRST, chunk), ["first"; 30]);
        assert_eq!(names(&file, SECOND, chunk), [""; 0]);
    }
}

/// Returns the last trailer of a file.
fn trailer(file: &[u8]) -> Vec<u8> {
    file[file.len() - 4 - Trailer::BYTES..file.len() - 4].to_vec()
}

#[test]
fn a_trailer_in_the_last_packet_of_a_file_takes_no_packet() {
    let first = recording("first", FIRST);
    let ending_in = |trailer: &[u8]| {
        let last = enhanced(Order::Little, 0, 7, trailer, trailer.len() as u32, &[]);
        [&first[..S + 20 * BLOCK], &last].concat()
    };
    let mut longer = trailer(&recording_in(2 * S, "other", SECOND));
    for trailer in [&longer, &trailer(&first[..S])] {
        let file = ending_in(trailer);
        for chunk in [100, usize::MAX] {
            assert_eq!(names(&file, FIRST, chunk), ["first"; 20]);
        }
        assert_eq!(decode(&file).packets.last().unwrap().bytes, *trailer);
    }
    // In version 1 anything is a trailer, so it takes no packet behind damage either.
    longer[8] = 1;
    let mut file = ending_in(&longer);
    file[S + 10 * BLOCK + 4] ^= 1;
    assert_eq!(names(&file, FIRST, usize::MAX), ["first"; 19]);
    assert_eq!(decode(&file).packets.last().unwrap().bytes, longer);
}

#[test]
fn a_plain_section_takes_no_interface_of_a_recording_before_it() {
    let o = Order::Little;
    let packet = enhanced(o, 0, 7, &[SECOND; PACKET], PACKET as u32, &[]);
    let plain = [section(o), interface(o, 1, 0, &[]), packet.repeat(3)].concat();
    let mut file = [recording("first", FIRST), plain].concat();
    file[3 * S + section(o).len() + 4] ^= 1;
    for chunk in [100, usize::MAX] {
        assert_eq!(names(&file, FIRST, chunk), ["first"; PACKETS]);
        assert_eq!(names(&file, SECOND, chunk), [""; 0]);
    }
}

/// The packet with the header is lost: the length of its block is damaged.
#[test]
fn a_section_header_in_a_packet_of_a_broken_slot_changes_no_other_slot() {
    let (o, mut file) = (Order::Little, recording("first", FIRST));
    let in_slot = SegmentIndex::parse(&file[S..2 * S]).unwrap().packets() as usize;
    let block = S + 20 * BLOCK;
    file[block + 4] ^= 1;
    let with = |header: &[u8]| {
        let mut file = file.clone();
        file[block + 28..][..header.len()].copy_from_slice(header);
        file
    };
    let header = [section(o), interface(o, 1, 0, &[])].concat();
    let mut file = with(&header);
    assert_eq!(names(&file, FIRST, usize::MAX), ["first"; PACKETS - 1]);
    // Without a trailer, another recording may begin there, until the next slot has one.
    let magic = 2 * S - 4 - Trailer::BYTES;
    file[magic] ^= 1;
    let left = PACKETS - (in_slot - 20);
    assert_eq!(names(&file, FIRST, usize::MAX), vec!["first"; left]);
    // No header: nothing is described behind it, its lengths differ, or it has no room.
    let mut unequal = header.clone();
    unequal[24] ^= 4;
    let mut short = header.clone();
    short[4] = 24;
    for words in [section(o), unequal, short] {
        let mut file = with(&words);
        file[magic] ^= 1;
        assert_eq!(names(&file, FIRST, usize::MAX), ["first"; PACKETS - 1]);
    }
}
