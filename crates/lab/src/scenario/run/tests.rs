use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use burstline_skip::skip;
use burstline_testbed::Bed;

use super::*;
use crate::record::Status;
use crate::scenario::{Rate, parse};
use crate::symbols::stages::Part;

fn options() -> Options {
    let stop = Arc::new(AtomicBool::new(false));
    Options::new(PathBuf::from("burstline"), "a test".to_owned(), stop)
}

fn scenario(work: &str, contenders: &str, more: &str) -> Scenario {
    let text = format!(
        "name = \"tiny\"\ntitle = \"t\"\nabout = \"x\"\nwork = \"{work}\"\ncontenders = \
         [{contenders}]\nseconds = 0.05\nrepeats = 3\n{more}"
    );
    parse(&text).unwrap()
}

#[test]
fn contenders_take_turns_and_keep_their_samples() {
    let scenario = scenario("copy", "\"copy-warm\", \"testpmd\"", "sizes = [64, 1518]\n");
    let mut said = Vec::new();
    let record = run(&scenario, &options(), &mut |progress| said.push(progress.clone()));
    assert_eq!(said.len(), 6);
    assert_eq!((said[0].done, said[5].done, said[5].total), (0, 5, 6));
    assert!(said[0].left.is_none() && said[5].left.is_some());
    let short = &record.rows[0];
    assert_eq!((short.status.clone(), short.metrics["cycles"].samples.len()), (Status::Run, 3));
    let why =
        "testpmd does not do copy, only count, bounce, switch, latency, generate, duplex, rfc2544";
    let not_run = Status::NotRun(why.to_owned());
    assert_eq!((record.rows.len(), &record.rows[1].status), (4, &not_run));
    assert!(record.rows[1].metrics.is_empty());
    assert!(short.metrics["cycles"].median > 0.0);
    let again = Record::parse(&record.to_text()).unwrap();
    assert_eq!((again.contenders, again.doubts), (record.contenders, record.doubts));
}

#[test]
fn a_size_that_cannot_come_in_has_a_row_that_says_why() {
    let refused = [64, 1518, 9018].map(|size| Work::MergeLive.refuses(size));
    let [None, None, Some(why)] = refused else { panic!("{refused:?}") };
    assert!(why.ends_with("3004 bytes at most, FCS included"), "{why}");
    assert_eq!(Work::Merge.refuses(9018), None);
    let scenario = scenario("merge-live", "\"burstline-merge\"", "sizes = [9018]\n");
    let record = run(&scenario, &options(), &mut |progress| panic!("a turn: {progress:?}"));
    let ours = contenders::named("burstline-merge").unwrap();
    // Without permission to create a network, that is the reason.
    let why = contenders::can_do(ours, Work::MergeLive).err().unwrap_or(why);
    assert_eq!(record.rows[0].status, Status::NotRun(why));
}

#[test]
fn an_end_that_the_user_wants_is_in_the_record() {
    let (scenario, options) =
        (scenario("copy", "\"copy-warm\"", "sizes = [64, 1518]\n"), options());
    let stop = Arc::clone(&options.stop);
    let record = run(&scenario, &options, &mut |progress| {
        // Set before the second turn, which checks it.
        stop.store(progress.done == 1, Relaxed);
    });
    assert_eq!(record.rows[0].metrics["cycles"].samples.len(), 1);
    assert_eq!(record.rows[1].status, Status::NotRun("the user stopped the run before".to_owned()));
    let interrupted = record.doubts.iter().find(|doubt| doubt.name == "interrupted").unwrap();
    assert_eq!(interrupted.text, "the user stopped the run after 1 of 6 turns");
}

#[test]
fn a_run_whose_time_is_over_says_so() {
    let scenario = scenario("copy", "\"copy-warm\", \"copy-cold\"", "sizes = [64, 1518]\n");
    let options = Options { budget: Some(Duration::ZERO), ..options() };
    let record = run(&scenario, &options, &mut |_| {});
    let not_run = Status::NotRun("its 0 s were over before".to_owned());
    assert!(record.rows.iter().all(|row| row.status == not_run), "{:?}", record.rows);
    let doubt = record.doubts.iter().find(|doubt| doubt.name == "cut-short").unwrap();
    assert_eq!(doubt.text, "its 0 s were over after 0 of 12 turns");
}

#[test]
fn where_time_is_short_each_point_has_its_part() {
    let scenario = scenario("copy", "\"copy-warm\"", "sizes = [64, 1518]\n");
    // Each takes 0.05 s or more.
    let options =
        Options { repeats: Some(1000), budget: Some(Duration::from_secs(1)), ..options() };
    let record = run(&scenario, &options, &mut |_| {});
    let doubt = record.doubts.iter().find(|doubt| doubt.name == "cut-short").unwrap();
    // If the machine stood still for a second, the second point gets no turn.
    if !doubt.text.starts_with("its 1 s were over") {
        assert!(doubt.text.ends_with("skipped: no time was left"), "{doubt:?}");
        let turns = record.rows.iter().map(|row| row.metrics["cycles"].samples.len());
        assert!(turns.clone().all(|turns| (1..20).contains(&turns)), "{:?}", record.rows);
    }
}

#[test]
fn what_the_user_asks_for_replaces_what_the_file_says() {
    let scenario = scenario("model", "\"dma-inline\"", "sizes = [64, 1518]\n");
    let options = Options { sizes: vec![64], repeats: Some(1), ..options() };
    let record = run(&scenario, &options, &mut |_| {});
    assert_eq!((record.rows.len(), &record.rows[0].status), (1, &Status::Model));
    // The paper's value.
    assert_eq!(record.rows[0].metrics["bus_bytes"].samples, [128.0]);
}

#[test]
fn rates_and_contenders_are_those_that_the_user_wants_where_they_make_sense() {
    let options = Options {
        rates: vec![Rate::PerSecond(7)],
        contenders: vec!["copy-cold".to_owned()],
        ..options()
    };
    let copies = scenario("copy", "\"copy-warm\"", "sizes = [64]\n");
    let wanted = adjusted(&copies, &options);
    assert_eq!((wanted.contenders, wanted.rates), (options.contenders.clone(), vec![Rate::Max]));
    assert_eq!(check(&copies, &options), Ok(()));
    let counts = scenario("count", "\"recvmmsg\"", "");
    assert_eq!(adjusted(&counts, &options).rates, options.rates);
    let said = check(&counts, &options).unwrap_err();
    assert!(
        said.starts_with("tiny: no contender `copy-cold` for work count; known: burstline-xdp, "),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1);
}

#[test]
fn a_placement_that_is_not_there_is_a_reason() {
    let more = "sizes = [64]\nplacements = [\"0>900\"]\n";
    let record = run(&scenario("copy", "\"copy-warm\"", more), &options(), &mut |_| {});
    let not_run = Status::NotRun("core 900 is not allowed here".to_owned());
    assert_eq!(record.rows[0].status, not_run);
}

#[test]
fn a_chain_of_two_threads_is_measured_where_its_cores_are() {
    let more = "sizes = [64]\nplacements = [\"auto\", \"A_B\"]\npackets = 65536\n";
    let scenario = scenario("pipeline", "\"burstline-pipeline\", \"dpdk-pipeline\"", more);
    let record = run(&scenario, &Options { repeats: Some(1), ..options() }, &mut |_| {});
    let ours = &record.rows[0];
    assert_eq!(ours.status, Status::Run);
    let median = |name: &str| ours.metrics[name].median;
    assert!(median("mpps") > 0.0 && median("rho") > 0.0, "{ours:?}");
    let line = median("mpps") * 84.0 * 8.0 / 1e3;
    assert!((median("line_gbps") / line - 1.0).abs() < 1e-9, "{ours:?}");
    match (&record.rows[1].status, cfg!(feature = "dpdk")) {
        (Status::Run, is_built) => assert!(is_built),
        (Status::NotRun(why), _) => {
            assert!(why.contains("make dpdk") || why.contains("EAL"), "{why}");
        }
        (other, _) => panic!("{other:?}"),
    }
}

/// Counts frames in a namespace, none of which may be lost; `None` if the test is skipped.
fn counted(more: &str) -> Option<Record> {
    Bed::or_skip()?;
    let more = format!("sizes = [64]\nrates = [5000]\n{more}");
    let scenario = scenario("count", "\"recvmmsg\"", &more);
    let record = run(&scenario, &Options { repeats: Some(1), ..options() }, &mut |_| {});
    let row = &record.rows[0];
    if let Status::NotRun(why) = &row.status {
        // Injecting is for root in the first user namespace only.
        assert!(why.contains("BPF") || why.contains("permitted"), "{why}");
        skip(why);
        return None;
    }
    assert_eq!((row.metrics["lost"].samples.as_slice(), row.losses.len()), (&[0.0][..], 0));
    Some(record)
}

#[test]
fn packets_of_four_ports_are_all_counted() {
    let Some(record) = counted("packets = 2003\nports = 4\n") else { return };
    assert!(record.contenders[0].command.contains("from 4 packet socket(s)"));
}

#[test]
fn packets_are_counted_in_a_namespace() {
    let figures = "packets = 500\n[[figures]]\ncontender = \"pf_ring-zc\"\nmpps = 14.88\n";
    let Some(record) = counted(figures) else { return };
    let row = &record.rows[0];
    assert!(row.metrics["mpps"].median > 0.0 && row.metrics["rho"].median >= 0.0);
    let line = row.metrics["line_gbps"].median / row.metrics["l2_gbps"].median;
    assert!((line - 84.0 / 60.0).abs() < 1e-9, "{line}");
    let only = &record.rows[1];
    assert_eq!((&*only.contender, only.document.as_ref().unwrap()["mpps"]), ("pf_ring-zc", 14.88));
    assert!(matches!(&only.status, Status::NotRun(why) if why.contains("the document")));
    assert!(record.contenders[0].command.contains("recvmmsg of 64"));
    // If samples are available, each has a stage.
    if !row.symbols.is_empty() {
        let percent = |part: Part| {
            let stage = row.stages.iter().find(|stage| stage.name == part.name());
            stage.map(|stage| stage.cpu_percent)
        };
        let all: f64 = Part::ALL.into_iter().map(|part| percent(part).unwrap()).sum();
        assert!(all > 0.0 && all < 101.0, "{:?}", row.stages);
    }
}
