//! Tests programs that end by themselves only after a file, and one that reads no files. As in
//! `programs`: the same packets with the real libpcap and live from the log, the same output.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use burstline_afpacket::Sender;
use burstline_log::Ending;
use burstline_skip::skip;
use burstline_testbed::{Bed, FAR, NEAR};

use crate::common::{DEVICE, Folder, is_there, library, run};
use crate::programs::{PACKETS, twice};
use crate::traffic::{mix, mix_of_now};

/// Packets for a program that needs all of them in one ring of the kernel.
const FEW: usize = 300;

/// Returns softflowd's flows, sorted, without their numbers and memory addresses.
pub(crate) fn flows(said: &str) -> Vec<&str> {
    let said = said.lines().filter_map(|line| line.strip_prefix("EXPIRED: seq:"));
    let said = said.filter_map(|line| line.split_once(' ')?.1.rsplit_once(" (0x"));
    let mut flows: Vec<_> = said.map(|(flow, _)| flow).collect();
    flows.sort();
    flows
}

/// softflowd continues after the end of a log, and ends when its control program commands it.
#[test]
fn softflowd_has_the_same_flows() {
    let Some(folder) = Folder::with(&["softflowd", "softflowctl"], "sensors") else { return };
    let publishing = folder.publish(folder.keep(mix_of_now(PACKETS)), 1);
    let control = folder.at("control");
    let told = fs::File::create(folder.at("live")).unwrap();
    let mut live = folder.preloaded("softflowd");
    live.args(["-D", "-p", "pid", "-i", &format!("0:{DEVICE}"), "-c"]).arg(&control).stderr(told);
    let mut live = live.spawn().unwrap();
    publishing.wait_until_written();
    publishing.wait_for_readers();
    run(folder.command("softflowctl").arg("-c").arg(&control).arg("shutdown"), 0);
    live.wait().unwrap();
    publishing.end();
    let live = fs::read_to_string(folder.at("live")).unwrap();
    let from_file = "softflowd -D -p pid -c none -r file.pcap 2>&1";
    let from_file = run(folder.command("sh").args(["-c", from_file]), 0);
    assert!(flows(&from_file).len() > PACKETS / 10, "{from_file}");
    assert_eq!(flows(&live), flows(&from_file));
}

/// In a separate network, where it need not wait for host names.
#[test]
fn arpwatch_reports_the_same_stations() {
    if !is_there("arpwatch") {
        return skip("arpwatch is not installed: scripts/setup sensors");
    }
    if Bed::or_skip().is_none() {
        return;
    }
    let watch = |library: &str, source: &str| {
        format!(
            "touch arp.dat; unshare -n env LD_PRELOAD={library} arpwatch -d -N \
             -f \"$PWD/arp.dat\" {source} 2>&1; cut -f 1-3 arp.dat | sort; rm arp.dat*"
        )
    };
    let live = watch(library().to_str().unwrap(), &format!("-i '{DEVICE}'"));
    let from_file = watch("", "-r \"$PWD/file.pcap\"");
    // Each report names the interface; the stored table has a part of the name in column 5.
    let reports = |_: &Folder, said: String| said.replace(DEVICE, "(from file)");
    twice("sh", &["-c", &live], &["-c", &from_file], 0, reports);
}

/// Prints a description of each packet, until there are 300.
const RECEIVE: &str = "
    set device [lindex $argv 0]
    set packets [hping recv $device 0 1]
    puts ready; flush stdout
    set left 300
    while {$left > 0} {
        foreach packet $packets { puts $packet; incr left -1 }
        set packets [expr {$left > 0 ? [hping recv $device 1000 20] : {}}]
    }
    flush stdout; exit
";

/// Sends packets once a program is ready, and returns its lines about them.
fn received(mut live: Child, send: impl FnOnce()) -> Vec<String> {
    let mut said = BufReader::new(live.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(said.next().as_deref(), Some("ready"));
    send();
    let said = said.collect();
    live.wait().unwrap();
    said
}

/// hping3 reads no files, so the real libpcap gets the packets from an interface. With a log that
/// ends and a long device name, it once returned 140 of 300 packets. Which of the two caused that
/// is unknown. Here the log is stopped, and the name is short.
#[test]
fn hping3_receives_the_same() {
    let Some(folder) = Folder::with(&["hping3"], "sensors") else { return };
    let Some(bed) = Bed::or_skip() else { return };
    for host in [&bed.near, &bed.far] {
        // No other traffic may be sent there; IPv6 would search for neighbours.
        host.command("sysctl", &["-q", "-w", "net.ipv6.conf.all.disable_ipv6=1"]).unwrap();
    }
    fs::write(folder.at("receive"), RECEIVE).unwrap();
    let start = |mut command: Command, device: &str| {
        command.args(["exec", "receive", device]).stdout(Stdio::piped());
        move || command.spawn().unwrap()
    };
    let packets = mix(FEW);
    let frames: Vec<Vec<u8>> = packets.iter().map(|packet| packet.bytes.clone()).collect();
    let send = || {
        bed.near.run(move || {
            let mut sender = Sender::open(NEAR, true).unwrap();
            for frame in &frames {
                while sender.send(&[&frame[..]]).unwrap() == 0 {}
            }
        });
    };
    let theirs = received(bed.far.run(start(folder.command("hping3"), FAR)), send);
    let publishing = folder.publish_until(packets, 1, Ending::Stopped, false);
    let ours = received(start(folder.preloaded("hping3"), "burst:tap")(), || {});
    publishing.end();
    assert_eq!(ours.len(), FEW);
    assert_eq!(ours, theirs);
}
