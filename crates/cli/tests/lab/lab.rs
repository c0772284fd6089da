//! Measuring devices: a kernel bridge, a cable that is cut, our own bounce.

use std::fs;

use crate::support::live::{wait_until, whole_statuses};
use crate::support::rights::{assert_nobodys, nobody};
use crate::support::{
    Directory, PROGRAM, REAL, command, is_root, other, run, run_json, run_with_code,
};
use burstline_skip::skip;
use burstline_sys::privileges::Held;
use burstline_testbed::{Bed, Program};
use serde_json::Value;

/// Returns a bed with a second cable, w0 to w1: the far host is the device between v1 and w1.
fn bed_or_skip() -> Option<Bed> {
    let bed = Bed::or_skip()?;
    bed.connect("w0", "w1", 1500).unwrap();
    Some(bed)
}

fn bridge(bed: &Bed) {
    for command in [
        "link add br0 type bridge",
        "link set v1 master br0",
        "link set w1 master br0",
        "link set br0 up",
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        bed.far.command("ip", &words).unwrap();
    }
}

/// A rate at which the slowest machine loses nothing, and short trials.
const GENTLE: [&str; 8] =
    ["--tx", "v0", "--rx", "afpacket:w0?direction=in", "--link", "500kbit", "--trial", "100ms"];

fn start(bed: &Bed, flags: &[&str], report: &str, said: &str) -> Program {
    let script = format!("exec {PROGRAM} lab rfc2544 \"$@\" > {report} 2> {said}");
    let arguments = [&["-c", &script, "sh"], &GENTLE[..], flags].concat();
    bed.near.start("sh", &arguments, &[]).unwrap()
}

fn report(file: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

#[test]
fn a_bridge_passes_all_and_the_table_and_the_json_say_so() {
    let Some(bed) = bed_or_skip() else { return };
    bridge(&bed);
    let directory = Directory::new("lab-bridge");
    let [json, said] = ["json", "said"].map(|name| directory.file(name));
    let flags = ["--sizes", "64,1518", "--json"];
    let (is_success, _) = start(&bed, &flags, &json, &said).finish().unwrap();
    let said = fs::read_to_string(&said).unwrap();
    assert!(is_success, "{said}");
    let found = report(&json);
    assert_eq!((&found["whole"], &found["trial_is_short"]), (&true.into(), &true.into()));
    for (size, row) in [64, 1518].into_iter().zip(found["sizes"].as_array().unwrap()) {
        assert_eq!(row["size"], size);
        assert!(row["throughput"]["pps"].as_f64().unwrap() > 0.0, "{row}\n{said}");
        assert!(row["latency_ns"]["percentiles"]["p99"].as_u64().unwrap() > 0, "{row}");
        assert!(row["loss"].as_array().unwrap().len() >= 2, "{row}");
        assert!(row["back_to_back"]["frames"].as_u64().unwrap() > 0, "{row}");
    }
    assert!(said.contains("64 bytes, throughput:") && said.contains("0 of "), "{said}");
    let script = format!("{PROGRAM} lab rfc2544 \"$@\" --sizes 256 --tests throughput -q");
    let arguments = [&["-c", &script, "sh"], &GENTLE[..]].concat();
    let table = bed.near.command("sh", &arguments).unwrap();
    assert!(table.contains("SHORTER than the 60 s") && table.contains("\ndone\n"), "{table}");
}

/// The tester's main thread opens ports again for each trial. Those that send or receive are
/// nobody's.
#[test]
fn frames_are_sent_and_received_without_rights() {
    let (Some(nobody), Some(bed)) = (nobody(), bed_or_skip()) else { return };
    bridge(&bed);
    let directory = Directory::new("lab-rights");
    let [json, said] = ["json", "said"].map(|name| directory.file(name));
    let flags = ["--sizes", "64", "--tests", "loss", "--json"];
    let lab = start(&bed, &flags, &json, &said);
    let process = lab.process_id();
    for name in ["generate", "poll-0"] {
        let is_confined = |status: &String| {
            status.starts_with(&format!("Name:\t{name}\n")) && Held::of(status).is_filtered
        };
        wait_until(name, || whole_statuses(process).iter().any(is_confined));
        assert_nobodys(process, &nobody);
    }
    burstline_testbed::signal(process, "-INT").unwrap();
    lab.finish().unwrap();
}

#[test]
fn a_device_that_passes_nothing_has_no_throughput_and_an_interrupt_prints_what_is_done() {
    let Some(bed) = bed_or_skip() else { return };
    let directory = Directory::new("lab-nothing");
    let [json, said] = ["json", "said"].map(|name| directory.file(name));
    let flags = ["--sizes", "64", "--tests", "throughput,loss", "--json"];
    assert!(start(&bed, &flags, &json, &said).finish().unwrap().0);
    let row = &report(&json)["sizes"][0];
    assert_eq!(row["throughput"]["pps"], 0.0, "{row}");
    let curve = row["loss"].as_array().unwrap();
    let all_lost = |step: &Value| step["lost"] == step["sent"] && step["lost_percent"] == 100.0;
    assert!(curve.len() == 10 && curve.iter().all(all_lost), "{row}");
    // Interrupt with many sizes left: a size takes a second, and this thread may wait for a core.
    let sizes: [u64; 7] = [64, 128, 256, 512, 1024, 1280, 1518];
    let list = sizes.map(|size| size.to_string()).join(",");
    let flags = ["--sizes", &list, "--tests", "throughput", "--json"];
    let lab = start(&bed, &flags, &json, &said);
    wait_until("the second size", || fs::read_to_string(&said).unwrap().contains("128 bytes"));
    let process = lab.process_id();
    burstline_testbed::signal(process, "-INT").unwrap();
    assert!(!lab.finish().unwrap().0, "it did not do all that it was asked for");
    let found = report(&json);
    assert_eq!(found["whole"], false);
    let rows = found["sizes"].as_array().unwrap();
    let done: Vec<u64> = rows.iter().map(|row| row["size"].as_u64().unwrap()).collect();
    assert!((1..sizes.len()).contains(&done.len()) && sizes.starts_with(&done), "{found}");
}

#[test]
fn devices_are_started_here_and_compared_in_one_run() {
    if !is_root() {
        return skip("XDP takes root");
    }
    if Bed::or_skip().is_none() {
        return;
    }
    let gentle = ["--link", "500kbit", "--trial", "100ms", "--sizes", "64", "-q"];
    let duts = ["lab", "rfc2544", "--dut", "bounce,testpmd,ovs", "--tests", "throughput"];
    let found = run_json(&[&duts[..], &gentle].concat(), 0);
    assert_eq!(found["whole"], true, "{found}");
    let devices = found["devices"].as_array().unwrap();
    let names: Vec<_> = devices.iter().map(|device| device["device"].as_str().unwrap()).collect();
    assert_eq!(names, ["bounce", "testpmd", "ovs"]);
    for device in devices {
        if let Some(why) = device["not_run"].as_str() {
            assert!(why.contains("is not installed: sudo apt-get install"), "{why}");
            continue;
        }
        let found = &device["sizes"][0]["throughput"];
        assert!(found["pps"].as_f64().unwrap() > 0.0, "{device}");
    }
    assert!(devices[0]["not_run"].is_null(), "{found}");
    // A path with only these programs has no testpmd.
    let directory = Directory::new("lab-path");
    for program in ["ip", "sh", "setpriv"] {
        let place = other("sh", &["-c", &format!("command -v {program}")]).unwrap().stdout;
        std::os::unix::fs::symlink(place.trim(), directory.file(program)).unwrap();
    }
    let duts = ["lab", "rfc2544", "--dut", "bridge,testpmd", "--tests", "throughput,latency"];
    let gentle = ["--link", "500kbit", "--trial", "100ms", "--sizes", "64,1518", "-q"];
    let mut lab = command(&[&duts[..], &gentle].concat());
    let output = lab.env("PATH", directory.file("")).output().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    let because = "not run, because dpdk-testpmd is not installed: sudo apt-get install dpdk-dev";
    assert!(table.contains(because) && table.contains("\ndone\n"), "{table}");
    let row = table.lines().rev().find(|line| line.starts_with("  1518 ")).unwrap();
    assert!(row.contains('%') && row.ends_with("not run"), "{table}");
}

#[test]
fn a_test_of_devices_is_a_scenario_with_a_record_for_report_and_compare() {
    if !is_root() {
        return skip("XDP takes root");
    }
    if Bed::or_skip().is_none() {
        return;
    }
    let directory = Directory::new("lab-record");
    let file = directory.file("own.toml");
    let text = "name = \"own\"\ntitle = \"t\"\nabout = \"x\"\nwork = \"rfc2544\"\n\
                contenders = [\"linux-bridge\", \"recvmmsg\"]\nsizes = [64]\nrepeats = 2\n\
                seconds = 0.3\nlink_gbps = 0.001\n[rfc2544]\ntests = [\"throughput\", \"loss\"]\n";
    fs::write(&file, text).unwrap();
    let out = directory.file("");
    run_with_code(&["lab", "run", &file, "--out", &out, "-q"], 0);
    let record = report(&directory.file("own.json"));
    let (bridge, other) = (&record["rows"][0], &record["rows"][1]);
    assert_eq!((&bridge["contender"], &bridge["status"]), (&"linux-bridge".into(), &"run".into()));
    assert_eq!(bridge["rfc2544"].as_array().unwrap().len(), 2, "one a repeat: {record}");
    let mpps = &bridge["metrics"]["mpps"];
    let first = bridge["rfc2544"][0]["throughput"]["pps"].as_f64().unwrap();
    let sample = mpps["samples"][0].as_f64().unwrap();
    assert!(first > 0.0 && (sample * 1e6 / first - 1.0).abs() < 1e-9, "{bridge}");
    assert!(other["status"].as_str().unwrap().contains("recvmmsg does not do rfc2544"), "{other}");
    let doubts = record["doubts"].as_array().unwrap();
    assert!(doubts.iter().any(|doubt| doubt["name"] == "short-trials"), "{doubts:?}");
    let dut = ["lab", "rfc2544", "--dut", "bridge", "--sizes", "64", "--tests", "loss", "-q"];
    let gentle = ["--link", "500kbit", "--trial", "300ms", "--out", &out];
    let table = run(&[&dut[..], &gentle].concat());
    assert!(table.code == Some(0) && table.stdout.contains("lost_percent"), "{}", table.stderr);
    let compare = ["lab", "compare", "own", "rfc2544", "--dir", &out, "--metric", "lost_percent"];
    assert_eq!(run_json(&compare, 0)["ratios"][0]["contender"], "linux-bridge");
    let reported = run(&["lab", "report", &out]);
    assert!(reported.stdout.contains("report of 2 records"), "{}", reported.stderr);
    let alone = run(&["lab", "run", &file, "--contenders", "external-device", "--out", &out]);
    assert!(
        alone.code == Some(2) && alone.stderr.contains("--tx PORT --rx PORT"),
        "{}",
        alone.stderr
    );
}

#[test]
fn nonsense_is_refused() {
    for (flags, word) in [
        ("--tx lo --rx lo --sizes 63", "64 to 9018"),
        ("--tx lo --rx lo --trial 0s", "must be 1ns or more"),
        ("--tx lo --rx lo --tests speed", "possible values"),
        ("--tx lo --rx lo --resolution 0", "0.01 to 50"),
        ("--tx null: --rx lo", "--link 10Gbit"),
        ("--tx lo", "--rx"),
        ("--tx lo --rx lo --dst-mac zz", "02:00:00:00:00:01"),
        ("--dut switch", "bounce, bridge, testpmd, ovs"),
        ("--dut bridge --cores 0", "three --cores"),
    ] {
        let refused =
            run(&["lab", "rfc2544"].into_iter().chain(flags.split(' ')).collect::<Vec<_>>());
        assert_eq!(refused.code, Some(2), "{flags}: {}", refused.stderr);
        assert!(refused.stderr.contains(word), "{flags}: {}", refused.stderr);
    }
}

#[test]
fn a_receiver_that_ends_by_itself_is_told() {
    let ports = ["--tx", "null:", "--link", "10Gbit", "--rx", REAL];
    let short = ["--trial", "10ms", "--sizes", "64", "--quiet"];
    let ended = run(&[&["lab", "rfc2544"], &ports[..], &short].concat());
    let is_told = ended.stderr.contains("use an interface, or another port");
    assert!(ended.code == Some(1) && is_told, "{} {}", ended.stdout, ended.stderr);
}
