//! This program, as a process like any other contender.

use burstline_testbed::Receiver;
use serde_json::Value;

use super::Job;
use super::live::{FILE, Live, Own};
use crate::live;
use crate::scenario::Work;

/// The byte of a packet, counted from 1, that chooses the worker. Source: H. Wang, D. He, H. Wang,
/// "Comparison of High-Performance Packet Processing Frameworks on NUMA", section IV.
pub(super) const KEY_BYTE: u32 = 30;

/// `burstline` with one kind of port.
pub(super) struct Ours {
    name: &'static str,
    scheme: &'static str,
    receiver: Receiver,
    works: &'static [Work],
    flags: &'static str,
}

impl Ours {
    /// By AF_XDP.
    pub(super) const XDP: Self = Self {
        name: "burstline-xdp",
        scheme: "xdp",
        receiver: Receiver::Program,
        works: &[
            Work::Count,
            Work::Bounce,
            Work::Balance,
            Work::Record,
            Work::Switch,
            Work::Latency,
            Work::Generate,
            Work::Duplex,
        ],
        flags: "",
    };
    /// By a packet socket with a ring.
    pub(super) const AFPACKET: Self = Self {
        name: "burstline-afpacket",
        scheme: "afpacket",
        receiver: Receiver::Stack,
        works: &[Work::Count, Work::Balance, Work::Record, Work::Generate, Work::Duplex],
        flags: "",
    };
    /// By AF_XDP, workers sharing one log.
    pub(super) const XDP_SHARE: Self = Self {
        name: "burstline-xdp-share",
        scheme: "xdp",
        receiver: Receiver::Program,
        works: &[Work::Balance],
        flags: " --mode share",
    };
    /// By AF_XDP, reading each packet's headers before it goes out again.
    pub(super) const XDP_HEADERS: Self = Self {
        name: "burstline-xdp-headers",
        scheme: "xdp",
        receiver: Receiver::Program,
        works: &[Work::Bounce],
        flags: " --touch headers",
    };
    /// By AF_XDP, reading all of each packet.
    pub(super) const XDP_PAYLOAD: Self = Self {
        name: "burstline-xdp-payload",
        scheme: "xdp",
        receiver: Receiver::Program,
        works: &[Work::Bounce],
        flags: " --touch payload",
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

    fn receiver(&self, _: Work) -> Receiver {
        self.receiver
    }

    fn command(&self, job: &Job<'_>) -> String {
        let (program, scheme, flags) = (job.program_word(), self.scheme, self.flags);
        let cores = job.core_list();
        let core = cores.split(',').next().unwrap_or_default();
        let report = "--json --stats 100ms";
        match job.work {
            Work::Bounce | Work::Switch | Work::Latency => {
                let ports = format!("{scheme}:v1 {scheme}:w1");
                format!(
                    "{program} bounce {ports} --both --poll busy{flags} --cores {core} {report}"
                )
            }
            Work::Balance => {
                // With a core for each thread they are pinned; otherwise they share what there is.
                let has_all = job.places.contender.len() == 1 + job.workers;
                let pinned = if has_all { format!(" --cores {cores}") } else { String::new() };
                let workers = job.workers;
                format!(
                    "{program} balance {scheme}:v1 --workers {workers} --hash byte:{KEY_BYTE}\
                     {flags}{pinned} {report}"
                )
            }
            Work::Record => format!("{program} capture {scheme}:v1 {report} -w {FILE}"),
            Work::Generate => {
                let (size, by) = (job.size_bytes, job.sends_by);
                format!("{program} generate -o {scheme}:{by} --size {size} --cores {core} {report}")
            }
            _ => {
                let sources: Vec<String> = live::interfaces(job.ports)
                    .iter()
                    .map(|interface| format!("{scheme}:{interface}"))
                    .collect();
                // Each source has a thread. Those that share a core would poll it away from each
                // other.
                let has_all = job.places.contender.len() >= job.ports;
                let pinned =
                    if has_all { format!(" --poll busy --cores {cores}") } else { String::new() };
                format!("{program} count {}{pinned} {report}", sources.join(" "))
            }
        }
    }

    fn ready(&self) -> &'static str {
        "interval"
    }

    fn own(&self, said: &str, offered: u64) -> Result<Own, String> {
        let last = said.lines().next_back().unwrap_or_default();
        let report: Value = serde_json::from_str(last).map_err(|_| format!("no report: {said}"))?;
        if offered == 0 {
            return Ok(Own { busy: busy(&report), ..Own::default() });
        }
        // What was bounced is counted where it comes out.
        let is_bounce = report["command"] == "bounce";
        let delivered = if is_bounce { 0 } else { live::Ours::parse(said, offered)?.delivered };
        let losses = report["total"]["lost"].as_object().into_iter().flatten();
        let losses = losses.filter_map(|(name, packets)| Some((name.clone(), packets.as_u64()?)));
        Ok(Own {
            delivered,
            losses: losses.filter(|&(_, packets)| packets > 0).collect(),
            busy: busy(&report),
            lost_each_second: lost_each_second(said),
            ..Own::default()
        })
    }
}

/// The stages of a report, by the wall time of polls that found packets. Threads that do the same
/// are one stage: `worker-0` and `worker-1` are `worker`.
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

/// By the lines of intervals: packets lost until the end of each second, less those before.
fn lost_each_second(said: &str) -> Vec<f64> {
    let (mut seconds, mut before) = (Vec::new(), 0.0);
    let intervals = said.lines().filter_map(|line| {
        let line: Value = serde_json::from_str(line).ok()?;
        line.get("interval")?;
        Some((line["elapsed_s"].as_f64()?, line["lost_total"].as_f64()?))
    });
    for (elapsed, lost) in intervals {
        let second = elapsed.floor() as usize;
        if seconds.len() <= second {
            seconds.resize(second + 1, 0.0);
        }
        seconds[second] += lost - before;
        before = lost;
    }
    seconds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_fall_into_their_seconds() {
        let line = |number: u64, elapsed: f64, lost: u64| {
            format!("{{\"interval\":{number},\"elapsed_s\":{elapsed},\"lost_total\":{lost}}}\n")
        };
        let said = line(1, 0.5, 3) + &line(2, 0.9, 5) + &line(3, 2.1, 5) + &line(4, 2.5, 9) + "{}";
        assert_eq!(lost_each_second(&said), [5.0, 0.0, 4.0]);
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
