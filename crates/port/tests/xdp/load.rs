//! More than can be taken: whatever is lost is counted, once.

use burstline_port::Port;
use burstline_testbed::{Amount, FAR, Frames, Injector, InjectorOptions};

use crate::common::Got;
use crate::help::{MODES, bed_or_skip, check_closed, lend_until, numbers, open_far, wait_for};

#[test]
fn an_overload_leaves_nothing_unaccounted_for() {
    let Some(bed) = bed_or_skip("an_overload_leaves_nothing_unaccounted_for") else { return };
    for mode in MODES {
        for query in ["", "ring=64", "frames=64"] {
            let mut port = open_far(&bed, mode, query);
            let mut all = Vec::new();
            let offered = std::thread::scope(|scope| {
                let injecting = scope.spawn(|| {
                    bed.far.run(|| {
                        let options = InjectorOptions::numbered(FAR, &Frames::new(0, 60));
                        let mut injector = Injector::new(&options).unwrap();
                        injector.inject(Amount::Frames(300_000), None).unwrap().offered
                    })
                });
                let is_enough = |all: &[Got], port: &dyn Port| {
                    let account = port.account();
                    let accounted = all.len() as u64 + account.in_flight + account.lost.total();
                    assert_eq!(account.offered, accounted, "{account:?}");
                    injecting.is_finished()
                };
                lend_until(&mut *port, &mut all, is_enough).unwrap();
                injecting.join().unwrap()
            });
            assert_eq!(offered, 300_000);
            wait_for(&*port, offered);
            port.finish().unwrap();
            lend_until(&mut *port, &mut all, |_, _| false).unwrap();
            assert!(numbers(&all).is_sorted_by(|a, b| a < b), "{mode} {query}");
            check_closed(&*port, offered, all.len() as u64);
        }
    }
}
