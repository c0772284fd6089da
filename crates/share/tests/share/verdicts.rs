//! Tests verdicts by name: who may give them, and what happens when a process leaves.

use std::thread;

use burstline_log::{Log, LogConfig, Ruling, Verdict, VerdictTaker, Writer};
use burstline_share::{AttachConfig, Attachment, PublishConfig, Publisher, Refusal};

use crate::common::{Directory, Role, append, config, open, publish, read, refusal};

fn log() -> (Log, Writer) {
    Log::create(LogConfig { takes_verdicts: true, ..config() }).unwrap()
}

fn giving() -> AttachConfig {
    AttachConfig { gives_verdicts: true, ..AttachConfig::default() }
}

fn refused(name: &str, config: &AttachConfig) -> Refusal {
    refusal(Attachment::open(name, config).unwrap_err())
}

#[test]
fn a_reader_of_each_log_gives_verdicts_and_others_look_on() {
    let (_directory, name) = Directory::with_tap();
    let ((first, mut one), (second, mut two)) = (log(), log());
    let mut takers = [&first, &second].map(VerdictTaker::new);
    let publisher = Publisher::start(&PublishConfig::new(&name), vec![first, second]).unwrap();
    let mut worker = Attachment::open(&name, &giving()).unwrap();
    let mut looker = open(&name).unwrap();
    assert_eq!((worker.verdicts.len(), looker.verdicts.len()), (2, 0));
    append(&mut one, 0, 3);
    append(&mut two, 0, 3);
    for attachment in [&mut worker, &mut looker] {
        assert_eq!(attachment.readers.iter_mut().map(read).collect::<Vec<_>>(), [3, 3]);
    }
    worker.verdicts[0].give(1, Verdict::Drop).unwrap();
    worker.verdicts[1].give(2, Verdict::Pass).unwrap();
    for (taker, wanted) in
        takers.iter_mut().zip([[None, Some(Ruling::Drop), None], [None, None, Some(Ruling::Pass)]])
    {
        assert!(taker.has_changed() && taker.has_giver());
        assert_eq!([0, 1, 2].map(|number| taker.look(number)), wanted);
    }
    assert_eq!(refused(&name, &giving()), Refusal::HasGiver);
    let only = AttachConfig { log: Some(1), ..giving() };
    assert_eq!(refused(&name, &only), Refusal::HasGiver);
    drop(worker);
    while !takers[1].has_changed() || takers[1].has_giver() {
        thread::yield_now();
    }
    let next = Attachment::open(&name, &only).unwrap();
    assert_eq!(next.verdicts.len(), 1);
    assert!(takers[1].has_changed() && takers[1].has_giver());
    drop(publisher);
    assert!(takers[1].has_changed() && !takers[1].has_giver(), "nobody watches the reader");
}

#[test]
fn a_log_that_waits_for_no_verdicts_takes_none() {
    let (_directory, name) = Directory::with_tap();
    let (_publisher, log, _writer) = publish(&PublishConfig::new(&name));
    assert_eq!(refused(&name, &giving()), Refusal::NoVerdicts);
    assert_eq!(log.readers(), 0, "its seat is free again");
}

#[test]
fn a_killed_giver_leaves_its_place_to_the_next() {
    let (_directory, name) = Directory::with_tap();
    let (log, _writer) = log();
    let mut taker = VerdictTaker::new(&log);
    let _publisher = Publisher::start(&PublishConfig::new(&name), vec![log]).unwrap();
    for _ in 0..3 {
        let mut worker = Role::start("verdict_giver", &[&name]);
        assert_eq!(worker.hear("giving"), "0");
        assert!(taker.has_changed() && taker.has_giver());
        worker.kill();
        while !taker.has_changed() {
            thread::yield_now();
        }
        assert!(!taker.has_giver());
    }
}
