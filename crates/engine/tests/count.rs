//! Counts with real ports: limits are exact, jobs end on request, ledgers add up.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use burstline_engine::{EngineError, Inlet, Limits, Progress, Report, Run, Threads, count};
use burstline_port::OpenOptions;
use burstline_sys::affinity::CoreId;

fn open(addresses: &[&str]) -> Vec<Inlet> {
    let options = OpenOptions::default();
    let open = |address: &&str| Inlet::open(&address.parse().unwrap(), &options).unwrap();
    addresses.iter().map(open).collect()
}

fn run(addresses: &[&str], limits: &Limits) -> Report {
    let (stop, progress) = (AtomicBool::new(false), Progress::new(addresses.len()));
    let run = Run::new(&stop, &progress).within(*limits);
    count(open(addresses), &Threads::default(), &run).unwrap()
}

fn assert_closed(report: &Report) {
    for row in &report.ports {
        let sum = row.delivered + row.lost.total() + row.in_flight;
        assert_eq!((row.offered, row.unaccounted), (sum, 0), "{row:?}");
    }
    assert!(report.is_success(), "{:?} {:?}", report.errors, report.notes);
}

#[test]
fn sources_are_counted_to_their_end_apart_from_each_other() {
    let report =
        run(&["gen:?packets=70000&size=64", "gen:?packets=9&size=128"], &Limits::default());
    assert_closed(&report);
    let rows: Vec<_> = report.ports.iter().map(|row| (row.delivered, row.bytes)).collect();
    assert_eq!(rows, [(70_000, 70_000 * 60), (9, 9 * 124)]);
    assert_eq!((report.total.delivered, report.total.bytes_copied), (70_009, 0));
    assert_eq!(report.stages.len(), 2);
    let seconds = report.elapsed_ns as f64 / 1e9;
    let line_bits = (report.total.wire_bytes + 24 * 70_009) as f64 * 8.0;
    assert!((report.total.line_bits_per_s * seconds / line_bits - 1.0).abs() < 1e-9);
}

#[test]
fn a_limit_is_exact_over_several_sources() {
    for packets in [1, 1023, 1025, 1_000_003] {
        let limits = Limits { packets: Some(packets), duration_ns: None };
        let report = run(&["gen:", "gen:?seed=2", "gen:?packets=100"], &limits);
        assert_closed(&report);
        assert_eq!(report.total.delivered, packets);
    }
}

#[test]
fn a_limit_beyond_the_sources_ends_with_them() {
    let limits = Limits { packets: Some(1 << 40), duration_ns: None };
    let report = run(&["gen:?packets=5000", "gen:?packets=100"], &limits);
    assert_closed(&report);
    assert_eq!(report.total.delivered, 5100);
}

#[test]
fn a_duration_and_a_flag_end_endless_sources() {
    // The time runs while threads are started, and they may wait for a core.
    let limits = Limits { packets: None, duration_ns: Some(1_000_000_000) };
    let report = run(&["gen:", "gen:?rate=1000"], &limits);
    assert_closed(&report);
    assert!(report.elapsed_ns >= 1_000_000_000 && report.total.delivered > 0);

    let (stop, progress) = (AtomicBool::new(false), Progress::new(1));
    let report = std::thread::scope(|scope| {
        let threads = Threads::default();
        let (stop, progress) = (&stop, &progress);
        let job = scope.spawn(move || count(open(&["gen:"]), &threads, &Run::new(stop, progress)));
        while progress.snapshot().received.packets < 10_000 {
            std::thread::yield_now();
        }
        stop.store(true, Relaxed);
        job.join().unwrap().unwrap()
    });
    assert_closed(&report);
    assert_eq!(progress.snapshot().received.packets, report.total.delivered);
}

#[test]
fn threads_need_a_core_each_that_they_may_use() {
    let (stop, progress) = (AtomicBool::new(false), Progress::new(2));
    let try_cores = |cores: Vec<CoreId>| {
        let threads = Threads { cores, ..Threads::default() };
        count(open(&["gen:?packets=1", "gen:"]), &threads, &Run::new(&stop, &progress))
    };
    let error = try_cores(vec![CoreId(0)]).unwrap_err();
    assert!(matches!(error, EngineError::TooFewCores { threads: 2, cores: 1 }), "{error}");
    // The endless source ends because the other thread could not start.
    let error = try_cores(vec![CoreId(8191), CoreId(0)]).unwrap_err();
    assert!(matches!(error, EngineError::Affinity(_)), "{error}");
}
