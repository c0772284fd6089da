//! Captures with several receive threads and a log each: every packet once, every ledger adds up.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use burstline_engine::{
    CaptureOptions, Inlet, Limits, Policy, PollMode, Progress, Report, Run, Threads, capture,
};
use burstline_log::{LogConfig, Scratch};
use burstline_port::{
    FaultInjector, FaultPlan, Loss, OpenOptions, PortState, Sink, open_sink, open_source,
};
use burstline_sys::temporary::TemporaryFolder;

struct Job {
    sources: Vec<String>,
    receivers: usize,
    poll: PollMode,
    sink: String,
    /// Number of packets after which the sink breaks.
    breaks_after: Option<u64>,
    limits: Limits,
    policy: Option<Policy>,
    log_bytes: usize,
}

impl Job {
    /// Three receive threads, whatever the number of sources.
    fn new(sources: &[&str], sink: &str) -> Self {
        Self {
            sources: sources.iter().map(|&source| source.to_owned()).collect(),
            receivers: 3,
            poll: PollMode::default(),
            sink: sink.to_owned(),
            breaks_after: None,
            limits: Limits::default(),
            policy: None,
            log_bytes: 2 << 20,
        }
    }

    fn run_until(&self, stop: &AtomicBool, progress: &Progress) -> Report {
        let ports = OpenOptions::default();
        let open = |address: &String| Inlet::open(&address.parse().unwrap(), &ports).unwrap();
        let sources: Vec<_> = self.sources.iter().map(open).collect();
        let (receivers, poll) = (self.receivers, self.poll);
        let options = CaptureOptions {
            threads: Threads { receivers, poll, ..Threads::default() },
            log: LogConfig { bytes: self.log_bytes, ..LogConfig::default() },
            policy: self.policy,
            ..CaptureOptions::new(ports.table.clone())
        };
        let sink = || {
            let sink = open_sink(&self.sink.parse().unwrap(), &ports)?;
            let plan = FaultPlan { fail_after: self.breaks_after, ..FaultPlan::default() };
            Ok(Box::new(FaultInjector::new(sink, plan)) as Box<dyn Sink>)
        };
        let run = Run::new(stop, progress).within(self.limits);
        let report = capture(sources, sink, &options, &run).unwrap();
        assert_closed(&report);
        let names: Vec<_> = report.stages.iter().map(|stage| &stage.name[..]).collect();
        let several = ["receive-0", "receive-1", "receive-2", "record"];
        match self.receivers.min(self.sources.len()) {
            1 => assert_eq!(names, ["receive", "record"]),
            count => assert_eq!(names, [&several[..count], &["record"]].concat()),
        }
        report
    }

    fn run(&self) -> Report {
        self.run_until(&AtomicBool::new(false), &Progress::new(self.sources.len()))
    }
}

fn assert_closed(report: &Report) {
    for row in &report.ports {
        let sum = row.delivered + row.lost.total() + row.in_flight;
        assert_eq!((row.offered, row.unaccounted), (sum, 0), "{row:?}");
    }
    assert_eq!(report.total.unaccounted, 0, "{:?}", report.notes);
    let received: u64 = report.stages.iter().rev().skip(1).map(|stage| stage.packets_out).sum();
    assert_eq!(received, report.stages.last().unwrap().packets_in);
}

fn delivered(report: &Report) -> Vec<u64> {
    report.ports.iter().map(|row| row.delivered).collect()
}

/// Returns the times of all packets of a file, which tell generated packets apart.
fn times_in(path: &str) -> Vec<u64> {
    let mut port = open_source(&path.parse().unwrap(), &OpenOptions::default()).unwrap();
    let (mut scratch, mut times) = (Scratch::new(), Vec::new());
    loop {
        let lent = port.lend(&mut scratch, u64::MAX).unwrap();
        times.extend(lent.burst.packets().map(|packet| packet.time_ns()));
        if lent.state == PortState::Ended {
            return times;
        }
    }
}

const SECOND_NS: u64 = 1_000_000_000;

/// Returns an address of packets that come a microsecond apart, from second `start` on.
fn generator(packets: u64, start: u64) -> String {
    format!("gen:?packets={packets}&size=imix&start={}", start * SECOND_NS)
}

#[test]
fn every_packet_of_four_sources_is_in_the_file_once_and_in_its_row() {
    let directory = TemporaryFolder::create("burstline-once-").unwrap();
    let file = directory.file("a.pcapng");
    let counts = [40_000, 7, 30_000, 0];
    let sources = [0, 1, 2, 3].map(|index| generator(counts[index], 100 + index as u64));
    let sources = sources.each_ref().map(String::as_str);
    for poll in [PollMode::Adaptive, PollMode::Interrupt, PollMode::Busy] {
        let report = Job { poll, ..Job::new(&sources, &file) }.run();
        assert!(report.is_success(), "{:?}", report.errors);
        assert_eq!((delivered(&report), report.poll), (counts.to_vec(), poll));
        assert_eq!(report.memory.log_bytes, 3 * (2 << 20));
        // Sources 0 and 3 belong to the first thread.
        assert_eq!(report.stages[0].packets_out, 40_000);
        let times = times_in(&file);
        let distinct: HashSet<u64> = times.iter().copied().collect();
        assert_eq!((times.len(), distinct.len()), (70_007, 70_007));
        for (index, &count) in counts.iter().enumerate() {
            let of_source: Vec<u64> = times
                .iter()
                .copied()
                .filter(|time| time / SECOND_NS == 100 + index as u64)
                .collect();
            assert_eq!(of_source.len() as u64, count);
            assert!(of_source.is_sorted(), "packets of one source stay in order");
        }
    }
}

#[test]
fn interfaces_that_appear_while_threads_receive_belong_to_the_right_source() {
    let directory = TemporaryFolder::create("burstline-interfaces-").unwrap();
    // Files of one, two and three interfaces, with different numbers of packets.
    let mut files = Vec::new();
    for (index, interfaces) in [(1u64, 1u64), (2, 3), (3, 2), (4, 3), (5, 1)] {
        let file = directory.file(&format!("{index}.pcapng"));
        let sources: Vec<String> =
            (0..interfaces).map(|start| generator(1000 * index + start, start)).collect();
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
        let report = Job { receivers: 1, ..Job::new(&sources, &file) }.run();
        files.push((file, report.total.delivered, report.total.bytes));
    }
    let sources: Vec<&str> = files.iter().map(|(file, ..)| &file[..]).collect();
    let both = directory.file("all.pcapng");
    let report = Job::new(&sources, &both).run();
    assert!(report.is_success(), "{:?} {:?}", report.errors, report.notes);
    for (row, (file, packets, bytes)) in report.ports.iter().zip(&files) {
        assert_eq!((row.delivered, row.bytes), (*packets, *bytes), "{file}");
    }
    assert_eq!(times_in(&both).len() as u64, report.total.delivered);
}

#[test]
fn a_limit_is_exact_over_all_threads() {
    let sources = ["gen:?size=256", "gen:?size=64", "gen:?packets=5000", "gen:?seed=2"];
    for packets in [1, 1025, 200_003] {
        let limits = Limits { packets: Some(packets), duration_ns: None };
        let report = Job { limits, ..Job::new(&sources, "null:") }.run();
        assert!(report.is_success());
        assert_eq!((report.total.delivered, report.total.lost_total), (packets, 0));
    }
}

#[test]
fn a_job_that_is_stopped_in_the_middle_has_counted_everything() {
    let directory = TemporaryFolder::create("burstline-stopped-").unwrap();
    let file = directory.file("a.pcapng");
    for policy in [Policy::Lossless, Policy::Lossy] {
        let sources = ["gen:?rate=200k", "gen:?rate=300k", "gen:?rate=1000", "gen:?packets=10"];
        let (stop, progress) = (AtomicBool::new(false), Progress::new(4));
        let job = Job { policy: Some(policy), ..Job::new(&sources, &file) };
        let report = std::thread::scope(|scope| {
            let job = scope.spawn(|| job.run_until(&stop, &progress));
            while progress.snapshot().recorded.packets < 20_000 {
                std::thread::yield_now();
            }
            stop.store(true, Relaxed);
            job.join().unwrap()
        });
        assert!(report.is_success());
        let total = &report.total;
        assert_eq!(delivered(&report)[3] + report.ports[3].lost.total(), 10);
        let overrun = total.lost.of(Loss::ReaderOverrun);
        // Packets that a full log has no room for are not received: a slow machine has some.
        assert_eq!(total.delivered + overrun, progress.snapshot().received.packets);
        // By source, though a thread receives from two of them. Each packet has 60 bytes.
        for (place, row) in progress.places().iter().zip(&report.ports) {
            let packets = row.delivered + row.lost.of(Loss::ReaderOverrun);
            assert_eq!((place.counts.packets, place.counts.bytes), (packets, 60 * packets));
        }
        assert_eq!(times_in(&file).len() as u64, total.delivered);
    }
}

#[test]
fn a_sink_that_breaks_ends_all_threads_and_every_packet_is_counted() {
    let directory = TemporaryFolder::create("burstline-broken-").unwrap();
    let file = directory.file("a.pcapng");
    for policy in [Policy::Lossless, Policy::Lossy] {
        let sources = ["gen:?size=200", "gen:?size=64", "gen:?size=1518", "gen:?packets=100"];
        let breaks_after = Some(50_000);
        let policy = Some(policy);
        let report = Job { breaks_after, policy, ..Job::new(&sources, &file) }.run();
        assert_eq!(report.errors.len(), 1, "{:?}", report.errors);
        let total = &report.total;
        assert!(total.delivered <= 50_000 && total.lost_total > 0, "{total:?}");
        assert_eq!(total.offered, total.delivered + total.lost_total + total.in_flight);
        assert_eq!(times_in(&file).len() as u64, total.delivered);
    }
}

#[test]
fn what_a_lapped_recorder_missed_is_exact_for_each_log() {
    const PACKETS: u64 = 60_000;
    let directory = TemporaryFolder::create("burstline-lapped-").unwrap();
    let fifo = directory.file("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let sources = [0, 1, 2, 3].map(|index| generator(PACKETS, 100 + index));
    let job = Job {
        policy: Some(Policy::Lossy),
        log_bytes: 1 << 20,
        ..Job::new(&sources.each_ref().map(String::as_str), &fifo)
    };
    let progress = Progress::new(4);
    let (report, text) = std::thread::scope(|scope| {
        let job = scope.spawn(|| job.run_until(&AtomicBool::new(false), &progress));
        let mut pipe = File::open(&fifo).unwrap();
        // The pipe takes 64 KiB and each log 1 MiB; the rest of 88 MB laps the recorder.
        while progress.snapshot().received.packets < 4 * PACKETS {
            std::thread::yield_now();
        }
        let mut text = Vec::new();
        pipe.read_to_end(&mut text).unwrap();
        (job.join().unwrap(), text)
    });
    let missed = report.total.lost.of(Loss::ReaderOverrun);
    assert!(missed > 0 && report.is_success(), "{report:?}");
    assert_eq!(report.total.delivered + missed, 4 * PACKETS);
    let copy = directory.file("copy.pcapng");
    fs::write(&copy, text).unwrap();
    let times = times_in(&copy);
    let distinct: HashSet<u64> = times.iter().copied().collect();
    assert_eq!((times.len() as u64, distinct.len()), (report.total.delivered, times.len()));
    for (index, row) in report.ports.iter().enumerate() {
        let of_source = times.iter().filter(|&time| time / SECOND_NS == 100 + index as u64);
        assert_eq!(of_source.count() as u64, row.delivered);
    }
}

#[test]
fn a_source_without_packets_is_waited_for_in_sleep_and_by_busy_threads_awake() {
    let directory = TemporaryFolder::create("burstline-asleep-").unwrap();
    let fifo = directory.file("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // The time runs while threads are started, and they may wait for a core.
    let limits = Limits { packets: None, duration_ns: Some(SECOND_NS) };
    for receivers in [1, 2] {
        for poll in [PollMode::Adaptive, PollMode::Interrupt, PollMode::Busy] {
            let job = Job::new(&[&fifo, &fifo], "null:");
            let report = Job { receivers, poll, limits, ..job }.run();
            assert!(report.is_success(), "{:?}", report.errors);
            for stage in &report.stages {
                // A sleep is 100 ms unless something wakes it; a busy loop would have thousands.
                let most = if poll == PollMode::Busy { 0 } else { 80 };
                let least = u64::from(poll != PollMode::Busy);
                assert!((least..=most).contains(&stage.sleeps), "{poll:?} {stage:?}");
            }
        }
    }
}
