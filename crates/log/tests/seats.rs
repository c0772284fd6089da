//! Tests a publisher's view of seats, and a log's names, endings and counts.

#[path = "common/config.rs"]
mod config;

use std::thread;

use burstline_log::{Appended, Ending, Log, Meta, Policy, ReaderConfig, SeatStatus, Writer};

use config::of_segments;

const PACKETS: u64 = if cfg!(miri) { 300 } else { 200_000 };

fn log(segments: usize) -> (Log, Writer) {
    Log::create(of_segments("seats", segments, 4096)).unwrap()
}

fn append(writer: &mut Writer, packets: u64) {
    for number in 0..packets {
        let appended = writer.append(&[7; 60], &Meta::new(number, 60, 0));
        assert_eq!(appended, Appended::Whole);
    }
    writer.publish();
}

#[test]
fn a_log_says_how_it_ended() {
    for (ending, told) in [
        (None, Ending::Final),
        (Some(Ending::Final), Ending::Final),
        (Some(Ending::Stopped), Ending::Stopped),
    ] {
        let (log, mut writer) = log(4);
        let mut reader = log.attach(ReaderConfig::default()).unwrap();
        append(&mut writer, 3);
        assert_eq!(reader.ending(), None);
        match ending {
            Some(ending) => writer.finish(ending),
            None => drop(writer),
        }
        assert_eq!(reader.ending(), Some(told));
        assert_eq!(reader.next_burst().map(|burst| burst.len()), Some(3));
        assert!(reader.next_burst().is_none() && reader.is_finished());
    }
}

#[test]
fn ports_have_names() {
    let (log, _writer) = log(4);
    let reader = log.attach(ReaderConfig::default()).unwrap();
    log.name_port(0, 1, "eth0");
    log.name_port(255, 276, "file.pcapng");
    assert_eq!(reader.port_name(0), Some((1, "eth0".into())));
    assert_eq!(reader.port_name(255), Some((276, "file.pcapng".into())));
    assert_eq!(reader.port_name(1), None);
}

/// Whatever the writer does, the count never goes back and never runs ahead.
#[test]
fn published_is_exact_at_some_moment() {
    let (log, mut writer) = log(4);
    thread::scope(|scope| {
        let writing = scope.spawn(move || {
            for _ in 0..PACKETS {
                append(&mut writer, 1);
            }
        });
        let mut last = 0;
        while !writing.is_finished() {
            let now = log.published();
            assert!((last..=PACKETS).contains(&now), "{now} after {last}");
            last = now;
        }
    });
    assert_eq!(log.published(), PACKETS);
}

#[test]
fn offered_counts_from_the_readers_start() {
    let (log, mut writer) = log(4);
    append(&mut writer, 10);
    let now = ReaderConfig { start: burstline_log::Start::Now, ..ReaderConfig::default() };
    let mut reader = log.attach(now).unwrap();
    assert_eq!(reader.offered(), 0);
    append(&mut writer, 500); // laps it
    let mut read = 0;
    while let Some(burst) = reader.next_burst() {
        read += burst.len() as u64;
    }
    let seen = reader.statistics();
    assert_eq!((seen.delivered, seen.delivered + seen.missed), (read, 500));
    assert_eq!(reader.offered(), 500);
    assert!(seen.missed > 0, "it was lapped, or this proves little");
}

#[test]
#[cfg_attr(miri, ignore = "a region has no file there")]
fn an_abandoned_seat_holds_nobody_up_and_is_nobody_elses() {
    let (log, mut writer) = log(8);
    let lossless = ReaderConfig { policy: Policy::Lossless, ..ReaderConfig::default() };
    let seat = log.attach_remote(lossless).unwrap();
    assert_eq!(seat.status(), SeatStatus::default());
    append(&mut writer, 10);
    assert_eq!(seat.status(), SeatStatus { lag_packets: 10, ..SeatStatus::default() });
    let index = seat.files().seat;
    seat.abandon();
    append(&mut writer, 5_000);
    let next = log.attach_remote(lossless).unwrap();
    assert!(next.files().seat != index);
    assert_eq!(log.readers(), 2);
}
