//! The DAQ modules of `daq/`, run by host programs like sensors run them: packets of a published
//! log, and verdicts on packets that `bounce --inline` holds.
//!
//! ```text
//!   standard input --> count --publish tap       --> log --> host: how many packets, bytes?
//!   standard input --> bounce - OUT --inline tap --> log --> host: verdicts --> OUT
//!
//!   host2: the real libdaq 2.0 loads the module     host3: stands for LibDAQ 3 and its loader
//! ```
//!
//! host3 needs a C compiler only; host2 LibDAQ 2.0's headers (`scripts/setup sensors`).

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use crate::support::selected;
use crate::support::sharing::{Job, Names, pcap_header, pcap_record};
use crate::support::verdicts::sum;
use burstline_skip::{skip, without};
use burstline_testbed::Killed;
use serde_json::Value;

const PACKETS: u64 = 6_000;
/// Packet `i` is sent to port 5000 + i modulo this.
const PORTS: u64 = 6;
/// Number of packets per port.
const OF_A_PORT: u64 = PACKETS / PORTS;

/// The result of `make install-c` and `make -C daq`, run once.
pub(crate) struct Built(PathBuf);

impl Built {
    /// Returns `None` if build tools are missing, after counting the test as skipped.
    pub(crate) fn or_skip() -> Option<&'static Self> {
        static BUILT: OnceLock<Built> = OnceLock::new();
        let is_there = |tool: &str| Command::new(tool).arg("--version").output().is_ok();
        let missing = ["make", "cc", "pkg-config"].into_iter().find(|tool| !is_there(tool));
        if let Some(tool) = missing {
            skip(format!("{tool} is not installed: scripts/setup test"));
            return None;
        }
        Some(BUILT.get_or_init(Self::make))
    }

    fn make() -> Self {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("daq");
        let _ = fs::remove_dir_all(&folder);
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let make = |words: &[String]| {
            let mut command = Command::new("make");
            command.args(words).current_dir(repository).env("CARGO_TARGET_DIR", target);
            command.env("PKG_CONFIG_PATH", folder.join("usr/lib/pkgconfig"));
            let output = command.env_remove("MAKEFLAGS").output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        make(&["install-c".to_owned(), format!("PREFIX={}", folder.join("usr").display())]);
        make(&["-C".to_owned(), "daq".to_owned(), format!("OUT={}", folder.display())]);
        Self(folder)
    }

    /// Returns the LibDAQ versions for which there is a host; a missing one is reported.
    pub(crate) fn versions(&self) -> Vec<u32> {
        let has_two = self.0.join("host2").is_file();
        if !has_two {
            without("libdaq-dev is not installed: scripts/setup sensors");
        }
        if has_two { vec![2, 3] } else { vec![3] }
    }

    /// Starts a host that reads the log `tap` of `names`, and waits until it reads.
    pub(crate) fn host(&self, version: u32, names: &Names, words: &str) -> Host {
        let mut host = self.start(version, names, words);
        host.hear("reading");
        host
    }

    pub(crate) fn start(&self, version: u32, names: &Names, words: &str) -> Host {
        let mut child = Command::new(self.0.join(format!("host{version}")))
            .arg(self.0.join(format!("daq{version}")))
            .args(words.split(' '))
            .env("BURSTLINE_RUN", &names.0.0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Host { child: Killed(child), output, said: String::new() }
    }
}

/// A running host.
pub(crate) struct Host {
    child: Killed,
    output: BufReader<ChildStdout>,
    said: String,
}

impl Host {
    fn hear(&mut self, word: &str) {
        assert!(self.hears(word), "it ended before {word}: {}", self.said);
    }

    /// Returns whether the host prints this line before it ends.
    pub(crate) fn hears(&mut self, word: &str) -> bool {
        let mut line = String::new();
        while line.trim() != word {
            line.clear();
            let bytes = self.output.read_line(&mut line).unwrap();
            self.said += &line;
            if bytes == 0 {
                return false;
            }
        }
        true
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end, which must not be a crash. Returns its exit code and its output.
    pub(crate) fn end(mut self) -> (i32, Said) {
        self.output.read_to_string(&mut self.said).unwrap();
        let status = self.child.wait().unwrap();
        let code = status.code().unwrap_or_else(|| panic!("{status}: {}", self.said));
        (code, Said(self.said.clone()))
    }

    /// Waits for its successful end.
    fn end_well(self, how: &str) -> Said {
        let (code, said) = self.end();
        assert_eq!((code, said.end()), (0, how), "{}", said.0);
        said
    }
}

/// Output lines `NAME NUMBER`, and `end HOW`.
pub(crate) struct Said(String);

impl Said {
    pub(crate) fn end(&self) -> &str {
        let end = self.0.lines().find_map(|line| line.strip_prefix("end "));
        end.unwrap_or_else(|| panic!("it says no end: {}", self.0))
    }

    pub(crate) fn number(&self, name: &str) -> u64 {
        let pairs = self.0.lines().filter_map(|line| line.split_once(' '));
        let numbers: BTreeMap<_, _> = pairs.collect();
        numbers[name].parse().unwrap()
    }

    /// Fails unless the host's counts match the module's counts.
    fn assert_whole(&self, packets: u64, version: u32) {
        let of = |name: &str| self.number(name);
        assert_eq!(of("packets"), packets, "{}", self.0);
        assert_eq!((of("hw_received"), of("hw_dropped")), (packets, 0), "{}", self.0);
        assert_eq!((of("received"), of("backwards")), (packets, 0), "{}", self.0);
        let verdicts = (0..6).map(|number| of(&format!("verdict_{number}")));
        assert_eq!(verdicts.sum::<u64>(), packets, "{}", self.0);
        if version == 3 {
            assert_eq!((of("outstanding"), of("not_free")), (0, 0), "{}", self.0);
        }
    }
}

/// Returns a frame of IPv4 and UDP, without a UDP checksum.
pub(crate) fn frame(number: u64) -> Vec<u8> {
    let mut bytes = vec![0; 60 + (number % 400) as usize];
    let length = bytes.len() as u16;
    bytes[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
    bytes[14..24].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17]);
    bytes[16..18].copy_from_slice(&(length - 14).to_be_bytes());
    bytes[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    let mut sum: u32 =
        bytes[14..34].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    bytes[24..26].copy_from_slice(&(!sum as u16).to_be_bytes());
    bytes[34..36].copy_from_slice(&4000_u16.to_be_bytes());
    bytes[36..38].copy_from_slice(&(5000 + (number % PORTS) as u16).to_be_bytes());
    bytes[38..40].copy_from_slice(&(length - 34).to_be_bytes());
    bytes[50..54].copy_from_slice(&(number as u32).to_be_bytes());
    bytes
}

/// Returns packets `[from, to)` as part of a capture file.
fn records(from: u64, to: u64) -> Vec<u8> {
    let record = |number: u64| {
        let (seconds, thousandths) = ((number / 1000) as u32, (number % 1000) as u32);
        pcap_record(1_700_000_000 + seconds, thousandths * 1000, &frame(number))
    };
    (from..to).flat_map(record).collect()
}

fn bytes_of(from: u64, to: u64) -> u64 {
    (from..to).map(|number| frame(number).len() as u64).sum()
}

fn publish(names: &Names) -> Job {
    let line = "count - --pages 4k --buffer 8m --publish tap?lossless=forever";
    let mut job = names.start(&line.split(' ').collect::<Vec<_>>());
    names.wait_for("tap", "it is there", |_| true);
    job.feed(&pcap_header());
    job
}

#[test]
fn a_passive_host_sees_every_packet_and_the_end() {
    let Some(built) = Built::or_skip() else { return };
    for version in built.versions() {
        for words in ["", " trust=own", " trust=anyone"] {
            let names = Names::new("daq-passive");
            let mut publisher = publish(&names);
            let host = built.host(version, &names, &format!("tap passive pass lossless{words}"));
            publisher.feed(&records(0, PACKETS));
            publisher.close_input();
            let report = publisher.end();
            let said = host.end_well("over");
            said.assert_whole(PACKETS, version);
            assert_eq!(said.number("bytes"), bytes_of(0, PACKETS));
            assert_eq!(said.number("datalink"), 1);
            // A reader cannot inject packets: LibDAQ's DAQ_ERROR_NOTSUP.
            assert_eq!(said.number("inject"), 4);
            let told = &report["published"]["readers"][0];
            assert_eq!((&told["delivered"], &told["missed"]), (&PACKETS.into(), &0.into()));
        }
    }
}

#[test]
fn a_host_goes_on_with_the_next_publisher_and_is_interrupted() {
    let Some(built) = Built::or_skip() else { return };
    for version in built.versions() {
        let names = Names::new("daq-restart");
        let mut publisher = publish(&names);
        let host = built.host(version, &names, "tap passive pass lossless");
        publisher.feed(&records(0, 1000));
        names.wait_until_read("tap", 1000);
        publisher.kill();
        // It finds the name again. The next publisher waits for it, because it is lossless.
        let mut publisher = publish(&names);
        names.wait_for_readers("tap", 1);
        publisher.feed(&records(1000, 3000));
        names.wait_until_read("tap", 2000);
        burstline_testbed::signal(host.child.id(), "-TERM").unwrap();
        let said = host.end_well("interrupted");
        said.assert_whole(3000, version);
        assert_eq!(said.number("bytes"), bytes_of(0, 3000));
        publisher.close_input();
        publisher.end();
    }
}

#[test]
fn a_host_that_is_to_read_once_ends_with_a_killed_publisher() {
    let Some(built) = Built::or_skip() else { return };
    for version in built.versions() {
        let names = Names::new("daq-once");
        let mut publisher = publish(&names);
        let host = built.host(version, &names, "tap passive pass lossless once");
        publisher.feed(&records(0, 1000));
        names.wait_until_read("tap", 1000);
        publisher.kill();
        host.end_well("over").assert_whole(1000, version);
    }
}

#[test]
fn what_cannot_be_opened_is_told_and_no_crash() {
    let Some(built) = Built::or_skip() else { return };
    let names = Names::new("daq-wrong");
    let mut publisher = publish(&names);
    for version in built.versions() {
        let first = if version == 2 { "initialize" } else { "instantiate" };
        for (words, step, text) in [
            ("nobody passive pass", "start", "no log is published as nobody"),
            ("tap inline pass", "start", "verdict"),
            ("tap@7 passive pass", "start", "it has 1 log, numbered from 0; there is no log 7"),
            ("tap@ passive pass", first, "after @ stands a log's number"),
            ("@0 passive pass", first, "the input is the name of a published log"),
            ("tap passive pass colour=red", first, "colour is not a variable of burst"),
            ("tap passive pass trust=me", first, "trust=me: nobody (default)"),
            ("tap passive pass oldest=1", first, "oldest=1: begin with the oldest packet"),
            ("tap passive pass host:filter=udp,and", "filter", "filter `udp and`: "),
        ] {
            let (code, said) = built.start(version, &names, words).end();
            assert_eq!(code, 1, "{words}: {}", said.0);
            assert!(said.end().starts_with(&format!("{step}: ")), "{words}: {}", said.0);
            assert!(said.end().contains(text), "{words}: {}", said.0);
        }
    }
    publisher.feed(&records(0, 1));
    publisher.close_input();
    publisher.end();
}

/// A bounce whose packets a host decides on.
struct Inline {
    names: Names,
    out: String,
    job: Job,
}

impl Inline {
    fn start(query: &str) -> Self {
        let names = Names::new("daq-inline");
        let out = names.0.file("out.pcapng");
        let name = format!("tap?deadline=1s{query}");
        let mut job = names.start(&["bounce", "-", &out, "--inline", &name]);
        names.wait_for_readers("tap", 0);
        job.feed(&pcap_header());
        Self { names, out, job }
    }

    /// Feeds all packets, and returns the bounce's closed report.
    fn feed(mut self) -> (Value, Names, String) {
        self.job.feed(&records(0, PACKETS));
        self.job.close_input();
        let (code, report) = self.job.end_with_code();
        let total = &report["total"];
        assert_eq!((code, &total["unaccounted"]), (Some(0), &0.into()), "{report}");
        assert_eq!((&total["offered"], &total["in_flight"]), (&PACKETS.into(), &0.into()));
        (report, self.names, self.out)
    }
}

#[test]
fn what_a_host_blocks_does_not_come_out() {
    let Some(built) = Built::or_skip() else { return };
    for version in built.versions() {
        for (rule, key, number) in [
            ("block:5002", "dropped", 1),
            ("blacklist:5002", "dropped", 4),
            ("blacklist:5002 reject", "rejected", 4),
        ] {
            let inline = Inline::start("");
            let host = built.host(version, &inline.names, &format!("tap inline {rule}"));
            let (report, _names, out) = inline.feed();
            let said = host.end_well("over");
            said.assert_whole(PACKETS, version);
            assert_eq!(said.number("matches"), OF_A_PORT);
            assert_eq!(said.number(&format!("verdict_{number}")), OF_A_PORT);
            let cause = format!("{key}_by_verdict");
            assert_eq!(report["total"]["lost"][&cause], OF_A_PORT, "{report}");
            assert_eq!(sum(&report, key), OF_A_PORT, "{report}");
            assert_eq!(selected(&out, "udp dst port 5002"), 0);
            assert_eq!(selected(&out, "udp"), PACKETS - OF_A_PORT);
        }
    }
}

/// The host does not get packets that its filter rejects. In line they pass immediately, even if
/// the host would have blocked them.
#[test]
fn a_host_sees_what_its_filter_wants() {
    let Some(built) = Built::or_skip() else { return };
    let filter = "host:filter=udp,dst,port,5002";
    for version in built.versions() {
        let assert_filtered = |said: &Said| {
            let of = |name: &str| said.number(name);
            assert_eq!([of("packets"), of("received")], [OF_A_PORT; 2], "{}", said.0);
            assert_eq!(of("filtered"), PACKETS - OF_A_PORT, "{}", said.0);
            assert_eq!((of("hw_received"), of("hw_dropped")), (PACKETS, 0), "{}", said.0);
        };
        let names = Names::new("daq-filter");
        let mut publisher = publish(&names);
        let host = built.host(version, &names, &format!("tap passive pass lossless {filter}"));
        publisher.feed(&records(0, PACKETS));
        publisher.close_input();
        publisher.end();
        assert_filtered(&host.end_well("over"));
        for (rule, dropped) in [("block:5002", OF_A_PORT), ("block:5003", 0)] {
            let inline = Inline::start("");
            let host = built.host(version, &inline.names, &format!("tap inline {rule} {filter}"));
            let (report, _names, out) = inline.feed();
            assert_filtered(&host.end_well("over"));
            assert_eq!(report["total"]["lost_total"], dropped, "{report}");
            assert_eq!((sum(&report, "dropped"), sum(&report, "late")), (dropped, 0), "{report}");
            assert_eq!(selected(&out, "udp"), PACKETS - dropped);
            assert_eq!(selected(&out, "udp dst port 5002"), OF_A_PORT - dropped);
        }
    }
}

#[test]
fn what_a_host_replaces_comes_out_changed() {
    let Some(built) = Built::or_skip() else { return };
    for version in built.versions() {
        let inline = Inline::start("");
        let host = built.host(version, &inline.names, "tap inline replace:5003");
        let (report, _names, out) = inline.feed();
        host.end_well("over").assert_whole(PACKETS, version);
        assert_eq!((sum(&report, "replaced"), sum(&report, "dropped")), (OF_A_PORT, 0));
        assert_eq!(report["total"]["lost_total"], 0, "{report}");
        let file = fs::read(&out).unwrap();
        let marked = file.windows(4).filter(|window| window == b"DAQ!").count() as u64;
        assert_eq!(marked, OF_A_PORT);
        assert_eq!(selected(&out, "udp dst port 5003"), OF_A_PORT);
    }
}

#[test]
fn what_a_host_trusts_is_seen_no_more() {
    let Some(built) = Built::or_skip() else { return };
    for version in built.versions() {
        let mut inline = Inline::start("");
        let host = built.host(version, &inline.names, "tap inline trust:5001");
        // The flow is passed before the rest arrives: all packets fed are decided.
        inline.job.feed(&records(0, 60));
        inline.names.wait_until_read("tap", 60);
        inline.job.feed(&records(60, PACKETS));
        inline.job.close_input();
        let (code, report) = inline.job.end_with_code();
        let said = host.end_well("over");
        assert_eq!((code, &report["total"]["lost_total"]), (Some(0), &0.into()), "{report}");
        assert_eq!(report["bounce"]["inline"]["flows"], 1, "{report}");
        let skipped = report["bounce"]["inline"]["skipped"].as_u64().unwrap();
        assert!(skipped > OF_A_PORT / 2, "{report}");
        said.assert_whole(PACKETS - skipped, version);
        assert_eq!(selected(&inline.out, "udp"), PACKETS);
    }
}

/// An out-of-range verdict means pass, as with LibDAQ's own modules. Messages are finalized once,
/// in any order.
#[test]
fn verdicts_that_are_none_harm_nobody() {
    let Some(built) = Built::or_skip() else { return };
    for version in built.versions() {
        let more: &[&str] = if version == 3 {
            &["pass host:twice", "pass host:reverse", "nonsense host:reverse host:twice"]
        } else {
            &[]
        };
        for rule in [&["nonsense"][..], more].concat() {
            let inline = Inline::start("");
            let host = built.host(version, &inline.names, &format!("tap inline {rule}"));
            let (report, _names, out) = inline.feed();
            let said = host.end_well("over");
            said.assert_whole(PACKETS, version);
            let twice = if rule.contains("twice") { 2 * PACKETS } else { 0 };
            assert_eq!(said.number("refused"), twice, "{}", said.0);
            assert_eq!((sum(&report, "passed"), said.number("verdict_0")), (6000, 6000));
            assert_eq!(selected(&out, "udp"), PACKETS);
        }
    }
}

/// A host may stop while it holds messages. Finalizing them then is no error, and gives no verdict.
#[test]
fn a_host_that_stops_with_messages_leaves_them_to_the_deadline() {
    let Some(built) = Built::or_skip() else { return };
    let mut inline = Inline::start("&open");
    let host = built.host(3, &inline.names, "tap inline block:5000 host:leave");
    inline.job.feed(&records(0, PACKETS));
    let said = host.end_well("left");
    assert_eq!((said.number("outstanding"), said.number("not_free")), (0, 0), "{}", said.0);
    assert!(said.number("verdict_0") > 0, "{}", said.0);
    inline.job.close_input();
    let (code, report) = inline.job.end_with_code();
    let failed = sum(&report, "no_verdict") + sum(&report, "late");
    assert_eq!((code, failed), (Some(0), PACKETS), "{report}");
    assert_eq!(selected(&inline.out, "udp"), PACKETS);
}

#[test]
fn one_host_reads_the_logs_that_it_names() {
    let Some(built) = Built::or_skip() else { return };
    for version in built.versions() {
        let inline = Inline::start("&workers=3");
        let one = built.host(version, &inline.names, "tap@0+2 inline block:5002");
        let other = built.host(version, &inline.names, "tap@1 inline block:5002");
        let (report, _names, out) = inline.feed();
        let seen = [one, other].map(|host| host.end_well("over").number("packets"));
        assert_eq!(seen.iter().sum::<u64>(), PACKETS);
        let workers = &report["bounce"]["inline"]["workers"];
        assert_eq!(workers[1]["offered"], seen[1], "{report}");
        assert_eq!(report["total"]["lost"]["dropped_by_verdict"], OF_A_PORT, "{report}");
        assert_eq!(selected(&out, "udp"), PACKETS - OF_A_PORT);
    }
}

/// Like Snort 3 with `-z 2`: with `both` each instance has the logs of a worker's two directions.
#[test]
fn instances_side_by_side_share_the_logs() {
    let Some(built) = Built::or_skip() else { return };
    for (words, logs) in [("", 2), (" both", 4)] {
        let inline = Inline::start(&format!("&workers={logs}"));
        let hosts = ["1of2", "2of2"].map(|instance| {
            let words = format!("tap inline block:5002 host:{instance}{words}");
            built.host(3, &inline.names, &words)
        });
        let (report, _names, _out) = inline.feed();
        let seen = hosts.map(|host| host.end_well("over").number("packets"));
        let workers = report["bounce"]["inline"]["workers"].as_array().unwrap();
        for (instance, seen) in seen.into_iter().enumerate() {
            let of = workers.iter().skip(instance).step_by(2);
            let offered: u64 = of.map(|worker| worker["offered"].as_u64().unwrap()).sum();
            assert_eq!(offered, seen, "{report}");
        }
        assert_eq!(report["total"]["lost"]["dropped_by_verdict"], OF_A_PORT, "{report}");
    }
}
