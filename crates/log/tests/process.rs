//! Tests the log between two processes; the sealed files are inherited.
#![cfg(not(miri))]

#[path = "common/children.rs"]
mod children;
#[path = "common/config.rs"]
mod config;
#[path = "common/seats.rs"]
mod seats;

use std::process::Child;

use burstline_log::{
    Appended, AttachError, Log, Meta, Policy, Reader, ReaderConfig, ReceivedFiles, Start, Writer,
};
use burstline_sys::memory::{PageChoice, Region, RegionRequest};

use children::inherited;
use config::of_segments;
use seats::received;

const SEGMENT_BYTES: usize = 64 << 10;
const PACKETS: u64 = 200_000;

fn log() -> (Log, Writer) {
    Log::create(of_segments("process", 8, SEGMENT_BYTES)).unwrap()
}

fn packet(number: u64) -> Vec<u8> {
    (0..60 + number % 200).map(|at| (number * 13 + at) as u8).collect()
}

fn append(writer: &mut Writer, number: u64) {
    let bytes = packet(number);
    let meta = Meta::new(number, bytes.len() as u32, 0);
    while writer.append(&bytes, &meta) == Appended::Full {
        std::thread::yield_now();
    }
    if number.is_multiple_of(32) {
        writer.publish();
    }
}

fn attach(files: ReceivedFiles) -> Result<Reader, AttachError> {
    // SAFETY: the writers of these tests keep to the protocol, and the tests keep the seats.
    unsafe { Reader::attach(files) }
}

/// Checks every packet until the log ends.
fn read_to_end(reader: &mut Reader) {
    while !reader.is_finished() {
        let mut is_idle = true;
        while let Some(burst) = reader.next_burst() {
            is_idle = false;
            for (number, found) in (burst.first_packet()..).zip(burst.packets()) {
                assert_eq!(found.bytes(), packet(number));
                assert_eq!(found.time_ns(), number);
            }
        }
        if is_idle {
            reader.wait(1_000_000_000);
        }
    }
}

#[test]
#[ignore = "the other process of the tests below"]
fn role_read_to_end() {
    let mut reader = attach(inherited(Start::Segment)).unwrap();
    read_to_end(&mut reader);
    let statistics = reader.statistics();
    println!("account {} {}", statistics.delivered, statistics.missed);
}

#[test]
#[ignore = "the other process of the tests below"]
fn role_hold_for_ever() {
    let mut reader = attach(inherited(Start::Segment)).unwrap();
    while reader.next_burst().is_none() {
        reader.wait(1_000_000);
    }
    println!("holding");
    loop {
        std::thread::park();
    }
}

/// Returns the reader process's account: delivered and missed.
fn account(child: Child) -> (u64, u64) {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find_map(|line| line.split_once("account ")).unwrap().1;
    let (delivered, missed) = line.split_once(' ').unwrap();
    (delivered.parse().unwrap(), missed.parse().unwrap())
}

#[test]
fn a_lossless_reader_in_another_process_misses_nothing() {
    let (log, mut writer) = log();
    let config = ReaderConfig { policy: Policy::Lossless, ..ReaderConfig::default() };
    let seat = log.attach_remote(config).unwrap();
    let child = children::spawn("role_read_to_end", &seat);
    for number in 0..PACKETS {
        append(&mut writer, number);
    }
    drop(writer);
    assert_eq!(account(child), (PACKETS, 0));
}

#[test]
fn a_lossy_reader_in_another_process_counts_exactly() {
    let (log, mut writer) = log();
    append(&mut writer, 0); // so that it starts with packet 0
    let seat = log.attach_remote(ReaderConfig::default()).unwrap();
    let child = children::spawn("role_read_to_end", &seat);
    for number in 1..PACKETS {
        append(&mut writer, number);
    }
    drop(writer);
    let (delivered, missed) = account(child);
    // Packets overwritten before it attached are not missed: they were never its own.
    assert!(delivered > 0 && delivered + missed <= PACKETS, "{delivered} + {missed}");
}

#[test]
fn a_killed_reader_costs_its_window_and_nobodys_packets() {
    let (log, mut writer) = log();
    let mut reader = log.attach(ReaderConfig::default()).unwrap();
    let seat = log.attach_remote(ReaderConfig::default()).unwrap();
    append(&mut writer, 0);
    let mut child = children::spawn("role_hold_for_ever", &seat);
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("holding") {
        assert!(std::io::BufRead::read_line(&mut stdout, &mut line).unwrap() > 0, "it died");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let mut read = 0;
    for number in 1..PACKETS / 4 {
        append(&mut writer, number);
        while let Some(burst) = reader.next_burst() {
            read += burst.len() as u64;
        }
    }
    drop(writer);
    while let Some(burst) = reader.next_burst() {
        read += burst.len() as u64;
    }
    assert_eq!((read, reader.statistics().missed), (PACKETS / 4, 0));
    drop(seat);
}

#[test]
fn what_is_not_a_log_is_refused() {
    let (log, _writer) = log();
    let seat = log.attach_remote(ReaderConfig::default()).unwrap();
    let good = || received(seat.files());

    let shared = Region::create_shared("not-sealed", 1 << 20).unwrap();
    let open_file = || shared.file().try_clone_to_owned().unwrap();
    let unsealed = ReceivedFiles { packets: open_file(), ..good() };
    assert!(matches!(attach(unsealed), Err(AttachError::Memory(_))));

    let sealed = Region::create(&RegionRequest {
        name: "zeros".into(),
        bytes: 1 << 20,
        pages: PageChoice::Size4K,
        node: None,
    })
    .unwrap();
    let zeros = || sealed.file().try_clone_to_owned().unwrap();
    let not_control = ReceivedFiles { control: zeros(), ..good() };
    assert!(matches!(attach(not_control), Err(AttachError::NotALog { .. })));

    let small = Region::create(&RegionRequest {
        name: "small".into(),
        bytes: SEGMENT_BYTES,
        pages: PageChoice::Size4K,
        node: None,
    })
    .unwrap();
    let too_small = small.file().try_clone_to_owned().unwrap();
    let too_small = ReceivedFiles { packets: too_small, ..good() };
    assert!(matches!(attach(too_small), Err(AttachError::NotALog { .. })));

    let wide = ReceivedFiles { window: 0, ..good() };
    assert!(matches!(attach(wide), Err(AttachError::Window { asked: 0, .. })));
    let no_seat = ReceivedFiles { seat: 64, ..good() };
    assert!(matches!(attach(no_seat), Err(AttachError::NotALog { .. })));
    let reader = attach(good()).unwrap();
    // A second reader would overwrite the first one's pins.
    assert!(matches!(attach(good()), Err(AttachError::Claimed)));
    drop(reader);
    assert!(matches!(attach(good()), Err(AttachError::Claimed)));
}

/// A reader of another process is slow between its seat and its first poll.
#[test]
fn what_is_published_after_the_seat_was_taken_is_the_readers() {
    for before in [0, 10] {
        let (log, mut writer) = log();
        let publish = |writer: &mut Writer, numbers: std::ops::Range<u64>| {
            numbers.for_each(|number| append(writer, number));
            writer.publish();
        };
        publish(&mut writer, 0..before);
        let now = ReaderConfig { start: Start::Now, ..ReaderConfig::default() };
        let seat = log.attach_remote(now).unwrap();
        publish(&mut writer, before..before + 5);
        let mut reader = attach(received(seat.files())).unwrap();
        publish(&mut writer, before + 5..before + 7);
        let (mut first, mut read) = (None, 0);
        while let Some(burst) = reader.next_burst() {
            first.get_or_insert(burst.first_packet());
            read += burst.len() as u64;
        }
        assert_eq!((first, read, reader.offered()), (Some(before), 7, 7));
        assert_eq!((reader.passed_before(), seat.status().lag_packets), (before, 0));
    }
}
