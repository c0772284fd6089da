//! tshark and dumpcap on logs and ports provided by `burstline extcap`.
//!
//! ```text
//!   publisher --> log --> burstline capture ===fifo===> dumpcap --> FILE
//!                               ^                          ^
//!                               +-------- tshark ----------+     it starts both, and ends ours
//! ```
//!
//! Needs root to mount a folder where tshark looks; otherwise each test is skipped.

use std::collections::BTreeSet;
use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::sync::LazyLock;

use crate::support::live::{child, wait_until};
use crate::support::sensors::line_of_page;
use crate::support::service::is_alive;
use crate::support::sharing::{Job, Names, pcap_header, pcap_packets};
use crate::support::{PROGRAM, capinfos, is_root, judged_packets, other, other_or_skip};
use burstline_skip::skip;
use burstline_testbed::{Bed, FAR_ADDRESS, Host, Program, signal};

const GENERATED: &str = "gen:?rate=2000&flows=16&seed=3&size=100";

/// Of 100 bytes on the wire, 4 are the frame check sequence, which programs do not see.
const FRAME_BYTES: u32 = 96;
/// Size of a packet of `pcap_packets` in pcapng: an enhanced packet block of 100 bytes.
const PCAPNG_RECORD_BYTES: u64 = 32 + 100;

/// The published names, and a folder where tshark finds our extcap.
struct Place {
    names: Names,
    folder: String,
}

impl Place {
    fn or_skip() -> Option<Self> {
        if !is_root() {
            skip("needs root");
            return None;
        }
        other_or_skip("tshark", &["--version"])?;
        let names = Names::new("extcap");
        let folder = names.0.file("extcap");
        fs::create_dir(&folder).unwrap();
        let script = format!("{folder}/burstline");
        fs::write(&script, format!("#!/bin/sh\nexec '{PROGRAM}' extcap \"$@\"\n")).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        Some(Self { names, folder })
    }

    /// Publishes generated packets as `tap` until the job is dropped.
    fn publish(&self, words: &[&str]) -> Job {
        let job = self.names.start(&[words, &["--publish", "tap"]].concat());
        self.names.wait_for_readers("tap", 0);
        job
    }

    /// Starts a tshark command. Its output goes to the files `said` and `complaint`.
    ///
    /// In a mount namespace: our folder replaces tshark's own there, invisible to other processes.
    fn start(&self, host: &Host, command: &str) -> Program {
        static ITS_FOLDER: LazyLock<String> = LazyLock::new(|| {
            let folders = other("tshark", &["-G", "folders"]).unwrap().stdout;
            let extcap = folders.lines().find_map(|line| line.strip_prefix("Extcap path:"));
            extcap.unwrap().trim().to_owned()
        });
        let run = format!("mount --bind \"$0\" '{}'; cd \"$BURSTLINE_RUN\"; exec", *ITS_FOLDER);
        let script = format!("{run} {command} > said 2> complaint");
        let names = self.names.0.file("");
        let arguments = ["-m", "sh", "-c", &script, &self.folder];
        host.start("unshare", &arguments, &[("BURSTLINE_RUN", &names)]).unwrap()
    }

    fn said(&self, name: &str) -> String {
        fs::read_to_string(self.names.0.file(name)).unwrap_or_default()
    }

    /// Runs a tshark command to its successful end, and returns its output.
    fn run(&self, host: &Host, command: &str) -> String {
        let (is_success, _) = self.start(host, command).finish().unwrap();
        assert!(is_success, "{command}: {}", self.said("complaint"));
        self.said("said")
    }

    /// Returns the process that writes into tshark's pipe.
    fn writer(&self) -> u32 {
        let found = self.names.wait_for_readers("tap", 1);
        found["readers"][0]["pid"].as_u64().unwrap() as u32
    }
}

/// The page's command, which runs until it is interrupted.
#[test]
fn the_command_of_the_page_shows_what_its_filter_selects() {
    let Some(place) = Place::or_skip() else { return };
    let _publisher = place.publish(&["capture", "gen:?rate=2000&flows=5&dport=53", "-o", "null:"]);
    let host = Host::here().unwrap();
    let page = &line_of_page("$ tshark -i burst-tap")[2..];
    let shows = |command: &str, text: &str| {
        let tshark = place.start(&host, command);
        wait_until(command, || place.said("said").contains(text));
        signal(tshark.process_id(), "-INT").unwrap();
        let (is_success, _) = tshark.finish().unwrap();
        assert!(is_success, "{}", place.said("complaint"));
    };
    shows(page, "DNS");
    // Another port has no packets to show.
    let other = page.replace("udp port 53", "udp port 5353");
    assert_ne!(other, page);
    let none = format!("{other} -a duration:2");
    assert_eq!(place.run(&host, &none), "");
}

#[test]
fn tshark_cuts_packets_and_keeps_their_length() {
    let Some(place) = Place::or_skip() else { return };
    let _publisher = place.publish(&["capture", GENERATED, "-o", "null:"]);
    let host = Host::here().unwrap();
    let fields = "-T fields -e frame.len -e frame.cap_len";
    for (option, captured) in [("", FRAME_BYTES), ("-o extcap.burst_tap.snaplen:40", 40)] {
        let command = format!("tshark -n -i burst-tap {option} -c 200 {fields}");
        let said = place.run(&host, &command);
        assert_eq!(said, format!("{FRAME_BYTES}\t{captured}\n").repeat(200), "{option}");
    }
}

#[test]
fn tshark_has_one_workers_flows() {
    let Some(place) = Place::or_skip() else { return };
    let _publisher = place.publish(&["balance", GENERATED, "--workers", "2"]);
    let host = Host::here().unwrap();
    let fields = "-T fields -e ip.src -e ip.dst -e udp.srcport -e udp.dstport";
    let flows = |option: &str| -> BTreeSet<String> {
        let command = format!("tshark -n -i burst-tap {option} -c 500 {fields}");
        place.run(&host, &command).lines().map(ToOwned::to_owned).collect()
    };
    // On a busy machine tshark may be there before the second worker.
    let mut all = BTreeSet::new();
    wait_until("all flows", || {
        all = flows("");
        all.len() == 16
    });
    let [first, second] = [0, 1].map(|k| flows(&format!("-o extcap.burst_tap.worker:{k}")));
    assert!(!first.is_empty() && !second.is_empty() && first.is_disjoint(&second), "{first:?}");
    assert_eq!(first.union(&second).cloned().collect::<BTreeSet<_>>(), all);
}

#[test]
fn tshark_captures_from_a_port() {
    let Some(place) = Place::or_skip() else { return };
    let Some(bed) = Bed::or_skip() else { return };
    let listed = place.run(&bed.far, "tshark -D");
    assert!(listed.contains(" burstport-v1 (Burstline port afpacket:v1)"), "{listed}");
    let options = "-o extcap.burstport_v1.snaplen:50 -c 40";
    let fields = "-T fields -e udp.dstport -e frame.len -e frame.cap_len";
    let command = format!("tshark -n -i burstport-v1 -f 'udp port 53' {options} {fields}");
    let mut tshark = place.start(&bed.far, &command);
    // It has started capturing when packets arrive.
    let hello = [0x61; 30];
    wait_until("it has its packets", || {
        bed.near.run(move || {
            let client = UdpSocket::bind("0.0.0.0:0").unwrap();
            for port in [53, 5353] {
                client.send_to(&hello, (FAR_ADDRESS, port)).unwrap();
            }
        });
        tshark.ends_within(std::time::Duration::ZERO).unwrap()
    });
    let (is_success, _) = tshark.finish().unwrap();
    assert!(is_success, "{}", place.said("complaint"));
    assert_eq!(place.said("said"), "53\t72\t50\n".repeat(40));
}

/// Which process ends, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    TsharkInterrupted,
    TsharkTerminated,
    DumpcapInterrupted,
    DumpcapKilled,
    /// First tshark, which would end ours; then dumpcap, so that only the closed pipe ends ours.
    BothKilled,
}

/// Ends tshark and dumpcap in one of these ways, and waits until both and our process are gone.
fn end(place: &Place, how: End, is_quiet: bool) {
    let _ = fs::remove_file(place.names.0.file("file.pcapng"));
    let host = Host::here().unwrap();
    let mut tshark = place.start(&host, "tshark -n -i burst-tap -w file.pcapng");
    let (writer, process) = (place.writer(), tshark.process_id());
    wait_until("dumpcap is there", || child(process, "dumpcap").is_some());
    let dumpcap = child(process, "dumpcap").unwrap();
    // dumpcap has started when its file has the beginning of the pipe's data.
    let bytes = || fs::metadata(place.names.0.file("file.pcapng")).map_or(0, |found| found.len());
    wait_until("it writes its file", || bytes() > if is_quiet { 0 } else { 4096 });
    assert!(is_alive(writer));
    match how {
        End::TsharkInterrupted => signal(process, "-INT").unwrap(),
        End::TsharkTerminated => signal(process, "-TERM").unwrap(),
        End::DumpcapInterrupted => signal(dumpcap, "-INT").unwrap(),
        End::DumpcapKilled => signal(dumpcap, "-KILL").unwrap(),
        End::BothKilled => {
            // Without tshark, dumpcap ends at its next message to it: not while it is stopped.
            signal(dumpcap, "-STOP").unwrap();
            tshark.kill();
            assert!(is_alive(writer) && is_alive(dumpcap), "they outlive it");
            signal(dumpcap, "-KILL").unwrap();
        }
    }
    wait_until("ours is gone", || !is_alive(writer));
    wait_until("dumpcap is gone", || !is_alive(dumpcap));
    let (is_success, _) = tshark.finish().unwrap();
    place.names.wait_for_readers("tap", 0);
    let complaint = place.said("complaint");
    // dumpcap counts packets that it read but did not write as dropped, and names the pipe.
    let is_error = |line: &str| {
        (line.contains("extcap") && !line.contains(" dropped from ")) || line.contains("burstline:")
    };
    assert!(!complaint.lines().any(is_error), "{complaint}");
    let is_orderly = !matches!(how, End::DumpcapKilled | End::BothKilled);
    assert_eq!(is_success, is_orderly, "{how:?}: {complaint}");
    let file = place.names.0.file("file.pcapng");
    if is_orderly && is_quiet {
        // An interface is described with its first packet; tcpdump needs one.
        let (run, packets) = capinfos(&[&file]).unwrap();
        assert_eq!((packets, run.code), (0, Some(0)), "{how:?}");
    } else if is_orderly {
        // The judging programs report a truncated file as an error.
        for (judge, packets) in judged_packets(&file) {
            assert!(packets > 0, "{how:?}: {judge}");
        }
    }
}

#[test]
fn ours_ends_with_its_dumpcap() {
    let Some(place) = Place::or_skip() else { return };
    for is_quiet in [false, true] {
        let source = if is_quiet { "-" } else { GENERATED };
        let _publisher = place.publish(&["capture", source, "-o", "null:"]);
        for how in [
            End::TsharkInterrupted,
            End::TsharkTerminated,
            End::DumpcapInterrupted,
            End::DumpcapKilled,
            End::BothKilled,
        ] {
            end(&place, how, is_quiet);
        }
    }
}

#[test]
fn a_file_is_whole_when_its_publisher_has_ended() {
    let Some(place) = Place::or_skip() else { return };
    let host = Host::here().unwrap();
    for is_killed in [false, true] {
        let file = place.names.0.file("file.pcapng");
        let _ = fs::remove_file(&file);
        let mut publisher = place.publish(&["capture", "-", "-o", "null:"]);
        let tshark = place.start(&host, "tshark -n -i burst-tap -w file.pcapng");
        let writer = place.writer();
        publisher.feed(&pcap_header());
        publisher.feed(&pcap_packets(0, 1000));
        place.names.wait_until_read("tap", 1000);
        if is_killed {
            publisher.kill();
            // Our process waits for the next publisher, like for an interface that comes back.
            let bytes = || fs::metadata(&file).map_or(0, |found| found.len());
            wait_until("all is in the file", || bytes() >= 1000 * PCAPNG_RECORD_BYTES);
            assert!(is_alive(writer));
            signal(tshark.process_id(), "-INT").unwrap();
        } else {
            publisher.close_input();
            publisher.end();
        }
        let (is_success, _) = tshark.finish().unwrap();
        assert!(is_success, "{}", place.said("complaint"));
        wait_until("ours is gone", || !is_alive(writer));
        for (judge, packets) in judged_packets(&file) {
            assert_eq!(packets, 1000, "{judge}");
        }
    }
}
