//! `burstline bounce --both --inline` between network namespaces, with real programs at both ends.
//!
//! ```text
//!   client                     middle                      server
//!   v0 10.77.0.1 ============ v1  bounce  w1 ============ w0 10.77.0.2
//!                                 |    ^
//!                           logs 0 and 1: workers, which are this test program once more
//! ```
//!
//! Needs root, or `unshare -Urn`; otherwise each test is skipped.

use std::fs;
use std::net::UdpSocket;

use crate::daq::Built;
use crate::support::live::{Live, wait_until};
use crate::support::sensors::{Installed, interrupt, is_suricata_there, line_of_page, repository};
use crate::support::sharing::Names;
use crate::support::verdicts::{Worker, sum};
use crate::support::{Directory, is_root, is_there, other_or_skip};
use burstline_skip::skip;
use burstline_testbed::{Bed, FAR, FAR_ADDRESS, Host, NEAR, serve_bytes};
use serde_json::Value;

const DOWNLOAD_BYTES: usize = 3_000_000;

/// Two cables with the bounce between them.
struct Line {
    bed: Bed,
    server: Host,
    directory: Directory,
}

impl Line {
    fn or_skip() -> Option<Self> {
        if !is_root() || !["ethtool", "curl"].into_iter().all(is_there) {
            skip("needs root, ethtool and curl");
            return None;
        }
        let bed = Bed::or_skip()?;
        let server = Host::new().unwrap();
        bed.connect("w0", "w1", 1500).unwrap();
        let namespace = server.thread_id().to_string();
        bed.near.command("ip", &["link", "set", "w0", "netns", &namespace]).unwrap();
        bed.far.command("ip", &["address", "flush", "dev", FAR]).unwrap();
        let ip = |line: &str| server.command("ip", &line.split(' ').collect::<Vec<_>>()).unwrap();
        ip("link set w0 address 02:42:55:00:00:09");
        ip("link set w0 up");
        ip(&format!("address add {FAR_ADDRESS}/24 dev w0"));
        // Nothing on the way fills in checksums that the sender left to a device.
        for (host, interface) in [(&bed.near, NEAR), (&server, "w0")] {
            host.command("ethtool", &["-K", interface, "tx", "off"]).unwrap();
        }
        Some(Self { bed, server, directory: Directory::new("inline-live") })
    }

    /// Starts a bounce in both directions, with a worker per direction that does `what`.
    fn start(&self, query: &str, what: &str) -> (Live, [Worker; 2]) {
        let live = self.start_bounce(query);
        (live, [0, 1].map(|log| self.worker(log, what)))
    }

    /// Gives the middle's interfaces the names used on the page on sensors.
    fn rename(&self) {
        for (old, new) in [(FAR, "eth1"), ("w1", "eth2")] {
            let rename = format!("ip link set {old} down && ip link set {old} name {new}");
            let rename = format!("{rename} && ip link set {new} up");
            self.bed.far.command("sh", &["-c", &rename]).unwrap();
        }
    }

    /// Starts a bounce between them, with a deadline long enough for any worker.
    fn start_renamed(&self) -> Live {
        let name = self.name();
        let line = format!("bounce eth1 eth2 --both --inline '{name}?deadline=1s'");
        Live::start(&self.bed, &self.directory, &line)
    }

    /// Sends `count` datagrams from the client to each of two server ports. All arrive at the
    /// second; returns how many arrive at the first.
    fn datagrams(&self, ports: [u16; 2], count: usize) -> usize {
        let [first, second] = ports
            .map(|port| self.server.run(move || UdpSocket::bind((FAR_ADDRESS, port)).unwrap()));
        self.bed.near.run(move || {
            let client = UdpSocket::bind("0.0.0.0:0").unwrap();
            for port in ports {
                for _ in 0..count {
                    client.send_to(b"hello", (FAR_ADDRESS, port)).unwrap();
                }
            }
        });
        let mut bytes = [0; 16];
        for _ in 0..count {
            second.recv(&mut bytes).unwrap();
        }
        // Datagrams do not overtake each other.
        first.set_nonblocking(true).unwrap();
        std::iter::from_fn(|| first.recv(&mut bytes).ok()).count()
    }

    fn start_bounce(&self, query: &str) -> Live {
        let line = format!("bounce {FAR} w1 --both --inline '{}?{query}'", self.name());
        Live::start(&self.bed, &self.directory, &line)
    }

    fn worker(&self, log: u32, what: &str) -> Worker {
        Worker::start(&self.directory.0, &self.name(), log, what)
    }

    fn name(&self) -> String {
        self.directory.file("ips")
    }

    /// Runs a shell command on the client and returns its output.
    fn client(&self, line: &str) -> String {
        self.bed.near.command("sh", &["-c", &format!("{line} 2>&1 || true")]).unwrap()
    }
}

fn end(live: Live) -> Value {
    let report = live.stop();
    assert_eq!(report["total"]["unaccounted"], 0, "{report}");
    report
}

#[test]
fn a_stream_survives_its_workers_death_where_the_bounce_is_open() {
    let Some(line) = Line::or_skip() else { return };
    let (live, [there, back]) = line.start("open&deadline=50ms", "pass");
    let server = serve_bytes(&line.server, FAR_ADDRESS, DOWNLOAD_BYTES).unwrap();
    let (file, url) = (line.directory.file("download"), format!("http://{server}/"));
    let arguments = ["-sS", "--limit-rate", "1M", "-o", &file, &url];
    let curl = line.bed.near.start("curl", &arguments, &[]).unwrap();
    let arrived = || fs::metadata(&file).map_or(0, |found| found.len() as usize);
    wait_until("bytes have come", || arrived() > 0);
    back.kill();
    let before = arrived();
    assert!(before < DOWNLOAD_BYTES, "it is still under way");
    wait_until("it goes on without a worker", || arrived() > before);
    there.kill();
    let (is_success, text) = curl.finish().unwrap();
    assert!(is_success, "{text}");
    assert_eq!(arrived(), DOWNLOAD_BYTES);
    // A new connection has no worker, and a later one has one again.
    let worker = line.worker(0, "pass");
    let ping = line.client(&format!("ping -c 3 -i 0.1 -W 5 {FAR_ADDRESS}"));
    assert!(ping.contains("3 received"), "{ping}");
    let report = end(live);
    worker.kill();
    assert!(sum(&report, "passed") > 0 && sum(&report, "no_verdict") > 0, "{report}");
    assert_eq!(report["total"]["lost"]["no_verdict"], Value::Null, "{report}");
}

#[test]
fn who_is_rejected_is_told() {
    let Some(line) = Line::or_skip() else { return };
    let (live, workers) = line.start("deadline=1s", "reject");
    let server = serve_bytes(&line.server, FAR_ADDRESS, 10).unwrap();
    let refused = line.client(&format!("curl -sS -m 20 http://{server}/"));
    assert!(refused.contains("(7)"), "by a reset, and not by a timeout: {refused}");
    let ping = line.client(&format!("ping -c 1 -W 20 {FAR_ADDRESS}"));
    let is_told = ["filtered", "Prohibited", "prohibited"].iter().any(|word| ping.contains(word));
    assert!(is_told && ping.contains("0 received"), "{ping}");
    let report = end(live);
    drop(workers);
    let rejected = &report["total"]["lost"]["rejected_by_verdict"];
    assert_eq!(rejected, &Value::from(sum(&report, "rejected")), "{report}");
    assert!(report["bounce"]["inline"]["answers"].as_u64().unwrap() >= 2, "{report}");
}

/// The page's commands, verbatim.
#[test]
fn the_commands_of_the_page_run() {
    let Some(line) = Line::or_skip() else { return };
    line.rename();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sensors.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, section) = page.split_once("\n## Inline").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let commands: Vec<&str> = section.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    let folder = std::path::Path::new(crate::support::PROGRAM).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let names = line.directory.0.display().to_string();
    let environment = [("PATH", &*path), ("BURSTLINE_RUN", &*names)];
    let start = |command: &str| line.bed.far.start("sh", &["-c", command], &environment).unwrap();
    let [bounce, others @ ..] = &commands[..] else { panic!("no commands") };
    let bounce = start(&format!("exec {}", bounce.strip_suffix(" &").unwrap()));
    wait_until("the name is there", || line.directory.0.join("ips").exists());
    let mut texts = Vec::new();
    for command in others {
        let (is_success, text) = start(command).finish().unwrap();
        assert!(is_success, "{command}: {text}");
        texts.push(text);
    }
    assert_eq!(others.len(), 2);
    assert!(texts[0].contains("log 3:") && texts[1].contains("done:"), "{texts:?}");
    burstline_testbed::signal(bounce.process_id(), "-INT").unwrap();
    let (is_success, text) = bounce.finish().unwrap();
    assert!(is_success, "{text}");
}

#[test]
fn workers_go_on_with_the_next_bounce() {
    let Some(line) = Line::or_skip() else { return };
    // Closed: a packet passes only by a verdict.
    let (mut live, workers) = line.start("workers=1&deadline=1s", "pass-on");
    let ping = || line.client(&format!("ping -c 3 -i 0.1 -W 5 {FAR_ADDRESS}"));
    assert!(ping().contains("3 received"));
    live.program.kill();
    drop(live);
    assert!(ping().contains("0 received"), "nothing forwards");
    let live = line.start_bounce("workers=1&deadline=1s");
    wait_until("its workers have come", || {
        let said =
            line.client(&format!("{} doctor logs {} --json", crate::support::PROGRAM, line.name()));
        said.matches("\"claimed\":true").count() == 2 || ping().contains("3 received")
    });
    assert!(ping().contains("3 received"));
    let report = end(live);
    assert!(sum(&report, "passed") > 0, "{report}");
    drop(workers);
}

/// The page's bounce for Snort, with a host in place of each of its two instances.
#[test]
fn two_instances_of_a_daq_host_are_in_line_both_ways() {
    let Some(built) = Built::or_skip() else { return };
    let Some(line) = Line::or_skip() else { return };
    line.rename();
    let command = line_of_page("$ burstline bounce eth1 eth2 --both --inline 'ips?workers=2&dead");
    let command = command[2..].trim_end_matches(" &").to_owned();
    let names = Names(Directory::new("inline-daq"));
    let installed = Installed::new(&names.0);
    let bounce = installed.start(&line.bed.far, "bounce", &command, "");
    names.wait_for_readers("ips", 0);
    let ping = || line.client(&format!("ping -c 3 -i 0.1 -W 5 {FAR_ADDRESS}"));
    assert!(ping().contains("0 received"), "nobody gives verdicts");
    let hosts = ["1of2", "2of2"].map(|instance| {
        built.host(3, &names, &format!("ips inline block:53 host:{instance} both"))
    });
    let passed = ping();
    assert!(passed.contains("3 received"), "{passed}");
    assert_eq!(line.datagrams([53, 5353], 20), 0, "DNS ends here");
    interrupt(bounce);
    let blocked = hosts.map(|host| {
        burstline_testbed::signal(host.pid(), "-TERM").unwrap();
        host.end().1.number("verdict_1")
    });
    assert_eq!(blocked.iter().sum::<u64>(), 20, "{blocked:?}");
}

/// tcpdump in line, by both commands of the page.
#[test]
fn tcpdump_is_a_firewall_between_two_interfaces() {
    if other_or_skip("tcpdump", &["--version"]).is_none() {
        return;
    }
    let Some(line) = Line::or_skip() else { return };
    line.rename();
    for (host, address) in
        [(&line.bed.near, "10.0.0.7/24 dev v0"), (&line.server, "10.0.0.8/24 dev w0")]
    {
        host.command("sh", &["-c", &format!("ip address add {address}")]).unwrap();
    }
    let installed = Installed::new(&line.directory);
    let start = |query: &str| {
        let command = line_of_page(&format!("burstline-run tcpdump -n -i 'burst:ips?{query}'"));
        installed.start(&line.bed.far, "tcpdump", &command, "listening on")
    };
    let ping = |from: &str, to: &str| line.client(&format!("ping -c 3 -i 0.1 -W 5 -I {from} {to}"));

    let (live, tcpdump) = (line.start_renamed(), start("verdict=drop"));
    let passed = ping("10.77.0.1", FAR_ADDRESS);
    assert!(passed.contains("3 received"), "{passed}");
    assert_eq!(line.datagrams([53, 5353], 20), 0, "DNS ends here");
    let report = end(live);
    interrupt(tcpdump);
    let lost = &report["total"]["lost"];
    assert_eq!(
        (&lost["dropped_by_verdict"], &report["total"]["lost_total"]),
        (&20.into(), &20.into())
    );
    let printed = installed.printed("tcpdump");
    let of_dns = printed.lines().filter(|line| line.contains("10.77.0.2.53:")).count();
    let of_any = printed.lines().filter(|line| !line.is_empty()).count();
    assert_eq!((of_dns, of_any), (20, 20), "{printed}");

    let (live, tcpdump) = (line.start_renamed(), start("verdict=pass&rest=drop"));
    let passed = ping("10.0.0.7", "10.0.0.8");
    assert!(passed.contains("3 received"), "{passed}");
    let ended = line.client(&format!("ping -c 3 -i 0.1 -W 1 -I 10.77.0.1 {FAR_ADDRESS}"));
    assert!(ended.contains("0 received"), "{ended}");
    let report = end(live);
    interrupt(tcpdump);
    let dropped = &report["total"]["lost"]["dropped_by_verdict"];
    assert!(dropped.as_u64() >= Some(3), "{report}");
    assert_eq!(dropped, &report["total"]["lost_total"], "{report}");
    let printed = installed.printed("tcpdump");
    assert!(
        printed.matches("ICMP echo re").count() == 6 && !printed.contains("10.77."),
        "{printed}"
    );
}

/// Suricata in line, by the page's command: its rules decide.
#[test]
fn suricata_drops_by_its_rules_between_two_interfaces() {
    if !is_suricata_there() {
        return skip("Suricata is not installed: scripts/setup sensors");
    }
    let Some(line) = Line::or_skip() else { return };
    line.rename();
    let log = line.directory.file("log");
    fs::create_dir(&log).unwrap();
    let rules = line.directory.file("rules");
    let rule = "http any any -> any any (msg:\"a word\"; http.uri; content";
    let text = format!("drop {rule}:\"evil\"; sid:1;)\nalert {rule}:\"odd\"; sid:2;)\n");
    fs::write(&rules, text).unwrap();
    let command = line_of_page("burstline-run suricata --simulate-ips")
        .replace("/usr/local/share/burstline", repository().join("crates/pcap").to_str().unwrap())
        .replace("/var/log/suricata/0", &log);
    let live = line.start_renamed();
    let installed = Installed::new(&line.directory);
    let command = format!("{command} -S '{rules}'");
    let suricata = installed.start(&line.bed.far, "suricata", &command, "Engine started");
    // A new server each time, because one waits for the rest of a dropped request.
    let ask = |word: &str, seconds: u32| {
        let server = serve_bytes(&line.server, FAR_ADDRESS, 1000).unwrap();
        line.client(&format!("curl -sS -m {seconds} -o /dev/null http://{server}/{word}"))
    };
    assert_eq!(ask("odd", 60), "");
    let refused = ask("evil", 3);
    assert!(refused.contains("(28)"), "its request does not come through: {refused}");
    assert_eq!(ask("good", 60), "");
    let report = end(live);
    interrupt(suricata);
    let dropped = &report["total"]["lost"]["dropped_by_verdict"];
    assert!(dropped.as_u64() > Some(0), "{report}");
    assert_eq!(dropped, &report["total"]["lost_total"], "nothing else is lost: {report}");
    let alerts = fs::read_to_string(format!("{log}/fast.log")).unwrap();
    let [drops, others] =
        ["[Drop] [**] [1:1:", "[**] [1:2:"].map(|text| alerts.matches(text).count());
    assert!(drops > 0 && others == 1, "{alerts}");
}
