//! The kinds of work of a scenario.

use std::fmt;

use burstline_testbed::INJECTED_BYTES_MAX;
use burstline_wire::ethernet::FCS_BYTES;

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Receive packets from an interface and count them.
    Count,
    /// Read a part of each packet, in memory.
    Touch,
    /// Copy packets, in memory.
    Copy,
    /// Forward packets from one interface to another.
    Bounce,
    /// Spread packets over workers by flow.
    Balance,
    /// Pass packets through a pipeline of threads, in memory.
    Pipeline,
    /// The same with packets of an interface.
    PipelineLive,
    /// Merge packets of many ports into one queue by time, in memory.
    Merge,
    /// The same, live.
    MergeLive,
    /// Spread packets over workers by flow, in memory.
    Spread,
    /// Write packets to a file.
    Record,
    /// Forward packets between two interfaces, as a switch does.
    Switch,
    /// Forward packets between two interfaces, measuring latency.
    Latency,
    /// Send packets by an interface.
    Generate,
    /// Receive packets from an interface while sending by another one.
    Duplex,
    /// Be tested by RFC 2544: see [`rfc2544`](crate::rfc2544).
    Rfc2544,
    /// Receive or bounce packets of a device that creates and accepts packets.
    Null,
    /// Create packets, for a log or for a net_null device.
    Make,
    /// Calculate the load of the bus.
    Model,
    /// Forward packets between two simulated cards, both ways.
    Dma,
    /// Keep some of the packets of a simulated card.
    Keep,
    /// Search for contents in packets, in memory, behind a core that forwards them.
    Match,
}

impl Work {
    /// All kinds.
    pub const ALL: [Self; 22] = [
        Self::Count,
        Self::Touch,
        Self::Copy,
        Self::Bounce,
        Self::Balance,
        Self::Pipeline,
        Self::PipelineLive,
        Self::Merge,
        Self::MergeLive,
        Self::Spread,
        Self::Record,
        Self::Switch,
        Self::Latency,
        Self::Generate,
        Self::Duplex,
        Self::Rfc2544,
        Self::Null,
        Self::Make,
        Self::Model,
        Self::Dma,
        Self::Keep,
        Self::Match,
    ];

    /// Returns the word in scenario files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Touch => "touch",
            Self::Copy => "copy",
            Self::Bounce => "bounce",
            Self::Balance => "balance",
            Self::Pipeline => "pipeline",
            Self::PipelineLive => "pipeline-live",
            Self::Merge => "merge",
            Self::MergeLive => "merge-live",
            Self::Spread => "spread",
            Self::Record => "record",
            Self::Switch => "switch",
            Self::Latency => "latency",
            Self::Generate => "generate",
            Self::Duplex => "duplex",
            Self::Rfc2544 => "rfc2544",
            Self::Null => "null",
            Self::Make => "make",
            Self::Model => "model",
            Self::Dma => "dma",
            Self::Keep => "keep",
            Self::Match => "match",
        }
    }

    /// Returns the work with that word.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|work| work.name() == name)
    }

    /// Returns the words allowed in `cases` of a scenario. They select the interleaving of lines or
    /// flows; numbers of workers, of flows, of packets in memory and per hand-off. Or they select
    /// directions, frame lengths, the task of a program or a card, or the place of a file. Others
    /// give the packets of which one is kept, or the cores of a switch and a sensor.
    pub fn cases(self) -> &'static [&'static str] {
        match self {
            Self::Merge => &["uniform", "bursts", "idle", "one-core"],
            Self::Spread => &["1", "2", "4", "4-bursts", "4-idle"],
            Self::Touch => &["256", "4096", "65536"],
            Self::Pipeline => &["1", "4", "8", "16", "32", "64", "128", "256"],
            Self::Duplex => &["receive", "send", "both"],
            Self::Model => &["receive", "transmit", "forward"],
            Self::Dma => &["64", "128", "256", "512", "1024", "1518", "random:64-1518", "imix"],
            Self::Keep => &["1", "4", "16", "64", "256", "1024"],
            Self::Match => &["0+1", "1+1", "0+1-matches", "1+1-matches"],
            Self::Null => &["count", "bounce"],
            Self::Make => &["1", "256"],
            Self::Record => &["memory", "disk"],
            _ => &[],
        }
    }

    /// Returns the key of a case in the points of records.
    pub fn case_key(self) -> &'static str {
        match self {
            Self::Dma => "size",
            Self::Keep => "every",
            _ => "case",
        }
    }

    /// Returns whether it needs programs and, as a rule, interfaces in a network namespace.
    pub fn is_live(self) -> bool {
        use Work::{Copy, Dma, Keep, Match, Merge, Model, Pipeline, Spread, Touch};
        !matches!(self, Touch | Copy | Pipeline | Merge | Spread | Model | Dma | Keep | Match)
    }

    /// Returns why frames of a size are impossible, if so: text after "because".
    pub(crate) fn refuses(self, size_bytes: u32) -> Option<String> {
        let most = INJECTED_BYTES_MAX as u32 + FCS_BYTES;
        (self == Self::MergeLive && size_bytes > most).then(|| {
            format!(
                "an injected frame has to fit in one page of the kernel: {most} bytes at most, \
                 FCS included"
            )
        })
    }

    /// Returns whether the packet rate can be set. A contender that sends has its own rate, and RFC
    /// 2544 searches for one.
    pub fn takes_rates(self) -> bool {
        use Work::{Generate, Make, Null, Rfc2544};
        let has_its_own = matches!(self, Generate | Null | Make | Rfc2544);
        self.is_live() && !self.is_within() && !has_its_own
    }

    /// Returns whether contenders process an interface's packets within this process.
    pub fn is_within(self) -> bool {
        matches!(self, Self::MergeLive | Self::PipelineLive)
    }

    /// Returns whether packets leave by a second interface, where they are counted.
    pub fn comes_out(self) -> bool {
        matches!(self, Self::Bounce | Self::Switch | Self::Latency | Self::Rfc2544)
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
