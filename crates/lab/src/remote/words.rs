//! What the two sides say to each other: a JSON object a line.

use std::collections::BTreeMap;
use std::time::Duration;

use burstline_engine::Latency;
use serde::{Deserialize, Serialize};

use super::Order;
use super::clocks::Now;
use crate::record::{Interface, Machine};
use crate::rfc2544::Trial;

/// Both sides have to have the same: another form of these words has another number.
pub(super) const PROTOCOL: u32 = 1;

/// Bytes of the longest line: a histogram of 2,000 buckets has some 50,000.
pub(super) const LINE_BYTES_MOST: u64 = 1 << 20;

/// How often the side that waits, or works, says that it is there.
pub(super) const ALIVE_EVERY: Duration = Duration::from_millis(500);

/// From here to there.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// Reads the clocks.
    Clocks,
    /// Reads the kernel's counts of the ports.
    Counts,
    /// Sends.
    Send(Load),
    /// Sends, and times what comes back.
    Time(Load),
    /// Says nothing, but that somebody is there.
    Alive,
    /// Ends what is being sent.
    Stop,
}

/// From there to here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    /// The first line.
    Hello(Box<Hello>),
    Clocks(Now),
    Counts(Counts),
    /// It is still at work.
    Working,
    Sent(Sent),
    Timed(Box<Timed>),
    /// It could not: why.
    Failed(String),
}

/// Who is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) protocol: u32,
    pub(super) version: String,
    pub(super) commit: Option<String>,
    pub(super) machine: Machine,
    /// Where frames are made.
    pub(super) core: u32,
    pub(super) interfaces: Vec<Interface>,
}

/// What is to be sent: [`Order`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Load {
    pub(super) size_bytes: u32,
    pub(super) rate_pps: Option<f64>,
    pub(super) packets: Option<u64>,
    pub(super) time_ns: u64,
}

impl Load {
    pub(super) fn of(order: Order) -> Self {
        let Order { size_bytes, rate_pps, packets, time } = order;
        Self { size_bytes, rate_pps, packets, time_ns: time.as_nanos() as u64 }
    }

    pub(super) fn time(self) -> Duration {
        Duration::from_nanos(self.time_ns)
    }
}

/// What the kernel has counted on the generator's interfaces, packets each, since they are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Sent by `port`.
    pub sent: u64,
    /// Given to `port`, and dropped there.
    pub sent_dropped: u64,
    /// Received by `back`; 0 where there is none.
    pub received: u64,
}

impl Counts {
    /// Since an earlier look.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            sent: self.sent.saturating_sub(earlier.sent),
            sent_dropped: self.sent_dropped.saturating_sub(earlier.sent_dropped),
            received: self.received.saturating_sub(earlier.received),
        }
    }
}

/// What was sent: made = sent + lost, by the generator's own ledger.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// Frames that were made.
    pub made: u64,
    /// Those that the port took.
    pub sent: u64,
    /// The others, by name.
    pub lost: BTreeMap<String, u64>,
    /// Made a second, from the first to the last.
    pub made_pps: f64,
}

impl Sent {
    /// How long it took, in s.
    pub fn seconds(&self) -> f64 {
        if self.made_pps > 0.0 { self.made as f64 / self.made_pps } else { 0.0 }
    }
}

/// What came back, by the other machine's clock alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timed {
    /// Counts.
    pub trial: Trial,
    /// How long packets took, of those that came: the least of as many per cent.
    pub percentiles_ns: Vec<(f64, u64)>,
    /// The longest.
    pub most_ns: u64,
    /// As [`Latency::buckets`].
    pub buckets_ns: Vec<(u64, u64)>,
}

impl Timed {
    pub(super) fn of(trial: Trial) -> Self {
        let Latency { percentiles, most_ns, buckets, .. } = trial.latency.clone();
        Self { trial, percentiles_ns: percentiles, most_ns, buckets_ns: buckets }
    }

    /// The trial with its times.
    pub(crate) fn trial(self) -> Trial {
        let Self { trial, percentiles_ns, most_ns, buckets_ns } = self;
        let latency = Latency {
            packets: buckets_ns.iter().map(|&(_, packets)| packets).sum(),
            percentiles: percentiles_ns,
            most_ns,
            buckets: buckets_ns,
            ..Latency::default()
        };
        Trial { latency, ..trial }
    }
}
