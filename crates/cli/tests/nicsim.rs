//! `nicsim:` ports, `lab pcie`, `lab dma` and `lab retention`, by the program.

mod support;

use std::fs;
use std::process::Stdio;

use support::live::wait_until;
use support::{Directory, REAL, REAL_PACKETS, assert_closed, command, run, run_json};

const MODES: [&str; 3] = ["writeback", "inline", "contiguous"];

fn packets_of(path: &str) -> u64 {
    run_json(&["count", path], 0)["total"]["delivered"].as_u64().unwrap()
}

/// The bytes of each packet of a file that `capture` wrote as pcap.
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
fn packets_come_in_and_go_out_by_a_card_in_every_mode() {
    let directory = Directory::new("nicsim-ways");
    for mode in MODES {
        let report = run_json(&["count", &format!("nicsim:a?mode={mode}&source={REAL}")], 0);
        assert_closed(&report);
        assert_eq!(report["total"]["delivered"], REAL_PACKETS, "{report}");
        assert_eq!(report["total"]["bytes_copied"], 0, "{report}");
        let out = directory.file(&format!("{mode}.pcap"));
        let sent = run_json(&["capture", REAL, "-o", &format!("nicsim:b?mode={mode}&to={out}")], 0);
        assert_closed(&sent);
        assert_eq!(packets_of(&out), REAL_PACKETS, "{sent}");
    }
}

#[test]
fn two_cards_bounce_without_a_copy() {
    let directory = Directory::new("nicsim-bounce");
    for mode in MODES {
        let [a, b] = ["a", "b"].map(|name| directory.file(&format!("{mode}-{name}.pcap")));
        let trace = directory.file(&format!("{mode}.trace"));
        let ends = [
            format!("nicsim:a?mode={mode}&source={REAL}&to={a}&trace={trace}"),
            format!("nicsim:b?mode={mode}&source=gen:?packets=3000%26size=random:64-1518&to={b}"),
        ];
        let report = run_json(&["bounce", &ends[0], &ends[1], "--both"], 0);
        assert_closed(&report);
        assert_eq!(report["ports"][0]["delivered"], REAL_PACKETS, "{report}");
        assert_eq!(report["ports"][1]["delivered"], 3000, "{report}");
        assert_eq!(report["total"]["bytes_copied"], 0, "{report}");
        assert_eq!((packets_of(&b), packets_of(&a)), (REAL_PACKETS, 3000), "{mode}");
        let steps = fs::read_to_string(&trace).unwrap();
        for step in ["4.1.1", "4.1.4", "4.2.2", "4.2.6"] {
            assert!(steps.contains(step), "{mode}: {step} in {steps}");
        }
    }
    // Different ways of DMA do not meet, and a log is nobody's to rewrite.
    let refused = run(&["bounce", "nicsim:a", "nicsim:b?mode=inline"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("mode"), "{}", refused.stderr);
    let ends = ["nicsim:a?mode=contiguous", "nicsim:b?mode=contiguous"];
    let refused = run(&["bounce", ends[0], ends[1], "--rewrite", "swap"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("rewritten"), "{}", refused.stderr);
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
        // The bytes, too, are those of the packets.
        let [by_card, by_file] =
            ["card", "file"].map(|name| directory.file(&format!("{mode}-{name}.pcap")));
        for (from, to) in [(&address[..], &by_card), (REAL, &by_file)] {
            run_json(&["capture", from, "--filter", "tcp", "--format", "pcap", "-w", to], 0);
        }
        assert!(frames_of(&by_card) == frames_of(&by_file), "{mode}");
        // All are unwanted, and there is no end of them: the job's own end comes, all the same.
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
        for far in ["", "&loop=100000"] {
            let told = run(&["count", &format!("{address}{far}"), "--duration", "200ms"]);
            assert_eq!(told.code, plain, "{mode}: {}{}", told.stdout, told.stderr);
        }
        let told = run(&["bounce", &address, &format!("nicsim:b?mode={mode}")]);
        assert_eq!(told.code, plain, "{mode}: {}{}", told.stdout, told.stderr);
        let full = format!("nicsim:b?mode={mode}&to=/dev/full");
        let told = run(&["bounce", &format!("nicsim:a?mode={mode}&source={REAL}"), &full]);
        assert_ne!(told.code, Some(0), "{mode}: {}{}", told.stdout, told.stderr);
    }
    let ends = ["nicsim:a?buffer=256", "nicsim:b?ring=4"];
    let refused = run(&["bounce", ends[0], ends[1]]);
    assert!(refused.code == Some(2) && refused.stderr.contains("6 parts"), "{}", refused.stderr);
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
        assert_eq!(lost["link_down"], 200, "{report}");
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
        ("source=nicsim:b", "not plugged into a card"),
        ("link_down=5", "1000-2000"),
        ("link_down=9-5", "1000-2000"),
        ("segment=1", "power of two"),
        ("mode=contiguous&log=12k&segment=4096", "3 segments of 4096 bytes, and takes 8"),
        ("loop=99999999", "must be 0-1048576"),
        ("colour=red", "knows no 'colour'"),
    ] {
        let refused = run(&["count", &format!("nicsim:a?{wrong}")]);
        assert_eq!(refused.code, Some(2), "{wrong}: {}", refused.stderr);
        assert!(refused.stderr.contains(word), "{wrong}: {}", refused.stderr);
    }
}

#[test]
fn a_trace_never_overwrites_what_the_job_has() {
    let directory = Directory::new("nicsim-trace");
    let (own, steps) = (directory.file("own.pcap"), directory.file("steps"));
    fs::copy(REAL, &own).unwrap();
    let refused = run(&["count", &format!("nicsim:a?source={own}&trace={own}")]);
    assert!(
        refused.code == Some(2) && refused.stderr.contains("another output"),
        "{}",
        refused.stderr
    );
    assert_eq!(fs::read(&own).unwrap(), fs::read(REAL).unwrap());
    let ends = ["a", "b"].map(|name| format!("nicsim:{name}?trace={steps}"));
    let refused = run(&["bounce", &ends[0], &ends[1]]);
    assert!(
        refused.code == Some(2) && refused.stderr.contains("another output"),
        "{}",
        refused.stderr
    );
    // One of an earlier run is emptied.
    fs::write(&steps, vec![b'~'; 1 << 20]).unwrap();
    run_json(&["count", &format!("nicsim:a?source={REAL}&trace={steps}")], 0);
    assert!(!fs::read_to_string(&steps).unwrap().contains('~'));
}

#[test]
fn a_card_that_only_sends_has_an_mtu_and_no_arrivals() {
    for mode in MODES {
        let job = |sink: &str, code: i32| {
            let sink = format!("nicsim:b?mode={mode}{sink}");
            run_json(&["generate", "-o", &sink, "--packets", "100", "--size", "9018"], code)
        };
        let report = job("", 1);
        assert_closed(&report);
        assert_eq!(report["total"]["lost"]["too_long"], 100, "{report}");
        assert_eq!(job("&mtu=9014", 0)["total"]["delivered"], 100);
        let ends = [format!("nicsim:a?mode={mode}&mtu=9014"), format!("nicsim:b?mode={mode}")];
        let refused = run(&["bounce", &ends[0], &ends[1]]);
        let is_told = refused.stderr.contains("up to 9014 bytes");
        assert!(refused.code == Some(2) && is_told, "{}", refused.stderr);
    }
    for asked in ["restart=7", "link_down=1-9", "loop=5", "source=gen:"] {
        let card = format!("nicsim:b?{asked}");
        let jobs = [
            &["generate", "-o", &card][..],
            &["bounce", "gen:", &card],
            &["bounce", "nicsim:a", &card],
        ];
        for job in jobs {
            let refused = run(job);
            let is_told = refused.stderr.contains("it only sends");
            assert!(refused.code == Some(2) && is_told, "{}", refused.stderr);
        }
    }
}

#[test]
fn the_bus_is_worked_out_as_the_paper_and_the_article_have_it() {
    let report = run_json(&["lab", "pcie", "--pcie", "3.0x16", "--sizes", "64"], 0);
    let lengths = report["paper"]["lengths"].as_array().unwrap();
    assert_eq!(lengths.len(), 1514 - 60 + 1);
    assert_eq!((&lengths[4]["length"], &lengths[4]["writeback"]), (&64.into(), &192.0.into()));
    assert_eq!(lengths[4]["inline"], 128.0);
    let fits = |mode: &str| {
        let rows = report["slots"][0]["rows"].as_array().unwrap();
        rows.iter().find(|row| row["mode"] == mode).unwrap()["fits_line"].as_bool()
    };
    assert_eq!(MODES.map(fits), [Some(false), Some(false), Some(true)]);
    let text = run(&["lab", "pcie", "--work", "forward", "--line", "20Gbit"]);
    assert!(text.code == Some(0) && text.stdout.contains("2.0x8"), "{}", text.stdout);
    assert_eq!(run(&["lab", "pcie", "--payload", "100"]).code, Some(2));
}

#[test]
fn the_papers_experiment_runs_and_says_what_binds() {
    let job = ["lab", "dma", "--sizes", "64,random:64-1518", "--time", "20ms"];
    let report = run_json(&job, 0);
    let rows = report["rows"].as_array().unwrap();
    assert!(rows.len() == 6 && report["whole"] == true, "{report}");
    for row in rows {
        assert_eq!(row["run"]["unaccounted"], 0, "{row}");
        let bounds = ["link", "bus", "host"].map(|what| row[what]["pps"].as_f64().unwrap());
        let least = bounds.into_iter().fold(f64::INFINITY, f64::min);
        assert!(least > 0.0 && row["pps"].as_f64() == Some(least), "{row}");
        let is_random = row["size"] != "64";
        assert_eq!(row["paper_bits_per_s"], if is_random { 18.7e9 } else { 13.3e9 }, "{row}");
    }
    let paper: Vec<_> = rows[..2].iter().map(|row| &row["bus"]["paper_bytes"]).collect();
    assert_eq!(paper, [192.0, 128.0], "{report}");
    let text = run(&["lab", "dma", "--sizes", "64", "--time", "1ms"]);
    assert!(text.code == Some(0) && text.stdout.contains("13.3"), "{}", text.stdout);
    assert_eq!(run(&["lab", "dma", "--line", "5"]).code, Some(2));
    assert_ne!(run(&["lab", "dma", "--sizes", "five"]).code, Some(0));
}

#[test]
fn both_experiments_write_records_that_reports_are_made_of() {
    let directory = Directory::new("lab-dma-record");
    let out = directory.file("records");
    let dma = ["lab", "dma", "--sizes", "64", "--time", "1ms", "--repeats", "3", "--out", &out];
    let shown = run_json(&dma, 0);
    assert_eq!(shown["rows"].as_array().unwrap().len(), 3, "a row a mode: {shown}");
    let kept = ["lab", "retention", "--every", "4,64", "--packets", "5000", "--out", &out];
    assert_eq!(run(&kept).code, Some(0));
    let read = |name: &str| -> serde_json::Value {
        serde_json::from_str(&fs::read_to_string(format!("{out}/{name}.json")).unwrap()).unwrap()
    };
    let (dma, kept) = (read("dma"), read("retention"));
    for (record, contenders) in [(&dma, 3), (&kept, 4)] {
        assert_eq!(
            (&record["schema"], &record["document"]),
            (&"burstline-lab-1".into(), &"D2".into())
        );
        assert_eq!(record["contenders"].as_array().unwrap().len(), contenders, "{record}");
        assert!(record["build"]["rustc"].is_string() && record["machine"]["caches"].is_array());
    }
    let inline = &dma["rows"][1];
    assert_eq!(
        (&inline["contender"], &inline["point"]["size"]),
        (&"dma-inline".into(), &"64".into())
    );
    let samples = |name: &str| inline["metrics"][name]["samples"].as_array().unwrap().clone();
    assert_eq!((samples("host_ns").len(), samples("bus_paper_bytes")), (3, vec![128.0.into(); 3]));
    assert_eq!(inline["document"]["line_gbps"], 13.3, "the paper's card is this mode");
    assert!(dma["rows"][0]["document"].is_null());
    assert_eq!(kept["rows"].as_array().unwrap().len(), 8);
    let few = kept["doubts"].as_array().unwrap().iter().any(|d| d["name"] == "too-few-samples");
    assert!(few, "one turn is too few: {kept}");
    let reported = run(&["lab", "report", &out]);
    assert_eq!((reported.code, reported.stderr.as_str()), (Some(0), ""));
}

#[test]
fn kept_packets_pin_buffers_segments_or_copies() {
    let job = ["lab", "retention", "--every", "4,64", "--span", "2048", "--packets", "20000"];
    let report = run_json(&job, 0);
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 8);
    for row in rows {
        let number = |what: &str| row[what].as_u64().unwrap();
        assert!(number("kept") >= 2048 / number("every"), "{row}");
        let each = match row["keeping"].as_str().unwrap() {
            "writeback" | "inline" => 2048,
            "contiguous, copied" => 60,
            _ => {
                assert_eq!(number("pinned_bytes") % (256 << 10), 0, "{row}");
                continue;
            }
        };
        assert_eq!(number("pinned_bytes"), number("kept") * each, "{row}");
    }
    let text = run(&["lab", "retention", "--every", "64", "--packets", "5000"]);
    assert!(text.code == Some(0) && text.stdout.contains("pinned"), "{}", text.stdout);
}

#[test]
fn frames_that_no_card_takes_are_refused_and_an_interrupt_says_what_is_missing() {
    for job in [["dma", "--sizes", "64,9018"], ["retention", "--size", "jumbo"]] {
        let refused = run(&[&["lab"], &job[..]].concat());
        let is_told = refused.stderr.contains("1518 at most");
        assert!(refused.code == Some(2) && is_told, "{}", refused.stderr);
    }
    for job in [["dma", "--time", "1h"], ["retention", "--packets", "1000G"]] {
        let started = command(&[&["lab"], &job[..]].concat()).stdout(Stdio::piped()).spawn();
        let started = started.unwrap();
        let process = started.id();
        // From then on a signal is heard, and is no sudden end.
        let hears = || {
            let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
            u64::from_str_radix(caught.trim(), 16).unwrap() & 2 != 0
        };
        wait_until("it hears signals", hears);
        burstline_testbed::signal(process, "-INT").unwrap();
        let ended = started.wait_with_output().unwrap();
        let table = String::from_utf8(ended.stdout).unwrap();
        assert!(ended.status.code() == Some(1) && table.contains("NOT DONE"), "{table}");
    }
}

#[test]
fn no_thread_of_a_card_has_a_capability() {
    let ends = ["nicsim:a", "nicsim:b"];
    for job in [vec!["count", ends[0]], vec!["bounce", ends[0], ends[1]]] {
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
            // A thread may end while it is looked at.
            let statuses: Vec<String> = tasks.filter_map(Result::ok).collect();
            let has = |name: &str| statuses.iter().any(|status| status.contains(name));
            has("Name:\tnicsim-a\n")
                && has(if job.len() == 3 { "Name:\tnicsim-b\n" } else { "" })
                && has("CapEff:\t0000000000000000")
                && statuses.iter().all(is_without)
        });
        running.kill().unwrap();
        running.wait().unwrap();
    }
}
