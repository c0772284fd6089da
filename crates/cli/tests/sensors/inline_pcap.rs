//! `burstline bounce --inline` with tcpdump in line, which knows nothing about verdicts, through
//! our libpcap.

use std::env;
use std::fs::{self, File};
use std::process::{Command, Stdio};

use crate::support::live::wait_until;
use crate::support::sharing::{Job, Names};
use crate::support::{other_or_skip, run_with_code, selected};
use burstline_testbed::Killed;
use serde_json::Value;

const PACKETS: u64 = 2_000;
const FILTER: &str = "udp port 53";

/// A bounce from its input to a file, with tcpdump in line.
struct Line {
    tcpdump: Killed,
    names: Names,
    job: Option<Job>,
    traffic: Vec<u8>,
    /// Packets that the filter selects.
    selected: u64,
}

impl Line {
    fn or_skip(test: &str, device: &str) -> Option<Self> {
        other_or_skip("tcpdump", &["--version"])?;
        let names = Names::new(test);
        let [file, out, said, heard] =
            ["in.pcap", "out.pcap", "said", "heard"].map(|name| names.0.file(name));
        let source = format!("gen:?packets={PACKETS}&size=imix&flows=8&dport=9,53");
        run_with_code(&["capture", "-q", &source, "-w", &file], 0);
        let selected = selected(&file, FILTER);
        assert!(selected > 0 && selected < PACKETS, "{selected}");
        let job = names.start(&["bounce", "-", &out, "--inline", "ips?deadline=1s"]);
        wait_until("it is there", || names.look("ips").is_some());
        let library = env::current_exe().unwrap().with_file_name("libburstline_pcap.so");
        let tcpdump = Command::new("tcpdump")
            .args(["-n", "-Z", "root", "-i", &format!("burst:ips?{device}"), FILTER])
            .env("LD_PRELOAD", library)
            .env("LC_ALL", "C")
            .env("BURSTLINE_RUN", &names.0.0)
            .stdin(Stdio::null())
            .stdout(File::create(said).unwrap())
            .stderr(File::create(&heard).unwrap())
            .spawn()
            .unwrap();
        wait_until("it listens", || fs::read_to_string(&heard).unwrap().contains("listening on"));
        let traffic = fs::read(file).unwrap();
        Some(Self { tcpdump: Killed(tcpdump), names, job: Some(job), traffic, selected })
    }

    /// Feeds the part of its traffic between these tenths.
    fn feed(&mut self, from: usize, to: usize) {
        let part = self.traffic.len() / 10;
        let end = if to == 10 { self.traffic.len() } else { to * part };
        self.job.as_mut().unwrap().feed(&self.traffic[from * part..end]);
    }

    /// Ends the input, and returns the bounce's report.
    fn end(&mut self) -> Value {
        let mut job = self.job.take().unwrap();
        job.close_input();
        let (code, report) = job.end_with_code();
        let total = &report["total"];
        assert_eq!((code, &total["offered"]), (Some(0), &PACKETS.into()), "{report}");
        assert_eq!((&total["unaccounted"], &total["in_flight"]), (&0.into(), &0.into()));
        report
    }

    /// Returns the number of packets forwarded: all, and those that the filter selects.
    fn went_on(&self, report: &Value) -> [u64; 2] {
        let delivered = report["total"]["delivered"].as_u64().unwrap();
        [delivered, selected(&self.names.0.file("out.pcap"), FILTER)]
    }
}

#[test]
fn tcpdump_drops_what_its_filter_selects_or_leaves_out() {
    for (test, device, drops_selected) in [
        ("inline-tcpdump-drop", "verdict=drop", true),
        ("inline-tcpdump-only", "verdict=pass&rest=drop", false),
    ] {
        let Some(mut line) = Line::or_skip(test, device) else { return };
        line.feed(0, 10);
        let report = line.end();
        // Its log has ended, so tcpdump ends.
        assert!(line.tcpdump.wait().unwrap().success());
        let said = fs::read_to_string(line.names.0.file("said")).unwrap();
        assert_eq!(said.lines().count() as u64, line.selected, "it is given what it selects");
        let rest = PACKETS - line.selected;
        let (dropped, kept) = match drops_selected {
            true => (line.selected, [rest, 0]),
            false => (rest, [line.selected; 2]),
        };
        assert_eq!(report["total"]["lost"]["dropped_by_verdict"], dropped, "{report}");
        assert_eq!(report["total"]["lost_total"], dropped, "{report}");
        assert_eq!(line.went_on(&report), kept, "{report}");
    }
}

#[test]
fn packets_of_a_killed_tcpdump_fail_as_the_bounce_was_told() {
    let Some(mut line) = Line::or_skip("inline-tcpdump-killed", "verdict=drop") else { return };
    line.feed(0, 5);
    line.names.wait_for("ips", "half is read", |found| {
        let reader = &found["readers"][0];
        reader["delivered"].as_u64() > Some(PACKETS / 3) && reader["lag"] == 0
    });
    line.tcpdump.kill().unwrap();
    line.tcpdump.wait().unwrap();
    line.names.wait_for_readers("ips", 0);
    line.feed(5, 10);
    let report = line.end();
    let lost = &report["total"]["lost"];
    let [dropped, failed] =
        ["dropped_by_verdict", "no_verdict"].map(|cause| lost[cause].as_u64().unwrap_or(0));
    assert!(dropped > 0 && failed > PACKETS / 3, "{report}");
    assert_eq!(report["total"]["lost_total"], dropped + failed, "closed: {report}");
    assert_eq!(line.went_on(&report), [PACKETS - dropped - failed, 0], "{report}");
}
