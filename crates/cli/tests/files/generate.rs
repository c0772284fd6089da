//! Sending generated packets and verifying them.

use crate::support::endless::{end, start};
use crate::support::live::{Live, wait_until};
use crate::support::{
    Directory, PROGRAM, assert_closed, assert_says, judged_packets, last_object, run, run_json,
};
use burstline_testbed::{Bed, FAR, NEAR};

fn generate(flags: &str, code: i32) -> serde_json::Value {
    let arguments: Vec<&str> = ["generate"].into_iter().chain(flags.split(' ')).collect();
    let report = run_json(&arguments, code);
    assert_closed(&report);
    report
}

#[test]
fn what_is_written_to_a_file_is_valid_and_verified() {
    let directory = Directory::new("generate-file");
    let file = directory.file("a.pcapng");
    let flags = "--packets 3000 --size imix --protocol mix --ip mix --vlan 1-3 --flows 30";
    let report = generate(&format!("-o {file} {flags}"), 0);
    assert_eq!(report["total"]["delivered"], 3000);
    for (who, count) in judged_packets(&file) {
        assert_eq!(count, 3000, "{who}");
    }
    let arguments = ["-r", &file, "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"];
    let wrong = "udp.checksum.status == 0 || ip.checksum.status == 0 || tcp.checksum.status == 0";
    let filter = ["-o", "tcp.check_checksum:TRUE", "-Y", wrong];
    if let Some(judged) = crate::support::other("tshark", &[&arguments[..], &filter].concat()) {
        assert_eq!(judged.stdout, "", "tshark finds wrong checksums");
    }
    // Tagged packets of 64 bytes have no room for a mark.
    let report = run_json(&["count", &file, "--verify"], 0);
    let verify = &report["verify"];
    let [unique, unmarked] = ["unique", "unmarked"].map(|key| verify[key].as_u64().unwrap());
    assert!(unique + unmarked == 3000 && unique > 1000, "{verify}");
}

#[test]
fn a_template_is_sent_as_it_is_but_for_its_mark() {
    let directory = Directory::new("generate-template");
    let file = directory.file("a.pcapng");
    let report =
        generate(&format!("-o {file} --template {} --packets 298", crate::support::REAL), 0);
    assert_eq!(report["total"]["delivered"], 298);
    let template = run_json(&["count", crate::support::REAL], 0);
    let bytes = template["total"]["bytes"].as_u64().unwrap();
    assert_eq!(report["total"]["bytes"], 2 * bytes, "twice the file");
    let report = run_json(&["count", &file, "--verify"], 0);
    assert!(report["verify"]["unique"].as_u64().unwrap() > 0, "{report}");
    let refused =
        run(&["generate", "-o", "null:", "--template", crate::support::REAL, "--vlan", "1"]);
    assert!(
        refused.code == Some(2) && refused.stderr.contains("leave out vlan"),
        "{}",
        refused.stderr
    );
}

#[test]
fn two_runs_with_a_seed_and_a_start_are_the_same_bytes() {
    let directory = Directory::new("generate-seed");
    let made = |name: &str, seed: &str| {
        let file = directory.file(name);
        let flags = "--packets 500 --size dma --flows 9 --start 7 --seed";
        generate(&format!("-o {file} {flags} {seed}"), 0);
        std::fs::read(file).unwrap()
    };
    assert!(made("a.pcapng", "3") == made("b.pcapng", "3"));
    assert!(made("a.pcapng", "3") != made("b.pcapng", "4"));
}

#[test]
fn a_rate_that_cannot_be_reached_is_said() {
    let report = generate("-o null: --rate 1G --duration 200ms", 0);
    let pace = &report["generate"];
    assert_eq!(pace["asked_pps"], 1e9);
    assert!(pace["reached_pps"].as_f64().unwrap() < 1e9 && pace["limit"] == "core", "{pace}");
    let report = generate("-o null: --rate 1k --packets 100", 0);
    assert_eq!(report["generate"]["lateness_ns"]["packets"], 100);
    let said = run(&["generate", "-o", "null:", "--rate", "1G", "--duration", "100ms"]).stdout;
    assert!(
        said.contains("asked 1.00 Gpps, reached") && said.contains("the core's limit"),
        "{said}"
    );
}

#[test]
fn nonsense_names_the_flag() {
    for (flags, word) in [
        ("--rate 2G", "'--rate': that is 2000000000"),
        ("--rate 50%", "'--rate': a percentage needs the link's rate"),
        ("--rate 20M --link 10Gbit", "13.440 Gbit/s"),
        ("--rate 101% --link 10Gbit", "10.100 Gbit/s"),
        ("--rate 1k --rate 2k", "cannot be used multiple times"),
        ("--rate 0", "0.001 to 1G"),
        ("--rate max --burst 4", "bursts need a rate"),
        ("--size 9", "'--size'"),
        ("--burst 5", "'--burst': bursts need a rate"),
        ("--src 10.0.0.1 --dst ::1", "src has IPv4"),
    ] {
        let arguments = ["generate", "-o", "null:"].into_iter().chain(flags.split(' '));
        assert_says(&arguments.collect::<Vec<_>>(), 2, word);
    }
}

#[test]
fn a_damaged_template_is_refused_with_its_place() {
    let directory = Directory::new("generate-damaged");
    let whole = std::fs::read(crate::support::REAL).unwrap();
    let cut = &whole[..whole.len() / 2];
    for (bytes, word) in [
        (cut, "a template must not be damaged"),
        (&whole[..24], "at least one Ethernet frame"),
        (&b"no capture at all, but words"[..], "not a capture file"),
        (&[][..], "empty"),
    ] {
        let file = directory.file("template.pcap");
        std::fs::write(&file, bytes).unwrap();
        let refused = run(&["generate", "-o", "null:", "--template", &file, "--packets", "9"]);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{word}");
        assert!(refused.stderr.contains(word), "{word}: {}", refused.stderr);
        assert_eq!(refused.stderr.lines().count(), 1);
    }
}

#[test]
fn a_part_of_the_link_and_an_absurd_rate_on_an_interface() {
    let Some(bed) = Bed::or_skip() else { return };
    let generate = |flags: &str| {
        let arguments: Vec<&str> =
            ["generate", "-o", NEAR, "--json"].into_iter().chain(flags.split(' ')).collect();
        let report = last_object(&bed.near.command(PROGRAM, &arguments).unwrap());
        assert_closed(&report);
        report
    };
    // A veth reports 10 Gbit/s; a frame of 64 bytes takes 84 bytes on the line.
    let report = generate("--rate 0.01% --packets 20");
    let asked = report["generate"]["asked_pps"].as_f64().unwrap();
    assert!((asked - 1_488.095).abs() < 0.01, "{report}");
    let report = generate("--rate 100% --size 64 --duration 1s");
    let pace = &report["generate"];
    assert_eq!(pace["limit"], "sink", "a veth's sender makes no 14.88 Mpps: {pace}");
    let reached = pace["reached_pps"].as_f64().unwrap();
    assert!(reached > 0.0 && reached < 14.7e6, "{pace}");
}

#[test]
fn an_expectation_that_is_not_met_is_a_failure() {
    run_json(&["count", crate::support::REAL, "--expect", "149"], 0);
    assert_says(&["count", crate::support::REAL, "--expect", "150"], 1, "149 packets");
    let unmarked = run(&["count", crate::support::REAL, "--verify"]);
    assert_eq!(unmarked.code, Some(1), "nothing of it was generated");
}

#[test]
fn latencies_are_logged_for_all_and_for_each_flow() {
    let directory = Directory::new("generate-latency");
    let log = directory.file("a.hlog");
    let job = ["count", "gen:?packets=900&flows=3", "--verify", "--latency-log", &log];
    run_json(&job, 0);
    let text = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("HISTFAAA")).collect();
    let tagged = lines.iter().filter(|line| line.starts_with("Tag=")).count();
    assert_eq!((lines.len(), tagged), (4, 3), "{text}");
}

#[test]
fn latencies_are_not_logged_over_what_is_counted() {
    let directory = Directory::new("generate-same");
    let capture = directory.file("a.pcapng");
    std::fs::copy(crate::support::REAL, &capture).unwrap();
    let job = ["count", &capture, "--verify", "--latency-log", &capture];
    assert_says(&job, 2, "another output");
    let (kept, before) =
        (std::fs::read(&capture).unwrap(), std::fs::read(crate::support::REAL).unwrap());
    assert!(kept == before, "{} bytes are left", kept.len());
}

#[test]
fn an_interrupt_leaves_an_exact_ledger() {
    let job = start(&["generate", "-o", "null:", "--rate", "50k"]);
    assert_closed(&end(job, "-INT"));
}

#[test]
fn all_that_is_sent_by_an_interface_is_at_the_far_end_intact() {
    let Some(bed) = Bed::or_skip() else { return };
    const PACKETS: u64 = 20_000;
    for sink in ["afpacket", "xdp"] {
        let directory = Directory::new(&format!("generate-{sink}"));
        let job = format!("count afpacket:{FAR}?direction=in --verify --expect {PACKETS}");
        let live = Live::start(&bed, &directory, &job);
        live.wait_without_rights(3);
        let output = format!("{sink}:{NEAR}");
        let flags = ["--size", "random:64-1518", "--flows", "10", "--rate", "50k", "--json"];
        let arguments = [&["generate", "-o", &output, "--packets", "20000"], &flags[..]].concat();
        let sent = bed.near.command(PROGRAM, &arguments).unwrap();
        let sent = last_object(&sent);
        assert_closed(&sent);
        assert_eq!(sent["total"]["delivered"], PACKETS, "{sent}");
        let delivered = format!("\"delivered\":{PACKETS},");
        wait_until("all is delivered", || live.text().contains(&delivered));
        live.interrupt();
        let (is_success, report) = live.end();
        assert!(is_success, "{sink}: {report}");
        assert_eq!(report["verify"]["unique"], PACKETS, "{sink}: {report}");
        assert_eq!(report["verify"]["flows"].as_array().unwrap().len(), 10);
    }
}
