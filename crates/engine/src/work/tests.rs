use std::fs;
use std::sync::atomic::AtomicBool;

use burstline_port::OpenOptions;
use burstline_sys::temporary::TemporaryFolder;

use super::*;
use crate::{Limits, Progress, Run, Threads};

const FILES: u32 = 10;
const THREADS: usize = 3;

/// Makes files of 1, 2, 3 ... packets, and opens them with a generator of 5 packets in between.
fn open(folder: &TemporaryFolder) -> Vec<Inlet> {
    let options = OpenOptions::default();
    let mut sources = Vec::new();
    for number in 1..=FILES {
        let path = folder.file(&format!("{number}.pcap"));
        let mut words = vec![0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1];
        (0..number).for_each(|second| words.extend([second, 0, 4, 60, number]));
        fs::write(&path, words.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<u8>>())
            .unwrap();
        sources.push(Inlet::open(&path.parse().unwrap(), &options).unwrap());
        if number == 6 {
            sources.push(Inlet::open(&"gen:?packets=5".parse().unwrap(), &options).unwrap());
        }
    }
    sources
}

/// Counts the sources with few threads for files.
fn count(sources: &mut [Inlet], limits: Limits) -> Reported<()> {
    let (stop, progress) = (AtomicBool::new(false), Progress::new(sources.len()));
    let (run, threads) = (Run::new(&stop, &progress).within(limits), Threads::default());
    let job = Job::start(&threads, &run);
    progress.start(0);
    let works = sources.iter().map(|_| |_: &Burst<'_>| {}).collect();
    let crew = run_within(&job, sources, works, "poll", THREADS).unwrap();
    let reported = report(&job, sources, crew, "poll");
    assert_eq!(progress.snapshot().received.packets, reported.report.total.delivered);
    reported
}

#[test]
fn many_files_share_a_few_threads_and_each_has_its_row() {
    let folder = TemporaryFolder::create("burstline-work-").unwrap();
    let mut sources = open(&folder);
    let Reported { report, outcomes } = count(&mut sources, Limits::default());
    let rows: Vec<_> = report.ports.iter().map(|row| row.delivered).collect();
    assert_eq!(rows, [1, 2, 3, 4, 5, 6, 5, 7, 8, 9, 10]);
    for (row, source) in report.ports.iter().zip(&sources) {
        assert_eq!((&row.port, row.unaccounted), (&source.port.info().name, 0));
    }
    assert_eq!(outcomes.len(), sources.len());
    // The generator has a thread of its own.
    let names: Vec<_> = report.stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!(names, ["poll-0", "poll-1", "poll-2", "poll-6"]);
    assert_eq!(report.placement.threads.len(), names.len());
    let through: u64 = report.stages.iter().map(|stage| stage.packets_out).sum();
    assert_eq!((through, report.total.delivered), (60, 60));
    assert!(report.is_success(), "{:?}", report.errors);
}

#[test]
fn a_limit_ends_the_job_with_files_that_nobody_has_begun() {
    let folder = TemporaryFolder::create("burstline-work-").unwrap();
    for packets in [1, 7, 59] {
        let mut sources = open(&folder);
        let limits = Limits { packets: Some(packets), duration_ns: None };
        let Reported { report, outcomes } = count(&mut sources, limits);
        assert_eq!(report.total.delivered, packets);
        assert_eq!((report.ports.len(), outcomes.len()), (sources.len(), sources.len()));
        assert!(report.ports.iter().all(|row| row.unaccounted == 0), "{:?}", report.ports);
    }
}
