//! Verifies generated packets: losses, duplicates, reordering, damage, and latency.
//!
//! ```text
//!  packet --mark--> stream --> its flow: next expected, and which of the newest arrived
//!           |- check: intact or corrupted                  | missing, duplicate, reordered
//!           '- time: latency --> histogram
//! ```
//!
//! A packet is identified only by its [mark](burstline_wire::mark). A corrupted packet proves only
//! that it arrived. Its number counts as missing from its flow; lost = missing - corrupted. A
//! packet whose only damage is in the magic is recognised by its check. Losses after the last
//! packet that arrived cannot be seen here; they need the number of packets sent.
//!
//! Invariants:
//! - V1: intact = unique + duplicates + too late; packets = intact + corrupted + unmarked + cut +
//!   beyond.
//! - V2: for each flow, numbers up to the highest that arrived = unique + missing. The exception is
//!   a packet more than [`WINDOW`] behind the highest, which cannot be told from a duplicate.

mod flow;
mod log;
mod report;

use std::collections::HashMap;

use burstline_log::{Burst, Packet};
use burstline_wire::checksum;
use burstline_wire::headers::{LinkType, parse};
use burstline_wire::mark::{self, Mark, Stream};
use hdrhistogram::Histogram;

use flow::Flow;
pub(crate) use flow::{histogram, record, record_many};

pub use flow::WINDOW;
pub use report::{FlowVerdict, Latency, Verdict};

/// Significant decimal digits of latencies.
const DIGITS: u8 = 3;

/// The most flows in the table, so that arbitrary marks cannot exhaust the memory: a flow takes
/// some 700 bytes.
pub const FLOWS_MAX: usize = 1 << 20;

/// The number of flows with separate latencies; the first to arrive. A histogram takes 184 KiB, so
/// all take 46 MiB.
const FLOWS_TIMED: usize = 256;

/// The criterion for an intact packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Integrity {
    /// Every byte is as it was generated.
    #[default]
    Frame,
    /// The checksums of IPv4, TCP and UDP hold. For packets that passed a device which rewrites
    /// headers: a router, a VLAN switch.
    Checksums,
}

/// Verifies packets, and keeps the counts.
#[derive(Debug)]
pub struct Verifier {
    integrity: Integrity,
    numbers: HashMap<Stream, usize>,
    flows: Vec<Flow>,
    flows_max: usize,
    /// The flow of the last packet.
    newest: Option<(Stream, usize)>,
    packets: u64,
    corrupted: u64,
    unmarked: u64,
    cut: u64,
    beyond: u64,
    clock_behind: u64,
    latency: Histogram<u64>,
}

impl Verifier {
    /// Creates a verifier that has seen no packet.
    #[must_use]
    pub fn new(integrity: Integrity) -> Self {
        Self {
            integrity,
            numbers: HashMap::new(),
            flows: Vec::new(),
            flows_max: FLOWS_MAX,
            newest: None,
            packets: 0,
            corrupted: 0,
            unmarked: 0,
            cut: 0,
            beyond: 0,
            clock_behind: 0,
            latency: histogram(),
        }
    }

    /// Limits the table to the first `flows` flows, in place of [`FLOWS_MAX`].
    #[must_use]
    pub fn flows_at_most(self, flows: usize) -> Self {
        Self { flows_max: flows, ..self }
    }

    /// Verifies the packets of a burst, in order. Packets of one flow must be passed in the order
    /// in which they arrived.
    ///
    /// Cost: a pass over each packet's bytes, a table lookup if flows alternate, some allocations
    /// for a new flow.
    pub fn see(&mut self, burst: &Burst<'_>) {
        for packet in burst.packets() {
            self.see_packet(&packet);
        }
    }

    fn see_packet(&mut self, packet: &Packet<'_>) {
        self.packets += 1;
        if packet.length() < packet.original_length() {
            self.cut += 1;
            return;
        }
        let bytes = packet.bytes();
        let Some(mark) = mark::find(bytes) else {
            // A packet of a known flow with a damaged magic; else a chance match, 1 in 65,536.
            match mark::find_damaged(bytes).and_then(|mark| self.number(mark.stream)) {
                Some(flow) => self.corrupt(Some(flow)),
                None => self.unmarked += 1,
            }
            return;
        };
        let is_intact = match self.integrity {
            Integrity::Frame => mark::is_intact(bytes),
            Integrity::Checksums => {
                checksum::holds(&parse(LinkType::ETHERNET, bytes), bytes) == Some(true)
            }
        };
        if !is_intact {
            let flow = self.number(mark.stream);
            return self.corrupt(flow);
        }
        let Some(number) = self.number(mark.stream).or_else(|| self.add(mark.stream)) else {
            self.beyond += 1;
            return;
        };
        self.newest = Some((mark.stream, number));
        if self.flows[number].see(mark.sequence) {
            self.time(number, &mark, packet.time_ns());
        }
    }

    /// Records the latency of a packet's first arrival.
    fn time(&mut self, flow: usize, mark: &Mark, time_ns: u64) {
        match u64::try_from(mark.age_ns(time_ns)) {
            Ok(age_ns) => {
                record(&mut self.latency, age_ns);
                self.flows[flow].time(age_ns);
            }
            Err(_) => self.clock_behind += 1,
        }
    }

    /// Counts a corrupted packet, which seems to belong to `flow`.
    fn corrupt(&mut self, flow: Option<usize>) {
        self.corrupted += 1;
        if let Some(flow) = flow {
            self.flows[flow].corrupted += 1;
        }
    }

    fn number(&self, stream: Stream) -> Option<usize> {
        match self.newest {
            Some((newest, number)) if newest == stream => Some(number),
            _ => self.numbers.get(&stream).copied(),
        }
    }

    /// Adds a new flow, if the table has room.
    fn add(&mut self, stream: Stream) -> Option<usize> {
        let number = Some(self.flows.len()).filter(|&number| number < self.flows_max)?;
        self.numbers.insert(stream, number);
        self.flows.push(Flow::new(stream, number < FLOWS_TIMED));
        Some(number)
    }
}
