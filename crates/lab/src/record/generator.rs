//! The generator of a run, if it was on another machine.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Machine;

/// A generator on another machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// The host as the user named it.
    pub host: String,
    /// Version of its burstline.
    pub version: String,
    /// Commit of its sources, if known.
    pub commit: Option<String>,
    /// The machine it ran on.
    pub machine: Machine,
    /// The core that generated frames.
    pub core: u32,
    /// The interface that sent frames.
    pub port: String,
    /// The interface that received forwarded frames, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<String>,
    /// Offsets between its clocks and those of [`Record::machine`](super::Record::machine).
    pub clocks: Vec<Clock>,
}

/// The offset between two machines' clocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// `realtime`, which timestamps packets, or `monotonic`, which measures intervals.
    pub clock: String,
    /// `before` or `after` the run.
    pub at: String,
    /// The generator's clock less this machine's, in ns.
    pub offset_ns: i64,
    /// Maximum error of the offset, in ns.
    pub uncertainty_ns: u64,
    /// Number of readings, of which this is the best.
    pub exchanges: usize,
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { clock, at, offset_ns, uncertainty_ns, .. } = self;
        write!(f, "{clock} {at} {offset_ns:+} ns, at most {uncertainty_ns} ns off")
    }
}
