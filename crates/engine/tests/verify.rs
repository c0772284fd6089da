//! Generated traffic through a bad network: every defect is found and counted exactly.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use burstline_engine::{
    Inlet, Integrity, Progress, Run, Threads, Verdict, Verifier, count_verified,
};
use burstline_port::{Impairer, ImpairmentCounts, ImpairmentPlan, OpenOptions};
use burstline_wire::hash::HashKind;

const PACKETS: u64 = 60_000;

/// What a verifier finds behind an impairment, and what the impairment did.
fn run(query: &str, plan: ImpairmentPlan, integrity: Integrity) -> (Verdict, ImpairmentCounts) {
    run_by(query, plan, Verifier::new(integrity))
}

fn run_by(query: &str, plan: ImpairmentPlan, verifier: Verifier) -> (Verdict, ImpairmentCounts) {
    let address = format!("gen:?packets={PACKETS}&start=1&{query}").parse().unwrap();
    let options = OpenOptions { hash: HashKind::FiveTuple, ..OpenOptions::default() };
    let mut tally = None;
    let source = Inlet::open(&address, &options).unwrap().wrap(|port| {
        let impairer = Impairer::new(port, plan);
        tally = Some(impairer.tally());
        Box::new(impairer)
    });
    let verifier = Mutex::new(verifier);
    let (stop, progress) = (AtomicBool::new(false), Progress::new(1));
    let (threads, run) = (Threads::default(), Run::new(&stop, &progress));
    let report = count_verified(vec![source], &verifier, &threads, &run).unwrap();
    assert!(report.is_success(), "{report:?}");
    let verdict = verifier.into_inner().unwrap().verdict(Some(PACKETS));
    assert_eq!(verdict.packets, report.total.delivered);
    (verdict, tally.unwrap().counts())
}

fn found(verdict: &Verdict) -> ImpairmentCounts {
    ImpairmentCounts {
        lost: verdict.lost,
        duplicated: verdict.duplicates,
        reordered: verdict.reordered,
        corrupted: verdict.corrupted,
    }
}

#[test]
fn every_defect_is_found_and_counted_exactly() {
    let all = ImpairmentPlan { seed: 5, lose: 0.02, duplicate: 0.01, reorder: 0.03, corrupt: 0.02 };
    for query in ["flows=1", "flows=8&size=imix", "flows=300&size=random:150-300&vlan=5&vxlan=9"] {
        for seed in 1..=3 {
            let (verdict, done) = run(query, ImpairmentPlan { seed, ..all }, Integrity::Frame);
            assert_eq!(found(&verdict), done, "{query} {seed}");
            assert!(
                [done.lost, done.duplicated, done.reordered, done.corrupted]
                    .iter()
                    .all(|&n| n > 300)
            );
            assert_eq!((verdict.unmarked, verdict.cut, verdict.too_late), (0, 0, 0));
            assert_eq!(verdict.unique + verdict.lost + verdict.corrupted, PACKETS);
            assert!(!verdict.is_good());
        }
    }
}

#[test]
fn each_defect_alone_is_no_other() {
    let none = ImpairmentPlan { seed: 9, ..ImpairmentPlan::default() };
    for plan in [
        none,
        ImpairmentPlan { lose: 0.1, ..none },
        ImpairmentPlan { duplicate: 0.1, ..none },
        ImpairmentPlan { reorder: 0.1, ..none },
        ImpairmentPlan { corrupt: 0.1, ..none },
    ] {
        let (verdict, done) =
            run("flows=4&ip=mix&protocol=mix&size=random:100-300", plan, Integrity::Frame);
        assert_eq!(found(&verdict), done, "{plan:?}");
        assert_eq!(verdict.is_good(), plan == none);
    }
}

#[test]
fn checksums_of_their_own_find_what_is_behind_the_link_header() {
    let plan = ImpairmentPlan { seed: 2, corrupt: 0.1, ..ImpairmentPlan::default() };
    let (verdict, done) = run("size=200", plan, Integrity::Checksums);
    // About 14 in 196 are in the Ethernet header, which a router rewrites.
    assert!(verdict.corrupted < done.corrupted && verdict.corrupted > done.corrupted * 8 / 10);
    assert_eq!((verdict.lost, verdict.duplicates, verdict.reordered), (0, 0, 0));
}

#[test]
fn what_has_no_room_for_a_mark_is_not_judged() {
    let plan = ImpairmentPlan::default();
    let (verdict, _) = run("size=64&protocol=mix&flows=2", plan, Integrity::Frame);
    assert!(verdict.unmarked > 0 && verdict.unique > 0);
    assert_eq!(verdict.unmarked + verdict.unique, PACKETS);
    let (verdict, _) = run("mark=no", plan, Integrity::Frame);
    assert_eq!((verdict.unmarked, verdict.is_good()), (PACKETS, false));
}

#[test]
fn flows_without_a_place_are_counted_and_nothing_is_believed_of_them() {
    let none = ImpairmentPlan { seed: 9, ..ImpairmentPlan::default() };
    let verifier = Verifier::new(Integrity::Frame).flows_at_most(5);
    let (verdict, _) = run_by("flows=8", none, verifier);
    assert_eq!(verdict.flows.len(), 5);
    assert!(verdict.flows.iter().all(|flow| flow.missing == 0 && flow.unique > 0));
    assert!(verdict.beyond > 0 && !verdict.is_good());
    assert_eq!((verdict.unique + verdict.beyond, verdict.lost), (PACKETS, 0));
}
