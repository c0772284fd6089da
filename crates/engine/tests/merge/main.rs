//! Merges ports: every packet once, in strict time order, whatever the ports do.

mod script;
mod shared;

use std::io;
use std::sync::atomic::AtomicBool;

use burstline_engine::{
    CaptureOptions, EngineError, Inlet, MergeOptions, MergedPort, Progress, Report, Run, merge,
};
use burstline_port::{OpenOptions, Tracer, open_sink};
use script::{Got, Step, run};

/// So long that a merge that waits for it would not end.
const FOR_EVER: MergeOptions =
    MergeOptions { lateness_ns: 3_600_000_000_000, offsets_ns: Vec::new(), is_one_thread: false };
const SHORT: MergeOptions =
    MergeOptions { lateness_ns: 1_000_000, offsets_ns: Vec::new(), is_one_thread: false };

/// Fails unless the packets of each port came in its order, each once. Returns how many were older
/// than one before them.
fn check(got: &[Got], ports: usize) -> u64 {
    let mut next = vec![0; ports];
    let (mut newest_ns, mut late) = (0, 0);
    let mut before = (0, 0);
    for &(time_ns, port, number) in got {
        assert_eq!(number, next[usize::from(port)], "of port {port}");
        next[usize::from(port)] += 1;
        late += u64::from(time_ns < newest_ns);
        newest_ns = newest_ns.max(time_ns);
        assert!(before.0 != time_ns || before.1 <= port, "at {time_ns}");
        before = (time_ns, port);
    }
    late
}

fn row(report: &Report, port: usize) -> &MergedPort {
    &report.merge.as_ref().unwrap().ports[port]
}

/// Bursts of up to 1,024 packets, at steps of `[0, most)` ns.
fn random(packets: usize, most: u64, seed: u64) -> Vec<Step> {
    let (mut chance, mut time_ns) = (seed, 0);
    let mut draw = |most: u64| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (chance >> 33) % most
    };
    let (mut steps, mut left) = (Vec::new(), packets);
    while left > 0 {
        let length = left.min(1 + draw(1024) as usize);
        let times = (0..length).map(|_| {
            time_ns += draw(most);
            time_ns
        });
        steps.push(Step::Burst(times.collect()));
        left -= length;
    }
    steps
}

/// Four ports, one much slower than the others, one with many equal times.
fn orderly(packets: usize, merging: &MergeOptions) -> Report {
    let scripts = vec![
        random(packets / 3, 9, 1),
        random(packets / 3, 9, 2),
        random(packets / 3, 3, 3),
        random(packets / 1000, 9000, 4),
    ];
    let all = 3 * (packets / 3) + packets / 1000;
    let (report, got) = run(scripts, merging, None);
    assert_eq!((got.len(), check(&got, 4)), (all, 0));
    let merged = report.merge.as_ref().unwrap();
    assert_eq!((merged.late, merged.is_per_packet), (0, true));
    report
}

#[test]
fn ten_million_packets_are_in_order() {
    let report = orderly(10_000_000, &FOR_EVER);
    assert_eq!((report.stages.len(), report.placement.threads.len()), (2, 2));
}

#[test]
fn one_thread_merges_and_records_the_same() {
    let report = orderly(1_000_000, &MergeOptions { is_one_thread: true, ..FOR_EVER });
    assert_eq!((report.stages.len(), report.placement.threads.len()), (1, 1));
    let (stage, total) = (&report.stages[0], &report.total);
    assert_eq!((&stage.name[..], stage.packets_in), ("merge", stage.packets_out + stage.lost));
    assert_eq!((stage.packets_out, total.offered), (total.delivered, total.delivered));
    // It waits for promises of other ports in the same way.
    let idle = vec![Step::Idle(Some(100)), Step::IdleUntil(900), Step::Burst(vec![1500])];
    let steady = vec![Step::Burst((0..1000).collect())];
    let merging = MergeOptions { is_one_thread: true, ..SHORT };
    let (report, got) = run(vec![idle, steady], &merging, None);
    assert_eq!((got.len(), check(&got, 2), got[1000]), (1001, 0, (1500, 0, 0)));
    assert_eq!(report.merge.unwrap().late, 0);
}

#[test]
fn a_silent_port_that_promises_nothing_is_waited_for_only_so_long() {
    let (report, got) = run(vec![vec![Step::Silent], random(10_000, 9, 1)], &SHORT, Some(10_000));
    assert_eq!((got.len(), check(&got, 2)), (10_000, 0));
    assert_eq!((row(&report, 0).overdue, row(&report, 0).late), (1, 0));
}

#[test]
fn an_idle_port_that_promises_is_believed() {
    let idle = vec![
        Step::Idle(Some(100)),
        Step::Idle(Some(100)),
        Step::Idle(Some(1500)),
        Step::Burst(vec![1500, 1600]),
        Step::Idle(Some(1700)),
        Step::Burst(vec![5000]),
    ];
    let (report, got) =
        run(vec![idle, vec![Step::Burst((0..1024).map(|at| at * 2).collect())]], &FOR_EVER, None);
    assert_eq!((got.len(), check(&got, 2)), (1027, 0));
    assert_eq!(got.iter().position(|packet| *packet == (1500, 0, 0)), Some(750));
    assert_eq!(row(&report, 0).overdue, 0);
}

#[test]
fn what_comes_after_a_long_silence_goes_at_once_and_is_counted() {
    let late = vec![
        Step::IdleUntil(2000),
        Step::Burst(vec![500, 1999, 2000]),
        Step::IdleUntil(2003),
        Step::Burst(vec![2500]),
    ];
    let steady = vec![
        Step::Burst((0..1000).map(|at| at * 2).collect()),
        Step::Burst((1000..2000).collect()),
        Step::IdleUntil(2004),
        Step::Burst(vec![3000]),
    ];
    let (report, got) = run(vec![late, steady], &SHORT, None);
    assert_eq!(got.len(), 2005);
    let number = |packet: &&Got| packet.1 == 0;
    assert_eq!(got.iter().filter(number).count(), 4);
    let merged = report.merge.as_ref().unwrap();
    // Late packets of the steady port are those older than its own 1998.
    assert_eq!(merged.late, check(&got, 2));
    assert_eq!((row(&report, 0).late, row(&report, 0).late_most_ns), (1, 1499));
    assert_eq!((row(&report, 1).late, row(&report, 1).late_most_ns), (998, 998));
    assert_eq!(
        got[2000..],
        [(500, 0, 0), (1999, 0, 1), (2000, 0, 2), (2500, 0, 3), (3000, 1, 2000)]
    );
}

#[test]
fn a_clock_that_is_set_back_and_a_port_out_of_order_lose_nothing() {
    let stepped = vec![Step::Burst((100..200).collect()), Step::Burst((50..250).collect())];
    let unsorted = vec![Step::Burst(vec![10, 5, 20, 15, 300])];
    let (report, got) = run(vec![stepped, unsorted, random(500, 2, 1)], &FOR_EVER, None);
    assert_eq!(got.len(), 805);
    assert_eq!(report.merge.as_ref().unwrap().late, check(&got, 3));
    // 50 to 198 are late; 199 is as old as the newest before.
    assert!(row(&report, 0).late >= 149, "{report:?}");
    assert_eq!((row(&report, 1).late, row(&report, 1).late_most_ns), (2, 5));
}

#[test]
fn extreme_times_are_only_times() {
    let ends = || vec![Step::Burst(vec![0, u64::MAX, u64::MAX, 0])];
    let (_, got) = run(vec![ends(), ends()], &SHORT, None);
    assert_eq!(got.len(), 8);
    let offsets_ns = vec![i64::MIN, i64::MAX];
    let merging = MergeOptions { offsets_ns, ..SHORT };
    let (_, got) = run(vec![ends(), ends()], &merging, None);
    assert_eq!((got.len(), got[0].0), (8, 0));
}

#[test]
fn offsets_bring_clocks_together() {
    let ahead = |by: u64| vec![Step::Burst((0..1000).map(|at| at * 10 + by).collect())];
    let merging = MergeOptions { offsets_ns: vec![0, -1_000_000, 5], ..FOR_EVER };
    let (report, got) = run(vec![ahead(0), ahead(1_000_003), ahead(0)], &merging, None);
    assert_eq!((got.len(), check(&got, 3)), (3000, 0));
    assert_eq!(got[..4], [(0, 0, 0), (3, 1, 0), (5, 2, 0), (10, 0, 1)]);
    assert_eq!((row(&report, 1).offset_ns, report.merge.as_ref().unwrap().late), (-1_000_000, 0));
}

#[test]
fn a_limit_takes_the_oldest_and_the_rest_is_in_flight() {
    let every = |step: u64| vec![Step::Burst((0..1000).map(|at| at * step).collect())];
    let (report, got) = run(vec![every(1), every(10)], &FOR_EVER, Some(600));
    assert_eq!((got.len(), check(&got, 2), got[599].0), (600, 0, 544));
    assert_eq!((report.total.in_flight, report.ports[0].in_flight), (1400, 455));
}

#[test]
fn a_port_that_lends_only_once_is_refused() {
    let ports = OpenOptions::default();
    let source = Inlet::open(&"gen:?packets=1".parse().unwrap(), &ports).unwrap();
    let traced = source.wrap(|port| Box::new(Tracer::new(port, Box::new(io::sink()))));
    let options = CaptureOptions::new(ports.table.clone());
    let (stop, progress) = (AtomicBool::new(false), Progress::new(1));
    let sink = || open_sink(&"null:".parse().unwrap(), &ports);
    let refused = merge(vec![traced], sink, &options, &SHORT, &Run::new(&stop, &progress));
    assert!(matches!(refused, Err(EngineError::LendsOnce { .. })), "{refused:?}");
}
