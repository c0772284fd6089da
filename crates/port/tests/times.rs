//! Searches for times in a recording: the result is the same as with a check of each packet, and
//! few segments are read.

mod common;

use burstline_port::{OpenOptions, Selection};
use burstline_wire::files::{
    Counters, InterfaceDescription, PacketToWrite, SectionDescription, SegmentEncoder,
};
use burstline_wire::hash::HashKind;
use burstline_wire::headers::LinkType;
use common::*;

const S: usize = 4096;

/// Offset of the first packet's time in the trailer of a segment.
const BASE_TIME: usize = S - 144 + 40;

/// Creates a recording of packets with these times; about seven per segment.
fn record(times: impl Iterator<Item = u64>) -> Vec<u8> {
    let mut encoder = SegmentEncoder::new(S, LinkType::ETHERNET, 0, HashKind::None, 9);
    let (mut segment, mut file) = (vec![0; S], Vec::new());
    let interface = InterfaceDescription::new(LinkType::ETHERNET, "eth0");
    encoder.header(&mut segment, &SectionDescription::default(), &[interface]).unwrap();
    let mut next = |encoder: &mut SegmentEncoder, segment: &mut [u8]| {
        encoder.finish(segment, &[0; 8]);
        file.extend_from_slice(segment);
        encoder.advance();
    };
    next(&mut encoder, &mut segment);
    for time_ns in times {
        let packet = PacketToWrite::new(&[7; 500], time_ns);
        if !encoder.push(&mut segment, &packet).unwrap() {
            next(&mut encoder, &mut segment);
            assert!(encoder.push(&mut segment, &packet).unwrap());
        }
    }
    encoder.close();
    if !encoder.push_statistics(&mut segment, 0, 1, &Counters::default()).unwrap() {
        next(&mut encoder, &mut segment);
        assert!(encoder.push_statistics(&mut segment, 0, 1, &Counters::default()).unwrap());
    }
    next(&mut encoder, &mut segment);
    file
}

/// Returns times about 10 ns apart, out of order by less than this.
fn times(disorder_ns: u64, packets: u64) -> impl Iterator<Item = u64> {
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    (0..packets).map(move |number| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        1000 + number * 10 + (random >> 33) % disorder_ns.max(1)
    })
}

/// Returns the times of all packets in this range, and whether the file is damaged.
fn read(
    folder: &Folder,
    file: &[u8],
    from_ns: Option<u64>,
    to_ns: Option<u64>,
) -> (Vec<u64>, bool) {
    let path = folder.file("x.pcapng", file);
    let selection = Selection { from_ns, to_ns, ..Selection::default() };
    let options = OpenOptions { selection, ..OpenOptions::default() };
    let mut port = source(&format!("file:{}", path.display()), &options).unwrap();
    let got = drain_by_lending(&mut *port, u64::MAX);
    (got.into_iter().map(|packet| packet.time_ns).collect(), port.account().is_damaged)
}

#[test]
fn windows_have_the_packets_that_a_look_at_each_finds() {
    let folder = Folder::new();
    for disorder_ns in [0, 30, 400, 3000, 100_000] {
        let mut file = record(times(disorder_ns, 1000));
        // Also test a recording whose recorder was killed.
        for cut in [0, S + 1700] {
            file.truncate(file.len() - cut);
            let (all, _) = read(&folder, &file, None, None);
            assert!(all.len() > 980, "{}", all.len());
            for window in 0..60 {
                let from_ns = (window % 7 > 0).then_some(window * 191);
                let to_ns =
                    (window % 5 > 0).then_some(window * 191 + [1, 70, 900][window as usize % 3]);
                let is_wanted = |time: &&u64| {
                    from_ns.is_none_or(|from| **time >= from) && to_ns.is_none_or(|to| **time < to)
                };
                let wanted: Vec<u64> = all.iter().filter(is_wanted).copied().collect();
                let (found, _) = read(&folder, &file, from_ns, to_ns);
                assert_eq!(found, wanted, "{disorder_ns} {cut} {from_ns:?} {to_ns:?}");
            }
        }
    }
}

#[test]
fn segments_far_from_what_is_wanted_are_not_looked_at() {
    let folder = Folder::new();
    let damaged = |order: &dyn Fn(u64) -> u64, segment: usize| {
        let mut file = record((0..3000).map(|number| order(1000 + number * 10)));
        assert!(file.len() > 400 * S);
        file[segment * S + BASE_TIME] ^= 1;
        file
    };
    // The first read of a file returns 64 of these segments.
    let (early, late) = ((Some(29_000), None), (None, Some(7000)));
    for (segment, (from_ns, to_ns)) in [(70, early), (111, early), (200, late), (390, late)] {
        let in_order = damaged(&|time| time, segment);
        assert!(read(&folder, &in_order, None, None).1);
        assert!(!read(&folder, &in_order, from_ns, to_ns).1, "{segment}");
        // The clock was set back: a packet of any time may be anywhere.
        let set_back = |time| if time > 16_000 { time - 16_000 } else { time + 15_000 };
        let set_back = damaged(&set_back, segment);
        assert!(read(&folder, &set_back, from_ns, to_ns).1, "{segment}");
    }
}
