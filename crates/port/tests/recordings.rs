//! Recordings after a storage fault: what is delivered is as it was recorded, every sound segment
//! is delivered, and what is not is named. `BURSTLINE_SEEDS=10000` tries more than the usual 300.

mod common;

use std::collections::HashSet;

use burstline_port::Loss;
use burstline_wire::files::{
    Counters, InterfaceDescription, PacketToWrite, SectionDescription, SegmentEncoder,
};
use burstline_wire::hash::HashKind;
use burstline_wire::headers::LinkType;
use common::*;

const S: usize = 4096;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit
    }
}

/// A recording by segments, and which packets each of them has.
struct Recording {
    segments: Vec<Vec<u8>>,
    packets: Vec<Vec<Vec<u8>>>,
}

fn put(encoder: &mut SegmentEncoder, segment: &mut [u8], bytes: &[u8], time_ns: u64) -> bool {
    encoder.push(segment, &PacketToWrite::new(bytes, time_ns)).unwrap()
}

/// Sections and blocks, as an attacker would send them: whole and with sound lengths.
fn forged() -> Vec<u8> {
    let mut encoder = SegmentEncoder::new(S, LinkType::ETHERNET, 0, HashKind::None, 0);
    let mut segment = vec![0; S];
    let interface = InterfaceDescription::new(LinkType::ETHERNET, "forged");
    encoder.header(&mut segment, &SectionDescription::default(), &[interface]).unwrap();
    let end = (0..S).step_by(4).find(|&at| segment[at..at + 4] == 0x8000_0001_u32.to_le_bytes());
    let mut bytes = segment[..end.unwrap()].to_vec();
    encoder.advance();
    for number in 0..3 {
        assert!(put(&mut encoder, &mut segment, &[0xFA; 60], number));
    }
    bytes.extend(&segment[..3 * 92]);
    bytes
}

fn record(random: &mut Random, packets: u64) -> Recording {
    let mut encoder = SegmentEncoder::new(S, LinkType::ETHERNET, 0, HashKind::None, 0);
    let mut segment = vec![0; S];
    let interface = InterfaceDescription::new(LinkType::ETHERNET, "eth0");
    encoder.header(&mut segment, &SectionDescription::default(), &[interface]).unwrap();
    let mut made = Recording { segments: vec![segment.clone()], packets: vec![Vec::new()] };
    encoder.advance();
    let (forged, mut own) = (forged(), Vec::new());
    for number in 0..packets {
        let mut bytes = vec![random.below(256) as u8; 60 + random.below(400)];
        if random.below(20) == 0 {
            bytes = forged.clone();
        }
        bytes.extend(number.to_le_bytes());
        if !put(&mut encoder, &mut segment, &bytes, number) {
            encoder.finish(&mut segment, &[0; 8]);
            made.segments.push(segment.clone());
            made.packets.push(std::mem::take(&mut own));
            encoder.advance();
            assert!(put(&mut encoder, &mut segment, &bytes, number));
        }
        own.push(bytes);
    }
    for last in [false, true] {
        if last {
            let counters = Counters { delivered: Some(packets), ..Counters::default() };
            assert!(encoder.push_statistics(&mut segment, 0, 1, &counters).unwrap());
        }
        encoder.finish(&mut segment, &[0; 8]);
        made.segments.push(segment.clone());
        made.packets.push(std::mem::take(&mut own));
        encoder.advance();
    }
    made
}

/// What came of a file.
struct Read {
    packets: Vec<Vec<u8>>,
    corrupt: u64,
    missing: u64,
    is_damaged: bool,
    closes: bool,
    notes: Vec<String>,
}

fn read(folder: &Folder, file: &[u8]) -> Read {
    let mut port = open_file(&folder.file("recording", file));
    let packets: Vec<_> =
        drain_by_lending(&mut *port, u64::MAX).into_iter().map(|packet| packet.bytes).collect();
    let account = port.account();
    Read {
        corrupt: account.lost.of(Loss::Corrupt),
        missing: account.lost.of(Loss::MissingSegments),
        is_damaged: account.is_damaged,
        closes: account.offered == packets.len() as u64 + account.lost.total(),
        packets,
        notes: account.notes,
    }
}

/// What the file has at the end of `fault`; which segments are whole and in it.
fn damage(random: &mut Random, file: &mut Vec<Vec<u8>>) -> (&'static str, HashSet<usize>) {
    let last = file.len() - 1;
    let at = 1 + random.below(last - 1);
    let mut sound: HashSet<usize> = (0..=last).collect();
    let fault = ["flip", "zero512", "zero4096", "removed", "swapped", "cut", "torn"];
    let fault = fault[random.below(fault.len())];
    match fault {
        "flip" => {
            let bit = random.below(8 * S);
            file[at][bit / 8] ^= 1 << (bit % 8);
            sound.remove(&at);
        }
        "zero512" | "torn" => {
            let from = 512 * random.below(8);
            let before = file[at].clone();
            let end = if fault == "torn" { S } else { from + 512 };
            file[at][from..end].fill(0);
            if before != file[at] {
                sound.remove(&at);
            }
        }
        "zero4096" => {
            file[at].fill(0);
            sound.remove(&at);
        }
        "removed" => {
            let count = 1 + random.below(3.min(last - at));
            file.drain(at..at + count);
            (at..at + count).for_each(|gone| _ = sound.remove(&gone));
        }
        "swapped" if at + 1 < last => file.swap(at, at + 1),
        _ => {
            file.truncate(at + 1);
            (at + 1..=last).for_each(|gone| _ = sound.remove(&gone));
        }
    }
    (fault, sound)
}

#[test]
fn no_seed_delivers_what_was_not_recorded_and_none_loses_a_sound_segment() {
    let folder = Folder::new();
    let seeds = std::env::var("BURSTLINE_SEEDS").ok().and_then(|text| text.parse().ok());
    let seeds: u64 = seeds.unwrap_or(300);
    let (mut delivered, mut named, mut faults) = (0, 0, 0);
    for seed in 1..=seeds {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let packets = 60 + random.below(60) as u64;
        let made = record(&mut random, packets);
        let whole = made.segments.concat();
        let mut segments = made.segments.clone();
        let (fault, sound) = damage(&mut random, &mut segments);
        let file = segments.concat();
        let got = read(&folder, &file);
        let said = format!("seed {seed}, {fault}: {:?}", got.notes);
        let recorded: HashSet<_> = made.packets.iter().flatten().collect();
        let seen: HashSet<_> = got.packets.iter().collect();
        assert_eq!(seen.len(), got.packets.len(), "twice: {said}");
        assert!(seen.is_subset(&recorded), "made up or changed: {said}");
        let kept = sound.iter().flat_map(|&at| &made.packets[at]);
        assert!(kept.clone().all(|packet| seen.contains(packet)), "lost: {said}");
        // A bit in the room between blocks and worklist costs no packet.
        assert!(kept.count() <= got.packets.len(), "{said}");
        assert!(got.closes, "{said}");
        assert_eq!(got.is_damaged, file != whole, "{said}");
        if sound.contains(&(made.segments.len() - 1)) {
            let lost = packets - got.packets.len() as u64;
            assert_eq!(got.corrupt + got.missing, lost, "{said}");
            assert_eq!(got.missing > 0, fault == "removed" && lost > 0, "{said}");
        }
        delivered += got.packets.len();
        named += got.corrupt + got.missing;
        faults += u64::from(file != whole);
    }
    println!(
        "{seeds} seeds, {faults} faults: {delivered} packets delivered, 0 forged or changed, \
         {named} named as corrupt or missing, no sound segment lost"
    );
}

#[test]
fn a_forged_section_and_one_flipped_bit_lose_one_segment_of_sixty_thousand_packets() {
    let folder = Folder::new();
    let made = record(&mut Random(7), 60_000);
    let at = made.segments.len() / 2;
    let held = made.packets[at].len();
    let start = at * S;
    for (byte, bit) in [(4, 7), (5, 1), (20, 3), (0, 2), (100, 0)] {
        let mut file = made.segments.concat();
        file[start + byte] ^= 1 << bit;
        let got = read(&folder, &file);
        assert_eq!(got.packets.len(), 60_000 - held, "{:?}", got.notes);
        assert_eq!((got.corrupt, got.missing), (held as u64, 0), "{:?}", got.notes);
        assert!(got.is_damaged && got.closes);
    }
}

#[test]
fn a_broken_segment_before_a_cut_tail_leaves_nothing_unaccounted() {
    let folder = Folder::new();
    let made = record(&mut Random(3), 200);
    let at = made.segments.len() / 2;
    let mut file = made.segments[..=at].concat();
    file[at * S + 100] ^= 1;
    file.extend(&made.segments[at + 1][..S / 2]);
    let got = read(&folder, &file);
    let before: usize = made.packets[..at].iter().map(Vec::len).sum();
    assert!(got.packets.len() > before, "the tail's whole packets: {:?}", got.notes);
    let corrupt = made.packets[at].len() as u64;
    assert_eq!((got.corrupt, got.missing), (corrupt, 0), "{:?}", got.notes);
    assert!(got.closes && got.is_damaged, "{:?}", got.notes);
}

#[test]
fn numbers_that_no_packet_can_have_break_their_segment() {
    let folder = Folder::new();
    let made = record(&mut Random(5), 200);
    let mut encoder = SegmentEncoder::new(S, LinkType::ETHERNET, 0, HashKind::None, u64::MAX - 10);
    let mut segment = vec![0; S];
    let interface = InterfaceDescription::new(LinkType::ETHERNET, "eth0");
    encoder.header(&mut segment, &SectionDescription::default(), &[interface]).unwrap();
    encoder.advance();
    for number in 0..8 {
        assert!(put(&mut encoder, &mut segment, &[0xFA; 60], number));
    }
    encoder.finish(&mut segment, &[0; 8]);
    let file = [&made.segments[0], &segment, &made.segments[2]].map(Vec::as_slice).concat();
    let got = read(&folder, &file);
    assert!(got.packets == made.packets[2], "{} packets: {:?}", got.packets.len(), got.notes);
    assert_eq!((got.corrupt, got.missing), (made.packets[1].len() as u64, 0), "{:?}", got.notes);
    assert!(got.closes && got.is_damaged, "{:?}", got.notes);
}
