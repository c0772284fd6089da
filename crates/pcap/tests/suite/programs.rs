//! Tests real programs with the same packets twice: from a file with the real libpcap, and live
//! from a log with ours. Their outputs must be equal.

use std::fs;

use burstline_skip::skip;

use crate::common::{DEVICE, Folder, is_there, library, repository, run, target};
use crate::traffic::{mix, mix_of_now};

pub(crate) const PACKETS: usize = 3000;

/// Runs a program with ours on the log and with the real libpcap on the file, and compares what
/// `outcome` extracts from each.
pub(crate) fn twice(
    program: &str,
    live: &[&str],
    from_file: &[&str],
    live_code: i32,
    outcome: impl Fn(&Folder, String) -> String,
) {
    let Some(folder) = Folder::with(&[program], "sensors") else { return };
    // With current times: some programs expire flows by their own clock.
    let publishing = folder.publish(folder.keep(mix_of_now(PACKETS)), 1);
    let said = run(folder.preloaded(program).args(live), live_code);
    let ours = outcome(&folder, said);
    publishing.end();
    let said = run(folder.command(program).args(from_file), 0);
    let theirs = outcome(&folder, said);
    assert!(!theirs.is_empty(), "{program} has nothing to say of these packets");
    assert_eq!(ours, theirs, "{program}");
}

pub(crate) fn as_said(_folder: &Folder, said: String) -> String {
    said
}

#[test]
fn tcpdump_prints_the_same() {
    let print = ["-n", "-tt", "-e", "-x", "--nano"];
    let live = [&print[..], &["-i", DEVICE]].concat();
    let from_file = [&print[..], &["-r", "file.pcap"]].concat();
    twice("tcpdump", &live, &from_file, 0, as_said);
}

#[test]
fn tcpdump_filters_the_same() {
    let expression = ["tcp[tcpflags] & tcp-syn != 0 or (udp port 53 and host 10.0.0.7) or arp"];
    let live = [&["-n", "-tt", "-i", DEVICE], &expression[..]].concat();
    let from_file = [&["-n", "-tt", "-r", "file.pcap"], &expression[..]].concat();
    twice("tcpdump", &live, &from_file, 0, as_said);
}

#[test]
fn dumpcap_records_the_same() {
    // dumpcap reads no files, so tcpdump prints the contents of both recordings.
    let Some(folder) = Folder::with(&["dumpcap", "tcpdump"], "test") else { return };
    let publishing = folder.publish(folder.keep(mix(PACKETS)), 1);
    run(folder.preloaded("dumpcap").args(["-q", "-i", DEVICE, "-w", "copy.pcapng"]), 0);
    publishing.end();
    let read = |file| run(folder.command("tcpdump").args(["-n", "-tt", "-e", "-x", "-r", file]), 0);
    assert_eq!(read("copy.pcapng"), read("file.pcap"));
}

#[test]
fn tshark_dissects_the_same() {
    let fields = ["-n", "-T", "fields", "-e", "frame.time_epoch", "-e", "frame.len"];
    let more = ["-e", "_ws.col.Protocol", "-e", "_ws.col.Info"];
    let live = [&fields[..], &more, &["-i", DEVICE]].concat();
    let from_file = [&fields[..], &more, &["-r", "file.pcap"]].concat();
    // dumpcap requests microseconds if a device does not announce more.
    let in_us = |_: &Folder, said: String| {
        let cut = said.lines().map(|line| {
            let (time, rest) = line.split_once('\t').unwrap();
            format!("{}\t{rest}\n", &time[..time.len() - 3])
        });
        cut.collect()
    };
    twice("tshark", &live, &from_file, 0, in_us);
}

#[test]
fn ngrep_finds_the_same() {
    let live = ["-q", "-n", "200", "-d", DEVICE, "GET|example"];
    let from_file = ["-q", "-n", "200", "-I", "file.pcap", "GET|example"];
    let without_heads = |_: &Folder, said: String| {
        let is_head = |line: &&str| line.starts_with("input:") || line.starts_with("interface:");
        said.lines().filter(|line| !is_head(line)).collect::<Vec<_>>().join("\n")
    };
    twice("ngrep", &live, &from_file, 0, without_heads);
}

#[test]
fn ndpi_detects_the_same() {
    let live = ["-v", "2", "-i", DEVICE];
    let from_file = ["-v", "2", "-i", "file.pcap"];
    // From the protocols on, its output is about packets; before, about its times. Then come the
    // flows, after numbers that depend on memory addresses.
    let found = |_: &Folder, said: String| {
        let (_, found) = said.split_once("Detected protocols:").expect("a summary");
        let protocols = found.split("\n\n").next().unwrap_or_default();
        let flows = found.lines().filter(|line| line.contains(" <-> ") || line.contains(" -> "));
        let mut flows: Vec<_> = flows.map(|line| line.trim().split_once('\t').unwrap().1).collect();
        assert!(flows.len() > PACKETS / 10, "{said}");
        flows.sort();
        format!("{}\n{}", protocols.trim(), flows.join("\n"))
    };
    twice("ndpiReader", &live, &from_file, 0, found);
}

#[test]
fn p0f_recognises_the_same() {
    let log = |folder: &Folder, _said: String| {
        let file = folder.at("p0f.log");
        let said = fs::read_to_string(&file).unwrap();
        fs::remove_file(&file).unwrap();
        said
    };
    let live = ["-i", DEVICE, "-o", "p0f.log"];
    // When the log ends, p0f reports that its interface is down, and aborts.
    let abort = 1;
    twice("p0f", &live, &["-r", "file.pcap", "-o", "p0f.log"], abort, log);
}

#[test]
fn argus_has_the_same_flows() {
    if let Some(missing) = ["argus", "ra", "tcpdump"].into_iter().find(|name| !is_there(name)) {
        return skip(format!("{missing} is not installed: scripts/setup sensors"));
    }
    // It asks the kernel for an interface, so tcpdump reads the log for it. argus writes to a file,
    // because ra sometimes misses the last flow of a pipe.
    let flows = "argus -r - -w argus && ra -n -r argus -s stime,dur,proto,saddr,sport,daddr,dport,\
                 pkts,bytes - not man | sort";
    let library = library();
    let library = library.display();
    let live = format!("LD_PRELOAD={library} tcpdump -i '{DEVICE}' -w - | {flows}; rm argus");
    let from_file = format!("tcpdump -r file.pcap -w - | {flows}");
    twice("sh", &["-c", &live], &["-c", &from_file], 0, as_said);
}

#[test]
fn programs_on_other_devices_have_the_real_library() {
    let Some(folder) = Folder::with(&["tcpdump"], "test") else { return };
    folder.keep(mix(100));
    let arguments = ["-n", "-tt", "-x", "-r", "file.pcap", "udp"];
    let ours = run(folder.preloaded("tcpdump").args(arguments), 0);
    assert_eq!(ours, run(folder.command("tcpdump").args(arguments), 0));
    let output = folder.preloaded("tcpdump").args(["-i", "burst:nobody"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("no log is published as nobody"), "{said}");
}

#[test]
fn it_is_installed_in_place_of_libpcap() {
    let Some(folder) = Folder::with(&["make", "tcpdump"], "test") else { return };
    let mut install = folder.command("make");
    let prefix = format!("PREFIX={}", folder.at("usr").display());
    let extcap = format!("EXTCAP={}", folder.at("extcap").display());
    install.current_dir(repository()).args(["install-pcap", &prefix, &extcap]);
    run(install.env("CARGO_TARGET_DIR", target()).env_remove("MAKEFLAGS"), 0);
    let starter = folder.at("usr/bin/burstline-run");
    let starter = starter.to_str().unwrap();
    assert!(run(folder.command(starter).arg("--help"), 0).contains("burst:tap@2"));
    assert!(folder.at("usr/include/burstline-pcap.h").exists());
    assert!(folder.at("usr/share/burstline/suricata-in-line.yaml").exists());
    let extcap = fs::read_to_string(folder.at("extcap/burstline")).unwrap();
    assert_eq!(extcap, "#!/bin/sh\nexec burstline extcap \"$@\"\n");

    let publishing = folder.publish(folder.keep(mix(100)), 1);
    let ours = run(folder.command(starter).args(["tcpdump", "-n", "-tt", "-i", DEVICE]), 0);
    publishing.end();
    let theirs = run(folder.command("tcpdump").args(["-n", "-tt", "-r", "file.pcap"]), 0);
    assert_eq!(ours, theirs);
}
