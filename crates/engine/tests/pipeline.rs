//! Pipelines of any shape: the ledger of every stage adds up.

use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use burstline_engine::{
    CaptureOptions, Inlet, Pipeline, Policy, Progress, Report, Run, Threads, run_to_completion,
};
use burstline_log::LogConfig;
use burstline_port::OpenOptions;
use burstline_wire::hash::HashKind;

fn ports() -> OpenOptions {
    OpenOptions { hash: HashKind::FiveTuple, ..OpenOptions::default() }
}

fn options(ports: &OpenOptions, policy: Option<Policy>) -> CaptureOptions {
    let log = LogConfig { bytes: 1 << 20, segment_bytes: 64 << 10, ..LogConfig::default() };
    CaptureOptions { log, policy, ..CaptureOptions::new(ports.table.clone()) }
}

fn open(address: &str, ports: &OpenOptions) -> Vec<Inlet> {
    Inlet::open_all(&address.parse().unwrap(), ports).unwrap()
}

fn run(pipeline: Pipeline<'_>) -> Report {
    let (sources, workers) = pipeline.size();
    let progress = Progress::with_workers(sources, workers);
    let report = pipeline.run(&Run::new(&AtomicBool::new(false), &progress)).unwrap();
    assert!(report.is_success(), "{:?} {:?}", report.errors, report.notes);
    for stage in &report.stages {
        assert_eq!(stage.packets_in, stage.packets_out + stage.lost, "{}", stage.name);
    }
    assert_eq!(report.placement.threads.len(), report.stages.len());
    report
}

fn stage(report: &Report, name: &str) -> (u64, u64, u64) {
    let stage = report.stages.iter().find(|stage| stage.name == name).unwrap();
    (stage.packets_in, stage.packets_out, stage.lost)
}

#[test]
fn packets_fan_out_and_in_again_and_each_stage_closes() {
    let ports = ports();
    let mut pipeline = Pipeline::new(options(&ports, None));
    let seen = Mutex::new([0_u64; 3]);
    let look = |at: usize, packets: usize| seen.lock().unwrap()[at] += packets as u64;
    let left = pipeline.receive("left", open("gen:?packets=30000&flows=64&seed=1", &ports));
    let right = pipeline.receive("right", open("gen:?packets=20000&flows=64&seed=2", &ports));
    let parts =
        pipeline.route("part", &[left, right], 2, |packet| match packet.desc().hash() % 4 {
            0 => None,
            1 => Some(7), // there is no such lane
            rest => Some(rest as usize - 2),
        });
    pipeline.work("both", &parts, |burst| look(0, burst.len()));
    pipeline.work("one", &parts[..1], |burst| look(1, burst.len()));
    pipeline.work("all", &[left, right], |burst| look(2, burst.len()));
    let report = run(pipeline);
    assert_eq!((report.total.offered, report.total.delivered), (50_000, 50_000));
    assert_eq!(stage(&report, "left"), (30_000, 30_000, 0));
    assert_eq!(stage(&report, "right"), (20_000, 20_000, 0));
    assert_eq!(stage(&report, "all"), (50_000, 50_000, 0));
    let (came, went, shed) = stage(&report, "part");
    assert!(came == 50_000 && went > 0 && shed > 0, "{went} {shed}");
    assert_eq!(stage(&report, "both"), (went, went, 0));
    let one = stage(&report, "one").0;
    assert!(one > 0 && one < went);
    assert_eq!(seen.into_inner().unwrap(), [went, one, 50_000]);
}

#[test]
fn a_slow_stage_that_may_be_lapped_knows_what_it_missed() {
    let ports = ports();
    let mut pipeline = Pipeline::new(options(&ports, Some(Policy::Lossy)));
    let lane = pipeline.receive("receive", open("gen:?packets=300000&size=64", &ports));
    let mut seen = 0;
    pipeline.work("slow", &[lane], |burst| {
        seen += burst.len() as u64;
        std::thread::sleep(Duration::from_millis(2));
    });
    let report = run(pipeline);
    let (came, went, lost) = stage(&report, "slow");
    assert!(came == 300_000 && lost > 0, "{came} = {went} + {lost}");
    assert_eq!(seen, went);
}

#[test]
fn a_packet_that_no_lane_holds_whole_is_cut_once() {
    let ports = ports();
    let (mut options, mut lengths) = (options(&ports, None), Vec::new());
    options.log.segment_bytes = 4096;
    let mut pipeline = Pipeline::new(options);
    let lane = pipeline.receive("receive", open("gen:?packets=300&size=9000", &ports));
    let parts = pipeline.route("part", &[lane], 1, |_| Some(0));
    pipeline.work("look", &parts, |burst| {
        lengths.extend(burst.packets().map(|packet| (packet.length(), packet.original_length())));
    });
    let report = run(pipeline);
    assert_eq!((report.total.truncated, report.ports[0].truncated), (300, 300));
    assert_eq!(lengths, vec![(4096 - 16 - 32, 8996); 300]);
}

#[test]
fn run_to_completion_gives_each_source_a_closure_of_its_own() {
    let ports = ports();
    let sources =
        [100, 2000].map(|packets| open(&format!("gen:?packets={packets}&size=64"), &ports));
    let counts = Mutex::new([0; 2]);
    let (stop, progress) = (AtomicBool::new(false), Progress::new(2));
    let work_for = |source: usize| {
        let counts = &counts;
        move |burst: &burstline_log::Burst<'_>| counts.lock().unwrap()[source] += burst.len()
    };
    let sources = sources.into_iter().flatten().collect();
    let (threads, run) = (Threads::default(), Run::new(&stop, &progress));
    let report = run_to_completion(sources, work_for, &threads, &run);
    assert_eq!(report.unwrap().total.delivered, 2100);
    assert_eq!(counts.into_inner().unwrap(), [100, 2000]);
}

#[test]
fn the_example_says_that_its_stages_close() {
    // Cargo builds it with the tests, unless only this test file was requested.
    let built = std::env::current_exe().unwrap().parent().unwrap().join("../examples/three_stages");
    let mut example = Command::new(&built);
    if !built.exists() {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        example = Command::new(cargo);
        example.args(["run", "-q", "-p", "burstline-engine", "--example", "three_stages"]);
    }
    let output = example.arg("gen:?packets=100000&size=imix").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.matches("closes: true").count(), 4, "{said}");
    assert!(said.contains("receive       100000 =    100000 + 0 lost"), "{said}");
}
