use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::contenders::Searches;
use crate::scenario::Places;

fn sample_of(merger: &Merger, size_bytes: u32, case: &str) -> Sample {
    let cores = Cores::allowed();
    let stop = Arc::new(AtomicBool::new(false));
    let places = Places { generator: cores.producer, contender: vec![cores.consumer] };
    let searches = Searches::default();
    let job = Job::new(Work::Merge, places, &stop, &searches);
    let job = Job { size_bytes, case: Some(case), packets: Some(16_384), ..job };
    merger.measure(&job).unwrap_or_else(|why| panic!("{} {size_bytes} {case}: {why}", merger.name))
}

/// Each run checks that all packets are accounted for.
#[test]
fn each_merges_packets_of_any_length_and_ours_keeps_their_order() {
    for (size_bytes, case) in [(64, "bursts"), (1518, "idle"), (9018, "uniform")] {
        let ours = sample_of(&Merger::OURS, size_bytes, case);
        let shared = sample_of(&Merger::SHARED, size_bytes, case);
        for sample in [&ours, &shared] {
            assert_eq!(sample.figures["out_of_order"].value, 0.0, "{size_bytes} {case}");
        }
        let staged = sample_of(&Merger::STAGED, size_bytes, case);
        let mpps = [&ours, &shared, &staged].map(|sample| sample.figures["mpps"].value);
        assert!(mpps.into_iter().all(|mpps| mpps > 0.0), "{mpps:?}");
        let [per_second, line] = ["mpps", "line_gbps"].map(|name| ours.figures[name].value);
        let bits = f64::from(size_bytes + 20) * 8.0;
        assert!((line - per_second * bits / 1e3).abs() < 1e-9 * line, "{line}");
    }
}

#[test]
fn one_core_is_no_more_than_one() {
    for merger in [&Merger::OURS, &Merger::STAGED] {
        let cores = sample_of(merger, 64, "one-core").figures["cores"].value;
        assert!(cores < 1.1, "{}: {cores}", merger.name);
    }
}

#[test]
#[cfg(feature = "dpdk")]
fn so_do_dpdks_stages_in_each_manner() {
    for (merger, case) in [
        (&Merger::DPDK, "one-core"),
        (&Merger::DPDK, "uniform"),
        (&Merger::SEGMENTS, "uniform"),
        (&Merger::NO_HINT, "bursts"),
    ] {
        for size_bytes in [64, 1518, 9018] {
            assert!(sample_of(merger, size_bytes, case).figures["mpps"].value > 0.0);
        }
    }
    let ordered = sample_of(&Merger::ORDERED, 256, "uniform");
    assert_eq!(ordered.figures["out_of_order"].value, 0.0);
}
