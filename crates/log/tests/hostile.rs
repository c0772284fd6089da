//! A hostile reader process writes to everything it can, its own page: random values, at full
//! speed, until it is told to end. Neither the writer nor a lossless reader on another thread lose
//! a packet, and a lossy one knows what it lost.
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
    Appended, Log, LogConfig, MAX_WINDOW, Meta, Policy, Reader, ReaderConfig, ReaderStatistics,
    RemoteSeat, Start, Writer, WriterStatistics,
};
use burstline_skip::ledger;
use burstline_sys::memory::Mapping;
use rustix::io::{FdFlags, fcntl_setfd};

use config::of_segments;

const SEGMENT_BYTES: usize = 4096;
const SEGMENTS: usize = 32;
/// Number of packets, unless `BURSTLINE_PACKETS` is set.
const PACKETS: u64 = 300_000;
/// How far the writer may be ahead of the lossless reader, in packets: a quarter of the log.
/// Whoever makes it wait for a segment is a scribbler.
const AHEAD: u64 = 512;
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

/// Reads on a thread of its own until the log ends, and shows how many packets it has read.
fn read_to_the_end(mut reader: Reader, read: &AtomicU64) -> ReaderStatistics {
    while !reader.is_finished() {
        drain(&mut reader);
        // A number for the writer's pace only; it carries no memory.
        read.store(reader.statistics().delivered, Relaxed);
        thread::yield_now();
    }
    assert!(!reader.is_demoted());
    reader.statistics()
}

/// Writes all packets, and waits whenever it is [`AHEAD`] of the lossless reader.
fn write_in_step(writer: &mut Writer, packets: u64, read: &AtomicU64, is_gone: impl Fn() -> bool) {
    for number in 0..packets {
        append(writer, number);
        if number % 16 == 15 {
            writer.publish();
            while number - read.load(Relaxed).min(number) > AHEAD {
                assert!(!is_gone(), "the lossless reader ended at packet {number}");
                thread::yield_now();
            }
        }
    }
}

/// Writes beside two hostile and two honest readers, one of them lossless, each on its own thread.
/// Returns the writer's counters.
fn write_beside(policy: Policy, keep_ns: Option<u64>) -> WriterStatistics {
    let packets = std::env::var("BURSTLINE_PACKETS").map_or(PACKETS, |n| n.parse().unwrap());
    let (log, mut writer) = log(keep_ns);
    let attach = |policy| log.attach(ReaderConfig { policy, ..ReaderConfig::default() }).unwrap();
    let (lossless, lossy) = (attach(Policy::Lossless), attach(Policy::Lossy));
    let config = ReaderConfig { policy, window: MAX_WINDOW, start: Start::Segment };
    let seats = [(); 2].map(|()| log.attach_remote(config).unwrap());
    let scribblers: Vec<_> =
        (1_u64..).zip(&seats).map(|(seed, seat)| spawn_scribbler(seat, seed * 7919)).collect();
    let read = [const { AtomicU64::new(0) }; 2];
    let (statistics, lossless, lossy) = thread::scope(|scope| {
        let lossless = scope.spawn(|| read_to_the_end(lossless, &read[0]));
        let lossy = scope.spawn(|| read_to_the_end(lossy, &read[1]));
        write_in_step(&mut writer, packets, &read[0], || lossless.is_finished());
        let written: u64 = scribblers.into_iter().map(Scribbler::end).sum();
        println!("\nscribbled {written} words");
        let statistics = writer.statistics();
        drop(writer); // the end of the log
        (statistics, lossless.join().unwrap(), lossy.join().unwrap())
    });
    for seen in [&lossless, &lossy] {
        ledger(packets, seen.delivered, &[("reader_overrun", seen.missed)]);
    }
    assert_eq!((lossless.delivered, lossless.missed, lossless.laps), (packets, 0, 0));
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
