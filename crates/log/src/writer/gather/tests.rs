use super::*;
use crate::writer::batch::tests::log_by;
use crate::{Handoff, Reader, Scratch};

/// All properties of a packet.
type Seen = (Vec<u8>, u64, u32, u8, Flags);

/// Returns all packets in the log.
fn seen(reader: &mut Reader) -> Vec<Seen> {
    let mut all = Vec::new();
    while reader.lag() > 0 {
        if reader.is_quiet() {
            continue;
        }
        let Some(burst) = reader.next_burst() else { break };
        all.extend(burst.packets().map(|packet| {
            assert_eq!(packet.original_length(), packet.length());
            let (bytes, desc) = (packet.bytes().to_vec(), packet.desc());
            (bytes, packet.time_ns(), desc.hash(), desc.port(), desc.flags())
        }));
    }
    all
}

/// A source's packets, of many lengths; back to back, as in a log, if `is_tight`.
struct Packets {
    bytes: Vec<u8>,
    scratch: Scratch,
    expected: Vec<Seen>,
}

fn packets(number: u8, count: usize, is_tight: bool) -> Packets {
    let (mut bytes, mut scratch, mut expected) = (Vec::new(), Scratch::new(), Vec::new());
    for index in 0..count {
        let length = (index * 37 + usize::from(number) * 11) % 300;
        let start = bytes.len();
        bytes.extend((0..length).map(|at| (at * 3 + index) as u8 ^ number));
        bytes.resize(align_up(bytes.len()), 0xee);
        if !is_tight && index % 3 == 1 {
            bytes.extend([0xdd; 16]);
        }
        let mut meta = Meta::new(5_000 + index as u64 * 7, length as u32, number);
        meta.hash = index as u32 * 77;
        meta.flags = if index % 5 == 2 { Flags::OUTGOING } else { Flags::NONE };
        scratch.push(start as u32, length as u32, &meta);
        let packet = bytes[start..start + length].to_vec();
        expected.push((packet, meta.time_ns, meta.hash, number, meta.flags));
    }
    Packets { bytes, scratch, expected }
}

const COUNT: usize = 300;
const OFFSETS_NS: [i64; 3] = [0, -3_000, 1 << 33];

/// Gathers everything in the order of `choose` and compares it with the expected packets.
fn in_order(handoff: Handoff, choose: impl Fn(usize) -> usize) {
    let (mut writer, mut reader) = log_by(handoff);
    let sources = [packets(0, COUNT, true), packets(1, COUNT, false), packets(2, COUNT, true)];
    let bursts = sources.each_ref().map(|source| source.scratch.burst(&source.bytes, 0));
    let order: Vec<u64> = (0..COUNT).map(|at| choose(at) as u64 | (at as u64) << 16).collect();
    let mut strands: Vec<Strand<'_>> = (bursts.iter().zip(OFFSETS_NS))
        .map(|(burst, offset_ns)| Strand::new(burst, 0, COUNT, offset_ns).unwrap())
        .collect();
    let (mut next, mut all, mut expected) = ([0; 3], Vec::new(), Vec::new());
    for part in order.chunks(41) {
        for key in part {
            let source = usize::from(*key as u16);
            let mut packet = sources[source].expected[next[source]].clone();
            packet.1 = packet.1.checked_add_signed(OFFSETS_NS[source]).unwrap();
            next[source] += 1;
            // A packet that is far in time has facts.
            packet.4 = packet.4.without(Flags::FACTS);
            expected.push(packet);
        }
        assert_eq!(writer.gather(&mut strands, part), part.len());
        writer.publish();
        all.extend(seen(&mut reader));
    }
    all.iter_mut().for_each(|packet| packet.4 = packet.4.without(Flags::FACTS));
    assert_eq!(all, expected);
    assert!(strands.iter().zip(next).all(|(strand, taken)| strand.left() == COUNT - taken));
    let bytes: usize = expected.iter().map(|packet| packet.0.len()).sum();
    let statistics = writer.statistics();
    assert_eq!((statistics.packets, statistics.bytes), (COUNT as u64, bytes as u64));
}

#[test]
fn packets_come_in_the_order_that_is_given_and_unchanged() {
    for handoff in [Handoff::Near, Handoff::Far] {
        in_order(handoff, |at| at * at / 5 % 3);
        if cfg!(miri) {
            continue; // the others would take minutes
        }
        in_order(handoff, |at| at * 7 % 2);
        in_order(handoff, |at| at / 40 % 2);
    }
}

#[test]
fn a_run_is_what_its_packets_are_one_by_one() {
    for (handoff, is_tight) in
        [Handoff::Near, Handoff::Far].into_iter().flat_map(|way| [(way, true), (way, false)])
    {
        if cfg!(miri) && is_tight != (handoff == Handoff::Near) {
            continue; // half of them take minutes under miri
        }
        let (mut writer, mut reader) = log_by(handoff);
        let source = packets(3, COUNT, is_tight);
        let burst = source.scratch.burst(&source.bytes, 0);
        let (mut all, mut from) = (Vec::new(), 0);
        for count in [1, 0, 2, 33, 7, 60, 60, 64, 73] {
            let mut strand = Strand::new(&burst, from, count, 5).unwrap();
            assert_eq!(writer.gather_run(&mut strand, count + 9), count);
            writer.publish();
            all.extend(seen(&mut reader));
            from += count;
        }
        let mut expected = source.expected.clone();
        expected.iter_mut().for_each(|packet| packet.1 += 5);
        assert_eq!(from, COUNT);
        assert_eq!(all, expected, "{handoff:?} {is_tight}");
    }
}

#[test]
fn what_is_not_plain_or_not_there_is_no_strand() {
    let bytes = [7; 2_000];
    let strand_of = |meta: Meta, offset: u32| {
        let mut scratch = Scratch::new();
        scratch.push(0, 60, &Meta::new(1, 60, 0));
        scratch.push(offset, 60, &meta);
        let burst = scratch.burst(&bytes, 0);
        assert!(Strand::new(&burst, 0, 3, 0).is_none() && Strand::new(&burst, 3, 0, 0).is_none());
        assert_eq!(Strand::new(&burst, 0, 1, 0).unwrap().left(), 1);
        Strand::new(&burst, 1, 1, 0).is_some()
    };
    let meta = Meta::new(2, 60, 0);
    assert!(strand_of(meta, 1_940) && !strand_of(meta, 1_941) && !strand_of(meta, u32::MAX));
    assert!(!strand_of(Meta { original_length: 61, ..meta }, 64));
    assert!(!strand_of(Meta { drops_before: 1, ..meta }, 64));
}

#[test]
fn a_full_log_and_a_key_of_nobody_end_it() {
    let (mut writer, mut reader) = log_by(Handoff::Near);
    let source = packets(0, 1_000, true);
    let burst = source.scratch.burst(&source.bytes, 0);
    let strand = Strand::new(&burst, 0, 1_000, 0).unwrap();
    let mut strands = [Strand::empty(), strand];
    assert_eq!(writer.gather(&mut strands, &[1, 1, 0, 1]), 2);
    assert_eq!(writer.gather(&mut strands, &[1, 2, 1]), 1);
    let taken = 3 + writer.gather(&mut strands, &[1; 2_000]);
    assert!((50..999).contains(&taken) && strands[1].left() == 1_000 - taken);
    assert_eq!(writer.gather_run(&mut strands[1], 10), 0);
    writer.publish();
    let mut all = seen(&mut reader);
    let rest = 1_000 - taken;
    while strands[1].left() > 0 {
        assert!(writer.gather_run(&mut strands[1], rest) > 0);
        writer.publish();
        all.extend(seen(&mut reader));
    }
    assert_eq!(all, source.expected);
}
