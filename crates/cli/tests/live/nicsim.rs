//! The verbs `lab pcie`, `lab dma` and `lab retention`, and `nicsim:` ports.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::support::live::wait_until;
use crate::support::{
    Directory, REAL, REAL_PACKETS, assert_closed, assert_says, command, run, run_json,
    run_with_code,
};

const MODES: [&str; 3] = ["writeback", "inline", "contiguous"];

/// Returns the bytes of each packet of a file that `capture` wrote as pcap.
fn frames_of(path: &str) -> Vec<Vec<u8>> {
    let (bytes, mut frames) = (fs::read(path).unwrap(), Vec::new());
    let mut rest = &bytes[24..];
    while let Some((header, behind)) = rest.split_first_chunk::<16>() {
        let length = u32::from_le_bytes(header[8..12].try_into().unwrap()) as usize;
        frames.push(behind[..length].to_vec());
        rest = &behind[length..];
    }
    frames
}

#[test]
fn packets_come_in_by_a_card_in_every_mode_and_none_leaves_by_one() {
    for mode in MODES {
        let report = run_json(&["count", &format!("nicsim:a?mode={mode}&source={REAL}")], 0);
        assert_closed(&report);
        assert_eq!(report["total"]["delivered"], REAL_PACKETS, "{report}");
        assert_eq!(report["total"]["bytes_copied"], 0, "{report}");
    }
    for job in [&["generate", "-o", "nicsim:b"][..], &["bounce", "nicsim:a", "nicsim:b"]] {
        let refused = run_with_code(job, 2);
        assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
    }
}

#[test]
fn what_a_job_wants_is_chosen_where_it_lies() {
    let directory = Directory::new("nicsim-chosen");
    let plain = run_json(&["count", REAL, "--filter", "tcp"], 0);
    let wanted = &plain["total"]["delivered"];
    assert!(wanted.as_u64().unwrap() > 0, "{plain}");
    for mode in MODES {
        let address = format!("nicsim:a?mode={mode}&source={REAL}");
        let report = run_json(&["count", &address, "--hash", "five-tuple"], 0);
        assert_closed(&report);
        assert_eq!(report["total"]["delivered"], REAL_PACKETS, "{report}");
        let report = run_json(&["count", &address, "--filter", "tcp"], 0);
        assert_closed(&report);
        assert_eq!(&report["total"]["delivered"], wanted, "{mode}: {report}");
        assert_eq!(report["total"]["bytes"], plain["total"]["bytes"], "{mode}: {report}");
        // The packets' bytes are the same, too.
        let [by_card, by_file] =
            ["card", "file"].map(|name| directory.file(&format!("{mode}-{name}.pcap")));
        for (from, to) in [(&address[..], &by_card), (REAL, &by_file)] {
            run_json(&["capture", from, "--filter", "tcp", "--format", "pcap", "-w", to], 0);
        }
        assert!(frames_of(&by_card) == frames_of(&by_file), "{mode}");
        // All packets are filtered and the source is endless, but the job still ends in time.
        let endless = format!("nicsim:a?mode={mode}&source=gen:?size=64");
        let job = ["capture", &endless, "--filter", "tcp port 1", "--duration", "200ms"];
        let report = run_json(&[&job[..], &["-o", &by_card]].concat(), 0);
        assert_eq!(report["total"]["delivered"], 0, "{report}");
    }
}

#[test]
fn what_goes_wrong_at_the_far_end_is_told() {
    let directory = Directory::new("nicsim-far");
    let damaged = directory.file("damaged.pcap");
    let whole = fs::read(REAL).unwrap();
    fs::write(&damaged, &whole[..whole.len() - 5]).unwrap();
    let plain = run(&["count", &damaged]).code;
    assert_ne!(plain, Some(0));
    for mode in MODES {
        let address = format!("nicsim:a?mode={mode}&source={damaged}");
        // The first ends by itself.
        for (far, most) in [("", "60s"), ("&loop=100000", "200ms")] {
            let told = run(&["count", &format!("{address}{far}"), "--duration", most]);
            assert_eq!(told.code, plain, "{mode}: {}{}", told.stdout, told.stderr);
        }
        let told = run(&["bounce", &address, "null:"]);
        assert_eq!(told.code, plain, "{mode}: {}{}", told.stdout, told.stderr);
    }
}

#[test]
fn faults_are_named_and_the_ledger_closes() {
    for mode in MODES {
        let source = "gen:?packets=20000%26size=64";
        let address = format!(
            "nicsim:a?mode={mode}&source={source}&queues=2&link_down=100-300&restart=10000&\
             rate=1Gbit&ring=64&mtu=9000"
        );
        let report = run_json(&["count", &address], 0);
        assert_closed(&report);
        let lost = &report["total"]["lost"];
        assert_eq!(report["total"]["offered"], 20_000, "{report}");
        assert_eq!(lost["card_link_down"], 200, "{report}");
    }
    for (wrong, word) in [
        ("mode=fast", "one of writeback, inline, contiguous"),
        ("ring=0", "power of two"),
        ("ring=1000", "power of two"),
        ("queues=0", "must be 1-16"),
        ("payload=100", "power of two"),
        ("pcie=9.0x8", "up to 5.0x16"),
        ("rate=5", "10Gbit"),
        ("rate=9Mbit", "10 Mbit/s to 1 Tbit/s"),
        ("fifo=10", "one longest frame"),
        ("mtu=99999", "16128"),
        ("source=nicsim:b", "cannot be the source of another"),
        ("link_down=5", "1000-2000"),
        ("link_down=9-5", "1000-2000"),
        ("segment=1", "power of two"),
        ("mode=contiguous&log=12k&segment=4096", "3 segments of 4096 bytes, and needs at least 8"),
        ("loop=99999999", "must be 0-1048576"),
        ("colour=red", "has no key 'colour'"),
    ] {
        assert_says(&["count", &format!("nicsim:a?{wrong}")], 2, word);
    }
}

#[test]
fn a_trace_never_overwrites_what_the_job_has() {
    let directory = Directory::new("nicsim-trace");
    let (own, steps) = (directory.file("own.pcap"), directory.file("steps"));
    fs::copy(REAL, &own).unwrap();
    assert_says(&["count", &format!("nicsim:a?source={own}&trace={own}")], 2, "another output");
    assert_eq!(fs::read(&own).unwrap(), fs::read(REAL).unwrap());
    // The trace of an earlier run is truncated.
    fs::write(&steps, vec![b'~'; 1 << 20]).unwrap();
    run_json(&["count", &format!("nicsim:a?source={REAL}&trace={steps}")], 0);
    assert!(!fs::read_to_string(&steps).unwrap().contains('~'));
}

/// Returns the record that a verb of the lab prints.
fn record(job: &[&str]) -> serde_json::Value {
    let directory = Directory::new("nicsim-record");
    let out = directory.file("records");
    run_json(&[&["lab"], job, &["--out", &out, "--quiet"]].concat(), 0)
}

/// Returns the rows of a contender.
fn rows_of<'a>(record: &'a serde_json::Value, contender: &str) -> Vec<&'a serde_json::Value> {
    let rows = record["rows"].as_array().unwrap().iter();
    rows.filter(|row| row["contender"] == contender).collect()
}

fn median(row: &serde_json::Value, metric: &str) -> f64 {
    let found = row["metrics"][metric]["median"].as_f64();
    found.unwrap_or_else(|| panic!("no {metric} in {row}"))
}

#[test]
fn the_bus_is_worked_out_as_the_paper_and_the_article_have_it() {
    let report = record(&["pcie", "--sizes", "64"]);
    let row = |mode: &str| rows_of(&report, &format!("dma-{mode}"))[0];
    assert_eq!(MODES.map(|mode| row(mode)["status"].as_str()), [Some("model"); 3]);
    assert_eq!(
        (median(row("writeback"), "bus_bytes"), median(row("inline"), "bus_bytes")),
        (192.0, 128.0)
    );
    // The article's claim: 3.0x16 carries 100 Gbit/s of 64-byte frames in contiguous mode only.
    let fits = |mode| median(row(mode), "ceiling_line_gbps_3x16") >= 100.0;
    assert_eq!(MODES.map(fits), [false, false, true]);
    for row in rows_of(&report, "dma-inline") {
        let is_received = row["point"]["case"] == "receive";
        assert_eq!(row["metrics"]["bus_bytes"].is_object(), is_received, "{row}");
        assert!(median(row, "bus_up_bytes") > 0.0 && median(row, "bus_down_bytes") > 0.0);
        assert!(median(row, "ceiling_mpps_2x8") < median(row, "ceiling_mpps_5x16"));
    }
    assert_eq!(rows_of(&report, "dma-inline").len(), 3, "received, sent, forwarded");
}

#[test]
fn the_papers_experiment_runs_and_says_what_binds() {
    let report = record(&["dma", "--quick", "--repeats", "1"]);
    assert_eq!((&report["schema"], &report["document"]), (&"burstline-lab-1".into(), &"D2".into()));
    assert!(report["build"]["rustc"].is_string() && report["machine"]["caches"].is_array());
    assert_eq!(report["contenders"].as_array().unwrap().len(), 3);
    for row in report["rows"].as_array().unwrap() {
        assert_eq!(row["losses"].as_object().unwrap().len(), 0, "{row}");
        let bounds = ["link_mpps", "bus_mpps", "host_mpps"].map(|what| median(row, what));
        let least = bounds.into_iter().fold(f64::INFINITY, f64::min);
        assert!(least > 0.0 && median(row, "mpps") == least, "{row}");
        assert!(median(row, "run_mpps") > 0.0 && median(row, "host_ns") > 0.0, "{row}");
        let said = match (row["contender"].as_str(), row["point"]["size"].as_str()) {
            (Some("dma-inline"), Some("64")) => 13.3.into(),
            (Some("dma-inline"), Some("random:64-1518")) => 18.7.into(),
            _ => serde_json::Value::Null,
        };
        assert_eq!(row["document"]["line_gbps"], said, "the paper's card is this mode: {row}");
    }
    let paper = |mode: &str| median(rows_of(&report, &format!("dma-{mode}"))[0], "bus_paper_bytes");
    assert_eq!((paper("writeback"), paper("inline")), (192.0, 128.0));
}

#[test]
fn a_driver_alone_is_measured_for_so_many_packets() {
    let report =
        record(&["dma", "--packets", "20000", "--repeats", "3", "--contenders", "dma-inline"]);
    for row in report["rows"].as_array().unwrap() {
        assert!(
            median(row, "packets") >= 20_000.0 && row["metrics"]["run_mpps"].is_null(),
            "{row}"
        );
        assert_eq!(row["metrics"]["host_ns"]["samples"].as_array().unwrap().len(), 3);
    }
}

#[test]
fn kept_packets_pin_buffers_segments_or_copies() {
    let report = record(&["retention", "--packets", "40000", "--repeats", "1"]);
    assert_eq!(
        (report["contenders"].as_array().unwrap().len(), &report["document"]),
        (4, &"D2".into())
    );
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 24);
    for row in rows {
        let every = row["point"]["every"].as_u64().unwrap();
        let (kept, pinned) = (median(row, "kept"), median(row, "pinned_bytes"));
        let is_refused = median(row, "refused") > 0.0;
        assert!(is_refused || kept >= 16_384.0 / every as f64, "{row}");
        match row["contender"].as_str().unwrap() {
            "keep-writeback" | "keep-inline" => assert_eq!(pinned, kept * 2048.0, "{row}"),
            "keep-contiguous-copied" => assert_eq!(pinned, kept * 60.0, "{row}"),
            _ => assert_eq!(pinned % 262_144.0, 0.0, "{row}"),
        }
    }
    let few = report["doubts"].as_array().unwrap().iter().any(|d| d["name"] == "too-few-samples");
    assert!(few, "one turn is too few: {report}");
}

#[test]
fn all_three_are_shown_by_the_labs_table_and_reported() {
    let directory = Directory::new("nicsim-tables");
    let out = directory.file("records");
    let short = ["--packets", "5000", "--repeats", "1", "--quiet", "--out", &out];
    let verbs: [(&str, &[&str]); 3] = [
        ("pcie", &["ceiling_line_gbps_2x8", "saved_percent", "bus_down_bytes"]),
        ("dma", &["host_ns", "bus_paper_bytes", "line_gbps 13.3"]),
        ("retention", &["pinned_bytes", "refused", "keep-contiguous-segments"]),
    ];
    for (verb, words) in verbs {
        let shown = run_with_code(&[&["lab", verb], &short[..]].concat(), 0);
        assert!(words.iter().all(|word| shown.stdout.contains(word)), "{}", shown.stdout);
    }
    let reported = run(&["lab", "report", &out]);
    assert_eq!((reported.code, reported.stderr.as_str()), (Some(0), ""));
}

#[test]
fn an_interrupt_says_what_is_missing() {
    for job in [["dma", "--repeats", "1000"], ["retention", "--packets", "1000G"]] {
        let directory = Directory::new("nicsim-interrupt");
        let out = directory.file("records");
        let job = [&["lab"], &job[..], &["--out", &out]].concat();
        let started = command(&job).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut started = started.unwrap();
        // The line of its first turn: from then on the run can be interrupted.
        let (mut line, said) = (String::new(), started.stderr.take().unwrap());
        BufReader::new(said).read_line(&mut line).unwrap();
        assert!(line.contains("0/"), "{line}");
        burstline_testbed::signal(started.id(), "-INT").unwrap();
        let ended = started.wait_with_output().unwrap();
        let table = String::from_utf8(ended.stdout).unwrap();
        assert!(ended.status.code() == Some(1) && table.contains("interrupted"), "{table}");
    }
}

#[test]
fn no_thread_of_a_card_has_a_capability() {
    for job in [vec!["count", "nicsim:a"], vec!["bounce", "nicsim:a", "null:"]] {
        let mut running = command(&job).stdout(Stdio::null()).spawn().unwrap();
        let tasks = format!("/proc/{}/task", running.id());
        let status = |task: &fs::DirEntry| fs::read_to_string(task.path().join("status"));
        let is_without = |status: &String| {
            let fields =
                status.lines().filter_map(|line| line.strip_prefix("Cap")?.split_once(':'));
            let mut held = fields.filter(|(name, _)| ["Inh", "Prm", "Eff", "Amb"].contains(name));
            held.all(|(_, bits)| bits.trim().chars().all(|digit| digit == '0'))
        };
        wait_until("all threads are without rights", || {
            let tasks = fs::read_dir(&tasks).unwrap().map(|task| status(&task.unwrap()));
            // A thread may end while its status is read.
            let statuses: Vec<String> = tasks.filter_map(Result::ok).collect();
            let has = |name: &str| statuses.iter().any(|status| status.contains(name));
            has("Name:\tnicsim-a\n")
                && has("CapEff:\t0000000000000000")
                && statuses.iter().all(is_without)
        });
        running.kill().unwrap();
        running.wait().unwrap();
    }
}
