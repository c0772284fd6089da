//! A hostile reader process writes to everything it can, its own page: random values, at full
//! speed, until it is told to end. Neither the writer nor the other readers lose a packet.
//!
//! The kernel refuses writes to other memory: see the tests of `burstline_sys::memory`.
#![cfg(not(miri))]

#[path = "common/config.rs"]
mod config;

use std::env;
use std::io::{self, BufRead, BufReader, Lines};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;

use burstline_log::{
    Appended, Log, LogConfig, MAX_WINDOW, Meta, Policy, Reader, ReaderConfig, RemoteSeat, Start,
    Writer, WriterStatistics,
};
use burstline_skip::ledger;
use burstline_sys::memory::Mapping;
use rustix::io::{FdFlags, fcntl_setfd};

use config::of_segments;

const SEGMENT_BYTES: usize = 4096;
const SEGMENTS: usize = 32;
/// Number of packets, unless `BURSTLINE_PACKETS` is set.
const PACKETS: u64 = 300_000;
const PAGE: &str = "BURSTLINE_TEST_PAGE";

fn log(keep_ns: Option<u64>) -> (Log, Writer) {
    let config = of_segments("hostile", SEGMENTS, SEGMENT_BYTES);
    Log::create(LogConfig { lossless_deadline_ns: Some(0), keep_ns, ..config }).unwrap()
}

/// A process that scribbles until its standard input ends.
struct Scribbler {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Scribbler {
    /// Ends it, and returns how many words it wrote.
    fn end(mut self) -> u64 {
        assert!(
            self.child.try_wait().unwrap().is_none(),
            "the scribbler died before it was told to end"
        );
        drop(self.child.stdin.take());
        let mut said = self.lines.by_ref().map_while(Result::ok);
        let written = said.find_map(|line| line.strip_prefix("wrote ")?.parse().ok());
        assert!(self.child.wait().unwrap().success());
        written.unwrap()
    }
}

/// Starts this test binary again as a scribbler that has only the page of a seat; returns once it
/// scribbles.
fn spawn_scribbler(seat: &RemoteSeat, seed: u64) -> Scribbler {
    let page: OwnedFd = seat.files().page.try_clone_to_owned().unwrap();
    fcntl_setfd(&page, FdFlags::empty()).unwrap();
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["role_scribble_until_told", "--exact", "--ignored", "--nocapture"])
        .env(PAGE, format!("{} {seed}", page.as_raw_fd()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said = lines.by_ref().map_while(Result::ok);
    assert!(said.any(|line| line.contains("scribbling")), "it died");
    Scribbler { child, lines }
}

#[test]
#[ignore = "the other process of the tests below"]
fn role_scribble_until_told() {
    let text = env::var(PAGE).expect("started by a test below");
    let (page, seed) = text.split_once(' ').unwrap();
    let page: RawFd = page.parse().unwrap();
    // SAFETY: the parent left it open for this process, and nothing else here owns it.
    let page = Mapping::attach_writable(unsafe { OwnedFd::from_raw_fd(page) }, None).unwrap();
    // SAFETY: the mapping has this number of words, and lives as long as this process.
    let words = unsafe {
        std::slice::from_raw_parts(page.as_ptr().as_ptr().cast::<AtomicU64>(), page.bytes() / 8)
    };
    println!("\nscribbling");
    // Source of the numbers: Marsaglia, Xorshift RNGs, 2003.
    let mut noise: u64 = seed.parse().unwrap();
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    // The parent closes this input to end it; so does its death.
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        IS_OVER.store(true, Relaxed);
    });
    let mut written = 0_u64;
    // A request only; it carries no memory.
    while !IS_OVER.load(Relaxed) {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        // Eight lines are in use: pins, cursor, waiting, attached, and the account.
        let word = &words[(noise >> 32) as usize % 64];
        let value = match noise % 5 {
            0 => noise,
            1 => u64::MAX,
            2 => 0,
            // Two pins that name a segment or nearly do.
            3 => {
                let [low, high] = [8, 16].map(|shift| (noise >> shift) % (SEGMENTS as u64 + 2));
                low | (high << 32)
            }
            _ => (noise >> 8) % 10_000,
        };
        word.store(value, Relaxed);
        written += 1;
    }
    println!("wrote {written}");
}

fn append(writer: &mut Writer, number: u64) {
    let meta = Meta::new(number, 48, 0);
    assert_eq!(writer.append(&[number as u8; 48], &meta), Appended::Whole, "packet {number}");
}

fn drain(reader: &mut Reader) {
    while let Some(burst) = reader.next_burst() {
        for (number, packet) in (burst.first_packet()..).zip(burst.packets()) {
            assert_eq!((packet.bytes(), packet.time_ns()), (&[number as u8; 48][..], number));
        }
    }
}

/// Writes beside two remote seats. `BURSTLINE_SCRIBBLERS` processes (0 to 2) scribble on them.
/// Campaign R17 counts the instructions of [`write_alone`] with and without them.
#[test]
#[ignore = "campaign R17 runs it under valgrind"]
fn role_write_beside_pages() {
    // Segments as a job has them.
    let config = of_segments("hostile", SEGMENTS, 256 << 10);
    let (log, mut writer) = Log::create(config).unwrap();
    let config =
        ReaderConfig { window: MAX_WINDOW, start: Start::Segment, ..ReaderConfig::default() };
    let seats = [(); 2].map(|()| log.attach_remote(config).unwrap());
    let count = env::var("BURSTLINE_SCRIBBLERS").map_or(0, |n| n.parse().unwrap());
    let scribblers: Vec<_> =
        (1..).zip(&seats).take(count).map(|(seed, seat)| spawn_scribbler(seat, seed)).collect();
    write_alone(&mut writer);
    let written: u64 = scribblers.into_iter().map(Scribbler::end).sum();
    assert_eq!((written > 0, writer.statistics().full), (count > 0, 0));
}

#[inline(never)]
fn write_alone(writer: &mut Writer) {
    for number in 0..PACKETS {
        append(writer, number);
        if number % 16 == 15 {
            writer.publish();
        }
    }
}

/// Writes beside a hostile and an honest reader, and returns the writer's counters.
fn write_beside(policy: Policy, keep_ns: Option<u64>) -> WriterStatistics {
    let packets = std::env::var("BURSTLINE_PACKETS").map_or(PACKETS, |n| n.parse().unwrap());
    let (log, mut writer) = log(keep_ns);
    let mut honest = log.attach(ReaderConfig::default()).unwrap();
    let config = ReaderConfig { policy, window: MAX_WINDOW, start: Start::Segment };
    let seats = [(); 2].map(|()| log.attach_remote(config).unwrap());
    let scribblers: Vec<_> =
        (1_u64..).zip(&seats).map(|(seed, seat)| spawn_scribbler(seat, seed * 7919)).collect();
    for number in 0..packets {
        append(&mut writer, number);
        if number % 16 == 15 {
            writer.publish();
            drain(&mut honest);
        }
    }
    let written: u64 = scribblers.into_iter().map(Scribbler::end).sum();
    println!("\nscribbled {written} words");
    let statistics = writer.statistics();
    drop(writer);
    drain(&mut honest);
    assert!(honest.is_finished());
    let seen = honest.statistics();
    ledger(packets, seen.delivered, &[("reader_overrun", seen.missed)]);
    assert_eq!((seen.delivered, seen.missed, seen.laps), (packets, 0, 0));
    assert_eq!((statistics.packets, statistics.bytes), (packets, 48 * packets));
    // A later reader finds the log intact.
    let mut late = log.attach(ReaderConfig { start: Start::Oldest, ..ReaderConfig::default() });
    drain(late.as_mut().unwrap());
    statistics
}

#[test]
fn a_scribbler_costs_nobody_a_packet() {
    for keep_ns in [None, Some(1_000_000), Some(u64::MAX)] {
        let statistics = write_beside(Policy::Lossy, keep_ns);
        assert_eq!((statistics.full, statistics.demoted), (0, 0), "{statistics:?}");
    }
}

#[test]
fn a_scribbler_on_a_lossless_seat_is_demoted_once_its_deadline_is_over() {
    let statistics = write_beside(Policy::Lossless, None);
    assert!(statistics.full == 0 && statistics.demoted <= 2, "{statistics:?}");
}
