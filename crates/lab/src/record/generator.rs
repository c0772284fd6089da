//! The generator of a run, where it was on another machine.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Machine;

/// A generator on another machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// As it was named.
    pub host: String,
    /// Its burstline's.
    pub version: String,
    /// Of its sources, where that is known.
    pub commit: Option<String>,
    /// Where it ran.
    pub machine: Machine,
    /// The core that made frames.
    pub core: u32,
    /// Where it sent.
    pub port: String,
    /// Where it received what came out, if anything did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<String>,
    /// How far its clocks and those of [`Record::machine`](super::Record::machine) were apart.
    pub clocks: Vec<Clock>,
}

/// How far two machines' clocks were apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// `realtime`, which stamps packets, or `monotonic`, which measures spans.
    pub clock: String,
    /// `before` or `after` the run.
    pub at: String,
    /// The generator's less this machine's, in ns.
    pub offset_ns: i64,
    /// The true offset was at most this far from that, in ns.
    pub uncertainty_ns: u64,
    /// Readings of which the best one is this.
    pub exchanges: usize,
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { clock, at, offset_ns, uncertainty_ns, .. } = self;
        write!(f, "{clock} {at} {offset_ns:+} ns, at most {uncertainty_ns} ns off")
    }
}
