//! The catalogue of a folder: files that cannot contain an answer are not opened, and no fault of
//! the catalogue changes an answer.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::support::{Directory, assert_closed, run_json, run_with_code};
use serde_json::Value;

const CATALOGUE: &str = ".burstline-catalogue";
const FILES: u32 = 200;
const PACKETS: u32 = 100;

/// Makes a pcap in ns of UDP packets, one every 10 us, from number `start` on, with source port
/// `port`.
fn pcap(start: u32, packets: u32, port: u16) -> Vec<u8> {
    let mut pcap = [0xA1B2_3C4D_u32, 0x0004_0002, 0, 0, 262_144, 1].map(u32::to_le_bytes).concat();
    for number in start..start + packets {
        let (second, ns) = (number / 100_000, number % 100_000 * 10_000);
        pcap.extend([1_700_000_000 + second, ns, 300, 300].map(u32::to_le_bytes).concat());
        let mut packet = vec![2; 12];
        packet.extend([8, 0, 0x45, 0, 1, 30, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 1, 1]);
        packet.extend([port.to_be_bytes(), 53_u16.to_be_bytes()].concat());
        packet.extend([1, 10, 0, 0]);
        packet.resize(300, 0);
        pcap.extend(packet);
    }
    pcap
}

/// Makes a folder of files with [`PACKETS`] packets each, consecutive in time, with one flow each.
fn folder(directory: &Directory) -> String {
    let folder = directory.file("rec");
    fs::create_dir(&folder).unwrap();
    for number in 0..FILES {
        let file = format!("{folder}/{number:03}.pcap");
        fs::write(&file, pcap(number * PACKETS, PACKETS, number as u16)).unwrap();
        age(&file);
    }
    folder
}

/// Makes a file look too old to be still changing.
fn age(file: &str) {
    let long_ago = SystemTime::now() - Duration::from_secs(60);
    File::options().append(true).open(file).unwrap().set_modified(long_ago).unwrap();
}

/// Overwrites a file with garbage, so that opening it is noticed; the catalogue still knows it.
fn spoil(file: &Path) {
    let length = fs::metadata(file).unwrap().len();
    overwrite(file, &vec![b'x'; length as usize]);
    know(file);
}

/// Overwrites a file. It keeps its modification time.
fn overwrite(file: &Path, bytes: &[u8]) {
    let modified = fs::metadata(file).unwrap().modified().unwrap();
    fs::write(file, bytes).unwrap();
    File::options().append(true).open(file).unwrap().set_modified(modified).unwrap();
}

/// Writes the time of a file's last change, which nobody can set, into its entry in the catalogue.
fn know(file: &Path) {
    let (path, metadata) = (file.with_file_name(CATALOGUE), fs::metadata(file).unwrap());
    let mut bytes = fs::read(&path).unwrap();
    let (mut at, mut entries) = (12, 0);
    while at < bytes.len() {
        let half = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        let (sketch_bytes, name_bytes) = (4 * half(at + 88), half(at + 90));
        let (name_at, end) = (at + 96, at + 96 + name_bytes + sketch_bytes);
        if bytes[name_at..name_at + name_bytes] == *file.file_name().unwrap().as_bytes() {
            bytes[at + 24..at + 32].copy_from_slice(&metadata.ctime().to_le_bytes());
            bytes[at + 32..at + 40].copy_from_slice(&metadata.ctime_nsec().to_le_bytes());
            let checksum = crc32c(&bytes[at..end]);
            bytes[end..end + 4].copy_from_slice(&checksum.to_le_bytes());
            entries += 1;
        }
        at = end + 4;
    }
    assert_eq!(entries, 1, "{}", file.display());
    fs::write(&path, bytes).unwrap();
}

fn crc32c(bytes: &[u8]) -> u32 {
    let bit = |sum: u32, _| (sum >> 1) ^ (0x82F6_3B78 & (sum & 1).wrapping_neg());
    !bytes.iter().fold(!0_u32, |sum, &byte| (0..8).fold(sum ^ u32::from(byte), bit))
}

fn catalogue(folder: &str) -> PathBuf {
    Path::new(folder).join(CATALOGUE)
}

fn ask(folder: &str, flags: &[&str]) -> Value {
    let report = run_json(&[&["extract", folder], flags].concat(), 0);
    assert_eq!(report["unaccounted"], 0, "{report}");
    report
}

/// Returns the number of files and packets that a report lists as not opened.
fn unopened(report: &Value) -> Option<(u32, u64)> {
    let notes = report["notes"].as_array().unwrap().iter();
    let mut notes = notes.map(|note| note.as_str().unwrap());
    let note = notes.find_map(|note| note.strip_suffix(" packets passed unopened"))?;
    let (files, packets) = note.split_once(" files of ")?;
    Some((files.parse().unwrap(), packets.parse().unwrap()))
}

/// The last fifty packets of a file in the middle of the folder, and twenty of the next one.
const WINDOW: [&str; 4] = ["--from", "+99500us", "--to", "+100200us"];

#[test]
fn files_that_cannot_hold_an_answer_are_not_opened() {
    let directory = Directory::new("catalogue");
    let folder = folder(&directory);
    let all = u64::from(FILES * PACKETS);
    let first = ask(&folder, &WINDOW);
    assert_eq!((&first["delivered"], &first["offered"]), (&70.into(), &all.into()), "{first}");
    assert_eq!(unopened(&first), Some((FILES - 2, all - 200)), "{first}");
    assert!(catalogue(&folder).is_file());
    // Which interfaces unopened files have is not known.
    let late = ask(&folder, &["--port", "eth7", "--from", "+1h"]);
    assert!(unopened(&late).is_some(), "{late}");
    assert!(!late["notes"].to_string().contains("no interface is called so"), "{late}");
    // Opening any of these would be noticed.
    for number in (0..FILES).filter(|number| ![99, 100].contains(number)) {
        spoil(&Path::new(&folder).join(format!("{number:03}.pcap")));
    }
    for target in [folder.clone(), format!("set:{folder}"), format!("{folder}/*.pcap")] {
        let again = ask(&target, &WINDOW);
        for key in ["delivered", "offered", "bytes", "packet_times_ns", "lost", "notes"] {
            assert_eq!(again[key], first[key], "{target} {key}");
        }
    }
    let flow = ["--flow", "10.0.0.1:99,10.0.1.1:53,udp"];
    let of_flow = ask(&folder, &flow);
    assert_eq!((&of_flow["delivered"], &of_flow["offered"]), (&100.into(), &all.into()));
    assert_eq!(unopened(&of_flow), Some((FILES - 1, all - 100)), "{of_flow}");
    // A file that is not opened must not be the output either.
    let output = format!("{folder}/000.pcap");
    let same = run_with_code(&[&["extract", &folder, "-w", &output], &WINDOW[..]].concat(), 2);
    assert!(same.stderr.contains("already reads or writes"), "{}", same.stderr);
    // A changed file is opened.
    let file = format!("{folder}/005.pcap");
    fs::write(&file, pcap(FILES * PACKETS, 7, 5)).unwrap();
    let flow = ["--flow", "10.0.0.1:5,10.0.1.1:53,udp"];
    assert_eq!(ask(&folder, &flow)["delivered"], 7);
    age(&file);
    assert_eq!(ask(&folder, &flow)["delivered"], 7);
    assert_eq!(unopened(&ask(&folder, &flow)).unwrap().0, FILES - 1);
}

#[test]
fn a_file_of_the_same_size_and_time_but_other_bytes_is_opened() {
    let directory = Directory::new("catalogue-rewritten");
    let folder = folder(&directory);
    let flow = ["--flow", "10.0.0.1:999,10.0.1.1:53,udp"];
    assert_eq!(ask(&folder, &flow)["delivered"], 0);
    let file = Path::new(&folder).join("007.pcap");
    let [before, mut after] = [(); 2].map(|()| fs::metadata(&file).unwrap());
    // The time of change advances in ticks of the kernel.
    while (after.ctime(), after.ctime_nsec()) == (before.ctime(), before.ctime_nsec()) {
        overwrite(&file, &pcap(7 * PACKETS, PACKETS, 999));
        after = fs::metadata(&file).unwrap();
    }
    assert_eq!(after.len(), before.len());
    assert_eq!(after.modified().unwrap(), before.modified().unwrap());
    assert_eq!(ask(&folder, &flow)["delivered"], PACKETS);
}

#[test]
fn a_catalogue_that_is_lost_or_damaged_is_made_again() {
    let directory = Directory::new("catalogue-damage");
    let folder = folder(&directory);
    let first = ask(&folder, &WINDOW);
    let path = catalogue(&folder);
    let whole = fs::read(&path).unwrap();
    for cut in [0, 5, 12, 13, whole.len() / 3, whole.len() - 1] {
        fs::write(&path, &whole[..cut]).unwrap();
        assert_eq!(ask(&folder, &WINDOW), first, "cut at {cut}");
        assert_eq!(fs::read(&path).unwrap(), whole, "cut at {cut}");
    }
    for step in 0..40 {
        let mut damaged = whole.clone();
        damaged[step * whole.len() / 40 + step % 7] ^= 1 << (step % 8);
        fs::write(&path, &damaged).unwrap();
        assert_eq!(ask(&folder, &WINDOW), first, "flip {step}");
        assert_eq!(fs::read(&path).unwrap(), whole, "flip {step}");
    }
    fs::remove_file(&path).unwrap();
    assert_eq!(ask(&folder, &WINDOW), first);
    assert_eq!(fs::read(&path).unwrap(), whole);
    // Deleted files are removed from the catalogue.
    fs::remove_file(format!("{folder}/150.pcap")).unwrap();
    assert_eq!(unopened(&ask(&folder, &WINDOW)).unwrap().0, FILES - 3);
    assert!(fs::read(&path).unwrap().len() < whole.len());
    // If the catalogue cannot be written, there is none, and a note says so.
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    fs::write(path.join("x"), "").unwrap();
    let said = run_with_code(&[&["extract", &folder], &WINDOW[..]].concat(), 0);
    assert!(said.stderr.contains("its catalogue could not be written"), "{}", said.stderr);
    let left = fs::read_dir(&folder).unwrap().count() as u32;
    assert_eq!(left, FILES - 1 + 1, "nothing is left beside");
}

#[test]
fn a_catalogue_that_others_may_write_is_not_believed() {
    use std::os::unix::fs::PermissionsExt;
    let directory = Directory::new("catalogue-owner");
    let folder = folder(&directory);
    ask(&folder, &WINDOW);
    // An answer from the catalogue only: the file no longer has packets.
    spoil(&Path::new(&folder).join("000.pcap"));
    let flow = ["--flow", "10.0.0.1:99,10.0.1.1:53,udp"];
    assert_eq!(unopened(&ask(&folder, &flow)).unwrap().0, FILES - 1);
    fs::set_permissions(catalogue(&folder), PermissionsExt::from_mode(0o666)).unwrap();
    // The catalogue is rebuilt, and the garbage file is not a capture.
    assert_eq!(unopened(&ask(&folder, &flow)).unwrap().0, FILES - 2);
    assert_eq!(fs::metadata(catalogue(&folder)).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn compressed_files_are_decompressed_for_a_catalogue_and_no_more_in_vain() {
    let directory = Directory::new("catalogue-compressed");
    let folder = directory.file("rec");
    fs::create_dir(&folder).unwrap();
    for (number, ending) in ["pcap.gz", "pcapng.zst", "pcapng.gz", "pcap.zst"].iter().enumerate() {
        let source = directory.file("source.pcap");
        fs::write(&source, pcap(number as u32 * 1000, 1000, number as u16)).unwrap();
        let file = format!("{folder}/{number}.{ending}");
        assert_closed(&run_json(&["capture", &source, "-w", &file], 0));
        age(&file);
    }
    let flow = ["--flow", "10.0.0.1:3,10.0.1.1:53,udp"];
    let first = ask(&folder, &flow);
    assert_eq!((&first["delivered"], unopened(&first)), (&1000.into(), Some((3, 3000))));
    for name in ["0.pcap.gz", "1.pcapng.zst", "2.pcapng.gz"] {
        spoil(&Path::new(&folder).join(name));
    }
    assert_eq!(ask(&folder, &flow)["delivered"], 1000);
    let window = ask(&folder, &["--from", "+30ms", "--to", "+31ms"]);
    assert_eq!((&window["delivered"], unopened(&window)), (&100.into(), Some((3, 3000))));
}

#[test]
fn recordings_bring_their_flows_and_one_that_is_written_is_opened() {
    let directory = Directory::new("catalogue-recordings");
    let folder = directory.file("rec");
    fs::create_dir(&folder).unwrap();
    // Without hashes.
    for number in 0..20_u16 {
        let source = directory.file("source.pcap");
        fs::write(&source, pcap(u32::from(number) * 1000, 1000, number)).unwrap();
        let output = format!("{folder}/{number:02}.pcapng");
        let address = format!("{output}?segment=64k");
        assert_closed(&run_json(&["capture", &source, "-o", &address], 0));
        assert_eq!(fs::metadata(&output).unwrap().len() % (64 << 10), 0, "in segments");
        age(&output);
    }
    let flow = ["--flow", "10.0.0.1:7,10.0.1.1:53,udp"];
    let found = ask(&folder, &flow);
    assert_eq!((&found["delivered"], &found["offered"]), (&1000.into(), &20_000.into()), "{found}");
    assert_eq!(unopened(&found), Some((19, 19_000)), "{found}");
    let window = ask(&folder, &["--from", "+10ms", "--to", "+11ms"]);
    assert_eq!((&window["delivered"], unopened(&window)), (&100.into(), Some((19, 19_000))));
    // The beginning of a recording that is still being written; then more of it.
    let whole = fs::read(format!("{folder}/07.pcapng")).unwrap();
    let open = format!("{folder}/99.pcapng");
    let mut before = 1000;
    for slots in [2, 3, 4] {
        fs::write(&open, &whole[..slots * (64 << 10)]).unwrap();
        age(&open);
        for _ in 0..2 {
            let found = ask(&folder, &flow)["delivered"].as_u64().unwrap();
            assert!(found > before, "{slots}: {found} packets");
            assert_eq!(unopened(&ask(&folder, &flow)), Some((19, 19_000)));
        }
        before = ask(&folder, &flow)["delivered"].as_u64().unwrap();
    }
}
