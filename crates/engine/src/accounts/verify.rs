//! What became of generated packets: lost, doubled, overtaken, damaged, and how long they took.
//!
//! ```text
//!  packet --mark--> stream --> its flow: next expected, and which of the newest have come
//!           |- check: intact or corrupted                  | missing, duplicate, reordered
//!           '- time: latency --> histogram
//! ```
//!
//! A packet is known by its [mark](burstline_wire::mark) alone. A corrupted packet is believed only
//! to have arrived. Its number counts as missing from its flow; lost is what is missing minus what
//! came corrupted. A packet whose magic is damaged and nothing else is known by its check. What was
//! lost behind the last packet that came cannot be seen here: for that one has to know how many
//! were sent.
//!
//! Invariants:
//! - V1: intact = unique + duplicates + too late; packets = intact + corrupted + unmarked + cut +
//!   beyond.
//! - V2: for each flow, numbers up to the highest that came = unique + missing. The exception is a
//!   packet more than [`WINDOW`] behind the highest: it is too late to tell from a duplicate.

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

/// Flows that have a place, so that a sender of arbitrary marks cannot take all memory: a flow
/// takes some 700 bytes.
pub const FLOWS_MAX: usize = 1 << 20;

/// Flows whose latencies are kept apart, of those that came first: a histogram is 184 KiB, so that
/// all take 46 MiB.
const FLOWS_TIMED: usize = 256;

/// What makes a packet intact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Integrity {
    /// Every byte is as it was made.
    #[default]
    Frame,
    /// Its own checksums hold: of IPv4, TCP and UDP. For what came through something that rewrites
    /// headers: a router, a switch of VLANs.
    Checksums,
}

/// Looks at packets, and keeps book of them.
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
    /// One that has seen nothing yet.
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

    /// Keeps book of the first `flows` flows only, in place of [`FLOWS_MAX`].
    #[must_use]
    pub fn flows_at_most(self, flows: usize) -> Self {
        Self { flows_max: flows, ..self }
    }

    /// Looks at the packets of a burst, in order. Packets of one flow have to come here in the
    /// order in which they arrived.
    ///
    /// Cost: a pass over each packet's bytes, a look into a table where flows take turns, some
    /// allocations for a new flow.
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
            // One of ours with a damaged magic, if its flow is known; else a chance in 65,536.
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

    /// Keeps the latency of a packet that came for the first time.
    fn time(&mut self, flow: usize, mark: &Mark, time_ns: u64) {
        match u64::try_from(mark.age_ns(time_ns)) {
            Ok(age_ns) => {
                record(&mut self.latency, age_ns);
                self.flows[flow].time(age_ns);
            }
            Err(_) => self.clock_behind += 1,
        }
    }

    /// Counts a corrupted packet, which seems to be of `flow`.
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

    /// A place for a new flow, if there is one.
    fn add(&mut self, stream: Stream) -> Option<usize> {
        let number = Some(self.flows.len()).filter(|&number| number < self.flows_max)?;
        self.numbers.insert(stream, number);
        self.flows.push(Flow::new(stream, number < FLOWS_TIMED));
        Some(number)
    }
}
