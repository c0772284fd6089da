//! Merges that copy nothing: the same order, out of the logs of receive threads.

use std::time::Duration;

use burstline_engine::{MergeOptions, Policy};
use burstline_port::Loss;

use crate::script::{How, SHARED, Step, run, run_as};
use crate::{FOR_EVER, SHORT, check, random, row};

/// A lossy recorder that takes its first packet after `packets` were received.
fn lossy(packets: u64) -> How {
    How { policy: Some(Policy::Lossy), stalls_until: packets, ..SHARED }
}

#[test]
fn the_order_is_that_of_a_merge_that_copies() {
    let scripts = || {
        vec![
            random(300_000, 9, 1),
            random(300_000, 9, 2),
            random(300_000, 3, 3),
            random(900, 9000, 4), // ends early, or late
            random(20, 2, 5),
        ]
    };
    let (report, got) = run_as(SHARED, scripts(), &FOR_EVER, None);
    let (_, copied) = run(scripts(), &FOR_EVER, None);
    assert_eq!((got.len(), check(&got, 5)), (900_920, 0));
    assert!(got == copied, "another order");
    assert_eq!(report.merge.as_ref().unwrap().late, 0);
    let names: Vec<_> = report.stages.iter().map(|stage| &stage.name[..]).collect();
    let receive = ["receive-0", "receive-1", "receive-2", "receive-3", "receive-4"];
    assert_eq!(names, [&receive[..], &["merge", "record"]].concat());
    assert_eq!(report.stages[5].packets_out, 900_920);
    assert_eq!(report.placement.threads.len(), 7);
}

#[test]
fn runs_of_one_port_are_named_as_a_whole() {
    // Each port in turn has a hundred packets, of the same time or not.
    let port = |number: u64| {
        let turn = |turn: u64| (0..100).map(move |at| (4 * turn + number) * 1000 + at / 2);
        let burst = |ten: u64| Step::Burst((10 * ten..10 * ten + 10).flat_map(turn).collect());
        (0..5).map(burst).collect::<Vec<_>>()
    };
    let scripts = || (0..4).map(port).collect::<Vec<_>>();
    let (_, got) = run_as(SHARED, scripts(), &FOR_EVER, None);
    assert_eq!((got.len(), check(&got, 4)), (20_000, 0));
    assert!(got == run(scripts(), &FOR_EVER, None).1, "another order");
}

#[test]
fn times_that_seconds_or_hours_lie_between_are_whole() {
    let port = |first: u64| {
        let times = (0..200).map(|at: u64| first + at * at * at * 1_000_000_000);
        vec![Step::Burst(times.collect())]
    };
    let scripts = || vec![port(0), port(500_000_000)];
    let (_, got) = run_as(SHARED, scripts(), &FOR_EVER, None);
    assert_eq!((got.len(), check(&got, 2)), (400, 0));
    assert!(got == run(scripts(), &FOR_EVER, None).1, "other times");
}

#[test]
fn an_idle_port_that_promises_costs_the_others_nothing() {
    // Without the promise the others would wait for it for an hour, and it for them.
    let idle = vec![
        Step::Idle(Some(100_000)),
        Step::IdleUntil(10_000),
        Step::Burst(vec![100_000, 100_001]),
    ];
    let (report, got) = run_as(SHARED, vec![idle, random(10_000, 9, 1)], &FOR_EVER, None);
    assert_eq!((got.len(), check(&got, 2), got[10_000]), (10_002, 0, (100_000, 0, 0)));
    assert_eq!(row(&report, 0).overdue, 0);
}

#[test]
fn a_silent_port_is_waited_for_only_so_long() {
    let silent = vec![Step::IdleUntil(10_000), Step::Burst(vec![1])];
    let (report, got) = run_as(SHARED, vec![silent, random(10_000, 9, 1)], &SHORT, None);
    // What comes after the silence is late, and not lost.
    assert_eq!((got.len(), check(&got, 2), got[10_000]), (10_001, 1, (1, 0, 0)));
    assert_eq!((row(&report, 0).overdue, row(&report, 0).late), (1, 1));
}

#[test]
fn a_port_that_is_slow_but_not_idle_is_waited_for() {
    // A thread that only waits for a core is idle; it gets one within that time.
    let merging = MergeOptions { lateness_ns: 50 * SHORT.lateness_ns, ..SHORT };
    let tens = (0..5).map(|ten: u64| Step::Burst((ten * 10..ten * 10 + 10).collect()));
    let pause = Duration::from_nanos(2 * merging.lateness_ns);
    let slow = tens.flat_map(|ten| [Step::Slow(pause), ten]);
    let scripts = vec![slow.collect(), vec![Step::Burst((0..1000).collect())]];
    let (report, got) = run_as(SHARED, scripts, &merging, None);
    assert_eq!((got.len(), check(&got, 2)), (1050, 0));
    assert_eq!((row(&report, 0).overdue, report.merge.as_ref().unwrap().late), (0, 0));
}

#[test]
fn a_clock_that_is_set_back_loses_nothing() {
    let stepped = vec![Step::Burst((100..200).collect()), Step::Burst((50..250).collect())];
    let unsorted = vec![Step::Burst(vec![10, 5, 20, 15, 300])];
    let scripts = vec![stepped, unsorted, random(500, 2, 1)];
    let (report, got) = run_as(SHARED, scripts, &FOR_EVER, None);
    assert_eq!(got.len(), 805);
    assert_eq!(report.merge.as_ref().unwrap().late, check(&got, 3));
}

#[test]
fn a_limit_counts_packets_as_they_are_received() {
    let scripts = vec![random(5000, 9, 1), random(5000, 9, 2)];
    let (report, got) = run_as(SHARED, scripts, &FOR_EVER, Some(3000));
    assert_eq!((got.len(), check(&got, 2)), (3000, 0));
    assert_eq!((report.total.delivered, report.total.in_flight), (3000, 0));
}

/// Both the recorder and the merging thread are lapped: the log of the order is full as well.
#[test]
fn what_a_recorder_that_stalls_has_missed_is_an_exact_count() {
    const EACH: usize = 700_000;
    let scripts = vec![random(EACH, 9, 1), random(EACH, 9, 2)];
    let (report, got) = run_as(lossy(2 * EACH as u64), scripts, &SHORT, None);
    let total = &report.total;
    assert_eq!((total.offered, total.unaccounted), (2 * EACH as u64, 0), "{:?}", report.notes);
    assert_eq!(got.len() as u64, total.delivered);
    let missed = total.lost.of(Loss::ReaderOverrun);
    assert!(missed > 0 && total.delivered > 0, "{missed} missed");
    assert_eq!(total.offered, total.delivered + missed);
    // What is left of each port is in its order, with its own bytes.
    for port in 0..2 {
        let own: Vec<_> = got.iter().filter(|packet| packet.1 == port).collect();
        assert!(own.is_sorted_by(|one, next| one.2 < next.2), "port {port}");
        assert_eq!(own.len() as u64, report.ports[usize::from(port)].delivered);
    }
}
