//! The live step: a packet port on one cable, an XDP port on the other, and [`hosts`](super::hosts)
//! that send over both.
//!
//! The ports are opened in the far host's namespace before this process gives up its rights. The
//! hosts send afterwards.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use burstline_engine::{Inlet, Report};
use burstline_port::{Filter, OpenOptions, Probe, ProbeOptions, probe_ports};
use burstline_sys::namespace;
use serde_json::Value;

use super::hosts::{CABLES, DATAGRAMS, FAR_TAKEN};
use crate::failure::Failure;
use crate::job::apart;
use crate::paths::own_program;

/// The addresses of the ports.
pub(super) const COPIED: &str = "afpacket:v1";
pub(super) const TAKEN: &str = "xdp:w1";

/// Output of `tcpdump -y EN10MB -ddd 'ip and udp'`, so that libpcap is not needed.
const ONLY_UDP: &str = "6\n40 0 0 12\n21 0 3 2048\n48 0 0 23\n21 0 1 17\n6 0 0 262144\n6 0 0 0\n";

/// The hosts, and the ports on the far one's cables.
pub(super) struct Live {
    hosts: Hosts,
    /// They are opened, and not yet taken for a capture.
    pub(super) ports: Vec<Inlet>,
    /// Why there is no XDP port, and what to do about it.
    pub(super) without_xdp: Option<String>,
}

/// The process of the hosts, which ends at the end of its input.
struct Hosts {
    _process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// What a report says of the ports, and the kernel's counts.
pub(super) struct Verdict {
    /// Packets that each cable carried, by the kernel's counters.
    pub(super) carried: Vec<u64>,
    /// Datagrams that the far host's program received over each cable.
    pub(super) datagrams: Vec<u64>,
}

impl Live {
    /// Starts the hosts, and opens the ports. The error is the reason why there are none.
    pub(super) fn new(options: &OpenOptions) -> Result<Self, Failure> {
        let mut hosts = Hosts::start().map_err(not_reached)?;
        let connected = hosts.answer()?;
        let thread = connected["thread"].as_u64().unwrap_or_default() as u32;
        let open = || -> Result<_, Failure> {
            namespace::enter_network_of(thread).map_err(not_reached)?;
            let without_xdp = why_no_xdp();
            Ok((open(without_xdp.is_none(), options)?, without_xdp))
        };
        let (ports, without_xdp) = apart("open", open)??;
        Ok(Self { hosts, ports, without_xdp })
    }

    /// Has the hosts send over all cables with a port. Returns when everything has arrived.
    pub(super) fn send(&mut self) -> Result<Verdict, Failure> {
        let cables = if self.without_xdp.is_some() { 1 } else { CABLES };
        writeln!(self.hosts.input, "{cables}").map_err(not_reached)?;
        let counts = self.hosts.answer()?;
        let numbers = |key: &str| -> Vec<u64> {
            counts[key].as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
        };
        Ok(Verdict { carried: numbers("carried"), datagrams: numbers("datagrams") })
    }
}

impl Hosts {
    fn start() -> io::Result<Self> {
        let mut process = Command::new(own_program())
            .args(["demo", "--network"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Keys pressed at a terminal are for the demonstration, which ends them.
            .process_group(0)
            .spawn()?;
        let ends = process.stdin.take().zip(process.stdout.take());
        let (input, output) = ends.ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self { _process: process, input, output: BufReader::new(output) })
    }

    /// Waits for an answer.
    fn answer(&mut self) -> Result<Value, Failure> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(not_reached)?;
        let answer: Value = serde_json::from_str(&line)
            .map_err(|_| Failure::new("the process of the hosts has ended"))?;
        match answer["why_not"].as_str() {
            Some(reason) => Err(Failure::new(reason)),
            None => Ok(answer),
        }
    }
}

impl Verdict {
    /// Returns whether a report agrees with the kernel's counts.
    pub(super) fn agrees_with(&self, report: &Report) -> bool {
        let (copied, taken) = report.ports.split_at(1);
        let offered = [copied, taken].map(|rows| rows.iter().map(|row| row.offered).sum::<u64>());
        // The XDP port takes datagrams away; the packet port copies them.
        let is_apart = self.datagrams.first() == Some(&(DATAGRAMS as u64))
            && self.datagrams.get(1).is_none_or(|&datagrams| datagrams == 0);
        offered[..self.carried.len()] == self.carried[..] && is_apart
    }
}

fn not_reached(error: io::Error) -> Failure {
    Failure::new(format!("the process of the hosts: {error}"))
}

fn why_no_xdp() -> Option<String> {
    let probes = probe_ports(&[FAR_TAKEN.to_owned()], &ProbeOptions::default());
    let refused = probes.iter().find(|probe| probe.port == TAKEN && !probe.can_open);
    let words = |probe: &Probe| {
        let why = probe.why_not.as_deref().unwrap_or("it does not open");
        let mend = probe.mend.as_deref().unwrap_or("burstline doctor ports");
        format!("Without xdp: {why}; {mend}")
    };
    refused.map(words)
}

/// Opens the ports; the calling thread is on the far host.
fn open(has_xdp: bool, options: &OpenOptions) -> Result<Vec<Inlet>, Failure> {
    let only = ONLY_UDP.parse::<Filter>().map_err(|error| Failure::new(error.to_string()))?;
    let options = OpenOptions { only, ..options.clone() };
    let mut ports = Vec::new();
    for address in [COPIED, TAKEN].into_iter().take(if has_xdp { 2 } else { 1 }) {
        ports.extend(Inlet::open_all(&address.parse()?, &options)?);
    }
    Ok(ports)
}
