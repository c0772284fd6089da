//! Recordings after a storage fault: delivered packets are as recorded, every valid segment is
//! delivered, and all other packets are counted as lost. `BURSTLINE_SEEDS=10000` tests more than
//! the default 300, `BURSTLINE_SEEDS=10001-20000` others. Every second recording has flow hashes.

mod common;

use std::collections::{BTreeMap, HashSet};
use std::fs::File;

use burstline_port::{Loss, OpenOptions, PortError};
use burstline_skip::ledger;
use burstline_wire::files::{
    Counters, InterfaceDescription, PacketToWrite, SectionDescription, SegmentEncoder,
};
use burstline_wire::hash::HashKind;
use burstline_wire::headers::LinkType;
use common::*;

const S: usize = 8192;

/// Size of the segments that an attacker sends: whole, in one packet.
const FORGED: usize = 4096;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit
    }
}

/// A segmented recording, with the packets of each segment.
struct Recording {
    segments: Vec<Vec<u8>>,
    packets: Vec<Vec<Vec<u8>>>,
}

fn put(encoder: &mut SegmentEncoder, segment: &mut [u8], bytes: &[u8], time_ns: u64) -> bool {
    let packet = PacketToWrite::new(bytes, time_ns);
    encoder.push(segment, &PacketToWrite { hash: Some(time_ns as u32), ..packet }).unwrap()
}

/// Returns sections and blocks as an attacker would send them: whole and with valid lengths.
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

/// Returns a whole segment with a correct checksum.
fn forged_segment() -> Vec<u8> {
    let mut encoder = SegmentEncoder::new(FORGED, LinkType::ETHERNET, 0, HashKind::None, 0);
    let mut segment = vec![0; FORGED];
    let interface = InterfaceDescription::new(LinkType::ETHERNET, "forged");
    encoder.header(&mut segment, &SectionDescription::default(), &[interface]).unwrap();
    encoder.advance();
    for number in 0..9 {
        assert!(put(&mut encoder, &mut segment, &[0xFB; 60], number));
    }
    encoder.finish(&mut segment, &[0; 8]);
    segment
}

fn record(random: &mut Random, packets: u64, hash: HashKind) -> Recording {
    let mut encoder = SegmentEncoder::new(S, LinkType::ETHERNET, 0, hash, 0);
    let mut segment = vec![0; S];
    let interface = InterfaceDescription::new(LinkType::ETHERNET, "eth0");
    encoder.header(&mut segment, &SectionDescription::default(), &[interface]).unwrap();
    let mut made = Recording { segments: vec![segment.clone()], packets: vec![Vec::new()] };
    encoder.advance();
    let (forged, mut own) = ([forged(), forged_segment()], Vec::new());
    for number in 0..packets {
        let mut bytes = vec![random.below(256) as u8; 60 + random.below(400)];
        if random.below(20) == 0 {
            bytes = forged[random.below(2)].clone();
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

/// The result of reading a file.
struct Read {
    packets: Vec<Vec<u8>>,
    corrupt: u64,
    missing: u64,
    is_damaged: bool,
    closes: bool,
    notes: Vec<String>,
}

fn read(folder: &Folder, file: &[u8]) -> Read {
    let path = folder.file("recording", file);
    let opened = source(&format!("file:{}", path.display()), &OpenOptions::default());
    let mut port = match opened {
        Ok(port) => port,
        // Without a header and any valid segment it cannot be recognised.
        Err(error @ PortError::NotACapture { .. }) => {
            return Read {
                packets: Vec::new(),
                corrupt: 0,
                missing: 0,
                is_damaged: true,
                closes: true,
                notes: vec![error.to_string()],
            };
        }
        Err(error) => panic!("{error}"),
    };
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

/// Possible storage faults of a file.
const FAULTS: [&str; 11] = [
    "flip",
    "zeroed 512",
    "zeroed 4096",
    "torn 512",
    "torn 4096",
    "removed",
    "swapped",
    "cut",
    "misdirected",
    "header flip",
    "header zeroed",
];

/// Applies one of [`FAULTS`] to a file, whose segments have their original numbers. A torn segment
/// is completed with older bytes of the storage: those of another segment, or none.
fn damage(random: &mut Random, file: &mut Vec<(usize, Vec<u8>)>) -> &'static str {
    let last = file.len() - 1;
    let at = 1 + random.below(last - 1);
    let fault = FAULTS[random.below(FAULTS.len())];
    let piece = if fault.ends_with("4096") { 4096 } else { 512 };
    match fault {
        "flip" | "header flip" => {
            let (at, bit) = (if fault == "flip" { at } else { 0 }, random.below(8 * S));
            file[at].1[bit / 8] ^= 1 << (bit % 8);
        }
        "header zeroed" => {
            let from = 512 * random.below(S / 512);
            let end = if random.below(2) == 0 { S } else { from + 512 };
            let from = if end == S { 0 } else { from };
            file[0].1[from..end].fill(0);
        }
        "zeroed 512" | "zeroed 4096" | "torn 512" | "torn 4096" => {
            let from = at * S + 512 * random.below(S / 512);
            let older = if fault.starts_with("torn") { 1 + random.below(last) } else { 0 };
            for offset in (from..from + piece).filter(|offset| offset / S <= last) {
                let old = if older > 0 { file[older].1[offset % S] } else { 0 };
                file[offset / S].1[offset % S] = old;
            }
        }
        "removed" => {
            let count = 1 + random.below(3.min(last - at));
            file.drain(at..at + count);
        }
        "swapped" => file.swap(at, 1 + (at % (last - 1))),
        "misdirected" => file[at] = file[1 + random.below(last)].clone(),
        _ => file.truncate(at + 1),
    }
    fault
}

/// Compares the packets read from a damaged recording with the original.
fn judge(made: &Recording, file: &[(usize, Vec<u8>)], got: &Read, said: &str) {
    let recorded: HashSet<_> = made.packets.iter().flatten().collect();
    let seen: HashSet<_> = got.packets.iter().collect();
    assert_eq!(seen.len(), got.packets.len(), "twice: {said}");
    assert!(seen.is_subset(&recorded), "made up or changed: {said}");
    // Valid segments are those that are present and unchanged.
    let is_sound = |(number, bytes): &&(usize, Vec<u8>)| *bytes == made.segments[*number];
    let sound: HashSet<usize> = file.iter().filter(is_sound).map(|(number, _)| *number).collect();
    let kept = sound.iter().flat_map(|&at| &made.packets[at]);
    assert!(kept.clone().all(|packet| seen.contains(packet)), "lost: {said}");
    assert!(kept.count() <= got.packets.len(), "{said}");
    assert!(got.closes, "{said}");
    let whole: Vec<&[u8]> = made.segments.iter().map(Vec::as_slice).collect();
    let is_whole = file.iter().map(|(_, bytes)| bytes.as_slice()).eq(whole);
    assert_eq!(got.is_damaged, !is_whole, "{said}");
    // Segments after all damage give the numbers of packets lost before them.
    let last = made.segments.len() - 1;
    let ends_sound =
        file.last().is_some_and(|(number, _)| *number == last) && sound.contains(&last);
    if ends_sound {
        let lost = (recorded.len() - got.packets.len()) as u64;
        assert_eq!(got.corrupt + got.missing, lost, "{said}");
    }
}

/// Seeds that found a bug: a late segment in place of two, whose sizes were a guess.
const FOUND: [u64; 1] = [7527];

#[test]
fn no_seed_delivers_what_was_not_recorded_and_none_loses_a_sound_segment() {
    let folder = Folder::new();
    let asked = std::env::var("BURSTLINE_SEEDS").unwrap_or_else(|_| "300".to_owned());
    let (first, last) = asked.split_once('-').unwrap_or(("1", &asked));
    let (first, last): (u64, u64) = (first.parse().unwrap(), last.parse().unwrap());
    let (mut recorded, mut delivered, mut corrupt, mut missing, mut damaged) = (0, 0, 0, 0, 0);
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in (first..=last).chain(FOUND) {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let packets = 120 + random.below(120) as u64;
        let hash = if seed % 2 == 0 { HashKind::FiveTuple } else { HashKind::None };
        let made = record(&mut random, packets, hash);
        let mut file: Vec<_> = made.segments.iter().cloned().enumerate().collect();
        let mut faults = vec![damage(&mut random, &mut file)];
        // Every third file is damaged twice.
        if seed % 3 == 0 && file.len() > 3 {
            faults.push(damage(&mut random, &mut file));
        }
        let bytes = file.iter().flat_map(|(_, bytes)| bytes.clone()).collect::<Vec<u8>>();
        let got = read(&folder, &bytes);
        judge(&made, &file, &got, &format!("seed {seed}, {faults:?}: {:?}", got.notes));
        faults.iter().for_each(|fault| *counts.entry(fault).or_default() += 1);
        recorded += packets;
        delivered += got.packets.len() as u64;
        corrupt += got.corrupt;
        missing += got.missing;
        damaged += u64::from(got.is_damaged);
    }
    let named = corrupt + missing;
    println!(
        "seeds {first} to {last}: {recorded} packets recorded, {delivered} delivered, {named} \
         named as corrupt or missing, 0 forged or changed, no sound segment lost; {damaged} files \
         damaged by {counts:?}"
    );
    // These are after the last valid segment of a file: no reader can know of them.
    let cut = recorded - delivered - named;
    ledger(
        recorded,
        delivered,
        &[("corrupt", corrupt), ("missing_segments", missing), ("cut", cut)],
    );
}

#[test]
fn a_forged_section_and_one_flipped_bit_lose_one_segment_of_sixty_thousand_packets() {
    let folder = Folder::new();
    let made = record(&mut Random(7), 60_000, HashKind::None);
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
    let made = record(&mut Random(3), 200, HashKind::None);
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

/// A recorder has its file locked. One that has died has not.
#[test]
fn a_recording_that_is_still_being_written_is_not_damaged() {
    let folder = Folder::new();
    let made = record(&mut Random(3), 200, HashKind::None);
    let at = made.segments.len() / 2;
    let half = [&made.segments[..=at].concat()[..], &made.segments[at + 1][..S / 2]].concat();
    let mut list = packets(40);
    list.retain(|packet| packet.2 > 0);
    let plain = pcap(0xa1b2_c3d4, false, 1, &list);
    let recorder = File::open(folder.file("recording", b"")).unwrap();
    for (file, what) in
        [(&half[..], "is not closed"), (&plain[..plain.len() - 9], "inside a record")]
    {
        recorder.lock().unwrap();
        let running = read(&folder, file);
        assert!(running.notes.concat().contains(what), "{:?}", running.notes);
        assert!(running.closes && !running.is_damaged, "{:?}", running.notes);
        recorder.unlock().unwrap();
        let broken_off = read(&folder, file);
        assert!(broken_off.closes && broken_off.is_damaged, "{:?}", broken_off.notes);
        assert_eq!(running.packets, broken_off.packets);
    }
    // A flipped bit is damage whoever writes the file.
    let mut flipped = half;
    flipped[S + 100] ^= 1;
    recorder.lock().unwrap();
    assert!(read(&folder, &flipped).is_damaged);
}

#[test]
fn numbers_that_no_packet_can_have_break_their_segment() {
    let folder = Folder::new();
    let made = record(&mut Random(5), 200, HashKind::None);
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
