//! Overload: every loss is counted, once.

use burstline_testbed::{Amount, FAR, Frames, Injector, InjectorOptions};

use crate::help::{
    MODES, bed_or_skip, check_closed, drain_into, lend_while, numbers, open_far, wait_for,
};

#[test]
fn an_overload_leaves_nothing_unaccounted_for() {
    let Some(bed) = bed_or_skip() else { return };
    for mode in MODES {
        for query in ["", "ring=64", "frames=64"] {
            let mut port = open_far(&bed, mode, query);
            let mut all = Vec::new();
            let offered = lend_while(&mut *port, &mut all, || {
                bed.far.run(|| {
                    let options = InjectorOptions::numbered(FAR, &Frames::new(0, 60));
                    let mut injector = Injector::new(&options).unwrap();
                    injector.inject(Amount::Frames(300_000), None).unwrap().offered
                })
            });
            assert_eq!(offered, 300_000);
            wait_for(&*port, offered);
            drain_into(&mut *port, &mut all);
            assert!(numbers(&all).is_sorted_by(|a, b| a < b), "{mode} {query}");
            check_closed(&*port, offered, all.len() as u64);
        }
    }
}
