//! Skips segments by their trailers, and parts of plain files by known offsets.

use crate::build::*;
use burstline_wire::files::{
    Counters, Decoder, InterfaceDescription, PacketToWrite, SectionDescription, SegmentAhead,
    SegmentEncoder, SegmentIndex, Sketch, Step, Trailer, Trust,
};
use burstline_wire::hash::HashKind;
use burstline_wire::headers::LinkType;

const S: usize = 4096;

/// Returns a recording of packets one second apart; every tenth has the hash 7.
fn recording(packets: u64) -> Vec<u8> {
    let kind = HashKind::FiveTuple;
    let mut encoder = SegmentEncoder::new(S, LinkType::ETHERNET, 0, kind, 0);
    let (mut segment, mut file) = (vec![0; S], Vec::new());
    let interface = InterfaceDescription::new(LinkType::ETHERNET, "eth0");
    encoder.header(&mut segment, &SectionDescription::default(), &[interface]).unwrap();
    for number in 0..=packets {
        let hash = Some(if number % 10 == 0 { 7 } else { 1000 + number as u32 });
        let bytes = [number as u8; 500];
        let packet = PacketToWrite { hash, ..PacketToWrite::new(&bytes, number * 1_000_000_000) };
        let is_full = number == 0 || !encoder.push(&mut segment, &packet).unwrap();
        if is_full {
            if number > 0 {
                encoder.finish(&mut segment, &[0; 8]);
            }
            file.extend(&segment);
            encoder.advance();
            assert!(number == 0 || encoder.push(&mut segment, &packet).unwrap());
        }
    }
    encoder.close();
    while !encoder.push_statistics(&mut segment, 0, 1, &Counters::default()).unwrap() {
        encoder.finish(&mut segment, &[0; 8]);
        file.extend(&segment);
        encoder.advance();
    }
    encoder.finish(&mut segment, &[0; 8]);
    file.extend(&segment);
    file
}

/// Reads a file slot by slot and skips those that `is_wanted` rejects. Returns the seconds of the
/// packets read, and how many were skipped.
fn read(file: &[u8], is_wanted: impl Fn(&Trailer, &[u8]) -> bool) -> (Vec<u64>, u64) {
    let (mut decoder, mut packets, mut passed) = (Decoder::new(), Vec::new(), 0);
    let (mut start, mut position) = (0, 0);
    loop {
        if let Some(ahead) = decoder.segment_ahead() {
            assert_eq!(ahead.offset % S as u64, 0);
            let tail = file.get(ahead.tail_offset() as usize..).unwrap_or_default();
            let tail = tail.get(..SegmentAhead::TAIL_BYTES).unwrap_or_default();
            // The last segment has the closing counts.
            let is_last = ahead.offset as usize + 2 * S > file.len();
            if let Some(trailer) = decoder.trailer_ahead(tail).filter(|_| !is_last) {
                let place = ahead.summary(&trailer);
                if !is_wanted(&trailer, &file[place.start as usize..place.end as usize]) {
                    passed += u64::from(trailer.packets);
                    decoder.pass_segment(&trailer);
                    (start, position) = (decoder.file_offset() as usize, 0);
                    continue;
                }
            }
        }
        let end = (start + S).min(file.len());
        match decoder.next(&file[start..end], &mut position, end == file.len()) {
            Step::Packet(record) => {
                assert_eq!(decoder.trust(), Trust::Checked);
                packets.push(record.time_ns / 1_000_000_000);
            }
            Step::NeedMore { .. } => (start, position) = (start + position, 0),
            Step::End => return (packets, passed),
            step => panic!("{step:?}"),
        }
    }
}

#[test]
fn segments_are_passed_by_their_times_and_hashes() {
    let file = recording(100);
    let (all, none) = read(&file, |_, _| true);
    assert_eq!((all, none), ((1..=100).collect(), 0));
    let (some, passed) = read(&file, |trailer, _| trailer.latest_ns >= 90_000_000_000);
    assert!(some.len() < 25 && some.ends_with(&[98, 99, 100]), "{some:?}");
    assert_eq!(some.len() as u64 + passed, 100);
    let (hashed, _) = read(&file, |trailer, sketch| SegmentAhead::may_hold(trailer, sketch, 7));
    assert!((10..=100).step_by(10).all(|second| hashed.contains(&second)), "{hashed:?}");
    assert!(hashed.len() < 100);
    let (nobody, passed) =
        read(&file, |trailer, sketch| SegmentAhead::may_hold(trailer, sketch, 8));
    assert!(nobody.len() < 8 && nobody.len() as u64 + passed == 100, "{nobody:?}");
}

#[test]
fn the_last_segment_has_the_flows_of_the_file_and_the_others_only_theirs() {
    // However full the last segment is, which decides whether another one is needed.
    for packets in 80..90 {
        let file = recording(packets);
        let mut segments: Vec<SegmentIndex<'_>> =
            file.chunks(S).map(|segment| SegmentIndex::parse(segment).unwrap()).collect();
        let last = segments.pop().unwrap().file_sketch().expect("a sketch of the file");
        let hashes = (1..=packets as u32).filter(|number| number % 10 > 0);
        for hash in hashes.map(|number| 1000 + number).chain([7]) {
            assert!(Sketch::may_hold(last, hash), "{packets}: {hash}");
        }
        let others = (5000..15_000).filter(|&other| Sketch::may_hold(last, other)).count();
        assert!(others < 50, "{packets}: {others} of 10000");
        assert!(segments.iter().all(|segment| segment.file_sketch().is_none()), "{packets}");
    }
}

#[test]
fn a_trailer_that_is_not_the_next_one_is_not_believed() {
    let whole = recording(100);
    // Sequence, first packet, size, packets, interfaces, latest time.
    for field in [24, 32, 13, 18, 128, 63] {
        let mut file = whole.clone();
        let trailer = 4 * S - 144;
        file[trailer + field] ^= 0x40;
        let mut decoder = Decoder::new();
        let mut position = 0;
        while decoder.segment_ahead().is_none() {
            decoder.next(&file[..3 * S], &mut position, false);
        }
        let tail = |file: &[u8]| decoder.trailer_ahead(&file[trailer..4 * S]).is_some();
        assert!(tail(&whole), "the one that is");
        assert!(!tail(&file), "{field}");
    }
}

#[test]
fn a_plain_file_is_gone_on_with_at_a_record() {
    for order in ORDERS {
        let mut file = pcap_header(order, 0xA1B2_C3D4, 1);
        let mut starts = Vec::new();
        for number in 0..20 {
            starts.push(file.len());
            let seconds = 1_700_000_000 + number;
            file.extend(pcap_record(order, seconds, 0, &payload(number, 60), 60));
        }
        let (mut decoder, mut position) = (Decoder::new(), 0);
        assert!(matches!(decoder.next(&file, &mut position, true), Step::Packet(_)));
        assert!(decoder.jump(starts[15] as u64));
        position = starts[15];
        let Step::Packet(record) = decoder.next(&file, &mut position, true) else { panic!() };
        assert_eq!(record.time_ns, 1_700_000_015_000_000_000);
        assert_eq!(decoder.file_offset(), starts[16] as u64);
    }
    let mut segmented = Decoder::new();
    segmented.next(&recording(9), &mut 0, true);
    assert!(!segmented.jump(4096), "segments are passed one by one");
}
