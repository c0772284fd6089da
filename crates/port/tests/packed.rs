//! Compressed recordings whose table is gone, or whose start is damaged: packets are as recorded,
//! and damage costs no more than the segments that it touches.

mod common;

use std::collections::HashSet;
use std::fs;
use std::ops::Range;

use burstline_log::{Meta, Scratch};
use burstline_port::{Flush, Loss, OpenOptions, OutputOptions};
use burstline_wire::files::{
    InterfaceDescription, SectionDescription, SegmentAhead, SegmentEncoder, Trailer,
};
use burstline_wire::hash::HashKind;
use burstline_wire::headers::LinkType;
use common::*;

const S: usize = 64 << 10;

/// Bytes of a packet, and more than the most packets of a segment.
const PACKET: usize = 400;
const MOST: u64 = (S / PACKET) as u64;

const PACKETS: usize = 6000;

/// Bytes of the table's end: without them there is no table.
const FOOT: usize = 30;

/// The keys of a sink's address.
const KEYS: &str = "format=segmented&segment=64k";

/// Bytes of the frame's header, and of a block's.
const HEADER: usize = 6;
const HEAD: usize = 3;

const TAIL: usize = SegmentAhead::TAIL_BYTES;

/// Returns a segment with this number and no packets, as a sender may make it.
fn forged(number: u64) -> Vec<u8> {
    let mut encoder = SegmentEncoder::new(S, LinkType::ETHERNET, 0, HashKind::None, 0);
    let mut segment = vec![0; S];
    let interface = InterfaceDescription::new(LinkType::ETHERNET, "forged");
    encoder.header(&mut segment, &SectionDescription::default(), &[interface]).unwrap();
    while encoder.sequence() < number {
        encoder.advance();
    }
    encoder.finish(&mut segment, &[0; 8]);
    segment
}

/// Returns the end of such a segment, with its trailer.
fn forged_end(number: u64) -> Vec<u8> {
    forged(number).split_off(S - TAIL)
}

/// Returns the header of a block.
fn head(kind: u32, bytes: usize) -> Vec<u8> {
    (kind << 1 | (bytes as u32) << 3).to_le_bytes()[..HEAD].to_vec()
}

/// Returns incompressible packets: what is in them is in the file as it is. Every tenth has the
/// bytes of `inside`.
fn noise(inside: &[u8]) -> Vec<Vec<u8>> {
    let mut state = 7_u64;
    let mut byte = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state >> 56) as u8
    };
    let one = |number: usize| {
        let mut bytes: Vec<u8> = (0..PACKET).map(&mut byte).collect();
        if number.is_multiple_of(10) {
            bytes[14..14 + inside.len()].copy_from_slice(inside);
        }
        bytes
    };
    (0..PACKETS).map(one).collect()
}

/// Records packets, and returns the file.
fn record(folder: &Folder, packets: &[Vec<u8>]) -> Vec<u8> {
    let bytes = PACKET as u32;
    let records: Vec<_> = packets
        .iter()
        .zip(0..)
        .map(|(packet, number)| (1_700_000_000, number, bytes, packet.clone()))
        .collect();
    let load = folder.file("load.pcap", &pcap(0xa1b2_c3d4, false, 1, &records));
    let path = folder.path("x.pcapng.zst");
    let address = format!("file:{}?{KEYS}", path.display());
    let mut to = sink(&address, &OpenOptions::default()).unwrap();
    assert_eq!(pump(&mut *open_file(&load), &mut *to).unwrap(), PACKETS as u64);
    to.finish().unwrap();
    fs::read(path).unwrap()
}

/// Returns the offsets of the block headers in a frame, up to the last.
fn heads(file: &[u8]) -> Vec<usize> {
    let (mut heads, mut at) = (Vec::new(), HEADER);
    while at < file.len() {
        heads.push(at);
        let head = u32::from_le_bytes([file[at], file[at + 1], file[at + 2], 0]);
        let bytes = if head >> 1 & 3 == 1 { 1 } else { head >> 3 };
        at += HEAD + bytes as usize;
    }
    heads
}

/// The result of reading a file.
struct Read {
    packets: Vec<Vec<u8>>,
    /// Packets that are named as lost.
    named: u64,
    is_damaged: bool,
    notes: Vec<String>,
}

fn read(folder: &Folder, file: &[u8]) -> Read {
    let mut port = open_file(&folder.file("damaged", file));
    let got = drain_by_lending(&mut *port, u64::MAX);
    let account = port.account();
    Read {
        packets: got.into_iter().map(|packet| packet.bytes).collect(),
        named: account.lost.of(Loss::Corrupt) + account.lost.of(Loss::MissingSegments),
        is_damaged: account.is_damaged,
        notes: account.notes,
    }
}

/// Checks that all packets are as recorded, and that at most those of `segments` are lost.
fn judge(made: &[Vec<u8>], got: &Read, segments: u64, what: &str) {
    let (made, seen): (HashSet<_>, HashSet<_>) =
        (made.iter().collect(), got.packets.iter().collect());
    let (kept, all) = (got.packets.len() as u64, made.len() as u64);
    assert!(seen.len() == got.packets.len() && seen.is_subset(&made), "{what}: {:?}", got.notes);
    assert!(kept + segments * MOST >= all, "{what}: {kept} of {all}: {:?}", got.notes);
}

/// Returns the block headers in a part of a file.
fn within(heads: &[usize], place: Range<usize>) -> impl Iterator<Item = usize> + '_ {
    heads.iter().copied().filter(move |head| place.contains(head))
}

#[test]
fn a_trailer_in_a_packet_hides_no_segments_behind_a_damaged_block() {
    let folder = Folder::new();
    // A number that is soon to come, and one that is far off.
    for number in [30, 300] {
        let made = noise(&forged_end(number));
        let sound = record(&folder, &made);
        let heads = heads(&sound);
        let cut = &sound[..sound.len() - FOOT];
        let (third, whole) = (cut.len() / 3, read(&folder, cut));
        judge(&made, &whole, 0, "not damaged");
        assert!(!whole.is_damaged, "{:?}", whole.notes);
        let mut damages = 0;
        for head in within(&heads, third..2 * third) {
            let mut file = cut.to_vec();
            // An uncompressed block becomes one of an unknown kind, others get another length.
            file[head] ^= 0b110;
            let got = read(&folder, &file);
            let what = format!("number {number}, block at {head}");
            judge(&made, &got, 2, &what);
            let kept = got.packets.len() as u64;
            assert_eq!(kept + got.named, PACKETS as u64, "{what}: {:?}", got.notes);
            assert!(got.is_damaged, "{what}");
            damages += 1;
        }
        assert!(damages > 10, "{damages}");
    }
}

#[test]
fn a_whole_segment_in_a_packet_is_none_of_the_recording() {
    let folder = Folder::new();
    // A trailer, and behind it the blocks of a segment whose checksum holds: its first bytes,
    // zeros, its end.
    let segment = forged(31);
    let (first, end) = (&segment[..8], &segment[S - TAIL..]);
    assert!(segment[8..S - TAIL].iter().all(|byte| *byte == 0));
    let inside = [
        &forged_end(30)[..],
        &head(0, first.len()),
        first,
        &head(1, S - TAIL - first.len()),
        &[0],
        &head(0, TAIL),
        end,
    ]
    .concat();
    let made = noise(&inside);
    let sound = record(&folder, &made);
    let heads = heads(&sound);
    let cut = &sound[..sound.len() - FOOT];
    let third = cut.len() / 3;
    for head in within(&heads, third..2 * third) {
        let mut file = cut.to_vec();
        file[head] ^= 0b110;
        judge(&made, &read(&folder, &file), 2, &format!("block at {head}"));
    }
}

#[test]
fn a_damaged_start_costs_the_first_segments_only() {
    let folder = Folder::new();
    let made = noise(&[]);
    let sound = record(&folder, &made);
    let cut = &sound[..sound.len() - FOOT];
    for (place, segments) in [(0..1, 0), (4..5, 0), (5..6, 0), (6..7, 1), (40..60, 1)] {
        for (file, kind) in [(cut, "without a table"), (&sound[..], "with a table")] {
            let mut file = file.to_vec();
            file[place.clone()].iter_mut().for_each(|byte| *byte ^= 0x10);
            let got = read(&folder, &file);
            judge(&made, &got, segments, &format!("{place:?}, {kind}"));
            assert!(got.is_damaged, "{place:?}, {kind}");
        }
    }
    for (zeros, segments) in [(300, 1), (512, 1), (4096, 1)] {
        let mut file = cut.to_vec();
        file[..zeros].fill(0);
        let got = read(&folder, &file);
        judge(&made, &got, segments, &format!("{zeros} zeros"));
        assert!(got.is_damaged, "{zeros}");
    }
}

#[test]
fn a_damaged_last_segment_is_named_if_the_end_of_the_frame_is_there() {
    let folder = Folder::new();
    let made = noise(&forged_end(30));
    let sound = record(&folder, &made);
    // The checksum of the table does not hold, so there is none.
    let mut file = sound.clone();
    let foot = file.len() - 16;
    file[foot] ^= 1;
    assert_eq!(read(&folder, &file).packets.len(), PACKETS);
    let last = file.windows(8).rposition(|bytes| bytes == Trailer::MAGIC).unwrap();
    let heads = heads(&sound);
    let blocks = heads.iter().rev().filter(|head| **head < last);
    // The raw blocks at its end, zeros, and its packets.
    for head in blocks.take(3) {
        let mut file = file.clone();
        file[*head] ^= 0b110;
        let got = read(&folder, &file);
        judge(&made, &got, 1, &format!("block at {head}"));
        assert!(got.is_damaged, "{head}: {:?}", got.notes);
    }
}

/// Writes packets one by one into a compressed recording with this flush, and asks for a flush that
/// may wait after each. Returns the number of segments, and of answers that all is flushed.
fn trickle(folder: &Folder, flush: Option<Flush>, packets: u32) -> (u64, u32) {
    let path = folder.path("slow.pcapng.zst");
    let output = OutputOptions { flush, ..OutputOptions::default() };
    let options = OpenOptions { output, ..OpenOptions::default() };
    let mut to = sink(&format!("file:{}?{KEYS}", path.display()), &options).unwrap();
    let (bytes, mut scratch, mut flushed) = ([0x5a; PACKET], Scratch::new(), 0);
    for number in 0..packets {
        scratch.clear();
        scratch.push(0, PACKET as u32, &Meta::new(u64::from(number), PACKET as u32, 0));
        assert_eq!(to.transmit(&scratch.burst(&bytes, u64::from(number))).unwrap(), 1);
        flushed += u32::from(to.flush_when_due().unwrap());
    }
    to.finish().unwrap();
    let file = fs::read(path).unwrap();
    let got = read(folder, &file);
    assert_eq!(got.packets.len(), packets as usize, "{:?}", got.notes);
    let trailers = file.windows(Trailer::MAGIC.len()).filter(|bytes| **bytes == Trailer::MAGIC);
    (trailers.count() as u64, flushed)
}

#[test]
fn slow_packets_share_a_compressed_segment_until_a_flush_is_due() {
    let folder = Folder::new();
    let limit = |after_ns, bytes| Some(Flush { after_ns, bytes });
    // The header, the packets, and what closes the file.
    for never in [None, limit(None, None), limit(Some(u64::MAX), Some(u64::MAX))] {
        let (segments, flushed) = trickle(&folder, never, 50);
        assert_eq!((segments, flushed), (2, 0), "{never:?}");
    }
    // Each packet is a segment if each flush is due.
    for each in [limit(Some(0), None), limit(None, Some(1))] {
        let (segments, flushed) = trickle(&folder, each, 50);
        assert!(segments > 50 && flushed == 50, "{each:?}: {segments}, {flushed}");
    }
    // Four packets with their blocks have more bytes than that.
    let (segments, flushed) = trickle(&folder, limit(None, Some(3 * PACKET as u64 + 200)), 40);
    assert!((10..15).contains(&segments) && flushed == 10, "{segments}, {flushed}");
}
