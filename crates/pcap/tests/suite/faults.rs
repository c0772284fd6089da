//! Programs and publishers that stop, die and come back while packets come.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use burstline_log::Ending;
use burstline_skip::{skip, test_name};
use burstline_testbed::signal;

use crate::common::{DEVICE, Folder, is_there, run, until};
use crate::traffic::{mix, pcap_file};

const PACKETS: usize = 20_000;

#[test]
fn a_sensor_that_is_stopped_and_killed_takes_nothing_from_another_one() {
    if !is_there("tcpdump") {
        return skip(test_name(), "tcpdump is not installed: scripts/setup test");
    }
    let folder = Folder::new();
    let packets = mix(PACKETS);
    std::fs::write(folder.at("file.pcap"), pcap_file(&packets)).unwrap();
    let print = ["-n", "-tt", "-x", "--nano"];
    let mut victim = folder.preloaded("tcpdump");
    // Not lossless: a publisher waits for a lossless one that is stopped, as it was told to.
    victim.args(["-i", "burst:tap?start=oldest", "-w", "/dev/null"]).stderr(Stdio::piped());
    let publishing = folder.publish(packets, 2);
    let mut victim = victim.spawn().unwrap();
    // It says so once it is there: the publisher waits for both.
    let mut said = BufReader::new(victim.stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("listening on")));
    let mut other = folder.preloaded("tcpdump");
    let other = other.args(print).args(["-i", DEVICE]).stdout(Stdio::piped()).spawn().unwrap();
    signal(victim.id(), "-STOP").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(50));
    signal(victim.id(), "-KILL").unwrap();
    victim.wait().unwrap();
    let said = other.wait_with_output().unwrap();
    publishing.end();
    let theirs = run(folder.command("tcpdump").args(print).args(["-r", "file.pcap"]), 0);
    assert!(said.status.success());
    assert_eq!(String::from_utf8_lossy(&said.stdout), theirs);
}

#[test]
fn a_sensor_goes_on_with_the_next_publisher() {
    if !is_there("tcpdump") {
        return skip(test_name(), "tcpdump is not installed: scripts/setup test");
    }
    let folder = Folder::new();
    let packets = mix(2000);
    std::fs::write(folder.at("file.pcap"), pcap_file(&packets)).unwrap();
    let (first, second) = packets.split_at(1200);
    // A line for each packet, as soon as it comes. With its rights: it opens the log once more.
    let print = ["-n", "-tt", "-e", "-l", "--nano", "-Z", "root"];
    let publishing = folder.publish_until(first.to_vec(), 1, Ending::Stopped);
    let printed = std::fs::File::create(folder.at("printed")).unwrap();
    let mut live = folder.preloaded("tcpdump");
    let mut live = live.args(print).args(["-i", DEVICE]).stdout(printed).spawn().unwrap();
    let printed = || std::fs::read_to_string(folder.at("printed")).unwrap();
    until("the first publisher's packets are printed", || printed().lines().count() == 1200);
    publishing.end();
    let publishing = folder.publish(second.to_vec(), 1);
    assert!(live.wait().unwrap().success());
    publishing.end();
    let theirs = run(folder.command("tcpdump").args(print).args(["-r", "file.pcap"]), 0);
    assert_eq!(printed(), theirs);
}
