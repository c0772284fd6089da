//! The effect of losses on the exit code, and their names in the report.

use crate::support::{
    PROGRAM, REAL, Run, assert_closed, last_object, run, run_json, run_with_code,
};
use burstline_testbed::{Bed, NEAR};

/// Returns a sink without room for long frames: a file with segments of 4 KiB.
fn short(directory: &crate::support::Directory) -> String {
    format!("file:{}?segment=4k", directory.file("short"))
}

fn last_line(run: &Run) -> &str {
    run.stdout.lines().last().unwrap_or_default()
}

#[test]
fn losing_everything_is_a_failure_that_names_the_loss() {
    let directory = crate::support::Directory::new("losses-all");
    let short = short(&directory);
    let job = ["generate", "--packets", "10", "--size", "9000", "-o", &short];
    let text = run_with_code(&job, 1);
    assert_eq!(
        last_line(&text),
        "generate failed: 10 of 10 packets lost (too_long), 0 unaccounted"
    );
    assert_eq!(text.stderr, "burstline: 10 of 10 packets lost, none delivered: too_long\n");
    // A stricter flag changes nothing.
    let strict = run(&[&job[..], &["--fail-on-loss"]].concat());
    assert_eq!((strict.code, strict.stderr), (text.code, text.stderr));
    let report = run_json(&job, 1);
    assert_closed(&report);
    let outcome = &report["outcome"];
    assert_eq!((&outcome["success"], &outcome["faults"][0]), (&false.into(), &"all_lost".into()));
    assert_eq!((&outcome["lost"], &outcome["of"]), (&10.into(), &10.into()));
    assert_eq!(outcome["causes"]["too_long"], 10);
}

#[test]
fn losing_a_part_is_a_failure_only_where_that_is_asked_for() {
    let directory = crate::support::Directory::new("losses");
    let (long, short) = (directory.file("long.pcap"), &short(&directory)[..]);
    let made = ["--seed", "1", "--size", "random:64-8000", "--packets", "100", "-o", &long];
    assert_eq!(run(&[&["generate"], &made[..]].concat()).code, Some(0));
    let (generate, replay, bounce) =
        (["generate", "--seed", "1"], ["replay", &long, "--top-speed"], ["bounce", &long, short]);
    let made = ["--size", "random:64-8000", "--packets", "100", "-o", short];
    let jobs =
        [[&generate[..], &made].concat(), [&replay[..], &["-o", short]].concat(), bounce.to_vec()];
    for job in &jobs {
        let loose = run(job);
        assert_eq!(loose.code, Some(0), "{job:?}: {}", loose.stderr);
        let line = last_line(&loose);
        let end = " of 100 packets lost (too_long), 0 unaccounted";
        assert!(line.starts_with("done: ") && line.ends_with(end), "{job:?}: {line}");
        let strict = run(&[&job[..], &["--fail-on-loss"]].concat());
        assert_eq!(strict.code, Some(1), "{job:?}");
        assert!(strict.stderr.contains("packets lost under --fail-on-loss"), "{}", strict.stderr);
        assert_eq!(last_line(&strict), line.replacen("done", &format!("{} failed", job[0]), 1));
    }
    let report = run_json(&[&jobs[0][..], &["--fail-on-loss"]].concat(), 1);
    assert_eq!(report["outcome"]["faults"][0], "loss", "{report}");
}

#[test]
fn what_is_not_wanted_is_no_loss() {
    let nothing = "1\n6 0 0 0\n";
    let jobs =
        [&["count"][..], &["capture", "-w", "null:"], &["merge"], &["balance", "--workers", "1"]];
    for job in jobs {
        let job = [job, &[REAL, "--filter", nothing, "--fail-on-loss"]].concat();
        let text = run(&job);
        let said = (text.code, last_line(&text));
        assert_eq!(said, (Some(0), "done: no packets lost, 0 unaccounted"), "{job:?}");
        let report = run_json(&job, 0);
        assert_eq!(report["outcome"]["success"], true, "{report}");
        assert_eq!(report["outcome"]["faults"], serde_json::json!([]), "{report}");
    }
}

#[test]
fn a_number_of_packets_that_is_not_the_one_expected_fails_the_report_too() {
    let text = run(&["count", REAL, "--expect", "3"]);
    let line = "count failed: no packets lost, 0 unaccounted";
    assert_eq!((text.code, last_line(&text)), (Some(1), line));
    assert!(text.stderr.contains("149 packets delivered, 3 expected"), "{}", text.stderr);
    let report = run_json(&["count", REAL, "--expect", "3"], 1);
    assert_eq!(report["outcome"]["faults"], serde_json::json!(["not_expected"]));
    let report = run_json(&["count", REAL, "--verify"], 1);
    assert_eq!(report["outcome"]["faults"], serde_json::json!(["not_verified"]));
}

#[test]
fn frames_that_an_interface_does_not_take_are_a_failure() {
    let Some(bed) = Bed::or_skip() else { return };
    let sinks = if crate::support::is_root() { &["afpacket", "xdp"][..] } else { &["afpacket"] };
    for scheme in sinks {
        let job = format!("generate -o {scheme}:{NEAR} --size 9000 --packets 10 --json");
        let script = format!("{PROGRAM} {job} 2> /dev/null; echo $?");
        let printed = bed.near.command("sh", &["-c", &script]).unwrap();
        let (report, code) = printed.trim_end().rsplit_once('\n').unwrap();
        let report = last_object(report.trim_end());
        assert_eq!((code, &report["outcome"]["lost"]), ("1", &10.into()), "{report}");
    }
}
