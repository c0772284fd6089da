//! What a scenario has its contenders do.

use std::fmt;

use burstline_testbed::INJECTED_BYTES_MAX;
use burstline_wire::ethernet::FCS_BYTES;

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Take packets from an interface and count them.
    Count,
    /// Read a part of each packet, in memory.
    Touch,
    /// Copy packets, in memory.
    Copy,
    /// Out by another interface what comes in by one.
    Bounce,
    /// Spread packets over workers by flow.
    Balance,
    /// Pass packets through a chain of threads, in memory.
    Pipeline,
    /// The same of what comes in by an interface.
    PipelineLive,
    /// Many ports' packets into one queue, in order of time, in memory.
    Merge,
    /// The same, live.
    MergeLive,
    /// Spread packets over workers by flow, in memory.
    Spread,
    /// Write packets to a file.
    Record,
    /// Pass packets on between two interfaces, as a switch does.
    Switch,
    /// Pass packets on between two interfaces, timed.
    Latency,
    /// Send packets by an interface.
    Generate,
    /// Take packets from an interface while others are sent by another one.
    Duplex,
    /// Be tested as RFC 2544 has it: see [`rfc2544`](crate::rfc2544).
    Rfc2544,
    /// Receive, or bounce, over a device that makes packets and takes them.
    Null,
    /// Make packets, for a log or for a net_null device.
    Make,
    /// Work out what the bus carries.
    Model,
    /// Forward packets between two simulated cards, both ways.
    Dma,
    /// Keep some of the packets of a simulated card.
    Keep,
    /// Look for contents in packets, in memory, behind a core that passes them on.
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

    /// The word in scenario files.
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

    /// The work of that word.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|work| work.name() == name)
    }

    /// The words that `cases` of a scenario may have: how a merge's lines follow each other; how
    /// many workers packets are spread over, and how flows follow each other; how many packets are
    /// held in memory; how many are handed over at a time; which of both directions there are; what
    /// programs do; how many flows; what a card does with packets; lengths of frames; of how many
    /// packets one is kept; where a file is; cores of a switch and of a sensor.
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

    /// What a case is called in the points of records.
    pub fn case_key(self) -> &'static str {
        match self {
            Self::Dma => "size",
            Self::Keep => "every",
            _ => "case",
        }
    }

    /// Whether it takes programs, and as a rule interfaces in a network namespace.
    pub fn is_live(self) -> bool {
        use Work::{Copy, Dma, Keep, Match, Merge, Model, Pipeline, Spread, Touch};
        !matches!(self, Touch | Copy | Pipeline | Merge | Spread | Model | Dma | Keep | Match)
    }

    /// Why frames of a size cannot come in: what follows "because".
    pub(crate) fn refuses(self, size_bytes: u32) -> Option<String> {
        let most = INJECTED_BYTES_MAX as u32 + FCS_BYTES;
        (self == Self::MergeLive && size_bytes > most).then(|| {
            format!(
                "the kernel has a page for each frame that is injected: {most} bytes at most, \
                 FCS included"
            )
        })
    }

    /// Whether packets can be made to come at a rate: a contender that sends has its own, and
    /// RFC 2544 looks for one.
    pub fn takes_rates(self) -> bool {
        use Work::{Generate, Make, Null, Rfc2544};
        let has_its_own = matches!(self, Generate | Null | Make | Rfc2544);
        self.is_live() && !self.is_within() && !has_its_own
    }

    /// Whether contenders take what comes in by interfaces within this process.
    pub fn is_within(self) -> bool {
        matches!(self, Self::MergeLive | Self::PipelineLive)
    }

    /// Whether packets come out by a second interface, where they are counted.
    pub fn comes_out(self) -> bool {
        matches!(self, Self::Bounce | Self::Switch | Self::Latency | Self::Rfc2544)
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
