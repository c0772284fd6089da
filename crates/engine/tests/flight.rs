//! The flight recorder over several logs: each source's row adds up, whatever the trigger.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use burstline_engine::{
    CaptureOptions, EngineError, FlightOptions, Inlet, Progress, Report, Run, Threads,
    capture_flight,
};
use burstline_log::LogConfig;
use burstline_port::{Loss, OpenOptions, PortError, open_sink};

const SOURCES: [&str; 3] =
    ["gen:?packets=30000&size=64", "gen:?packets=500&size=1000", "gen:?packets=20000&size=imix"];
const PACKETS: [u64; 3] = [30_000, 500, 20_000];
const HOUR_NS: u64 = 3_600_000_000_000;

/// Runs a job over two logs, with or without a trigger before it begins. Counts its files.
fn run(is_triggered: bool, sink: &'static str) -> (Report, usize) {
    let ports = OpenOptions::default();
    let open = |address: &str| Inlet::open(&address.parse().unwrap(), &ports).unwrap();
    let sources: Vec<_> = SOURCES.into_iter().map(open).collect();
    let options = CaptureOptions {
        threads: Threads { receivers: 2, ..Threads::default() },
        log: LogConfig { bytes: 16 << 20, keep_ns: Some(HOUR_NS), ..LogConfig::default() },
        ..CaptureOptions::new(ports.table.clone())
    };
    let trigger = &AtomicBool::new(is_triggered);
    let flight = FlightOptions { trigger, after_ns: HOUR_NS, triggers_on_loss: false };
    let (stop, progress) = (AtomicBool::new(false), Progress::new(sources.len()));
    let run = Run::new(&stop, &progress);
    let files = Arc::new(AtomicUsize::new(0));
    let opened = Arc::clone(&files);
    let file = || -> Result<_, PortError> {
        opened.fetch_add(1, Ordering::Relaxed);
        Ok((sink.to_owned(), open_sink(&sink.parse().unwrap(), &ports)?))
    };
    let report = capture_flight(sources, file, &options, &flight, &run).unwrap();
    for (row, packets) in report.ports.iter().zip(PACKETS) {
        let sum = row.delivered + row.lost.total() + row.in_flight;
        assert_eq!((row.offered, row.unaccounted, sum), (packets, 0, packets), "{row:?}");
    }
    assert_eq!(report.total.unaccounted, 0, "{:?}", report.notes);
    (report, files.load(Ordering::Relaxed))
}

#[test]
fn a_trigger_before_the_first_packet_has_all_of_every_log_written() {
    let (report, files) = run(true, "null:");
    assert!(report.is_success() && files == 1);
    assert_eq!(report.total.delivered, PACKETS.iter().sum::<u64>());
    let flight = report.flight.unwrap();
    assert_eq!((flight.files[0].packets, flight.shortest_ns), (report.total.delivered, None));
}

#[test]
fn without_a_trigger_every_row_has_expired() {
    let (report, files) = run(false, "null:");
    assert!(report.is_success() && files == 0);
    let expired = report.ports.iter().map(|row| row.lost.of(Loss::Expired));
    assert!(expired.eq(PACKETS));
    assert_eq!(report.total.lost.missing(), 0);
}

#[test]
fn a_file_that_breaks_or_cannot_be_made_ends_the_job_with_its_ledger_closed() {
    for sink in ["file:/dev/full", "file:/nowhere/x"] {
        let (ports, progress) = (OpenOptions::default(), Progress::new(1));
        let source = Inlet::open(&"gen:?rate=100000".parse().unwrap(), &ports).unwrap();
        let options = CaptureOptions {
            log: LogConfig { bytes: 4 << 20, keep_ns: Some(HOUR_NS), ..LogConfig::default() },
            ..CaptureOptions::new(ports.table.clone())
        };
        let trigger = &AtomicBool::new(true);
        let flight = FlightOptions { trigger, after_ns: 1, triggers_on_loss: false };
        let stop = AtomicBool::new(false);
        let file = || Ok((sink.to_owned(), open_sink(&sink.parse().unwrap(), &ports)?));
        let run = Run::new(&stop, &progress);
        let report = capture_flight(vec![source], file, &options, &flight, &run);
        let report = report.unwrap();
        assert!(matches!(report.errors[..], [EngineError::Port(_)]), "{:?}", report.errors);
        assert_eq!((report.total.delivered, report.total.unaccounted), (0, 0), "{report:?}");
    }
}
