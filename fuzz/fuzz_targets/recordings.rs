//! Any bytes as a file: plain, compressed, in segments. Reading, checking and mending it ends,
//! and every packet is accounted for.
//!
//! An input is a byte and the file. The byte says what is done and how large segments are. It also
//! says whether they are made whole first, with the checksums that a fuzzer does not guess:
//!
//! ```text
//!   bit 7   segments are made whole        bits 2..=6   their size: 4 KiB << (number % 13)
//!                                          bits 0..=1   look, read, mend, index
//! ```
//!
//! Inputs are shorter than large segments. So each 4 KiB of an input become a segment of that size
//! when they are made whole: zeros fill its closing block. That stops at [`WHOLE_BYTES`].
#![no_main]

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicBool;

use burstline_engine::{check, extract, recover, survey};
use burstline_port::{Address, CaptureReader, OpenOptions, open_sink, open_source};
use burstline_wire::crc32c;
use burstline_wire::files::{SegmentIndex, Trailer};
use libfuzzer_sys::fuzz_target;

/// The smallest segment.
const LEAST_BYTES: usize = 4096;

/// The largest segment, and the most that a file is stretched to.
const WHOLE_BYTES: usize = 16 << 20;

/// A trailer and the length behind it, at a segment's end.
const TAIL_BYTES: usize = Trailer::BYTES + 4;

/// Where a trailer has the size of its segment, the end of its blocks, and its sketch's size.
const SIZE_AT: usize = 12;
const BLOCKS_END_AT: usize = 20;
const SKETCH_AT: usize = 120;

/// The closing block of a segment. Source: docs/format.md
const CLOSING_BLOCK: [u8; 4] = 0x8000_0001_u32.to_le_bytes();

fuzz_target!(|data: &[u8]| {
    let Some((&how, file)) = data.split_first() else {
        return;
    };
    let segment_bytes = LEAST_BYTES << (how >> 2 & 0x1f) % 13;
    let file = match how & 0x80 {
        0 => file.to_vec(),
        _ => whole(file, segment_bytes),
    };
    let (_held, path) = in_memory(&file);
    match how & 3 {
        0 => look(&path),
        1 => read(&path),
        2 => mend(&path),
        _ => index(&file, segment_bytes),
    }
});

/// A file in memory, and a path to it while it is held.
fn in_memory(bytes: &[u8]) -> (File, String) {
    let mut file = File::from(burstline_fuzz::file(0));
    file.write_all(bytes).expect("room in memory");
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    (file, path)
}

/// Makes a segment of each 4 KiB that have a trailer. What is behind [`WHOLE_BYTES`] stays so.
fn whole(file: &[u8], segment_bytes: usize) -> Vec<u8> {
    let mut made = Vec::with_capacity(file.len());
    for part in file.chunks(LEAST_BYTES) {
        let has_room = made.len() + segment_bytes <= WHOLE_BYTES || segment_bytes == LEAST_BYTES;
        let trailer = part.len().checked_sub(TAIL_BYTES).map_or(&[][..], |at| &part[at..]);
        match trailer.starts_with(&Trailer::MAGIC) && part.len() == LEAST_BYTES && has_room {
            true => made.extend(segment_of(part, segment_bytes)),
            false => made.extend(part),
        }
    }
    made
}

/// Stretches 4 KiB to a segment, and puts its lengths and checksums right.
fn segment_of(part: &[u8], bytes: usize) -> Vec<u8> {
    let set = |segment: &mut [u8], at: usize, value: u32| {
        segment[at..][..4].copy_from_slice(&value.to_le_bytes());
    };
    let mut segment = part.to_vec();
    let trailer = LEAST_BYTES - TAIL_BYTES;
    if bytes > LEAST_BYTES {
        let end = *part[trailer + BLOCKS_END_AT..].first_chunk().expect("a trailer is longer");
        let end = (u32::from_le_bytes(end) as usize).min(trailer - 8);
        segment[end..][..4].copy_from_slice(&CLOSING_BLOCK);
        set(&mut segment, end + 4, (bytes - end) as u32);
        set(&mut segment, LEAST_BYTES - 4, (bytes - end) as u32);
        set(&mut segment, trailer + SIZE_AT, bytes as u32);
        segment.splice(end + 8..end + 8, std::iter::repeat_n(0, bytes - LEAST_BYTES));
    }
    // No sketch: it counts as zeros, and has a checksum too.
    set(&mut segment, bytes - TAIL_BYTES + SKETCH_AT, 0);
    let sum = crc32c::crc32c(&segment[bytes - TAIL_BYTES..bytes - 12]);
    set(&mut segment, bytes - 12, sum);
    let sum = crc32c::crc32c(&segment[..bytes - 8]);
    set(&mut segment, bytes - 8, sum);
    segment
}

fn reader(path: &str) -> Option<CaptureReader> {
    CaptureReader::open(path, &OpenOptions::default().files).ok()
}

fn look(path: &str) {
    let mut goes_on = |_| true;
    let checked = reader(path).and_then(|reader| check(reader, &mut goes_on).ok());
    let surveyed = reader(path).and_then(|reader| survey(reader, &mut goes_on).ok());
    if let (Some(checked), Some(surveyed)) = (checked, surveyed) {
        assert_eq!(checked.packets, surveyed.scanned.packets, "the same pass");
        assert_eq!(checked.faults, surveyed.scanned.faults);
        assert_eq!(checked.interface_packets.iter().sum::<u64>(), checked.packets);
        assert!(checked.checked <= checked.packets);
    }
}

fn read(path: &str) {
    let options = OpenOptions::default();
    let address: Address = format!("file:{path}").parse().expect("it is an address");
    let Ok(source) = open_source(&address, &options) else { return };
    if let Ok(extracted) = extract(source, None, &options.table, &AtomicBool::new(false)) {
        assert_eq!(extracted.unaccounted(), 0, "{:?}", extracted.source);
    }
}

fn mend(path: &str) {
    let options = OpenOptions::default();
    let sink = open_sink(&"null:".parse().expect("it is an address"), &options);
    let sink = sink.expect("it takes nothing to open");
    let Some(reader) = reader(path) else { return };
    if let Ok(recovered) = recover(vec![reader], &options, sink, &mut |_, _| true) {
        assert_eq!(recovered.unaccounted(), 0, "{:?}", recovered.lost);
    }
}

fn index(file: &[u8], segment_bytes: usize) {
    for segment in file.chunks(segment_bytes) {
        let Ok(index) = SegmentIndex::parse(segment) else { continue };
        let entries = index.entries().inspect(|entry| {
            assert_eq!(index.packet(entry).len(), entry.captured_length as usize);
        });
        assert!(entries.count() <= index.packets() as usize);
        let _ = (index.contradiction(), index.file_sketch());
    }
}
