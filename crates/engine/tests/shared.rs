//! Logs of several receive threads under one name, read as one source of several ports.

use std::sync::atomic::AtomicBool;
use std::thread;

use burstline_engine::{
    CaptureOptions, Inlet, PollMode, Progress, Report, Run, Threads, capture, count,
};
use burstline_log::LogConfig;
use burstline_port::{Loss, OpenOptions, open_sink};
use burstline_share::{LosslessReaders, PublishConfig};
use burstline_sys::memory::PageChoice;
use burstline_sys::temporary::TemporaryFolder;

const PACKETS: u64 = 30_000;

/// Captures two paced sources on two receive threads, published as `name`.
fn publish(name: &str) -> Report {
    let ports = OpenOptions::default();
    // Slow enough that the readers come before the end.
    let sources = ["gen:?packets=30000&rate=10k&size=64", "gen:?packets=30000&rate=10k&size=100"];
    let open = |address: &&str| Inlet::open(&address.parse().unwrap(), &ports).unwrap();
    let lossless = LosslessReaders::Forever;
    let options = CaptureOptions {
        threads: Threads { receivers: 2, ..Threads::default() },
        log: log_config(),
        publish: Some(PublishConfig { lossless, ..PublishConfig::new(name) }),
        ..CaptureOptions::new(ports.table.clone())
    };
    let progress = Progress::new(sources.len());
    let sources = sources.iter().map(open).collect();
    let sink = || open_sink(&"null:".parse().unwrap(), &ports);
    capture(sources, sink, &options, &Run::new(&AtomicBool::new(false), &progress)).unwrap()
}

fn log_config() -> LogConfig {
    LogConfig { bytes: 4 << 20, pages: PageChoice::Size4K, ..LogConfig::default() }
}

/// Opens all logs of the name.
fn open(name: &str, ports: &OpenOptions) -> Vec<Inlet> {
    let address = format!("log:{name}?lossless&from=oldest&wait=60s");
    Inlet::open_all(&address.parse().unwrap(), ports).unwrap()
}

#[test]
fn several_receive_cores_are_one_name() {
    let directory = TemporaryFolder::create("burstline-shared-").unwrap();
    let name = directory.file("tap");
    let stop = AtomicBool::new(false);
    let (published, counted, captured) = thread::scope(|scope| {
        let publisher = scope.spawn(|| publish(&name));
        // One thread per log.
        let counter = scope.spawn(|| {
            let sources = open(&name, &OpenOptions::default());
            let threads = Threads { poll: PollMode::Interrupt, ..Threads::default() };
            let progress = Progress::new(sources.len());
            count(sources, &threads, &Run::new(&stop, &progress)).unwrap()
        });
        // One thread for both, which copies them into its own log.
        let recorder = scope.spawn(|| {
            let ports = OpenOptions::default();
            let sources = open(&name, &ports);
            let options =
                CaptureOptions { log: log_config(), ..CaptureOptions::new(ports.table.clone()) };
            let sink = || open_sink(&"null:".parse().unwrap(), &ports);
            let progress = Progress::new(sources.len());
            capture(sources, sink, &options, &Run::new(&stop, &progress)).unwrap()
        });
        (publisher.join().unwrap(), counter.join().unwrap(), recorder.join().unwrap())
    });
    for report in [&published, &counted, &captured] {
        assert!(report.is_success(), "{report:?}");
    }
    let by_log = published.published.as_ref().unwrap();
    // A paced source loses packets that there is no room for, and counts them.
    let lost = |row: usize| published.ports[row].lost.of(Loss::LogFull);
    assert_eq!(by_log.packets, [PACKETS - lost(0), PACKETS - lost(1)]);
    assert_eq!((by_log.readers_total, by_log.is_stopped), (2, false));
    for report in [&counted, &captured] {
        for (number, row) in report.ports.iter().enumerate() {
            assert_eq!(row.port, format!("log:{name}@{number}"));
            assert_eq!(row.offered, row.delivered, "lossless: {row:?}");
            let told = by_log.gone.iter().chain(&by_log.there);
            let told = told.filter(|one| one.log == number as u32 && one.missed == 0);
            assert!(told.map(|one| one.delivered).any(|read| read == row.delivered), "{row:?}");
        }
    }
    // The bytes show the port of each packet: each log's packets are in its own row.
    let lengths = |row: usize| captured.ports[row].bytes / captured.ports[row].delivered.max(1);
    assert_eq!((lengths(0), lengths(1)), (60, 96));
    assert_eq!((counted.total.bytes_copied, counted.timestamp.source.as_str()), (0, "synthetic"));
}
