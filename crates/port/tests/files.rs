//! Damaged files, pipes, and paths that are not files.

mod common;

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::thread;

use burstline_log::Scratch;
use burstline_port::{OpenOptions, PortError, PortState, Selection, write_index};
use burstline_wire::files::{
    InterfaceDescription, MAX_BLOCK, PacketToWrite, PcapngEncoder, SectionDescription,
};
use burstline_wire::hash::HashKind;
use burstline_wire::headers::LinkType;

use common::{Folder, drain_by_lending, drain_by_receiving, open_file, packets, pcap, source};

fn refusal(folder: &Folder, bytes: &[u8]) -> String {
    let path = folder.file("refused", bytes);
    let error = source(&format!("file:{}", path.display()), &OpenOptions::default()).err();
    let error = error.expect("no capture");
    assert!(matches!(error, PortError::NotACapture { .. }), "{error:?}");
    let text = error.to_string();
    assert!(!text.contains('\n') && text.starts_with(&path.display().to_string()), "{text}");
    text
}

#[test]
fn what_is_no_capture_is_refused_on_opening() {
    let folder = Folder::new();
    assert!(refusal(&folder, b"").contains("the file is empty"));
    assert!(refusal(&folder, &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0]).contains("6 of 24 bytes"));
    assert!(refusal(&folder, b"#!/bin/sh\n").contains("expected pcap or pcapng"));
    assert!(refusal(&folder, &[0; 4096]).contains("not a capture"));
}

#[test]
fn what_cannot_be_read_is_an_error_of_the_system() {
    let folder = Folder::new();
    for path in ["/does/not/exist.pcap".to_owned(), folder.path("").display().to_string()] {
        let error = source(&format!("file:{path}"), &OpenOptions::default()).err().unwrap();
        assert!(matches!(error, PortError::Io { action: "open", .. }), "{error:?}");
    }
    let error = source("file:/dev/null", &OpenOptions::default()).unwrap();
    let mut error = error;
    let refused = error.lend(&mut Scratch::new(), 1).unwrap_err();
    assert!(refused.to_string().contains("/dev/null: the file is empty"), "{refused}");
    let lent = error.lend(&mut Scratch::new(), 1).map(|lent| lent.state).unwrap();
    assert_eq!(lent, PortState::Ended);
}

#[test]
fn a_file_cut_anywhere_delivers_what_is_whole() {
    let folder = Folder::new();
    // Without empty packets: one before a truncated header is hard to distinguish from zeros.
    let list: Vec<_> = packets(40).into_iter().filter(|packet| packet.2 > 0).collect();
    let whole = pcap(0xa1b2_c3d4, false, 1, &list);
    for length in (24..whole.len()).step_by(97) {
        let path = folder.file("cut", &whole[..length]);
        let mut port = open_file(&path);
        let got = drain_by_lending(&mut *port, u64::MAX);
        let mut end = 24;
        let before = list.iter().take_while(|packet| {
            end += 16 + packet.3.len();
            end <= length
        });
        assert_eq!(got.len(), before.count(), "cut at {length}");
        let account = port.account();
        assert!(account.notes.iter().all(|note| note.contains("file offset")));
        assert_eq!(account.is_damaged, !account.notes.is_empty());
    }
}

#[test]
fn zeros_and_flipped_bits_are_noted_with_their_place_and_the_job_goes_on() {
    let folder = Folder::new();
    let whole = pcap(0xa1b2_c3d4, false, 1, &packets(2000));
    let mut zeroed = whole.clone();
    zeroed[100_000..150_000].fill(0);
    let path = folder.file("zeroed", &zeroed);
    let mut port = open_file(&path);
    let got = drain_by_receiving(&mut *port, 100, 64 << 10, 8);
    assert!((1700..2000).contains(&got.len()), "{}", got.len());
    let account = port.account();
    assert!(account.is_damaged);
    let note = &account.notes[0];
    assert!(note.contains("skipped at file offset"), "{note}");
    assert!(note.starts_with(&format!("{}: ", path.display())), "{note}");
    let mut flipped = whole;
    for at in (5_000..flipped.len()).step_by(2_111) {
        flipped[at] ^= 0x80;
    }
    let mut port = open_file(&folder.file("flipped", &flipped));
    let got = drain_by_lending(&mut *port, 100);
    assert!((1500..=2000).contains(&got.len()), "{}", got.len());
    let account = port.account();
    assert!(account.notes.len() <= 100);
}

#[test]
fn a_compressed_file_that_breaks_off_delivers_its_start() {
    use flate2::{Compression, write::GzEncoder};
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    let folder = Folder::new();
    let whole = pcap(0xa1b2_c3d4, false, 1, &packets(3000));
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&whole).unwrap();
    let zstd = compress_to_vec(&whole[..], CompressionLevel::Fastest);
    for compressed in [encoder.finish().unwrap(), zstd] {
        let half = &compressed[..compressed.len() / 2];
        let mut port = open_file(&folder.file("broken", half));
        let got = drain_by_lending(&mut *port, u64::MAX);
        assert!((100..3000).contains(&got.len()), "{}", got.len());
        let account = port.account();
        assert!(account.is_damaged);
        assert!(
            account.notes[0].contains("/broken: compressed data broken"),
            "{:?}",
            account.notes
        );
    }
}

#[test]
fn times_of_any_order_and_packets_of_any_size() {
    let folder = Folder::new();
    let list: Vec<_> = [0_u32, 1, 60, 65_549, 262_143, 262_144, 14]
        .iter()
        .zip([1_700_000_000, 1_699_999_000, 1_699_999_001, 1_900_000_000, 7, 8, 4_000_000_000])
        .map(|(&length, seconds)| (seconds, 999_999_999, length, vec![7; length as usize]))
        .collect();
    let path = folder.file("odd", &pcap(0xa1b2_3c4d, false, 1, &list));
    let got = drain_by_lending(&mut *open_file(&path), 3);
    let received = drain_by_receiving(&mut *open_file(&path), 3, 2 << 20, 4);
    assert_eq!(got, received);
    assert_eq!(got.len(), list.len());
    for (got, (seconds, fraction, _, bytes)) in got.iter().zip(&list) {
        assert_eq!(got.time_ns, u64::from(*seconds) * 1_000_000_000 + u64::from(*fraction));
        assert_eq!(&got.bytes, bytes);
    }
}

#[test]
fn a_snapshot_length_cuts_and_keeps_the_original_length() {
    let folder = Folder::new();
    let list = packets(100);
    let path = folder.file("whole", &pcap(0xa1b2_c3d4, false, 1, &list));
    let options =
        OpenOptions { snapshot_bytes: Some(50), hash: HashKind::Rss, ..OpenOptions::default() };
    let mut port = source(&format!("file:{}", path.display()), &options).unwrap();
    let got = drain_by_lending(&mut *port, u64::MAX);
    for (got, (_, _, original, bytes)) in got.iter().zip(&list) {
        assert_eq!(got.bytes, bytes[..bytes.len().min(50)]);
        assert_eq!(got.original_length, *original as usize);
    }
    let cut = list.iter().filter(|packet| packet.2 > packet.3.len().min(50) as u32).count();
    assert_eq!(port.account().truncated, cut as u64);
}

#[test]
fn more_interfaces_than_a_job_can_tell_apart_lose_no_packet() {
    let folder = Folder::new();
    let mut encoder = PcapngEncoder::new(LinkType::ETHERNET, 0);
    let (mut file, mut place) = (Vec::new(), [0; 256]);
    let bytes = encoder.section(&mut place, &SectionDescription::default()).unwrap();
    file.extend_from_slice(&place[..bytes]);
    for number in 0..257 {
        let name = format!("if{number}");
        let interface = InterfaceDescription::new(LinkType::ETHERNET, &name);
        let bytes = encoder.interface(&mut place, &interface).unwrap();
        file.extend_from_slice(&place[..bytes]);
    }
    for number in 0..257 {
        let packet = PacketToWrite { interface: number, ..PacketToWrite::new(&[0; 60], 1) };
        let bytes = encoder.packet(&mut place, &packet).unwrap();
        file.extend_from_slice(&place[..bytes]);
    }
    let mut port = open_file(&folder.file("many", &file));
    let packets = drain_by_lending(&mut *port, u64::MAX);
    let ports: Vec<_> = packets.iter().map(|packet| packet.port).collect();
    assert_eq!(ports, (0..=255).chain([255]).collect::<Vec<u8>>());
    let notes = port.account().notes;
    assert!(notes[0].contains("more than 256 interfaces: packets of if256 are under if255"));
}

/// Returns 1,024 packets, the longest block, and 2,048 packets. Their times are their numbers.
fn around_the_longest_block() -> Vec<u8> {
    let mut encoder = PcapngEncoder::new(LinkType::ETHERNET, 0);
    let (mut file, mut place) = (Vec::new(), [0; 256]);
    let bytes = encoder.section(&mut place, &SectionDescription::default()).unwrap();
    file.extend_from_slice(&place[..bytes]);
    let interface = InterfaceDescription::new(LinkType::ETHERNET, "eth0");
    let bytes = encoder.interface(&mut place, &interface).unwrap();
    file.extend_from_slice(&place[..bytes]);
    for number in 0..3072 {
        if number == 1024 {
            // A Custom Block.
            file.extend([0x0BAD, MAX_BLOCK].map(u32::to_le_bytes).concat());
            file.resize(file.len() + MAX_BLOCK as usize - 12, 0);
            file.extend(MAX_BLOCK.to_le_bytes());
        }
        let bytes = encoder.packet(&mut place, &PacketToWrite::new(&[7; 60], number)).unwrap();
        file.extend_from_slice(&place[..bytes]);
    }
    file
}

/// Returns the times of the packets of an undamaged file from `from_ns` on.
fn times_from(from_ns: Option<u64>, path: &Path) -> Vec<u64> {
    let selection = Selection { from_ns, ..Selection::default() };
    let options = OpenOptions { selection, ..OpenOptions::default() };
    let mut port = source(&format!("file:{}", path.display()), &options).unwrap();
    let got = drain_by_lending(&mut *port, u64::MAX);
    let account = port.account();
    assert!(!account.is_damaged, "{:?}", account.notes);
    got.into_iter().map(|packet| packet.time_ns).collect()
}

#[test]
fn packets_on_both_sides_of_the_longest_block_are_delivered() {
    use flate2::{Compression, write::GzEncoder};
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    let (folder, file) = (Folder::new(), around_the_longest_block());
    let all: Vec<u64> = (0..3072).collect();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&file).unwrap();
    let zstd = compress_to_vec(&file[..], CompressionLevel::Fastest);
    for (name, bytes) in [("gz", encoder.finish().unwrap()), ("zst", zstd)] {
        assert!(times_from(None, &folder.file(name, &bytes)) == all, "{name}");
    }
    let fifo = folder.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    thread::scope(|scope| {
        scope.spawn(|| fs::write(&fifo, &file).unwrap());
        assert!(times_from(None, &fifo) == all, "a pipe");
    });
    let plain = folder.file("plain", &file);
    assert!(times_from(None, &plain) == all, "plain");
    // By its index, the run that begins with the block is passed.
    let indexed = write_index(&plain, &mut |_| true).unwrap().unwrap();
    assert_eq!((indexed.packets, indexed.runs, indexed.is_damaged), (3072, 3, false));
    assert!(times_from(Some(2048), &plain) == all[2048..], "by its index");
}

#[test]
fn a_fifo_delivers_what_is_there_and_does_not_wait() {
    let folder = Folder::new();
    let path = folder.path("fifo");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let options = OpenOptions::default();
    let mut port = source(&format!("file:{}", path.display()), &options).unwrap();
    let mut scratch = Scratch::new();
    let count = |port: &mut dyn burstline_port::Source, scratch: &mut Scratch| {
        let lent = port.lend(scratch, 100).unwrap();
        (lent.burst.len(), lent.state)
    };
    assert_eq!(count(&mut *port, &mut scratch), (0, PortState::Idle));
    assert!(port.readiness().is_some());
    let whole = pcap(0xa1b2_c3d4, false, 1, &packets(3));
    let mut writer = File::options().write(true).open(&path).unwrap();
    writer.write_all(&whole[..2]).unwrap();
    assert_eq!(count(&mut *port, &mut scratch), (0, PortState::Idle));
    // One packet, without any byte of the next.
    writer.write_all(&whole[2..24 + 16 + 60]).unwrap();
    assert_eq!(count(&mut *port, &mut scratch).0, 1);
    assert_eq!(count(&mut *port, &mut scratch), (0, PortState::Idle));
    writer.write_all(&whole[24 + 16 + 60..]).unwrap();
    assert_eq!(count(&mut *port, &mut scratch).0, 2);
    drop(writer);
    assert_ends(&mut *port);
    assert_eq!(port.account().offered, 3);
}

#[test]
fn a_compressed_fifo_is_read_as_it_comes() {
    use flate2::{Compression, write::GzEncoder};
    let folder = Folder::new();
    let path = folder.path("fifo");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let options = OpenOptions::default();
    let mut port = source(&format!("file:{}", path.display()), &options).unwrap();
    let writer = File::options().write(true).open(&path).unwrap();
    let mut encoder = GzEncoder::new(writer, Compression::fast());
    let whole = pcap(0xa1b2_c3d4, false, 1, &packets(3));
    encoder.write_all(&whole).unwrap();
    encoder.flush().unwrap();
    let (mut scratch, mut delivered) = (Scratch::new(), 0);
    loop {
        let lent = port.lend(&mut scratch, 100).unwrap();
        delivered += lent.burst.len();
        if lent.state == PortState::Idle {
            break;
        }
    }
    assert_eq!(delivered, 3);
    drop(encoder.finish().unwrap());
    assert_ends(&mut *port);
    assert!(fs::metadata(&path).is_ok());
}

/// Checks that no packet is left. Other tests start programs: until such a program has started, it
/// still holds the pipe closed here.
fn assert_ends(port: &mut dyn burstline_port::Source) {
    let mut scratch = Scratch::new();
    loop {
        let lent = port.lend(&mut scratch, 100).unwrap();
        assert_eq!(lent.burst.len(), 0);
        match lent.state {
            PortState::Idle => thread::yield_now(),
            state => return assert_eq!(state, PortState::Ended),
        }
    }
}
