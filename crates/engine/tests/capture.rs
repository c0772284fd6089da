//! Captures with real ports: the file has what the ledger says, whatever goes wrong.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use burstline_engine::{
    CaptureOptions, EngineError, Inlet, Limits, Policy, Progress, Report, Run, Threads, capture,
    count,
};
use burstline_log::LogConfig;
use burstline_port::{Loss, OpenOptions, open_sink};
use burstline_sys::temporary::TemporaryFolder;

struct Job<'a> {
    sources: &'a [&'a str],
    sink: &'a str,
    limits: Limits,
    policy: Option<Policy>,
    log_bytes: usize,
}

impl Default for Job<'_> {
    fn default() -> Self {
        let (limits, policy) = (Limits::default(), None);
        Self { sources: &[], sink: "null:", limits, policy, log_bytes: 4 << 20 }
    }
}

impl Job<'_> {
    fn try_run(&self, progress: &Progress) -> Result<Report, EngineError> {
        let ports = OpenOptions::default();
        let open = |address: &&str| Inlet::open(&address.parse().unwrap(), &ports).unwrap();
        let sources: Vec<_> = self.sources.iter().map(open).collect();
        let log = LogConfig { bytes: self.log_bytes, ..LogConfig::default() };
        let policy = self.policy;
        let options = CaptureOptions { log, policy, ..CaptureOptions::new(ports.table.clone()) };
        let sink = || open_sink(&self.sink.parse().unwrap(), &ports);
        let stop = AtomicBool::new(false);
        let run = Run::new(&stop, progress).within(self.limits);
        capture(sources, sink, &options, &run)
    }

    fn run(&self) -> Report {
        self.try_run(&Progress::new(self.sources.len())).unwrap()
    }
}

fn assert_closed(report: &Report) {
    for row in &report.ports {
        let sum = row.delivered + row.lost.total() + row.in_flight;
        assert_eq!((row.offered, row.unaccounted), (sum, 0), "{row:?}");
    }
    assert_eq!(report.total.unaccounted, 0, "{:?}", report.notes);
}

fn packets_in(path: &str) -> (u64, u64) {
    let options = OpenOptions::default();
    let source = Inlet::open(&path.parse().unwrap(), &options).unwrap();
    let (stop, progress) = (AtomicBool::new(false), Progress::new(1));
    let sources = vec![source];
    let report = count(sources, &Threads::default(), &Run::new(&stop, &progress)).unwrap();
    assert!(report.is_success(), "{:?} {:?}", report.notes, report.errors);
    (report.total.delivered, report.total.bytes)
}

#[test]
fn several_sources_are_in_the_file_and_in_their_own_rows() {
    let directory = TemporaryFolder::create("burstline-several-").unwrap();
    let file = directory.file("a.pcapng");
    let sources = ["gen:?packets=30000&size=64", "gen:?packets=500&size=1000", "gen:?packets=0"];
    let report = Job { sources: &sources, sink: &file, ..Job::default() }.run();
    assert_closed(&report);
    assert!(report.is_success());
    let rows: Vec<_> = report.ports.iter().map(|row| (row.delivered, row.bytes)).collect();
    assert_eq!(rows, [(30_000, 30_000 * 60), (500, 500 * 996), (0, 0)]);
    assert_eq!(packets_in(&file), (30_500, 30_000 * 60 + 500 * 996));
    assert_eq!(report.stages[0].packets_out, report.stages[1].packets_in);
}

#[test]
fn a_limit_is_exact_and_a_small_log_holds_sources_up() {
    let limits = Limits { packets: Some(200_001), duration_ns: None };
    let sources = ["gen:?size=256", "gen:?size=64"];
    let report = Job { sources: &sources, limits, log_bytes: 1 << 20, ..Job::default() }.run();
    assert_closed(&report);
    assert_eq!(report.total.delivered, 200_001);
    assert_eq!(report.total.lost_total, 0);
}

#[test]
fn what_a_lapped_recorder_missed_is_an_exact_count() {
    const PACKETS: u64 = 100_000;
    let directory = TemporaryFolder::create("burstline-lapped-").unwrap();
    let fifo = directory.file("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let progress = Progress::new(1);
    let source = format!("gen:?packets={PACKETS}&size=256&rate=2M");
    let job = Job { sources: &[&source], sink: &fifo, log_bytes: 1 << 20, ..Job::default() };
    let (report, text) = std::thread::scope(|scope| {
        let job = scope.spawn(|| job.try_run(&progress).unwrap());
        let mut pipe = File::open(&fifo).unwrap();
        // The pipe takes 64 KiB and the log 1 MiB; the rest of 25 MB laps the recorder.
        while progress.snapshot().received.packets < PACKETS {
            std::thread::yield_now();
        }
        let mut text = Vec::new();
        pipe.read_to_end(&mut text).unwrap();
        (job.join().unwrap(), text)
    });
    assert_closed(&report);
    assert_eq!(report.total.offered, PACKETS);
    let missed = report.total.lost.of(Loss::ReaderOverrun);
    assert!(missed > 0, "{report:?}");
    assert_eq!(report.total.delivered + missed, PACKETS);
    assert!(report.is_success(), "a loss that is explained is no failure: {:?}", report.errors);
    let copy = directory.file("copy.pcapng");
    fs::write(&copy, text).unwrap();
    assert_eq!(packets_in(&copy).0, report.total.delivered);
}

#[test]
fn a_full_device_ends_the_job_and_every_packet_is_counted() {
    let sources = ["gen:?size=200", "gen:?size=64"];
    let report = Job { sources: &sources, sink: "file:/dev/full", ..Job::default() }.run();
    assert_closed(&report);
    assert_eq!((report.total.delivered, report.total.bytes), (0, 0));
    assert!(report.total.offered > 0);
    assert_eq!(report.total.lost.of(Loss::DiskFull) + report.total.in_flight, report.total.offered);
    assert!(!report.is_success() && report.errors.len() == 1, "{:?}", report.errors);
}

#[test]
fn an_input_is_not_written_and_a_job_that_cannot_begin_leaves_no_file() {
    let directory = TemporaryFolder::create("burstline-refused-").unwrap();
    let file = directory.file("a.pcapng");
    Job { sources: &["gen:?packets=10"], sink: &file, ..Job::default() }.run();
    let before = fs::read(&file).unwrap();
    let progress = Progress::new(1);
    let same = Job { sources: &[&file], sink: &file, ..Job::default() }.try_run(&progress);
    assert!(matches!(same, Err(EngineError::Port(_))), "{same:?}");
    assert_eq!(fs::read(&file).unwrap(), before);

    let other = directory.file("b.pcapng");
    let tiny = Job { sources: &[&file], sink: &other, log_bytes: 4096, ..Job::default() };
    assert!(matches!(tiny.try_run(&progress), Err(EngineError::Log(_))));
    assert!(!Path::new(&other).exists());
}
