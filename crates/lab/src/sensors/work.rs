//! Packets and rules for Suricata, and the CPU time of its turn.

use std::fs;
use std::thread;
use std::time::Duration;

use super::processor_ns;
use crate::live::{Contender, Road};
use crate::programs::pcap;
use crate::record::Interface;
use crate::rivals::contents;
use crate::scenario::machine::{Served, on_hosts};
use crate::threads::Cores;

/// Time for Suricata to process its ring and for its own timers.
const SETTLE: Duration = Duration::from_millis(1500);

/// Packets, and rules that match some of them.
pub(crate) struct Work {
    rules: String,
    pub(crate) packets: Vec<Vec<u8>>,
}

/// The files of a turn, and Suricata's output folder.
pub(crate) struct Files {
    pub(crate) log: String,
    pub(crate) rules: String,
    packets: String,
}

/// What tcpreplay sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sent {
    pub(crate) packets: u64,
    /// From the first packet to the last.
    pub(crate) seconds: f64,
}

impl Sent {
    /// Parses tcpreplay's line: `Actual: 149 packets (70726 bytes) sent in 5.83 seconds`.
    fn parse(said: &str) -> Option<Self> {
        let (_, line) = said.split_once("Actual: ")?;
        let (_, seconds) = line.split_once(" sent in ")?;
        let first = |words: &str| words.split_whitespace().next().map(str::to_owned);
        Some(Self { packets: first(line)?.parse().ok()?, seconds: first(seconds)?.parse().ok()? })
    }
}

/// What was sent, and the interfaces that it used.
pub(crate) struct Replayed {
    pub(crate) sent: Sent,
    pub(crate) interfaces: Vec<Interface>,
}

impl Work {
    /// Creates this many packets, of which one in `match_every` has a content that a rule searches
    /// for. `action` is the action of the rules.
    pub(crate) fn new(
        packets: usize,
        rules: usize,
        match_every: Option<u64>,
        action: &str,
    ) -> Self {
        let rules = contents::rules(rules);
        let packets = contents::packets(packets, &rules, match_every);
        Self { rules: rules_file(action, &rules), packets }
    }

    pub(crate) fn write(&self, road: &Road) -> Result<Files, String> {
        let [log, rules, packets] = ["log", "rules", "packets.pcap"].map(|name| road.file(name));
        let write = |path: &str, bytes: &[u8]| {
            fs::write(path, bytes).map_err(|error| format!("{path}: {error}"))
        };
        fs::create_dir(&log).map_err(|error| format!("{log}: {error}"))?;
        write(&rules, self.rules.as_bytes())?;
        write(&packets, &pcap(self.packets.iter().map(Vec::as_slice)))?;
        Ok(Files { log, rules, packets })
    }
}

impl Files {
    /// Sends the packets on the producer's core and waits until they are scanned.
    pub(crate) fn replay(
        &self,
        road: &Road,
        cores: Cores,
        rate_pps: u64,
    ) -> Result<Replayed, String> {
        let served = Served::now();
        let sent = self.send(road, cores, &[&format!("--pps={rate_pps}")])?;
        thread::sleep(SETTLE);
        Ok(Replayed { sent, interfaces: on_hosts(road.bed(), &served) })
    }

    /// Sends the packets on the producer's core, with these arguments of tcpreplay.
    pub(crate) fn send(&self, road: &Road, cores: Cores, how: &[&str]) -> Result<Sent, String> {
        let core = cores.producer.0.to_string();
        let words = ["-c", &core, "tcpreplay", "-q", "-K", "-i", "v0"];
        let words = [&words, how, &[&self.packets]].concat();
        let said = road.bed().near.command("taskset", &words).map_err(|error| error.to_string())?;
        Sent::parse(&said).ok_or_else(|| format!("tcpreplay: {said}"))
    }
}

/// CPU time of the programs of a turn, in ns.
#[derive(Clone, Copy)]
pub(crate) struct Spent {
    pub(crate) suricata_ns: u64,
    /// CPU time of our program beside it; 0 without one.
    pub(crate) beside_ns: u64,
}

impl Spent {
    pub(crate) fn so_far(
        suricata: &Contender<'_>,
        beside: Option<&Contender<'_>>,
    ) -> Result<Self, String> {
        let of = |program: &Contender<'_>| processor_ns(program.process_id());
        Ok(Self { suricata_ns: of(suricata)?, beside_ns: beside.map_or(Ok(0), of)? })
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            suricata_ns: self.suricata_ns - before.suricata_ns,
            beside_ns: self.beside_ns - before.beside_ns,
        }
    }
}

/// Returns rules with this action for packets with one of these contents.
fn rules_file(action: &str, rules: &[Vec<u8>]) -> String {
    let rule = |(number, content): (usize, &Vec<u8>)| {
        let (content, sid) = (String::from_utf8_lossy(content), number + 1);
        let what = format!("msg:\"{sid}\"; content:\"{content}\"; sid:{sid};");
        format!("{action} udp any any -> any any ({what})\n")
    };
    rules.iter().enumerate().map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_in_the_summary() {
        let said = "Actual: 149 packets (70726 bytes) sent in 5.83 seconds\nRated: 12131.3 Bps\n";
        assert_eq!(Sent::parse(said), Some(Sent { packets: 149, seconds: 5.83 }));
        assert_eq!(Sent::parse("Fatal Error: no such device"), None);
    }
}
