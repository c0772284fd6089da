//! What the figures of Suricata have in common: the work of both sides, and their turns.

use std::cell::RefCell;
use std::fs;
use std::time::Duration;

use super::processor_ns;
use crate::contenders::Sample;
use crate::contest::{Rounds, alternate};
use crate::figures::Context;
use crate::live::{Contender, Road};
use crate::programs::pcap;
use crate::record::Interface;
use crate::rivals::contents;
use crate::scenario::machine::{Served, on_hosts};
use crate::threads::Cores;

const SMOKE_PACKETS: usize = 2000;
pub(super) const RULES: usize = 500;
/// One packet in this many has a content that a rule looks for.
const MATCH_EVERY: u64 = 1000;
/// How long it may take for what is in its ring, and for its own clock's work.
const SETTLE: Duration = Duration::from_millis(1500);

/// Packets, and rules for some of them.
pub(super) struct Work {
    rules: String,
    pub(super) packets: Vec<Vec<u8>>,
}

/// Where a turn has its work, and where Suricata writes.
pub(super) struct Files {
    pub(super) log: String,
    pub(super) rules: String,
    packets: String,
}

impl Work {
    /// This many packets, but few in a smoke run. `action` is what a rule does with a packet.
    pub(super) fn new(context: &Context, packets: usize, action: &str) -> Self {
        let rules = contents::rules(RULES);
        let packets = if context.smoke { SMOKE_PACKETS } else { packets };
        let packets = contents::packets(packets, &rules, Some(MATCH_EVERY));
        Self { rules: rules_file(action, &rules), packets }
    }

    pub(super) fn write(&self, road: &Road) -> Result<Files, String> {
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
    /// Sends the packets on the producer's core, and waits until they are looked at. Returns the
    /// interfaces that they went through.
    pub(super) fn replay(
        &self,
        road: &Road,
        cores: Cores,
        rate_pps: u64,
    ) -> Result<Vec<Interface>, String> {
        let served = Served::now();
        let (core, rate) = (cores.producer.0.to_string(), format!("--pps={rate_pps}"));
        let words = ["-c", &core, "tcpreplay", "-q", "-K", &rate, "-i", "v0", &self.packets];
        let sent = road.bed().near.command("taskset", &words);
        sent.map_err(|error| error.to_string())?;
        std::thread::sleep(SETTLE);
        Ok(on_hosts(road.bed(), &served))
    }
}

/// What the programs of a turn have had of processors, in ns.
#[derive(Clone, Copy)]
pub(super) struct Spent {
    pub(super) suricata_ns: u64,
    /// Our program beside it; 0: there is none.
    pub(super) beside_ns: u64,
}

impl Spent {
    pub(super) fn so_far(
        suricata: &Contender<'_>,
        beside: Option<&Contender<'_>>,
    ) -> Result<Self, String> {
        let of = |program: &Contender<'_>| processor_ns(program.process_id());
        Ok(Self { suricata_ns: of(suricata)?, beside_ns: beside.map_or(Ok(0), of)? })
    }

    pub(super) fn since(self, before: Self) -> Self {
        Self {
            suricata_ns: self.suricata_ns - before.suricata_ns,
            beside_ns: self.beside_ns - before.beside_ns,
        }
    }
}

/// What a turn measured, and what Suricata found in it.
pub(super) struct Turn<F> {
    pub(super) sample: Sample,
    pub(super) found: F,
}

/// Runs both sides in turns; ours if the flag is set. All of them have to find the same, which is
/// returned, too.
pub(super) fn turns<F: Clone + Default + PartialEq>(
    context: &Context,
    run: impl Fn(bool) -> Result<Turn<F>, String>,
    say: impl Fn(&F) -> String,
) -> Result<(Rounds<Sample>, F), String> {
    let before = RefCell::new(None);
    let side = |is_ours| {
        let Turn { sample, found } = run(is_ours)?;
        match before.replace(Some(found.clone())) {
            Some(other) if other != found => {
                Err(format!("{}; in the turn before: {}", say(&found), say(&other)))
            }
            _ => Ok(sample),
        }
    };
    let runs = context.process_runs();
    let rounds = alternate(runs, &context.stop, || side(true), || side(false))?;
    Ok((rounds, before.into_inner().unwrap_or_default()))
}

/// What Suricata does with a packet that has one of these contents.
fn rules_file(action: &str, rules: &[Vec<u8>]) -> String {
    let rule = |(number, content): (usize, &Vec<u8>)| {
        let (content, sid) = (String::from_utf8_lossy(content), number + 1);
        let what = format!("msg:\"{sid}\"; content:\"{content}\"; sid:{sid};");
        format!("{action} udp any any -> any any ({what})\n")
    };
    rules.iter().enumerate().map(rule).collect()
}
