//! Reloads under load: an unchanged job loses nothing.
//!
//! `BURSTLINE_RELOADS=1000` sets the number that a release requires.
//!
//! Needs root, or `unshare -Urn`; otherwise the test is skipped.

use std::env;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use crate::support::live::wait_until;
use crate::support::service::{events, ledger};
use crate::support::{Directory, PROGRAM, assert_closed};
use burstline_afpacket::Sender;
use burstline_testbed::{Bed, FAR, Frames, NEAR, signal};

/// Frames per call, and the pause after it: about 20,000 per second.
const BATCH: u64 = 100;
const PAUSE: Duration = Duration::from_millis(5);

fn site(round: u64) -> String {
    format!(
        "[job.kept]\nverb = 'count'\nports = 'afpacket:{FAR}'\nfail-on-loss = true\n\
         [job.changed]\nverb = 'count'\nports = 'gen:?rate=1k&pace=yes&seed={round}'\n"
    )
}

#[test]
fn a_job_that_did_not_change_loses_nothing_in_many_reloads() {
    let Some(bed) = Bed::or_skip() else { return };
    let rounds: u64 = env::var("BURSTLINE_RELOADS").map_or(20, |text| text.parse().unwrap());
    let directory = Directory::new("run-reloads");
    let (path, log) = (directory.file("site.toml"), directory.file("log"));
    fs::write(&path, site(0)).unwrap();
    let script = format!("exec {PROGRAM} run {path} --log-format json > {log} 2>&1");
    let service = bed.far.start("sh", &["-c", &script], &[]).unwrap();
    let count = |name: &str| events(&log).iter().filter(|event| event["event"] == name).count();
    wait_until("ready", || count("ready") == 1);
    let is_over = Arc::new(AtomicBool::new(false));
    let sent = thread::scope(|scope| {
        let sending = scope.spawn({
            let (bed, is_over) = (&bed, Arc::clone(&is_over));
            move || {
                bed.near.run(move || {
                    let mut sender = Sender::open(NEAR, true).unwrap();
                    let mut sent = 0;
                    while !is_over.load(Relaxed) {
                        sent += Frames::new(BATCH, 100).send(&mut sender).unwrap();
                        thread::sleep(PAUSE);
                    }
                    sent
                })
            }
        });
        for round in 1..=rounds {
            fs::write(&path, site(round)).unwrap();
            signal(service.process_id(), "-HUP").unwrap();
            wait_until("reloaded", || count("reloaded") as u64 == round);
        }
        is_over.store(true, Relaxed); // only a request
        sending.join().unwrap()
    });
    signal(service.process_id(), "-TERM").unwrap();
    let (is_success, _) = service.finish().unwrap();
    let events = events(&log);
    let started = |job: &str| {
        events.iter().filter(|event| event["job"] == job && event["event"] == "started").count()
    };
    assert_eq!((started("kept"), started("changed") as u64), (1, rounds + 1));
    let report = ledger(&events, "kept");
    assert_closed(report);
    assert_eq!(report["total"]["delivered"], sent, "{report}");
    assert!(is_success, "{report}");
    eprintln!("{rounds} reloads, {sent} frames sent and counted, 0 lost, one process");
}
