//! The protocol between the two sides: one JSON object per line.

use std::collections::BTreeMap;
use std::time::Duration;

use burstline_engine::Latency;
use serde::{Deserialize, Serialize};

use super::Order;
use super::clocks::Now;
use crate::record::{Interface, Machine};
use crate::rfc2544::Trial;

/// Protocol version, which must be the same on both sides. A change of the format increments it.
pub(super) const PROTOCOL: u32 = 1;

/// Maximum length of a line in bytes: a histogram of 2,000 buckets has some 50,000.
pub(super) const LINE_BYTES_MOST: u64 = 1 << 20;

/// Interval of the keep-alive lines of a side that waits or works.
pub(super) const ALIVE_EVERY: Duration = Duration::from_millis(500);

/// A request to the generator.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// Reads the clocks.
    Clocks,
    /// Reads the kernel's counts of the ports.
    Counts,
    /// Sends frames.
    Send(Load),
    /// Sends frames and times those that return.
    Time(Load),
    /// Keep-alive without a reply.
    Alive,
    /// Stops the running job.
    Stop,
}

/// A reply of the generator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    /// The first line.
    Hello(Box<Hello>),
    Clocks(Now),
    Counts(Counts),
    /// The job is still running.
    Working,
    Sent(Sent),
    Timed(Box<Timed>),
    /// The request failed, for this reason.
    Failed(String),
}

/// The identification of the generator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) protocol: u32,
    pub(super) version: String,
    pub(super) commit: Option<String>,
    pub(super) machine: Machine,
    /// The core that generates frames.
    pub(super) core: u32,
    pub(super) interfaces: Vec<Interface>,
}

/// A sending job: [`Order`].
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

/// The kernel's packet counts of the generator's interfaces, since their creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Packets sent by `port`.
    pub sent: u64,
    /// Packets given to `port` and dropped there.
    pub sent_dropped: u64,
    /// Packets received by `back`; 0 without it.
    pub received: u64,
}

impl Counts {
    /// Returns the difference to an earlier reading.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            sent: self.sent.saturating_sub(earlier.sent),
            sent_dropped: self.sent_dropped.saturating_sub(earlier.sent_dropped),
            received: self.received.saturating_sub(earlier.received),
        }
    }
}

/// The result of sending: made = sent + lost, by the generator's own ledger.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// Frames generated.
    pub made: u64,
    /// Frames that the port accepted.
    pub sent: u64,
    /// Lost frames, by name.
    pub lost: BTreeMap<String, u64>,
    /// Frames generated per second, from the first to the last.
    pub made_pps: f64,
}

/// The result of timing, by the other machine's clock alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timed {
    /// Counts.
    pub trial: Trial,
    /// Latency percentiles of the received packets, in ns.
    pub percentiles_ns: Vec<(f64, u64)>,
    /// The maximum latency in ns.
    pub most_ns: u64,
    /// As [`Latency::buckets`].
    pub buckets_ns: Vec<(u64, u64)>,
}

impl Timed {
    pub(super) fn of(trial: Trial) -> Self {
        let Latency { percentiles, most_ns, buckets, .. } = trial.latency.clone();
        Self { trial, percentiles_ns: percentiles, most_ns, buckets_ns: buckets }
    }

    /// Returns the trial with its latencies.
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
