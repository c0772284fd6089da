//! Any bytes as a file: plain, compressed, in segments. Reading, checking and mending it ends,
//! and every packet is accounted for.
//!
//! An input is a byte that says what is done and whether checksums of segments are put right first,
//! and the file.
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

/// A trailer and the length behind it, at a segment's end.
const TAIL_BYTES: usize = Trailer::BYTES + 4;

fuzz_target!(|data: &[u8]| {
    let Some((&how, file)) = data.split_first() else {
        return;
    };
    let mut file = file.to_vec();
    if how & 0x80 != 0 {
        seal(&mut file);
    }
    let (_held, path) = in_memory(&file);
    match how & 3 {
        0 => look(&path),
        1 => read(&path),
        2 => mend(&path),
        _ => index(&file),
    }
});

/// A file in memory, and a path to it while it is held.
fn in_memory(bytes: &[u8]) -> (File, String) {
    let mut file = File::from(burstline_fuzz::file(0));
    file.write_all(bytes).expect("room in memory");
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    (file, path)
}

/// Puts the checksums of every segment right: a fuzzer does not guess them.
fn seal(file: &mut [u8]) {
    for segment in file.chunks_exact_mut(4096) {
        let (own, all) = (4096 - 12, 4096 - 8);
        let trailer = 4096 - TAIL_BYTES;
        if !segment[trailer..].starts_with(&Trailer::MAGIC) {
            continue;
        }
        // No sketch: it counts as zeros, and has a checksum too.
        segment[trailer + 120..][..4].fill(0);
        let sum = crc32c::crc32c(&segment[trailer..own]);
        segment[own..][..4].copy_from_slice(&sum.to_le_bytes());
        let sum = crc32c::crc32c(&segment[..all]);
        segment[all..][..4].copy_from_slice(&sum.to_le_bytes());
    }
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

fn index(file: &[u8]) {
    for segment in file.chunks(4096) {
        let Ok(index) = SegmentIndex::parse(segment) else { continue };
        let entries = index.entries().inspect(|entry| {
            assert_eq!(index.packet(entry).len(), entry.captured_length as usize);
        });
        assert!(entries.count() <= index.packets() as usize);
        let _ = (index.contradiction(), index.file_sketch());
    }
}
