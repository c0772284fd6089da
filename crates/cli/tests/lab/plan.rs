//! `doctor`, `doctor plan` and `doctor snapshot`: their output, and whether plans come out.

use std::fs;
use std::path::Path;

use burstline_skip::{skip, without};
use serde_json::Value;

use crate::support::{Directory, Run, last_object, run, run_with_code};

/// Returns the fixture of `crates/topo` for a machine with two sockets.
pub(crate) fn two_sockets() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../topo/fixtures/two-sockets.txt");
    path.to_string_lossy().into_owned()
}

fn plan(flags: &[&str]) -> Run {
    run(&[&["doctor", "plan"], flags].concat())
}

#[test]
fn a_plan_for_another_machine() {
    let machine = two_sockets();
    let run = plan(&["eth0", "--workers", "2", "--machine", &machine]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.starts_with("placement A_AA: A is node 1\n"), "{}", run.stdout);
    assert!(run.stdout.contains("eth0 is at node 1"), "{}", run.stdout);

    // An interface counts as one whatever its name looks like.
    let directory = crate::support::Directory::new("plan-dotted");
    let dotted = directory.file("machine.txt");
    let text = fs::read_to_string(&machine).unwrap().replace("eth0", "eth0.7");
    fs::write(&dotted, text).unwrap();
    let run = plan(&["eth0.7", "--workers", "2", "--machine", &dotted]);
    assert!(run.stdout.contains("eth0.7 is at node 1"), "{}{}", run.stdout, run.stderr);

    let flags = ["--placement", "A_AB", "--node", "0", "--mode", "share", "--pool-node", "1"];
    let run = plan(&[&flags[..], &["--json", "--machine", &machine]].concat());
    let object = last_object(&run.stdout);
    assert_eq!(object["plan"]["placement"], "A_AB");
    assert_eq!(object["plan"]["nodes"], Value::from(vec![0, 1]));
    assert_eq!(object["plan"]["logs"][0]["node"], 1);
    assert_eq!(object["plan"]["threads"][2]["node"], 1);
    assert!(object["findings"].as_array().is_some_and(|found| !found.is_empty()), "{object}");
}

#[test]
fn what_cannot_be_planned_is_one_line_and_a_usage_error() {
    let machine = two_sockets();
    let cases: [(&[&str], &str); 7] = [
        (&["--placement", "A_BC"], "needs 3 nodes"),
        (&["--placement", "B_AA"], "B comes before A"),
        (&["--placement", "A_AB", "--workers", "3"], "contradict"),
        (&["--workers", "0"], "--workers"),
        (
            &["--workers", "99"],
            "6 physical cores that this process may use: fewer workers, or --share-cores",
        ),
        (&["eth7"], "no interface eth7; there are eth0"),
        (&["--cores", "0,99", "--workers", "1"], "core 99"),
    ];
    for (flags, expected) in cases {
        let run = plan(&[flags, &["--machine", &machine]].concat());
        assert_eq!(run.code, Some(2), "{flags:?}: {}", run.stdout);
        assert!(run.stderr.contains(expected) && run.stderr.lines().count() == 1, "{}", run.stderr);
    }
    let shared = plan(&["--workers", "99", "--share-cores", "--machine", &machine]).stderr;
    assert!(shared.contains("fewer workers") && !shared.contains("--share-cores"), "{shared}");
    let wrong = plan(&["--machine", "/dev/null"]);
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.stderr.contains("not a snapshot of a machine"), "{}", wrong.stderr);
}

#[test]
fn defects_of_a_plan_are_told_with_it_and_the_machines_by_doctor() {
    let machine = two_sockets();
    let flags = ["eth0", "--workers", "2", "--machine", &machine];
    let text = plan(&flags).stdout;
    let object = last_object(&plan(&[&flags[..], &["--json"]].concat()).stdout);
    let doctor = run(&["doctor", "--machine", &machine]).stdout;
    let mut told_by_doctor = 0;
    for finding in object["findings"].as_array().unwrap() {
        let what = finding["what"].as_str().unwrap();
        let is_here = text.contains(what) && text.contains(finding["cost"].as_str().unwrap());
        assert!(is_here != doctor.contains(what), "once, here or there: {what}\n{text}");
        told_by_doctor += u32::from(!is_here);
    }
    assert!(text.contains("where a thread is to run"), "{text}");
    let pointer = format!("\n{told_by_doctor} defects of this machine: burstline doctor\n");
    assert!(text.ends_with(&pointer) && told_by_doctor > 1, "{text}");
}

#[test]
fn a_plan_that_is_tried_comes_out_as_planned() {
    for flags in [&["--workers", "1"][..], &["--workers", "3", "--share-cores"], &["gen:"]] {
        let run = plan(&[flags, &["--try", "--json"]].concat());
        if run.stderr.contains("physical core") {
            without(run.stderr);
            continue;
        }
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let object = last_object(&run.stdout);
        let (plan, tried) = (&object["plan"], &object["tried"]);
        assert_eq!(tried["faults"], Value::Array(Vec::new()));
        assert_eq!(tried["packets_seen"], tried["packets_sent"]);
        let threads = plan["threads"].as_array().unwrap().iter();
        for (planned, found) in threads.zip(tried["threads"].as_array().unwrap()) {
            let stack = found["stack_pages"].as_object().unwrap();
            assert_eq!(stack.len(), 1, "{found}");
            assert!(stack[&planned["stack_node"].to_string()].as_u64() > Some(0), "{found}");
        }
    }
}

#[test]
fn the_doctor_and_its_commands_agree() {
    let machine = two_sockets();
    let text = run_with_code(&["doctor", "--machine", &machine], 0);
    let commands = run(&["doctor", "--fix-commands", "--machine", &machine]).stdout;
    assert!(commands.lines().any(|line| line == "sysctl -w kernel.numa_balancing=0"), "{commands}");
    for command in commands.lines() {
        assert!(text.stdout.contains(&format!("fix: {command}")), "{command}");
    }
    let object = last_object(&run(&["doctor", "--json", "--machine", &machine]).stdout);
    let found = object["findings"].as_array().unwrap();
    let mends = found.iter().flat_map(|finding| finding["mend"].as_array().unwrap());
    assert_eq!(mends.count(), commands.lines().count());
    for finding in found.iter().filter(|finding| finding["is_defect"] == true) {
        assert!(finding["cost"].is_string() && finding["cost_source"].is_string(), "{finding}");
    }
    let here = run(&["doctor"]);
    assert_eq!(here.code, Some(0), "this machine, whatever is wrong with it");
    let tried = here.stdout.lines().rfind(|line| line.starts_with("tried ")).unwrap_or_default();
    assert!(tried.contains("node "), "a node of this machine was tried: {}", here.stdout);
    assert!(!text.stdout.contains("\ntried "), "and none of another: {}", text.stdout);
}

#[test]
fn a_snapshot_of_this_machine_is_this_machine() {
    let directory = Directory::new("snapshot");
    let file = directory.file("machine.txt");
    fs::write(&file, run(&["doctor", "snapshot"]).stdout).unwrap();
    // The best core changes while other tests hold cores.
    for key in ["placement", "nodes", "feeds"] {
        let (here, there) = (plan(&["--json"]), plan(&["--json", "--machine", &file]));
        let (here, there) = (last_object(&here.stdout), last_object(&there.stdout));
        assert_eq!(here["plan"][key], there["plan"][key]);
    }
    let nodes = |flags: &[&str]| {
        let found = last_object(&run(&[&["doctor", "--json"], flags].concat()).stdout);
        let found = found["findings"].as_array().unwrap().iter();
        found.filter(|finding| finding["name"] == "cores").cloned().collect::<Vec<_>>()
    };
    assert_eq!(nodes(&[]), nodes(&["--machine", &file]));
}

#[test]
fn a_report_says_where_stacks_are() {
    let run = run(&["capture", "gen:?packets=100", "-w", "null:", "--cores", "0,0", "--json"]);
    assert_eq!(run.code, Some(2), "twice the same core: {}", run.stdout);
    let job = ["count", "gen:?packets=100", "--cores", "auto"];
    let object = last_object(&crate::support::run(&[&job[..], &["--json"]].concat()).stdout);
    let thread = &object["placement"]["threads"][0];
    assert_eq!(thread["stack_node"], thread["node"], "{thread}");
    assert!(thread["stack_pages"][thread["node"].to_string()].as_u64() > Some(0), "{thread}");
    let text = crate::support::run(&[&job[..], &["-v"]].concat()).stdout;
    let node = &thread["node"];
    assert!(text.contains(&format!("places   poll-0 on node {node}, stack on {node}")), "{text}");
}

#[test]
fn a_job_takes_the_words_of_a_plan() {
    let capture = ["capture", "gen:?packets=100", "-w", "null:"];
    let balance = ["balance", "gen:?packets=100", "--workers", "2"];
    let refused: [(&[&str], &str, &str); 4] = [
        (&capture, "--placement=A_AB", "names 2 workers, this job has one"),
        (&balance, "--placement=A_ABCDEFG", "names 7 workers, this job has 2"),
        (&["count", "gen:?packets=100"], "--pool-node=0", "run to completion has no log"),
        (&capture, "--stack-node=1023", "no node 1023"),
    ];
    for (job, flag, expected) in refused {
        let run = run(&[job, &[flag]].concat());
        assert_eq!(run.code, Some(2), "{flag}: {}", run.stdout);
        assert!(run.stderr.contains(expected) && run.stderr.lines().count() == 1, "{}", run.stderr);
    }
    let flags = ["--placement=A_A", "--pool-node=0", "--stack-node=0", "--node=0", "--json"];
    let run = run(&[&capture[..], &flags].concat());
    if run.stderr.contains("physical core") {
        skip(run.stderr);
        return;
    }
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let placement = &last_object(&run.stdout)["placement"];
    for thread in placement["threads"].as_array().unwrap() {
        assert_eq!((&thread["node"], &thread["stack_node"]), (&Value::from(0), &Value::from(0)));
        assert!(thread["core"].is_u64(), "{thread}");
    }
}
