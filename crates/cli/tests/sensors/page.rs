//! Commands of the page on sensors, verbatim, that no other test runs.
//!
//! Needs root, or `unshare -Urn`; otherwise each test is skipped.

use std::collections::BTreeMap;
use std::fs;
use std::net::UdpSocket;
use std::path::Path;

use crate::daq::Built;
use crate::support::live::wait_until;
use crate::support::sensors::{
    Installed, QUESTIONS, ask_for_names, code_of_page, first_block_of_page, interrupt,
    is_suricata_there, library, line_of_page, rename_far,
};
use crate::support::sharing::Names;
use crate::support::{other_or_skip, selected};
use crate::suricata_said::{self, flows};
use burstline_skip::skip;
use burstline_testbed::{Bed, FAR_ADDRESS, Host, NEAR, serve_bytes, signal};

/// Returns whether these programs are installed; if not, the test is counted as skipped.
fn are_there(programs: &[&str]) -> bool {
    programs.iter().all(|name| other_or_skip(name, &["--version"]).is_some())
}

/// tcpdump in place of the sensors, on the interfaces that the page's first commands create.
#[test]
fn each_interface_of_the_page_carries_the_flows_of_its_worker() {
    if !are_there(&["tcpdump", "ethtool"]) {
        return;
    }
    let Some(bed) = Bed::or_skip() else { return };
    rename_far(&bed);
    let names = Names::new("page-interfaces");
    let installed = Installed::new(&names.0);
    let block = first_block_of_page();
    let (interfaces, balance) = block.trim_end().rsplit_once('\n').unwrap();
    let balance = balance.trim_end_matches(" &");
    // The shell exits at the first command that fails.
    fs::write(names.0.file("block"), format!("{interfaces}\nexec {balance}\n")).unwrap();
    let balance = installed.start(&bed.far, "balance", "sh -e block", "");
    wait_until("the interfaces are there", || {
        bed.far.command("ip", &["link", "show", "ids3", "up"]).is_ok_and(|said| !said.is_empty())
    });
    let sensors = [0, 1, 2, 3].map(|k| {
        let command = format!("tcpdump -n -l -i ids{k} udp port 53");
        installed.start(&bed.far, &format!("ids{k}"), &command, "listening on")
    });
    let received = || -> u64 { (0..4).map(|k| bed.far.counts(&format!("ids{k}")).received).sum() };
    wait_until("the balancer sends", || {
        let hello = || UdpSocket::bind("0.0.0.0:0").unwrap().send_to(b"hello", (FAR_ADDRESS, 9));
        bed.near.run(move || hello().unwrap());
        received() > 0
    });
    let _server = ask_for_names(&bed);
    let printed = |k: usize| installed.printed(&format!("ids{k}"));
    let questions = (QUESTIONS[0] * QUESTIONS[1]) as usize;
    wait_until("all has come through", || {
        (0..4).map(|k| printed(k).lines().count()).sum::<usize>() >= questions
    });
    sensors.into_iter().for_each(interrupt);
    interrupt(balance);
    // By flow: the worker, and the number of packets.
    let mut flows = BTreeMap::new();
    for k in 0..4 {
        for line in printed(k).lines().filter(|line| line.contains(" > 10.77.0.2.53: ")) {
            let port = line.split(" > ").next().unwrap().rsplit('.').next().unwrap().to_owned();
            let (worker, packets) = flows.entry(port).or_insert((k, 0));
            assert_eq!(*worker, k, "{line}");
            *packets += 1;
        }
    }
    assert_eq!(flows.len() as u64, QUESTIONS[0]);
    assert!(flows.values().all(|&(_, packets)| packets == QUESTIONS[1]), "{flows:?}");
    assert!((0..4).all(|k| flows.values().any(|&(worker, _)| worker == k)), "{flows:?}");
}

#[test]
fn tshark_reads_a_worker_by_a_pipe() {
    if !are_there(&["tshark"]) {
        return;
    }
    let Some(bed) = Bed::or_skip() else { return };
    rename_far(&bed);
    let names = Names::new("page-pipe");
    let installed = Installed::new(&names.0);
    let command = code_of_page("burstline balance eth0 --workers 4 --publish tap");
    let balance = installed.start(&bed.far, "balance", &command, "");
    names.wait_for_readers("tap", 0);
    let command = code_of_page("burstline capture log:tap@0 -w - |");
    let pipe = installed.start(&bed.far, "pipe", &command, "Capturing on");
    let reader = names.wait_for_readers("tap", 1)["readers"][0]["pid"].as_u64().unwrap() as u32;
    let _server = ask_for_names(&bed);
    names.wait_until_published("tap", QUESTIONS[0] * QUESTIONS[1]);
    let found = names.wait_for("tap", "all is read", |found| found["readers"][0]["lag"] == 0);
    // tshark ends with its pipe.
    signal(reader, "-INT").unwrap();
    let (is_success, text) = pipe.finish().unwrap();
    assert!(is_success, "{text}");
    let printed = installed.printed("pipe");
    let of_worker_0 = found["logs"][0]["packets"].as_u64().unwrap();
    assert_eq!(printed.lines().count() as u64, of_worker_0);
    let questions = printed.matches(" DNS ").count() as u64;
    assert!(questions > 0 && questions < QUESTIONS[0] * QUESTIONS[1], "{questions}");
    interrupt(balance);
}

#[test]
fn the_library_may_be_preloaded_by_hand() {
    if !are_there(&["tcpdump"]) {
        return;
    }
    let names = Names::new("page-preload");
    let installed = Installed::new(&names.0);
    let _publisher = names.start(&["capture", "gen:?rate=2000", "-o", "null:", "--publish", "tap"]);
    names.wait_for_readers("tap", 0);
    let code = code_of_page("LD_PRELOAD=");
    let command = code
        .replace("/usr/local/lib/libburstline-pcap.so", library().to_str().unwrap())
        .replace("PROGRAM", "tcpdump -n -c 100 -i burst:tap");
    assert!(!command.contains("/usr/local") && command.contains("tcpdump"), "{command}");
    let host = Host::here().unwrap();
    let tcpdump = installed.start(&host, "tcpdump", &format!("env {command}"), "listening on");
    let (is_success, text) = tcpdump.finish().unwrap();
    assert!(is_success, "{text}");
    assert_eq!(installed.printed("tcpdump").lines().count(), 100);
}

/// The page's capture for Snort, with hosts in its place.
#[test]
fn daq_hosts_read_what_a_capture_publishes() {
    let Some(built) = Built::or_skip() else { return };
    let Some(bed) = Bed::or_skip() else { return };
    rename_far(&bed);
    let names = Names::new("page-daq");
    let installed = Installed::new(&names.0);
    let command = line_of_page("$ burstline capture eth0 -w all.pcapng --publish tap &");
    let command = command[2..].trim_end_matches(" &").to_owned();
    let capture = installed.start(&bed.far, "capture", &command, "");
    names.wait_for_readers("tap", 0);
    let versions = built.versions();
    let start = |version: &u32| built.host(*version, &names, "tap passive pass");
    let hosts: Vec<_> = versions.iter().map(start).collect();
    let _server = ask_for_names(&bed);
    names.wait_until_published("tap", QUESTIONS[0] * QUESTIONS[1]);
    names.wait_for("tap", "all is read", |found| {
        found["readers"].as_array().unwrap().iter().all(|reader| reader["lag"] == 0)
    });
    interrupt(capture);
    let file = names.0.file("all.pcapng");
    assert_eq!(selected(&file, "udp dst port 53"), QUESTIONS[0] * QUESTIONS[1]);
    let packets = selected(&file, "len > 0");
    for host in hosts {
        signal(host.pid(), "-TERM").unwrap();
        let (_, said) = host.end();
        assert_eq!((said.end(), said.number("packets")), ("interrupted", packets));
    }
}

/// Returns the lines of `fast.log` without timestamps, in order.
fn alerts(log: &Path) -> Vec<String> {
    let alerts = suricata_said::alerts(log);
    let behind_time = |line: &String| Some(line.split_once("  ")?.1.to_owned());
    let mut alerts: Vec<_> = alerts.iter().filter_map(behind_time).collect();
    alerts.sort();
    alerts
}

/// Number of requests to a web server on the far host.
const REQUESTS: usize = 20;

/// Suricata with a worker's log in each of its threads, by the page's command, compared with a
/// capture of the same interface.
#[test]
fn suricata_has_all_workers_in_one_process() {
    if !is_suricata_there() {
        return skip("Suricata is not installed: scripts/setup sensors");
    }
    if !are_there(&["ethtool", "curl"]) {
        return;
    }
    let Some(bed) = Bed::or_skip() else { return };
    rename_far(&bed);
    // Complete checksums, and packets as they were sent.
    for (host, interface) in [(&bed.near, NEAR), (&bed.far, "eth0")] {
        let offloads = ["-K", interface, "tx", "off", "gro", "off", "tso", "off"];
        host.command("ethtool", &offloads).unwrap();
    }
    let names = Names::new("page-suricata");
    let installed = Installed::new(&names.0);
    let start =
        |name: &str, command: &str, ready: &str| installed.start(&bed.far, name, command, ready);
    let [of_log, of_file] = ["of-log", "of-file"].map(|name| names.0.0.join(name));
    for log in [&of_log, &of_file] {
        fs::create_dir(log).unwrap();
    }
    let rules = "alert dns any any -> any any (dns.query; content:\"example\"; sid:1;)\n\
                 alert http any any -> any any (http.uri; content:\"index\"; sid:2;)\n";
    fs::write(names.0.file("rules"), rules).unwrap();
    let balance = code_of_page("balance eth0 --workers 2 --publish tap");
    let balance = start("balance", &format!("burstline {balance}"), "");
    names.wait_for_readers("tap", 0);
    let capture = start("capture", "burstline capture eth0 -w file.pcap", "");
    wait_until("it has begun", || Path::new(&names.0.file("file.pcap")).exists());
    let one = "--pcap='burst:tap@0?lossless' --runmode=single";
    let single = line_of_page("burstline-run suricata --pcap='burst:tap@0?lossless'");
    let both = code_of_page("--pcap=burst:tap@0 --pcap=burst:tap@1");
    let log = "/var/log/suricata/0";
    assert!(single.contains(one) && single.contains(log), "{single}");
    let command = single.replace(one, &both).replace(log, "of-log") + " -S rules";
    let suricata = start("suricata", &command, "Engine started");
    names.wait_for_readers("tap", 2);

    let server = serve_bytes(&bed.far, FAR_ADDRESS, 1000).unwrap();
    for _ in 0..REQUESTS {
        let url = format!("http://{server}/index");
        bed.near.command("curl", &["-sS", "-m", "60", "-o", "/dev/null", &url]).unwrap();
    }
    let _server = ask_for_names(&bed);
    names.wait_until_published("tap", QUESTIONS[0] * QUESTIONS[1]);
    let found = names.wait_for("tap", "all is read", |found| {
        found["readers"].as_array().unwrap().iter().all(|reader| reader["lag"] == 0)
    });
    assert!((0..2).all(|log| found["logs"][log]["packets"].as_u64() > Some(0)), "{found}");
    interrupt(capture);
    let from_file = "suricata -r file.pcap --runmode=single -l of-file -S rules";
    let (is_success, _) = start("from-file", from_file, "").finish().unwrap();
    let complaint = fs::read_to_string(names.0.file("from-file.err")).unwrap();
    assert!(is_success, "{complaint}");
    let expected = alerts(&of_file);
    let number =
        |sid: u32| expected.iter().filter(|one| one.contains(&format!("[1:{sid}:"))).count();
    assert_eq!((number(1) as u64, number(2)), (QUESTIONS[0] * QUESTIONS[1], REQUESTS));
    wait_until("it has alerted on all", || alerts(&of_log).len() >= expected.len());
    interrupt(suricata);
    interrupt(balance);
    assert_eq!(alerts(&of_log), expected);
    let expected = flows(&of_file);
    assert!(expected.len() as u64 >= QUESTIONS[0] + REQUESTS as u64, "{expected:?}");
    assert_eq!(flows(&of_log), expected);
}
