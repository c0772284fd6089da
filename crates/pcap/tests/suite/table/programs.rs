//! The programs of the table: how each is started and ended, and what it has found.

use std::fs;

use crate::common::{Folder, repository, run, target};
use crate::suricata_said::{alerts, flows};

pub(super) struct Program {
    pub(super) name: &'static str,
    /// The required commands.
    pub(super) needs: &'static [&'static str],
    /// Its command; `{}` is replaced by the packet source, `$OURS` by the preloaded library.
    pub(super) command: &'static str,
    /// Its arguments for the file, if it reads files.
    pub(super) of_file: Option<&'static str>,
    /// Its arguments before a device's name.
    pub(super) of_device: &'static str,
    /// Its command for an interface, if it is a different one.
    pub(super) on_interface: Option<&'static str>,
    /// Whether it continues after the end of the log, until it is ended.
    pub(super) goes_on: bool,
    /// The command that ends it then; otherwise a signal does.
    pub(super) end: Option<&'static str>,
    /// The name of the things it finds.
    pub(super) finds: &'static str,
    /// Returns the things found, sorted, with everything that must be equal.
    pub(super) found: fn(&Folder, &str) -> Vec<String>,
    /// Returns the number of packets it received, if it reports that.
    pub(super) packets: fn(&Folder, &str) -> Option<u64>,
}

/// Most programs differ little from this one, whose output is a line a packet.
const TCPDUMP: Program = Program {
    name: "tcpdump",
    needs: &["tcpdump"],
    command: "exec env LD_PRELOAD=$OURS tcpdump -n -tt -e --nano -Z root {}",
    of_file: Some("-r file.pcap"),
    of_device: "-i ",
    on_interface: None,
    goes_on: false,
    end: None,
    finds: "lines",
    found: |_, said| lines(said, |_| true),
    packets: |_, said| Some(said.lines().count() as u64),
};

pub(super) const ALL: [Program; 10] = [
    TCPDUMP,
    Program {
        name: "dumpcap",
        needs: &["dumpcap", "tcpdump"],
        command: "exec env LD_PRELOAD=$OURS dumpcap -q {} -w copy",
        of_file: None,
        finds: "records",
        found: |folder, _| recorded(folder),
        packets: |folder, _| Some(recorded(folder).len() as u64),
        ..TCPDUMP
    },
    Program {
        name: "tshark",
        needs: &["tshark"],
        command: "exec env LD_PRELOAD=$OURS tshark -n -T fields -e frame.time_epoch -e frame.len \
                  -e _ws.col.Protocol -e _ws.col.Info {}",
        // dumpcap, which tshark starts, requests microseconds if a device does not announce more.
        found: |_, said| said.lines().map(in_us).collect(),
        ..TCPDUMP
    },
    Program {
        name: "ngrep",
        needs: &["ngrep"],
        command: "exec env LD_PRELOAD=$OURS ngrep -q {} 'GET|example'",
        of_file: Some("-I file.pcap"),
        of_device: "-d ",
        finds: "matches",
        found: |_, said| matches(said),
        packets: |_, _| None,
        ..TCPDUMP
    },
    Program {
        name: "ndpiReader",
        needs: &["ndpiReader"],
        command: "exec env LD_PRELOAD=$OURS ndpiReader -v 2 {}",
        of_file: Some("-i file.pcap"),
        finds: "flows",
        found: |_, said| detected(said),
        packets: |_, said| number(said.split(" of ").find(|rest| rest.contains("packets total"))?),
        ..TCPDUMP
    },
    Program {
        name: "p0f",
        needs: &["p0f"],
        command: "rm -f p0f.log; exec env LD_PRELOAD=$OURS p0f {} -o p0f.log",
        finds: "log lines",
        found: |folder, _| lines(&read(folder, "p0f.log"), |_| true),
        packets: |_, _| None,
        ..TCPDUMP
    },
    Program {
        name: "argus",
        needs: &["argus", "ra", "tcpdump"],
        // argus misses packets at the end of a pipe, so tcpdump writes packet by packet.
        command: "rm -f argus
                  env LD_PRELOAD=$OURS tcpdump -Z root -U {} -w - | argus -r - -w argus",
        on_interface: Some("rm -f argus; exec argus -X {} -w argus"),
        finds: "flows",
        found: |folder, _| argus_flows(folder),
        packets: |folder, _| {
            let packets = argus_flows(folder).into_iter();
            packets.map(|flow| number(flow.rsplit(',').nth(1)?)).sum()
        },
        ..TCPDUMP
    },
    Program {
        name: "softflowd",
        needs: &["softflowd", "softflowctl"],
        command: "exec env LD_PRELOAD=$OURS softflowd -D -p pid -c \"$PWD/control\" -m 1000000 {} \
                  2>&1",
        end: Some("softflowctl -c \"$PWD/control\" shutdown"),
        of_device: "-i 0:",
        goes_on: true,
        finds: "flows",
        found: |_, said| crate::watchers::flows(said).into_iter().map(str::to_owned).collect(),
        packets: |_, said| {
            let flows = crate::watchers::flows(said).into_iter();
            flows
                .flat_map(|flow| flow.split("packets").skip(1))
                .map(|rest| number(&rest[2..]))
                .sum()
        },
        ..TCPDUMP
    },
    Program {
        name: "arpwatch",
        needs: &["arpwatch"],
        command: "rm -f arp.dat*; touch arp.dat
                  exec env LD_PRELOAD=$OURS arpwatch -d -N -f \"$PWD/arp.dat\" {} 2>&1",
        // It changes to another folder.
        of_file: Some("-r \"$PWD/file.pcap\""),
        finds: "stations",
        found: |_, said| stations(said),
        packets: |_, _| None,
        ..TCPDUMP
    },
    Program {
        name: "Suricata",
        needs: &[],
        command: "rm -rf log; mkdir log
                  exec env LD_PRELOAD=$OURS $SURICATA -S rules -l log --runmode=single {}",
        of_device: "--pcap=",
        goes_on: true,
        finds: "alerts and flows",
        found: |folder, _| [alerts(&folder.at("log")), flows(&folder.at("log"))].concat(),
        packets: |folder, _| {
            let said = read(folder, "log/stats.log");
            let last = said.lines().rev().find(|line| line.starts_with("decoder.pkts "))?;
            last.split_whitespace().next_back()?.parse().ok()
        },
        ..TCPDUMP
    },
];

impl Program {
    /// Returns a required command that is missing.
    pub(super) fn lacks(&self) -> Option<&'static str> {
        if self.name == "Suricata" && !target().join("suricata/usr/bin/suricata").exists() {
            return Some("suricata");
        }
        self.needs.iter().copied().find(|name| !crate::common::is_there(name))
    }

    pub(super) fn version(&self) -> String {
        let ask = match self.name {
            "Suricata" => format!("{} -V", starter()),
            "ngrep" => "ngrep -V".to_owned(),
            "argus" => "argus -h".to_owned(),
            "p0f" | "arpwatch" | "softflowd" => format!("dpkg-query -W {}", self.needs[0]),
            "ndpiReader" => "dpkg-query -W libndpi-bin".to_owned(),
            name => format!("{name} --version"),
        };
        let said = std::process::Command::new("sh").args(["-c", &format!("{ask} 2>&1")]).output();
        let said = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
        said.unwrap_or_default().lines().find(|line| !line.is_empty()).unwrap_or("").into()
    }
}

/// Returns the command that starts Suricata, with the folder that it is in.
pub(super) fn starter() -> String {
    let script = repository().join("scripts/suricata");
    format!("env CARGO_TARGET_DIR={} {}", target().display(), script.display())
}

fn read(folder: &Folder, file: &str) -> String {
    fs::read_to_string(folder.at(file)).unwrap_or_default()
}

fn lines(said: &str, is_one: impl Fn(&str) -> bool) -> Vec<String> {
    said.lines().filter(|line| is_one(line)).map(str::to_owned).collect()
}

/// Returns the number at the start of a text.
fn number(text: &str) -> Option<u64> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// Returns the packets of a recording, as tcpdump prints them.
fn recorded(folder: &Folder) -> Vec<String> {
    let mut tcpdump = folder.command("tcpdump");
    let said = run(tcpdump.args(["-n", "-tt", "-e", "-x", "-r", "copy"]), 0);
    lines(&said.replace("\n\t", "\t"), |_| true)
}

fn in_us(line: &str) -> String {
    let (time, rest) = line.split_once('\t').unwrap_or_default();
    format!("{}\t{rest}", &time[..time.len().saturating_sub(3)])
}

/// Returns ngrep's matches: the line of a packet, and its contents.
fn matches(said: &str) -> Vec<String> {
    let packets = said.split("\n\n").filter(|packet| packet.contains(" -> "));
    packets.map(|packet| packet.trim().to_owned()).collect()
}

/// Returns the flows that nDPI lists, without the numbers that depend on memory addresses.
fn detected(said: &str) -> Vec<String> {
    let found = said.split_once("Detected protocols:").map_or("", |(_, found)| found);
    let flows = found.lines().filter(|line| line.contains(" <-> ") || line.contains(" -> "));
    let mut flows: Vec<_> =
        flows.filter_map(|line| Some(line.trim().split_once('\t')?.1.to_owned())).collect();
    flows.sort();
    flows
}

fn argus_flows(folder: &Folder) -> Vec<String> {
    let fields = "stime,dur,proto,saddr,sport,daddr,dport,pkts,bytes";
    let ask = ["-n", "-c", ",", "-r", "argus", "-s", fields, "-", "not", "man"];
    let said = run(folder.command("ra").args(ask), 0);
    let mut flows = lines(&said, |line| !line.contains("SrcAddr"));
    flows.sort();
    flows
}

/// Returns its reports of stations: address and hardware.
fn stations(said: &str) -> Vec<String> {
    let keys = ["ip address:", "ethernet address:"];
    let is_one = |line: &str| keys.iter().any(|key| line.contains(key));
    lines(said, is_one).chunks(2).map(|pair| pair.join(" ")).collect()
}
