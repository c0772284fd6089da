//! `burstline` as a process, like any other contender.

use std::collections::BTreeMap;

use burstline_testbed::Target;
use serde_json::Value;

use super::Job;
use super::live::{Live, Own};
use super::seconds::LostBySecond;
use crate::programs::{self, FILE, Launch, Report};
use crate::scenario::Work;

/// The byte of a packet, counted from 1, that selects the worker. Source: H. Wang, D. He, H. Wang,
/// "Comparison of High-Performance Packet Processing Frameworks on NUMA", section IV.
pub(super) const KEY_BYTE: u32 = 30;

/// `burstline` with one kind of port.
pub(super) struct Ours {
    name: &'static str,
    scheme: &'static str,
    receiver: Target,
    works: &'static [Work],
    flags: &'static str,
    /// Appended to the address of a source that is counted.
    query: &'static str,
}

impl Ours {
    /// Over AF_XDP.
    pub(super) const XDP: Self = Self {
        name: "burstline-xdp",
        scheme: "xdp",
        receiver: Target::Program,
        works: &[
            Work::Count,
            Work::Bounce,
            Work::Balance,
            Work::Record,
            Work::Switch,
            Work::Latency,
            Work::Generate,
            Work::Duplex,
            Work::Rfc2544,
        ],
        flags: "",
        query: "",
    };
    /// Over a packet socket with a ring.
    pub(super) const AFPACKET: Self = Self {
        name: "burstline-afpacket",
        scheme: "afpacket",
        receiver: Target::Stack,
        works: &[Work::Count, Work::Balance, Work::Record, Work::Generate, Work::Duplex],
        flags: "",
        query: "",
    };
    /// Over AF_XDP, with one time per poll instead of per packet, like a rival without times.
    pub(super) const XDP_BY_POLL: Self = Self {
        name: "burstline-xdp-by-poll",
        works: &[Work::Count],
        query: "?timestamps=poll",
        ..Self::XDP
    };
    /// A switch that receives by AF_XDP and sends by a packet socket.
    pub(super) const SWITCH: Self = Self {
        name: "burstline-switch",
        works: &[Work::Switch, Work::Latency, Work::Rfc2544],
        ..Self::XDP
    };
    /// Over AF_XDP, with workers that share one log.
    pub(super) const XDP_SHARE: Self = Self {
        name: "burstline-xdp-share",
        works: &[Work::Balance],
        flags: " --mode share",
        ..Self::XDP
    };
    /// Over AF_XDP, reading each packet's headers before it is sent.
    pub(super) const XDP_HEADERS: Self = Self {
        name: "burstline-xdp-headers",
        works: &[Work::Bounce],
        flags: " --touch headers",
        ..Self::XDP
    };
    /// Over AF_XDP, reading all of each packet.
    pub(super) const XDP_PAYLOAD: Self = Self {
        name: "burstline-xdp-payload",
        works: &[Work::Bounce],
        flags: " --touch payload",
        ..Self::XDP
    };
}

impl Live for Ours {
    fn name(&self) -> &'static str {
        self.name
    }

    fn works(&self) -> &'static [Work] {
        self.works
    }

    fn version(&self) -> String {
        super::own_version()
    }

    fn is_switch(&self) -> bool {
        self.name == Self::SWITCH.name
    }

    fn receiver(&self, _: Work) -> Target {
        self.receiver
    }

    fn has_remote(&self) -> bool {
        true
    }

    fn launch(&self, job: &Job<'_>) -> Box<dyn Launch> {
        let Self { scheme, flags, query, .. } = self;
        let cores = job.core_list();
        let core = cores.split(',').next().unwrap_or_default();
        let (first, out) = (&job.comes_in[0], &job.goes_out);
        let words = match job.work {
            Work::Switch | Work::Latency | Work::Rfc2544 if self.is_switch() => {
                let ports = format!("--port {scheme}:{first} --port {scheme}:{out}");
                format!("switch {ports} --poll busy --cores {core}")
            }
            Work::Bounce | Work::Switch | Work::Latency | Work::Rfc2544 => {
                let ports = format!("{scheme}:{first} {scheme}:{out}");
                format!("bounce {ports} --both --poll busy{flags} --cores {core}")
            }
            Work::Balance => {
                // Threads are pinned if each has a core; otherwise they share the cores.
                let has_all = job.places.contender.len() == 1 + job.workers;
                let pinned = if has_all { format!(" --cores {cores}") } else { String::new() };
                let workers = job.workers;
                format!(
                    "balance {scheme}:{first} --workers {workers} --hash byte:{KEY_BYTE}\
                     {flags}{pinned}"
                )
            }
            Work::Record => format!("capture {scheme}:{first} -w {FILE}"),
            Work::Generate => {
                let (size, by) = (job.size_bytes, job.sends_by);
                format!("generate -o {scheme}:{by} --size {size} --cores {core}")
            }
            _ => {
                let sources: Vec<String> = job
                    .comes_in
                    .iter()
                    .map(|interface| format!("'{scheme}:{interface}{query}'"))
                    .collect();
                // Each source has a thread. Threads that share a core and poll would starve each
                // other.
                let has_all = job.places.contender.len() >= job.comes_in.len();
                let pinned =
                    if has_all { format!(" --poll busy --cores {cores}") } else { String::new() };
                format!("count {}{pinned}", sources.join(" "))
            }
        };
        Box::new(programs::Ours::new(job.program, &words))
    }

    fn own(&self, said: &str, offered: u64) -> Result<Own, String> {
        let report = Report::last(said)?;
        if offered == 0 {
            return Ok(Own { busy: busy(&report), ..Own::default() });
        }
        // Forwarded packets are counted where they leave.
        let delivered = match passes_on(&report) {
            true => 0,
            false => Report::parse(said, offered)?.delivered,
        };
        Ok(Own { delivered, ..of_report(said, &report) })
    }

    fn own_remote(&self, said: &str) -> Result<Own, String> {
        let (report, counted) = (Report::last(said)?, Report::of_its_own(said)?);
        let Report { offered, delivered, .. } = counted;
        // A bounce may count both directions as offered.
        let offered = (!passes_on(&report)).then_some(offered);
        Ok(Own { delivered, offered, ..of_report(said, &report) })
    }
}

fn passes_on(report: &Value) -> bool {
    ["bounce", "switch"].map(Value::from).contains(&report["command"])
}

/// Returns what a report contains besides the delivered packets.
fn of_report(said: &str, report: &Value) -> Own {
    let losses = report["total"]["lost"].as_object().into_iter().flatten();
    let losses = losses.filter_map(|(name, packets)| Some((name.clone(), packets.as_u64()?)));
    let lost = lost_by_second(said);
    Own {
        losses: losses.filter(|&(_, packets)| packets > 0).collect(),
        busy: busy(report),
        lost_each_second: each_second(&lost),
        lost_by_second: lost,
        ..Own::default()
    }
}

/// Returns the stages of a report, by the wall time of polls that found packets. Threads with the
/// same task are one stage: `worker-0` and `worker-1` are `worker`.
fn busy(report: &Value) -> Vec<(String, f64)> {
    let mut stages: Vec<(String, f64)> = Vec::new();
    for stage in report["stages"].as_array().into_iter().flatten() {
        let (Some(name), Some(seconds)) = (stage["name"].as_str(), stage["busy_s"].as_f64()) else {
            continue;
        };
        let is_number = |number: &str| number.parse::<u32>().is_ok();
        let name = match name.rsplit_once('-') {
            Some((what, number)) if is_number(number) => what,
            _ => name,
        };
        match stages.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum += seconds,
            None => stages.push((name.to_owned(), seconds)),
        }
    }
    stages.retain(|&(_, seconds)| seconds > 0.0);
    stages
}

/// Parses the interval lines: packets lost in each second since the first arrived, by place.
fn lost_by_second(said: &str) -> LostBySecond {
    let (mut seconds, mut began, mut before) = (LostBySecond::new(), None, BTreeMap::new());
    for line in said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let (Some(elapsed), Some(_)) = (line["elapsed_s"].as_f64(), line.get("interval")) else {
            continue;
        };
        let is_idle = line["delivered"].as_u64() == Some(0) && line["lost_total"] == 0;
        if is_idle && began.is_none() {
            continue;
        }
        // The packets arrived at some time within the interval.
        let began = *began.get_or_insert(elapsed - line["interval_s"].as_f64().unwrap_or(0.0));
        for (name, lost) in line["lost"].as_object().into_iter().flatten() {
            let lost = lost.as_u64().unwrap_or(0);
            let known = before.insert(name.clone(), lost).unwrap_or(0);
            if lost > known {
                let second = (elapsed - began).max(0.0) as usize;
                *seconds.entry(second).or_default().entry(name.clone()).or_default() +=
                    lost - known;
            }
        }
    }
    seconds
}

/// The same as a list, up to the last second with a loss.
fn each_second(lost: &LostBySecond) -> Vec<f64> {
    let last = lost.keys().next_back().map_or(0, |second| second + 1);
    let in_second = |second| lost.get(&second).map_or(0, |places| places.values().sum::<u64>());
    (0..last).map(|second| in_second(second) as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_fall_into_their_seconds_since_packets_came() {
        let line = |elapsed: f64, delivered: u64, full: u64| {
            format!(
                "{{\"interval\":1,\"elapsed_s\":{elapsed},\"interval_s\":0.5,\"delivered\":\
                 {delivered},\"lost\":{{\"full\":{full},\"drop\":0}},\"lost_total\":{full}}}\n"
            )
        };
        let said = line(7.0, 0, 0) + &line(7.5, 9, 3) + &line(7.9, 9, 5) + &line(9.1, 10, 5);
        let lost = lost_by_second(&(said + &line(9.5, 11, 9) + "{}"));
        assert_eq!(lost[&0], [("full".to_owned(), 5)].into());
        assert_eq!((lost.len(), each_second(&lost)), (2, vec![5.0, 0.0, 4.0]));
        assert!(each_second(&lost_by_second("")).is_empty());
    }

    #[test]
    fn a_report_gives_losses_and_stages() {
        let said = "{\"command\":\"count\",\"elapsed_s\":2.0,\"errors\":[],\"total\":{\
             \"offered\":10,\"delivered\":7,\"lost\":{\"drop\":3,\"full\":0},\"unaccounted\":0},\
             \"stages\":[{\"name\":\"rx\",\"busy_s\":0.5},{\"name\":\"worker-0\",\"busy_s\":0.25},\
             {\"name\":\"idle\",\"busy_s\":0.0},{\"name\":\"worker-1\",\"busy_s\":0.5}],\
             \"cpu\":{\"user_s\":0.25,\"system_s\":0.5}}";
        let own = Ours::XDP.own(said, 10).unwrap();
        assert_eq!((own.delivered, own.losses), (7, [("drop".to_owned(), 3)].into()));
        assert_eq!(own.busy, [("rx".to_owned(), 0.5), ("worker".to_owned(), 0.75)]);
        assert!(Ours::XDP.own(said, 11).unwrap_err().contains("saw 10 of 11"));
    }
}
