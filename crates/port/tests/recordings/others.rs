//! Recordings without segments, and compressed ones, after faults of the storage.
//!
//! Plain files have no checksums. So what a fault has touched may come out wrong, and nothing else:
//! each packet whose record is untouched is delivered, in order.

use std::collections::HashSet;
use std::ops::Range;

use burstline_skip::ledger;

use crate::common::Folder;
use crate::made::*;
use crate::seeds;
use crate::written::Written;

/// The most packets that are in one that an attacker sends, and some more.
const FORGED_MOST: usize = 12;

/// A format that has a record for each packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Pcapng,
    Pcap,
}

impl Format {
    fn keys(self) -> &'static str {
        if self == Self::Pcapng { "format=pcapng" } else { "format=pcap-ns" }
    }

    /// Returns the record of each packet.
    fn records(self, file: &[u8]) -> Vec<Range<usize>> {
        let word = |at: usize| u32::from_le_bytes(*file[at..].first_chunk().unwrap());
        let (mut at, mut records) = (if self == Self::Pcap { 24 } else { 0 }, Vec::new());
        while at < file.len() {
            let (is_packet, bytes) = match self {
                Self::Pcapng => (word(at) == 6, word(at + 4)),
                Self::Pcap => (true, 16 + word(at + 8)),
            };
            let end = at + bytes as usize;
            if is_packet {
                records.push(at..end);
            }
            at = end;
        }
        records
    }

    /// Possible faults. A classic record has no mark, so bytes that were records elsewhere are
    /// believed.
    fn faults(self) -> &'static [&'static str] {
        match self {
            Self::Pcapng => {
                &["flip", "zeroed 512", "zeroed 4096", "cut", "removed 512", "torn 512"]
            }
            Self::Pcap => &["flip", "zeroed 512", "zeroed 4096", "cut"],
        }
    }
}

/// Damages a file somewhere in `place`. Returns the bytes that it no longer has, or has otherwise.
fn damage(
    random: &mut Random,
    fault: &str,
    file: &mut Vec<u8>,
    place: Range<usize>,
) -> Range<usize> {
    let at = place.start + random.below(place.len());
    let sector = at - at % 512;
    let bytes = if fault.ends_with("4096") { 4096 } else { 512 };
    let touched = sector.max(place.start)..(sector + bytes).min(place.end);
    match fault {
        "flip" => {
            file[at] ^= 1 << random.below(8);
            return at..at + 1;
        }
        "cut" => {
            let end = file.len();
            file.truncate(at);
            return at..end;
        }
        "removed 512" => drop(file.drain(touched.clone())),
        // Older bytes of the storage: those of another sector.
        "torn 512" => {
            let from = place.start + random.below(place.len() - touched.len());
            file.copy_within(from..from + touched.len(), touched.start);
        }
        _ => file[touched.clone()].fill(0),
    }
    touched
}

/// Checks that each packet whose record is untouched was delivered, in order. Returns how many
/// others were.
fn check(packets: &[Vec<u8>], is_hit: &[bool], got: &Read, said: &str) -> usize {
    let (mut rest, mut others) = (&got.packets[..], 0);
    for (number, packet) in packets.iter().enumerate().filter(|(number, _)| !is_hit[*number]) {
        let at = rest.iter().position(|found| found == packet);
        let at = at.unwrap_or_else(|| panic!("lost {number}: {said}"));
        others += at;
        rest = &rest[at + 1..];
    }
    assert!(got.closes, "{said}");
    others + rest.len()
}

/// Records, damages and reads a file for each seed.
fn try_seeds(format: Format, seeds: impl Iterator<Item = u64>) -> (u64, u64) {
    let (folder, mut recorded, mut untouched) = (Folder::new(), 0, 0);
    for seed in seeds {
        let mut random = Random::of_seed(seed);
        let mut made = Written::open(&folder, "plain", format.keys());
        for number in 0..10 {
            let packets: Vec<_> = (0..20)
                .map(|at| match format {
                    Format::Pcapng => packet(&mut random, 20 * number + at, S),
                    Format::Pcap => noise(&mut random, (20 * number + at) as u32),
                })
                .collect();
            made.give(&packets);
        }
        made.end();
        let mut file = made.file().to_vec();
        let records = format.records(&file);
        assert_eq!(records.len(), made.packets.len());
        let fault = format.faults()[random.below(format.faults().len())];
        // What describes the packets has no second copy.
        let place = records[0].end..records[records.len() - 1].end;
        let touched = damage(&mut random, fault, &mut file, place);
        let is_hit: Vec<bool> = (records.iter())
            .map(|record| record.start < touched.end && touched.start < record.end)
            .collect();
        let hit = is_hit.iter().filter(|is_hit| **is_hit).count();
        let got = read(&folder, &file);
        let said = format!("seed {seed}, {fault} at {touched:?}: {:?}", got.notes);
        let others = check(&made.packets, &is_hit, &got, &said);
        assert!(others <= hit * FORGED_MOST, "{others} for {hit}: {said}");
        recorded += made.packets.len() as u64;
        untouched += (made.packets.len() - hit) as u64;
    }
    (recorded, untouched)
}

/// Checks that no seed loses an untouched packet of a format.
fn check_seeds(format: Format, what: &str) {
    let (first, last) = seeds();
    let (recorded, untouched) = try_seeds(format, first..=last);
    println!("{what}, seeds {first} to {last}: {recorded} packets recorded");
    ledger(recorded, untouched, &[("touched", recorded - untouched)]);
}

#[test]
fn no_seed_of_plain_pcapng_loses_an_untouched_packet() {
    check_seeds(Format::Pcapng, "pcapng");
}

#[test]
fn no_seed_of_classic_pcap_loses_an_untouched_packet() {
    check_seeds(Format::Pcap, "pcap");
}

/// Compressed segments have their checksums, and a table says where they are.
#[test]
fn no_seed_of_compressed_segments_loses_an_untouched_one() {
    const FAULTS: [&str; 5] = ["flip", "zeroed 512", "zeroed 4096", "cut", "torn 512"];
    let (first, last) = seeds();
    let folder = Folder::new();
    let (mut recorded, mut delivered, mut named) = (0, 0, 0);
    for seed in first..=last {
        let mut random = Random::of_seed(seed);
        let mut made = Written::open(&folder, "x.pcapng.zst", "segment=8k");
        for number in 0..12 {
            let packets: Vec<_> =
                (0..15).map(|at| packet(&mut random, 15 * number + at, S)).collect();
            made.give(&packets);
            made.flush();
        }
        made.end();
        let mut file = made.file().to_vec();
        let fault = FAULTS[random.below(FAULTS.len())];
        // Not in the descriptions, and neither in the closing counts nor in the table.
        let ends: Vec<usize> = made.steps.iter().map(|step| step.file.len()).collect();
        let place = ends[1]..ends[ends.len() - 2];
        let touched = damage(&mut random, fault, &mut file, place);
        let got = read(&folder, &file);
        let said = format!("seed {seed}, {fault} at {touched:?}: {:?}", got.notes);
        let all: HashSet<_> = made.packets.iter().collect();
        let seen: HashSet<_> = got.packets.iter().collect();
        assert_eq!(seen.len(), got.packets.len(), "twice: {said}");
        assert!(seen.is_subset(&all), "made up or changed: {said}");
        for pair in made.steps.windows(2) {
            let bytes = pair[0].file.len()..pair[1].file.len();
            if touched.end <= bytes.start || bytes.end <= touched.start {
                let mut own = made.packets[pair[0].packets..pair[1].packets].iter();
                assert!(own.all(|packet| seen.contains(packet)), "lost in {bytes:?}: {said}");
            }
        }
        assert!(got.closes, "{said}");
        let lost = (all.len() - seen.len()) as u64;
        assert!(lost == 0 || got.is_damaged, "{said}");
        if fault != "cut" {
            assert_eq!(got.corrupt + got.missing, lost, "{said}");
        }
        recorded += all.len() as u64;
        delivered += seen.len() as u64;
        named += got.corrupt + got.missing;
    }
    println!("compressed, seeds {first} to {last}: {recorded} packets recorded");
    let cut = recorded - delivered - named;
    ledger(recorded, delivered, &[("corrupt or missing", named), ("cut", cut)]);
}
