//! Processes of the campaigns: writers under load, a good reader, and readers to be killed.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::process;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use burstline_log::{Ending, Log, LogConfig, Policy};
use burstline_share::{
    AttachConfig, Attachment, LosslessReaders, PublishConfig, Publisher, Refusal, ShareError,
};

use super::{arguments, number, told_to_stop, wait};
use crate::campaign::{EXIT_IN_MID_BURST, LOAD_PACKETS, LOG_SEGMENTS};
use crate::common::{Follower, SEGMENT_BYTES, append, config, in_place, packet, until};

const PAUSE: Duration = Duration::from_micros(100);

fn publish_to_many(name: &str) -> (Publisher, Log, burstline_log::Writer) {
    let shape = LogConfig { bytes: LOG_SEGMENTS * SEGMENT_BYTES, max_readers: 16, ..config() };
    let (log, writer) = Log::create(shape).unwrap();
    let lossless = LosslessReaders::Forever;
    let config = PublishConfig { lossless, ..PublishConfig::new(name) };
    (Publisher::start(&config, vec![log.clone()]).unwrap(), log, writer)
}

fn open_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count() - 1 // without that of the directory itself
}

/// Writes from one command until the next, and prints the final counts.
#[test]
#[ignore = "another process of the tests"]
fn loaded_publisher() {
    let (publisher, log, mut writer) = publish_to_many(&arguments()[0]);
    let before = open_descriptors();
    println!("say ready");
    wait();
    let stop = told_to_stop();
    let mut written = 0;
    while !stop.load(Relaxed) {
        append(&mut writer, written, written + LOAD_PACKETS);
        written += LOAD_PACKETS;
        thread::sleep(PAUSE);
    }
    let did = writer.statistics();
    writer.finish(Ending::Final);
    assert_eq!((did.packets, log.published()), (written, written));
    // The victims are gone; the good reader leaves when it has read everything.
    until("all seats are free", || log.readers() == 0 && publisher.readers().is_empty());
    until("all descriptors are closed", || open_descriptors() <= before);
    let visits = publisher.visits();
    for seat in &visits.gone {
        assert!(seat.delivered + seat.missed <= written, "{seat:?}");
    }
    let gone = visits.gone.len() as u64 + visits.gone_omitted;
    let (total, peak, after) = (visits.total, visits.peak, open_descriptors());
    println!("say account {written} {} {total} {peak} {gone} {before} {after}", did.full);
}

/// Reads everything, and checks every packet and its number.
#[test]
#[ignore = "another process of the tests"]
fn good_reader() {
    let config = AttachConfig { policy: Policy::Lossless, ..in_place() };
    let mut attachment = Attachment::open(&arguments()[0], &config).expect("attaches");
    println!("say attached");
    let mut follower = Follower::default();
    let reader = &mut attachment.readers[0];
    while !reader.is_finished() {
        assert!(!attachment.link.is_gone(), "the writer ends after its readers");
        follower.read(reader);
        reader.wait(1_000_000);
    }
    let (seen, next) = (reader.statistics(), follower.next.unwrap());
    println!("say account {} {} {} {next}", seen.delivered, seen.missed, reader.offered());
}

/// Attaches; if a quota refuses the reader, tries again later, or as a lossy reader.
fn attach(name: &str, mut config: AttachConfig) -> Attachment {
    loop {
        match Attachment::open(name, &config) {
            Err(ShareError::Refused { refusal: Refusal::HeldUp { .. }, .. }) => {
                config.policy = Policy::Lossy;
            }
            Err(ShareError::Refused { refusal: Refusal::TooOften { .. }, .. }) => {
                thread::sleep(Duration::from_millis(5));
            }
            attached => return attached.expect("attaches"),
        }
    }
}

/// Reads and checks until a fault occurs; with a number, exits in the middle of that burst.
#[test]
#[ignore = "another process of the tests"]
#[expect(clippy::disallowed_methods)] // to exit in mid-burst is the purpose
fn victim() {
    let arguments = arguments();
    let policy = if arguments[1] == "lossless" { Policy::Lossless } else { Policy::Lossy };
    let config = AttachConfig { policy, window: 1, ..in_place() };
    let mut attachment = attach(&arguments[0], config);
    println!("say attached");
    let last_burst = number(&arguments[2]);
    let (link, reader) = (&attachment.link, &mut attachment.readers[0]);
    for bursts in 1.. {
        while let Some(burst) = reader.next_burst() {
            let middle = burst.first_packet() + burst.len() as u64 / 2;
            for (number, found) in (burst.first_packet()..).zip(burst.packets()) {
                assert_eq!(found.bytes(), packet(number));
                if bursts >= last_burst && number == middle {
                    process::exit(EXIT_IN_MID_BURST); // no destructor runs: the pin stays
                }
            }
        }
        assert!(!link.is_gone(), "the writer lives longer than any victim");
        reader.wait(1_000_000);
    }
}

/// Publishes under load immediately. Before it appends packets, it increases the count in a file.
/// The number of published packets is between that count less `LOAD_PACKETS` and the count.
#[test]
#[ignore = "another process of the tests"]
fn restarted_writer() {
    let arguments = arguments();
    let (publisher, _log, mut writer) = publish_to_many(&arguments[0]);
    let count = OpenOptions::new().write(true).open(&arguments[1]).unwrap();
    let stop = told_to_stop();
    println!("say epoch {}", publisher.epoch());
    let mut written = 0;
    while !stop.load(Relaxed) {
        count.write_all_at(&(written + LOAD_PACKETS).to_le_bytes(), 0).unwrap();
        append(&mut writer, written, written + LOAD_PACKETS);
        written += LOAD_PACKETS;
        thread::sleep(PAUSE);
    }
    writer.finish(Ending::Stopped);
    println!("say published {written}");
}
