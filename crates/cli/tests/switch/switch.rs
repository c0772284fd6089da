//! `burstline switch` between network namespaces: guests behind taps and cables.
//!
//! ```text
//!   guest 0 -- t0 --.
//!   guest 1 -- t1 --+-- burstline switch, in its own namespace
//!   guest 2 -- g2 ==== c2 --'
//! ```
//!
//! Needs root, or `unshare -Urn`; otherwise each test is skipped.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::support::live::{children, wait_until};
use crate::support::rights::{assert_all_nobodys, nobody};
use crate::support::{Directory, PROGRAM, assert_closed, is_root, last_object};
use burstline_afpacket::Sender;
use burstline_skip::skip;
use burstline_sys::machine::capability;
use burstline_testbed::{BedError, Host, Program, signal};
use serde_json::Value;

/// The namespace of the switch, and its output files.
pub(crate) struct Lab {
    pub(crate) center: Host,
    pub(crate) directory: Directory,
}

/// A running switch.
pub(crate) struct Running {
    program: Program,
    report: String,
    errors: String,
}

/// A namespace behind a port.
pub(crate) struct Guest {
    pub(crate) host: Host,
    interface: String,
    pub(crate) address: String,
}

impl Lab {
    pub(crate) fn or_skip() -> Option<Self> {
        match Host::new() {
            Ok(center) => Some(Self { center, directory: Directory::new("switch") }),
            Err(reason @ (BedError::NotPermitted | BedError::Missing { .. })) => {
                skip(reason);
                None
            }
            Err(fault) => panic!("no host: {fault}"),
        }
    }

    fn words<'a>(&'a self, line: &'a str) -> Vec<String> {
        let run = format!("BURSTLINE_RUN={}", self.directory.0.display());
        let words = line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned);
        [run, PROGRAM.to_owned()].into_iter().chain(words).collect()
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, line: &str) -> Result<String, BedError> {
        let words = self.words(line);
        self.center.command("env", &words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Starts a switch named lab, and returns when it answers.
    pub(crate) fn start(&self, line: &str) -> Running {
        let (report, errors) = (self.directory.file("report"), self.directory.file("errors"));
        let line = self.words(&format!("switch --name lab --json {line}")).join("' '");
        let script = format!("exec env '{line}' > $0 2> $1");
        let program = self.center.start("sh", &["-c", &script, &report, &errors], &[]).unwrap();
        let running = Running { program, report, errors };
        wait_until("the switch answers", || {
            self.run("switch show lab").is_ok() || !running.errors().is_empty()
        });
        running
    }

    fn show(&self) -> Value {
        last_object(&self.run("switch show lab --json").unwrap())
    }

    /// Returns the status of a port.
    pub(crate) fn port(&self, name: &str) -> Value {
        let all = self.show();
        let port = all["ports"].as_array().unwrap().iter().find(|port| port["port"] == name);
        port.unwrap_or_else(|| panic!("{name}: {all}")).clone()
    }

    /// Moves the interface of a tap port into a namespace, and assigns an address.
    pub(crate) fn guest_behind_tap(&self, number: u8) -> Guest {
        let (host, interface) = (Host::new().unwrap(), format!("t{number}"));
        let thread = host.thread_id().to_string();
        self.center.command("ip", &["link", "set", &interface, "netns", &thread]).unwrap();
        Guest::with_address(host, interface, number)
    }

    /// Connects a new namespace by a cable: `cN` here, `gN` there.
    pub(crate) fn guest_behind_cable(&self, number: u8) -> Guest {
        let (host, interface) = (Host::new().unwrap(), format!("g{number}"));
        let (here, thread) = (format!("c{number}"), host.thread_id().to_string());
        let mac = mac_of(number);
        let words = ["link", "add", &here, "type", "veth", "peer", "name", &interface];
        let place = ["address", &mac, "netns", &thread];
        self.center.command("ip", &[&words[..], &place].concat()).unwrap();
        self.center.command("ip", &["link", "set", &here, "up"]).unwrap();
        // The stack must fill in checksums, because no device on the way does.
        let _ = host.command("ethtool", &["-K", &interface, "tx", "off"]);
        Guest::with_address(host, interface, number)
    }
}

fn mac_of(number: u8) -> String {
    format!("02:42:00:00:00:{number:02x}")
}

impl Guest {
    fn with_address(host: Host, interface: String, number: u8) -> Self {
        let address = format!("10.78.0.{}", number + 1);
        let guest = Self { host, interface, address };
        guest.ip(&format!("link set {} address {}", guest.interface, mac_of(number)));
        guest.ip(&format!("address add {}/24 dev {}", guest.address, guest.interface));
        guest.ip(&format!("link set {} up", guest.interface));
        guest
    }

    fn ip(&self, line: &str) {
        self.host.command("ip", &line.split(' ').collect::<Vec<_>>()).unwrap();
    }

    pub(crate) fn pings(&self, other: &str) -> bool {
        let words = ["-c", "1", "-W", "1", other];
        // The first ping may be lost during address resolution, others while no core is free.
        (0..30).any(|_| self.host.command("ping", &words).is_ok())
    }

    pub(crate) fn is_deaf_to(&self, other: &str) -> bool {
        self.host.command("ping", &["-c", "2", "-i", "0.2", "-W", "1", other]).is_err()
    }

    /// Sends frames, which a capture there sees, too.
    fn send(&self, frames: Vec<Vec<u8>>) {
        let interface = self.interface.clone();
        self.host.run(move || {
            let mut sender = Sender::open(&interface, false).unwrap();
            let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
            let mut sent = 0;
            while sent < frames.len() {
                sent += sender.send(&frames[sent..]).unwrap();
            }
        });
    }
}

impl Running {
    pub(crate) fn errors(&self) -> String {
        fs::read_to_string(&self.errors).unwrap_or_default()
    }

    /// Returns the capabilities of the thread with this name.
    fn rights_of(&self, thread: &str) -> String {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.program.process_id())).unwrap();
        let read = |path: std::path::PathBuf| fs::read_to_string(path).unwrap_or_default();
        let is_it = |task: &fs::DirEntry| read(task.path().join("comm")).trim() == thread;
        let task = tasks.flatten().find(is_it).expect("there is such a thread");
        let status = read(task.path().join("status"));
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        line.expect("the kernel says").trim().to_owned()
    }

    /// Interrupts it, and returns its report if it succeeded.
    pub(crate) fn stop(self) -> Value {
        let (is_success, report) = self.end();
        assert!(is_success, "{report}");
        report
    }

    /// Interrupts it, and returns its success and its report.
    pub(crate) fn end(self) -> (bool, Value) {
        signal(self.program.process_id(), "-INT").unwrap();
        let (is_success, _) = self.program.finish().unwrap();
        let report = last_object(&fs::read_to_string(&self.report).unwrap());
        assert_closed(&report);
        (is_success, report)
    }
}

/// Returns a frame that no host answers.
fn frame(source: [u8; 6], destination: [u8; 6], number: u32) -> Vec<u8> {
    let mut frame = [destination, source].concat();
    frame.extend([0x88, 0xb5]);
    frame.extend(number.to_be_bytes());
    frame.resize(60, 0);
    frame
}

const ALL: [u8; 6] = [0xff; 6];

fn station(number: u32) -> [u8; 6] {
    let [_, a, b, c] = number.to_be_bytes();
    [0x02, 0x55, 0, a, b, c]
}

/// Returns the number of frames that the switch has had from a station.
fn frames_from(lab: &Lab, number: u32) -> u64 {
    let mac = station(number).map(|byte| format!("{byte:02x}")).join(":");
    let macs = last_object(&lab.run("switch macs lab --json").unwrap());
    let entries = macs["addresses"].as_array().unwrap();
    entries
        .iter()
        .filter(|entry| entry["mac"] == mac)
        .filter_map(|one| one["frames"].as_u64())
        .sum()
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn guests_behind_taps_and_cables_reach_each_other() {
    let Some(lab) = Lab::or_skip() else { return };
    let third = lab.guest_behind_cable(2);
    let fourth = lab.guest_behind_cable(3);
    let running = lab.start("--port tap:t0 --port tap:t1 --port afpacket:c2 --port xdp:c3");
    assert_eq!(running.errors().lines().filter(|line| !line.contains("warning")).count(), 0);
    let guests = [lab.guest_behind_tap(0), lab.guest_behind_tap(1), third, fourth];
    for from in &guests {
        for to in guests.iter().filter(|to| to.address != from.address) {
            assert!(from.pings(&to.address), "{} to {}", from.address, to.address);
        }
    }
    let macs = last_object(&lab.run("switch macs lab --json").unwrap());
    let of = |port: &str| {
        let entries = macs["addresses"].as_array().unwrap().iter();
        entries
            .filter(|entry| entry["port"] == port)
            .map(|entry| entry["mac"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(of("tap:t0"), [mac_of(0)], "{macs}");
    assert_eq!(of("xdp:c3"), [mac_of(3)], "{macs}");
    let text = lab.run("switch stats lab").unwrap();
    assert!(text.contains("afpacket:c2") && text.contains("addresses 4 of 8,192"), "{text}");
    let report = running.stop();
    assert_eq!(report["ports"].as_array().unwrap().len(), 8);
    assert_eq!(report["switch"]["addresses"]["entries"], 4, "{report}");
}

#[test]
fn vlans_are_apart_and_a_trunk_carries_them_with_tags() {
    let Some(lab) = Lab::or_skip() else { return };
    let ports = "--port tap:t0?vlan=10 --port tap:t1?vlan=10 --port tap:t2?vlan=20 \
                 --port tap:t3?trunk=10,20";
    let running = lab.start(ports);
    let [first, second, other, trunk] = [0, 1, 2, 3].map(|number| lab.guest_behind_tap(number));
    assert!(first.pings(&second.address), "one VLAN");
    assert!(first.is_deaf_to(&other.address), "two VLANs");
    // Frames that leave by the trunk get their VLAN's tag; frames received on it lose the tag.
    let watch = |guest: &Guest, wanted: &'static str| {
        let listen = format!(
            "exec tcpdump -i {} -e -nn -l ether proto 0x88b5 or vlan 2>&1",
            guest.interface
        );
        let mut tcpdump = guest.host.start("sh", &["-c", &listen], &[]).unwrap();
        let listens = tcpdump.wait_for("listening on").unwrap();
        (tcpdump, listens.then_some(wanted))
    };
    if crate::support::other("tcpdump", &["--version"]).is_some() {
        let (mut tcpdump, wanted) = watch(&trunk, "vlan 20");
        other.send(vec![frame(station(3), ALL, 1)]);
        assert!(tcpdump.wait_for(wanted.unwrap()).unwrap());
        let (mut tcpdump, wanted) = watch(&first, "ethertype Unknown (0x88b5), length 60");
        let mut tagged = frame(station(4), ALL, 2);
        tagged.splice(12..12, [0x81, 0, 0xe0, 10]);
        trunk.send(vec![tagged]);
        assert!(tcpdump.wait_for(wanted.unwrap()).unwrap());
    }
    // A guest's tag does not open another VLAN, and the trunk refuses untagged frames.
    let mut tagged = frame(station(1), ALL, 7);
    tagged.splice(12..12, [0x81, 0, 0, 20]);
    first.send(vec![tagged]);
    trunk.send(vec![frame(station(2), ALL, 8)]);
    let dropped = |port: &str| lab.port(port)["in"]["dropped"]["vlan_filtered"].as_u64();
    wait_until("both are dropped", || {
        dropped("tap:t0") == Some(1) && dropped("tap:t3").is_some_and(|count| count >= 1)
    });
    running.stop();
}

#[test]
fn what_is_flooded_is_counted_copy_by_copy() {
    let Some(lab) = Lab::or_skip() else { return };
    let running = lab.start(
        "--port tap:t0?storm=1M --port tap:t1 --port tap:t2?isolate=x --port tap:t3?isolate=x",
    );
    let guests = [0, 1, 2, 3].map(|number| lab.guest_behind_tap(number));
    let before: Vec<u64> =
        guests.iter().map(|guest| guest.host.counts(&guest.interface).received).collect();
    let flooded = number(&lab.port("tap:t0")["in"]["flooded"]);
    guests[0].send((0..500).map(|index| frame(station(5), ALL, index)).collect());
    wait_until("all are flooded", || number(&lab.port("tap:t0")["in"]["flooded"]) == flooded + 500);
    let port = lab.port("tap:t0");
    assert_eq!(number(&port["in"]["flood_copies"]), 3 * number(&port["in"]["flooded"]), "{port}");
    for (guest, before) in guests.iter().zip(before).skip(1) {
        let received = || guest.host.counts(&guest.interface).received - before;
        wait_until(&format!("all are at {}", guest.interface), || received() >= 500);
    }
    // A member of an isolated group reaches all ports except the group's.
    let before = number(&lab.port("tap:t3")["out"]["copies"]);
    guests[2].send(vec![frame(station(6), ALL, 0); 10]);
    wait_until("ten are flooded", || number(&lab.port("tap:t2")["in"]["flooded"]) >= 10);
    assert_eq!(number(&lab.port("tap:t3")["out"]["copies"]), before);
    running.stop();
}

#[test]
fn a_storm_is_limited_and_one_address_too_many_is_not_let_in() {
    let Some(lab) = Lab::or_skip() else { return };
    let running = lab.start("--port tap:t0?storm=100 --port tap:t1?security=2 --port tap:t2");
    let guests = [0, 1, 2].map(|number| lab.guest_behind_tap(number));
    guests[0].send((0..2000).map(|index| frame(station(5), ALL, index)).collect());
    wait_until("most are dropped", || {
        lab.port("tap:t0")["in"]["dropped"]["storm_limited"].as_u64().is_some_and(|n| n > 1000)
    });
    guests[1].send((0..10).map(|index| frame(station(100 + index), ALL, index)).collect());
    wait_until("eight or more are not let in", || {
        lab.port("tap:t1")["in"]["dropped"]["port_security"].as_u64().is_some_and(|n| n >= 8)
    });
    let (_, report) = running.end();
    let lost = &report["total"]["lost"];
    assert!(number(&lost["storm_limited"]) > 1000 && number(&lost["port_security"]) >= 8, "{lost}");
}

#[test]
fn a_flood_of_addresses_is_bounded_and_addresses_age() {
    let Some(lab) = Lab::or_skip() else { return };
    let config = lab.directory.file("static.toml");
    let entry = "[[address]]\nmac = '02:42:00:00:00:01'\nvlan = 1\nport = 'tap:t1'\n";
    fs::write(&config, entry).unwrap();
    // A look at the switch is a new process, and must see the table before its entries age.
    let ports = "--port tap:t0 --port tap:t1 --addresses 16 --age 10s";
    let running = lab.start(&format!("{ports} --config {config}"));
    let guests = [0, 1].map(|number| lab.guest_behind_tap(number));
    guests[0].send((0..1000).map(|index| frame(station(index), station(9999), index)).collect());
    let mut table = Value::Null;
    wait_until("the table is full", || {
        table = lab.show()["addresses"].clone();
        number(&table["full"]) >= 900
    });
    assert_eq!(table["entries"], 16, "{table}");
    assert!(guests[0].pings(&guests[1].address), "whose address stays");
    wait_until("they age", || number(&lab.show()["addresses"]["entries"]) <= 3);
    let macs = lab.run("switch macs lab").unwrap();
    assert!(macs.contains("02:42:00:00:00:01  tap:t1  static"), "{macs}");
    running.stop();
}

#[test]
fn a_port_that_vanishes_does_not_stop_the_others() {
    let Some(lab) = Lab::or_skip() else { return };
    let third = lab.guest_behind_cable(2);
    let running = lab.start("--port tap:t0 --port tap:t1 --port afpacket:c2 --port tap:t3");
    let [first, second] = [0, 1].map(|number| lab.guest_behind_tap(number));
    assert!(first.pings(&third.address));
    third.ip("link delete g2");
    lab.center.command("ip", &["link", "delete", "t3"]).unwrap();
    wait_until("both are gone", || lab.show()["ports"].as_array().unwrap().len() == 2);
    assert!(first.pings(&second.address) && first.is_deaf_to(&third.address));
    let shown = lab.run("switch show lab").unwrap();
    assert!(shown.contains("removed   afpacket:c2: c2 is gone"), "{shown}");
    let (is_success, report) = running.end();
    assert!(!is_success, "the report is of a failure");
    assert_eq!(report["errors"].as_array().unwrap().len(), 2, "{report}");
    assert_eq!(report["ports"].as_array().unwrap().len(), 8, "its rows stay: {report}");
}

/// All threads are nobody, and yet ports of each kind are opened while it runs, as its user says.
#[test]
fn a_named_switch_is_nobody_and_its_helper_opens_what_users_ask_for() {
    let (Some(lab), Some(nobody)) = (Lab::or_skip(), nobody()) else { return };
    let cables = [2, 3].map(|number| lab.guest_behind_cable(number));
    let running = lab.start("--port tap:t0");
    let process = running.program.process_id();
    assert_all_nobodys(process, &nobody);
    let first = lab.guest_behind_tap(0);
    let at = |name: &str| lab.directory.file(name);
    let (vhost, memif) = (format!("vhost:{}", at("v.sock")), format!("memif:{}", at("m.sock")));
    for port in ["tap:t1?mtu=1400", "afpacket:c2", "xdp:c3", &vhost, &memif] {
        lab.run(&format!("switch add-port lab {port}")).unwrap();
    }
    let second = lab.guest_behind_tap(1);
    let ports = [&second, &cables[0], &cables[1]];
    ports.iter().for_each(|to| assert!(first.pings(&to.address), "{}", to.address));
    for to in ["log:sensor", &at("mirror.pcapng"), "/dev/null"] {
        lab.run(&format!("switch mirror lab {to} --both tap:t0")).unwrap();
    }
    assert!(first.pings(&second.address));
    lab.run("count log:sensor --packets 1").unwrap();
    for port in ["inject:c2", "dpdk:net_null0"] {
        let error = lab.run(&format!("switch add-port lab {port}")).unwrap_err().to_string();
        assert!(error.contains("--keep-privileges") || error.contains("make dpdk"), "{error}");
    }
    assert_all_nobodys(process, &nobody);
    lab.run(&format!("switch del-port lab {vhost}")).unwrap();
    assert!(fs::symlink_metadata(at("v.sock")).is_err(), "its socket is removed");
    running.stop();
    for left in ["m.sock", "sensor", "lab.switch"] {
        assert!(fs::symlink_metadata(at(left)).is_err(), "{left} is left behind");
    }
    let recorded = lab.run(&format!("info {} --json", at("mirror.pcapng"))).unwrap();
    assert!(recorded.contains("\"packets\""), "{recorded}");
}

/// Without its helper a switch goes on, and takes no commands.
#[test]
fn a_switch_outlives_its_helper() {
    let (Some(lab), Some(_)) = (Lab::or_skip(), nobody()) else { return };
    let running = lab.start("--port tap:t0 --port tap:t1");
    let guests = [0, 1].map(|number| lab.guest_behind_tap(number));
    let helper = children(running.program.process_id());
    signal(helper[0], "-KILL").unwrap();
    wait_until("it says so", || running.errors().contains("no more commands"));
    let error = lab.run("switch show lab").unwrap_err().to_string();
    assert!(error.contains("no switch lab runs"), "{error}");
    assert!(guests[0].pings(&guests[1].address));
    running.stop();
}

#[test]
fn ports_come_and_go_while_others_lose_nothing() {
    let Some(lab) = Lab::or_skip() else { return };
    let running = lab.start("--port tap:t0 --port tap:t1");
    let [first, second] = [0, 1].map(|number| lab.guest_behind_tap(number));
    assert!(first.pings(&second.address));
    assert_eq!(running.rights_of("switch"), "0000000000000000", "who reads packets has none");
    let kept = u64::from_str_radix(&running.rights_of("control"), 16).unwrap();
    let taken = capability::ALL.iter().fold(0, |all, one| all | 1u64 << one.number);
    assert_eq!(kept & !taken, 0, "who opens ports has what that takes");
    assert!(!is_root() || kept == 0, "and none if a helper opens them");
    let words = ["-c", "60", "-i", "0.02", "-W", "60", &second.address];
    let mut pinging = first.host.start("ping", &words, &[]).unwrap();
    for number in 2..10 {
        lab.run(&format!("switch add-port lab tap:t{number}?vlan={number}")).unwrap();
    }
    let third = lab.guest_behind_tap(2);
    assert!(third.is_deaf_to(&first.address), "another VLAN");
    for number in 2..10 {
        lab.run(&format!("switch del-port lab tap:t{number}")).unwrap();
    }
    assert!(third.host.command("ip", &["link", "show", "t2"]).is_err(), "its tap is gone");
    assert!(pinging.wait_for("60 packets transmitted, 60 received").unwrap());
    for (line, reason) in [
        ("switch del-port lab tap:t9", "there is no port tap:t9; there are tap:t0, tap:t1"),
        ("switch add-port lab tap:t0", "tap:t0 is already a port or mirror of this switch"),
        ("switch add-port lab tap:t9?offloads=on", "tap:t9 has offloads=on, and tap:t0 cannot"),
        ("switch add-port lab nicsim:?mode=inline", "cannot send"),
        ("switch show nosuch", "no switch nosuch runs"),
        ("switch --name lab", "a switch lab is already running"),
    ] {
        let error = lab.run(line).unwrap_err().to_string();
        assert!(error.contains(reason), "{line}: {error}");
    }
    let report = running.stop();
    assert_eq!(report["ports"].as_array().unwrap().len(), 20);
}

#[test]
fn rules_are_replaced_all_or_none() {
    let Some(lab) = Lab::or_skip() else { return };
    let running = lab.start("--port tap:t0 --port tap:t1 --port tap:t2");
    let [first, second, third] = [0, 1, 2].map(|number| lab.guest_behind_tap(number));
    assert!(first.pings(&second.address));
    let rules = lab.directory.file("rules.toml");
    let set = |text: &str| {
        fs::write(&rules, text).unwrap();
        lab.run(&format!("switch rules lab --set {rules}"))
    };
    let no_ping = "[[rule]]\nflow = 'icmp,nw_dst=10.78.0.2,actions=drop'\n";
    assert_eq!(set(no_ping).unwrap(), "1 rules\n");
    assert!(first.is_deaf_to(&second.address) && first.pings(&third.address));
    let shown = lab.run("switch rules lab").unwrap();
    assert!(shown.contains("icmp,nw_dst=10.78.0.2,actions=drop"), "{shown}");
    for (bad, reason) in [
        ("[[rule]]\nflow = 'icmp,nw_dst=x,actions=drop'", "line 2, column 14: nw_dst=x"),
        ("[[rule]]\nflow = 'actions=output:tap:t9'", "line 2, column 24: there is no port tap:t9"),
        ("[[rule]]\nflow = ''", "line 2, column 9: no 'actions='"),
        ("[[mirror]]\nto = 'nosuch:x'\nboth = ['tap:t0']", "no port scheme 'nosuch'"),
    ] {
        let error = set(bad).unwrap_err().to_string();
        assert!(error.contains(reason), "{bad}: {error}");
        assert!(first.is_deaf_to(&second.address), "the old rules stay");
    }
    // As many rules as anyone writes; only the last one matches.
    let many: String = (0..10_000)
        .map(|number| {
            let (high, low) = (number / 250, number % 250);
            format!("[[rule]]\nflow = 'udp,nw_dst=10.200.{high}.{low},tp_dst=53,actions=drop'\n")
        })
        .collect();
    let redirect = "[[rule]]\nflow = 'priority=9,in_port=tap:t0,icmp,actions=drop'\n";
    assert_eq!(set(&(many + redirect)).unwrap(), "10001 rules\n");
    assert!(first.is_deaf_to(&third.address) && third.pings(&second.address));
    assert_eq!(set("").unwrap(), "0 rules\n");
    assert!(first.pings(&second.address));
    running.stop();
}

/// Returns the packets of a capture as printed by tcpdump, without times, sorted.
fn packets_of(path: &str) -> Vec<String> {
    let run = crate::support::other("tcpdump", &["-nn", "-t", "-xx", "-r", path]).unwrap();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let mut packets: Vec<String> = Vec::new();
    for line in run.stdout.lines() {
        match (line.starts_with(['\t', ' ']), packets.last_mut()) {
            (true, Some(packet)) => packet.push_str(line),
            _ => packets.push(line.to_owned()),
        }
    }
    packets.sort();
    packets
}

#[test]
fn a_mirror_has_what_tcpdump_sees_at_the_port() {
    let Some(lab) = Lab::or_skip() else { return };
    if crate::support::other_or_skip("tcpdump", &["--version"]).is_none() {
        return;
    }
    let mirrored = lab.directory.file("mirrored.pcap");
    let seen = lab.directory.file("seen.pcap");
    let running = lab.start("--port tap:t0 --port tap:t1 --port tap:t2");
    let [first, second, _third] = [0, 1, 2].map(|number| lab.guest_behind_tap(number));
    let listen = format!("exec tcpdump -i t1 -U -w {seen} icmp or ether proto 0x88b5 2>&1");
    let mut tcpdump = second.host.start("sh", &["-c", &listen], &[]).unwrap();
    assert!(tcpdump.wait_for("listening on").unwrap());
    lab.run(&format!("switch mirror lab file:{mirrored}?format=pcap --both tap:t1")).unwrap();
    let mirrors = lab.run("switch mirror lab").unwrap();
    assert!(mirrors.contains("in tap:t1 out tap:t1"), "{mirrors}");
    first.host.command("ping", &["-c", "20", "-i", "0.01", "-s", "1000", &second.address]).unwrap();
    first.send((0..50).map(|index| frame(station(3), ALL, index)).collect());
    second.send((0..50).map(|index| frame(station(4), station(3), index)).collect());
    let is_seen = || fs::metadata(&seen).is_ok_and(|file| file.len() > 40 * 1058 + 100 * 76);
    wait_until("tcpdump has seen all", is_seen);
    // tcpdump sees what its guest sends before the switch does. These came last, on either side.
    wait_until("the switch has had all", || [3, 4].iter().all(|&n| frames_from(&lab, n) == 50));
    lab.run(&format!("switch mirror lab file:{mirrored}?format=pcap --remove")).unwrap();
    signal(tcpdump.process_id(), "-INT").unwrap();
    tcpdump.finish().unwrap();
    running.stop();
    let (mirrored, seen) = (packets_of(&mirrored), packets_of(&seen));
    let is_ours = |packet: &&String| seen.contains(packet);
    let crossed: Vec<_> = mirrored.iter().filter(is_ours).collect();
    assert_eq!(seen.len(), 140);
    assert_eq!(crossed, seen.iter().collect::<Vec<_>>());
    // Packets that tcpdump did not select are neither of the two.
    let others = mirrored.iter().filter(|packet| !seen.contains(packet));
    assert!(others.clone().all(|packet| !packet.contains("ICMP echo")), "{mirrored:?}");
}

#[test]
fn a_published_mirror_is_read_by_another_program() {
    let Some(lab) = Lab::or_skip() else { return };
    let running = lab.start("--port tap:t0?mirror=log:sensor --port tap:t1");
    let [first, second] = [0, 1].map(|number| lab.guest_behind_tap(number));
    let report = lab.directory.file("count");
    let line = lab.words("count log:sensor --json --stats 20ms").join("' '");
    let script = format!("exec env '{line}' > $0");
    let counting = lab.center.start("sh", &["-c", &script, &report], &[]).unwrap();
    let text = || fs::read_to_string(&report).unwrap_or_default();
    wait_until("it counts", || text().contains('\n'));
    first.send((0..100).map(|index| frame(station(3), ALL, index)).collect());
    second.send((0..50).map(|index| frame(station(4), station(3), index)).collect());
    wait_until("both directions are there", || {
        text()
            .lines()
            .last()
            .and_then(|line| serde_json::from_str::<Value>(line).ok())
            .is_some_and(|line| line["delivered"].as_u64().is_some_and(|count| count >= 150))
    });
    let ended = running.stop();
    let (_, _) = counting.finish().unwrap();
    let counted = last_object(&text());
    let row = ended["ports"].as_array().unwrap().iter().find(|row| row["port"] == "> log:sensor");
    let sent = number(&row.unwrap()["delivered"]);
    let missed = number(&counted["total"]["lost_total"]);
    assert!(number(&counted["total"]["delivered"]) + missed <= sent, "{counted}");
    assert!(sent >= 150, "{ended}");
}

#[test]
fn a_killed_switch_leaves_nothing_that_is_in_the_way() {
    let Some(lab) = Lab::or_skip() else { return };
    let cable = lab.guest_behind_cable(2);
    let mut running = lab.start("--port tap:t0 --port tap:t1?persist --port xdp:c2");
    let [first, second] = [0, 1].map(|number| lab.guest_behind_tap(number));
    assert!(first.pings(&second.address) && first.pings(&cable.address));
    running.program.kill();
    wait_until("the tap is gone", || first.host.command("ip", &["link", "show", "t0"]).is_err());
    wait_until("its program is off the cable", || {
        let link = lab.center.command("ip", &["link", "show", "c2"]).unwrap();
        !link.contains("xdp")
    });
    assert!(second.host.command("ip", &["link", "show", "t1"]).is_ok(), "it was to stay");
    // The old socket file exists, and does not stop the next switch.
    let socket = lab.directory.file("lab.switch");
    assert!(fs::metadata(&socket).is_ok());
    let error = lab.run("switch show lab").unwrap_err().to_string();
    assert!(error.contains("no switch lab runs"), "{error}");
    let running = lab.start("--port tap:t0 --port xdp:c2");
    let mode = fs::metadata(&socket).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let first = lab.guest_behind_tap(0);
    assert!(first.pings(&cable.address));
    // Other users may not control it.
    let words = lab.words("switch show lab");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let stranger = ["--reuid", "65534", "--clear-groups", "--", "env"];
    let error = lab.center.command("setpriv", &[&stranger[..], &words].concat());
    assert!(error.is_err(), "{error:?}");
    running.stop();
    assert!(fs::metadata(&socket).is_err(), "its end takes the socket with it");
}

/// A client that keeps its connection, or sends a byte at a time, gets one request or 5 s.
#[test]
fn a_client_that_goes_on_and_on_holds_nobody_up() {
    let Some(lab) = Lab::or_skip() else { return };
    let running = lab.start("--port tap:t0");
    let connect = || UnixStream::connect(lab.directory.file("lab.switch")).unwrap();
    let mut client = connect();
    let mut answers = BufReader::new(client.try_clone().unwrap()).lines();
    client.write_all(b"{\"command\":\"show\"}\n").unwrap();
    assert!(answers.next().unwrap().unwrap().contains("t0"));
    // The peer may be closed already.
    let _ = client.write_all(b"{\"command\":\"show\"}\n");
    assert!(answers.next().is_none_or(|answer| answer.is_err()), "one request a connection");
    let mut slow = connect();
    let trickle = thread::spawn(move || {
        (0..600)
            .take_while(|_| {
                thread::sleep(Duration::from_millis(100));
                slow.write_all(b" ").is_ok()
            })
            .count()
    });
    running.stop();
    assert!(trickle.join().unwrap() < 600, "it was left before a minute had passed");
}

#[test]
fn offloads_pass_between_taps_unfinished() {
    let Some(lab) = Lab::or_skip() else { return };
    let running = lab.start("--port tap:t0?offloads=on&queues=2 --port tap:t1?offloads=on");
    let [first, second] = [0, 1].map(|number| lab.guest_behind_tap(number));
    assert!(first.pings(&second.address));
    let mut server = match second.host.start("iperf3", &["-s", "-1", "--forceflush"], &[]) {
        Ok(server) => server,
        Err(error) => panic!("iperf3: {error}"),
    };
    if !server.wait_for("Server listening").unwrap() {
        let found = crate::support::other_or_skip("iperf3", &["--version"]);
        assert!(found.is_none(), "no server");
        return;
    }
    let words = ["-c", &second.address, "-n", "50M", "--json"];
    let sent = first.host.command("iperf3", &words).unwrap();
    let sent: Value = serde_json::from_str(&sent).unwrap();
    assert!(number(&sent["end"]["sum_received"]["bytes"]) >= 50_000_000 - 2_000_000, "{sent}");
    let port = lab.port("tap:t0");
    let frames = number(&port["in"]["switched"]);
    assert!(number(&port["in"]["bytes"]) / frames > 1514, "merged: {port}");
    running.stop();
}

/// The page for users.
const PAGE: &str = include_str!("../../../../docs/switch.md");

/// Returns the code blocks of a language.
fn blocks(kind: &str) -> impl Iterator<Item = &'static str> {
    let start = format!("```{kind}\n");
    let found: Vec<_> = PAGE.split(&start).skip(1).collect();
    found.into_iter().map(|rest| rest.split("```").next().unwrap())
}

/// Returns a line without what differs between runs: numbers, and the width of columns.
fn plain(line: &str) -> String {
    let words = line.split_whitespace().map(|word| {
        let mut plain = word.replace(|c: char| c.is_ascii_digit() || c == ',', "0");
        while plain.contains("00") {
            plain = plain.replace("00", "0");
        }
        plain
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn the_commands_of_the_page_do_what_it_shows() {
    let Some(lab) = Lab::or_skip() else { return };
    let (mut script, mut shown) =
        (String::from("set -e; trap 'kill $switch 2> /dev/null || true' EXIT\n"), Vec::new());
    for line in blocks("console").flat_map(str::lines) {
        match line.strip_prefix("$ ").or_else(|| line.strip_prefix("> ")) {
            Some(command) => script += &format!("{command}\n"),
            None if line == "..." => {}
            None => shown.push(line),
        }
    }
    assert!(shown.len() >= 15, "{shown:?}");
    let directory = &lab.directory;
    fs::write(directory.file("page.sh"), script).unwrap();
    fs::write(directory.file("switch.toml"), blocks("toml").next().unwrap()).unwrap();
    let bin = std::path::Path::new(PROGRAM).parent().unwrap().display();
    let work = format!(
        "mount -t tmpfs tmpfs /run && cd {} && PATH={bin}:$PATH && ip link set lo up && \
         exec sh page.sh 2>&1",
        directory.0.display()
    );
    let words = ["-m", "-n", "sh", "-c", &work];
    let Some(run) = crate::support::other_or_skip("unshare", &words) else { return };
    if run.stderr.contains("ermitted") {
        return skip(run.stderr);
    }
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    let printed: Vec<String> = run.stdout.lines().map(plain).collect();
    for line in shown {
        assert!(printed.contains(&plain(line)), "{line}\nis not in\n{}", run.stdout);
    }
}

/// The advice in the error about missing rights works.
#[test]
fn a_user_namespace_of_its_own_is_enough_for_taps() {
    let switch = format!("{PROGRAM} switch --port tap:t0 --port tap:t1 --duration 200ms --json");
    let Ok(output) = Command::new("unshare").args(["-Urn", "sh", "-c", &switch]).output() else {
        return skip("unshare is not installed");
    };
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if text.contains("unshare: ") {
        return skip(text.trim());
    }
    assert!(output.status.success(), "{text}");
    let report = last_object(&String::from_utf8_lossy(&output.stdout));
    assert!(report["notes"].to_string().contains("packets fit into a queue, not 4096"), "{report}");
}
