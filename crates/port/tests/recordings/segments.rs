//! Segments after faults of the storage, one or two each.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;

use burstline_skip::ledger;
use burstline_wire::hash::HashKind;

use crate::common::{Folder, packets, pcap};
use crate::made::*;
use crate::seeds;

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
    let (last, size) = (file.len() - 1, file[0].1.len());
    let at = 1 + random.below(last - 1);
    let fault = FAULTS[random.below(FAULTS.len())];
    let piece = if fault.ends_with("4096") { 4096 } else { 512 };
    match fault {
        "flip" | "header flip" => {
            let at = if fault == "flip" { at } else { 0 };
            // The first bytes of a long header would be hit too seldom.
            let is_first = at == 0 && size > S && random.below(2) == 0;
            let bit = random.below(8 * if is_first { 8 } else { size });
            file[at].1[bit / 8] ^= 1 << (bit % 8);
        }
        "header zeroed" => {
            let from = 512 * random.below(size / 512);
            let end = if random.below(2) == 0 { size } else { from + 512 };
            let from = if end == size { 0 } else { from };
            file[0].1[from..end].fill(0);
        }
        "zeroed 512" | "zeroed 4096" | "torn 512" | "torn 4096" => {
            let from = at * size + 512 * random.below(size / 512);
            let older = if fault.starts_with("torn") { 1 + random.below(last) } else { 0 };
            for offset in (from..from + piece).filter(|offset| offset / size <= last) {
                let old = if older > 0 { file[older].1[offset % size] } else { 0 };
                file[offset / size].1[offset % size] = old;
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

/// What came of some seeds.
#[derive(Default)]
struct Sum {
    recorded: u64,
    delivered: u64,
    corrupt: u64,
    missing: u64,
    damaged: u64,
    faults: BTreeMap<&'static str, u64>,
}

/// Records, damages, reads and judges a recording for each seed.
fn try_seeds(seeds: impl Iterator<Item = u64>, segment_bytes: usize) -> Sum {
    let (folder, mut sum) = (Folder::new(), Sum::default());
    for seed in seeds {
        let mut random = Random::of_seed(seed);
        let few = if segment_bytes == S { 120 } else { 600 };
        let packets = (few + random.below(few)) as u64;
        let hash = if seed % 2 == 0 { HashKind::FiveTuple } else { HashKind::None };
        let made = record(&mut random, packets, hash, segment_bytes);
        let mut file: Vec<_> = made.segments.iter().cloned().enumerate().collect();
        let mut faults = vec![damage(&mut random, &mut file)];
        // Every third file is damaged twice.
        if seed % 3 == 0 && file.len() > 3 {
            faults.push(damage(&mut random, &mut file));
        }
        let bytes = file.iter().flat_map(|(_, bytes)| bytes.clone()).collect::<Vec<u8>>();
        let got = read(&folder, &bytes);
        judge(&made, &file, &got, &format!("seed {seed}, {faults:?}: {:?}", got.notes));
        faults.iter().for_each(|fault| *sum.faults.entry(fault).or_default() += 1);
        sum.recorded += packets;
        sum.delivered += got.packets.len() as u64;
        sum.corrupt += got.corrupt;
        sum.missing += got.missing;
        sum.damaged += u64::from(got.is_damaged);
    }
    sum
}

/// Prints what came of seeds.
fn report(what: &str, sum: &Sum) {
    let Sum { recorded, delivered, corrupt, missing, damaged, faults } = sum;
    let named = corrupt + missing;
    println!(
        "{what}: {recorded} packets recorded, {delivered} delivered, {named} named as corrupt or \
         missing, 0 forged or changed, no sound segment lost; {damaged} files damaged by {faults:?}"
    );
    // These are after the last valid segment of a file: no reader can know of them.
    let cut = recorded - delivered - named;
    let lost = [("corrupt", *corrupt), ("missing_segments", *missing), ("cut", cut)];
    ledger(*recorded, *delivered, &lost);
}

#[test]
fn no_seed_delivers_what_was_not_recorded_and_none_loses_a_sound_segment() {
    let (first, last) = seeds();
    let sum = try_seeds((first..=last).chain(FOUND), S);
    report(&format!("seeds {first} to {last}"), &sum);
}

/// These recordings have some megabytes each: one for ten others.
#[test]
fn no_seed_of_long_segments_delivers_what_was_not_recorded() {
    let (first, last) = seeds();
    let sum = try_seeds((first..=last).step_by(10), LONG);
    report(&format!("every tenth of seeds {first} to {last}, segments of 1 MiB"), &sum);
}

/// The kind of a file whose first bytes are damaged is unknown.
#[test]
fn a_flipped_bit_in_the_first_bytes_of_long_segments_loses_no_packet() {
    let folder = Folder::new();
    let made = record(&mut Random::of_seed(1), 500, HashKind::None, LONG);
    assert!(made.segments.len() > 3, "{}", made.segments.len());
    let (mut file, packets) = (made.segments.concat(), made.packets.concat());
    for bit in 0..64 {
        file[bit / 8] ^= 1 << (bit % 8);
        let got = read(&folder, &file);
        assert!(got.packets == packets, "bit {bit}: {}: {:?}", got.packets.len(), got.notes);
        assert_eq!((got.corrupt, got.missing), (0, 0), "bit {bit}: {:?}", got.notes);
        assert!(got.is_damaged && got.closes, "bit {bit}: {:?}", got.notes);
        file[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn a_forged_section_and_one_flipped_bit_lose_one_segment_of_sixty_thousand_packets() {
    let folder = Folder::new();
    let made = record(&mut Random::of_seed(7), 60_000, HashKind::None, S);
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
    let made = record(&mut Random(3), 200, HashKind::None, S);
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
    let made = record(&mut Random(3), 200, HashKind::None, S);
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
    let made = record(&mut Random::of_seed(5), 200, HashKind::None, S);
    let segment = segment_of("eth0", &[0xFA; 60], 8, S, u64::MAX - 10);
    let file = [&made.segments[0], &segment, &made.segments[2]].map(Vec::as_slice).concat();
    let got = read(&folder, &file);
    assert!(got.packets == made.packets[2], "{} packets: {:?}", got.packets.len(), got.notes);
    assert_eq!((got.corrupt, got.missing), (made.packets[1].len() as u64, 0), "{:?}", got.notes);
    assert!(got.closes && got.is_damaged, "{:?}", got.notes);
}
