//! Opened ports and mirror targets that are not yet part of a switch, and the outlets they become.

use burstline_port::{
    Address, OpenOptions, PortAccount, PortError, Sink, Source, open_duplex, open_prompt_sink,
};
use burstline_switch::PortConfig;
use burstline_wire::hash::HashKind;

use super::settings::SwitchPort;
use crate::EngineError;
use crate::bounce::given::Given;
use crate::inline::{Answers, Checkpoint, Inline, InlineOptions, InlineWay, checkpoints};

/// An opened port.
pub struct OpenedPort {
    pub(super) name: String,
    pub(super) config: PortConfig,
    pub(super) mirror: Option<String>,
    pub(super) sources: Vec<Box<dyn Source>>,
    pub(super) sink: Box<dyn Sink>,
    /// The checkpoint of an inline port.
    pub(super) checkpoint: Option<Checkpoint>,
}

/// The ports of a switch whose packets wait for verdicts before they are switched.
pub struct InlinePorts {
    /// The name of the logs, and the deadline of verdicts.
    pub options: InlineOptions,
    /// The ports' names. If empty, all ports that the switch begins with.
    pub names: Vec<String>,
}

/// An opened mirror target that is not a port.
pub struct OpenedTarget {
    pub(super) name: String,
    pub(super) sink: Box<dyn Sink>,
}

/// The sink of a port or of a mirror target.
pub(super) struct Outlet {
    pub(super) sink: Box<dyn Sink>,
    pub(super) given: Given,
    /// Whether packets were sent since the last flush.
    pub(super) is_fresh: bool,
}

impl OpenedPort {
    /// Opens a port.
    ///
    /// # Errors
    /// If the address is invalid, or the kernel or a driver refuses it.
    pub fn open(port: &SwitchPort, options: &OpenOptions) -> Result<Self, PortError> {
        let options = OpenOptions { forwards: true, may_share_times: true, ..options.clone() };
        let duplex = open_duplex(&port.address, &options)?;
        Ok(Self {
            name: port.name()?,
            config: port.config.clone(),
            mirror: port.mirror.clone(),
            sources: duplex.sources,
            sink: duplex.sink,
            checkpoint: None,
        })
    }

    /// Opens some ports. Packets received on the ports of `inline` wait for verdicts: worker K has
    /// a log of each such port.
    ///
    /// # Errors
    /// As for [`open`](Self::open), and if the logs cannot be published.
    pub fn open_all(
        ports: &[SwitchPort],
        options: &OpenOptions,
        inline: Option<&InlinePorts>,
    ) -> Result<(Vec<Self>, Option<Inline>), EngineError> {
        let mut options = options.clone();
        if inline.is_some() {
            options.hash = HashKind::FiveTuple;
        }
        let open = |port| Self::open(port, &options);
        let mut opened: Vec<_> = ports.iter().map(open).collect::<Result<_, _>>()?;
        let Some(InlinePorts { options: inline, names }) = inline else {
            return Ok((opened, None));
        };
        let is_meant = |port: &&mut Self| names.is_empty() || names.contains(&port.name);
        let mut meant: Vec<_> = opened.iter_mut().filter(is_meant).collect();
        let way = |port: &&mut Self| InlineWay {
            clock_kind: port.sources.first().map_or(0, |first| first.info().timestamps.code()),
            answers: Answers::by_the_port(),
        };
        let ways = meant.iter().map(way).collect();
        let (checkpoints, inline) = checkpoints(ways, &options.table, inline)?;
        for (port, checkpoint) in meant.iter_mut().zip(checkpoints) {
            port.checkpoint = Some(checkpoint);
        }
        Ok((opened, Some(inline)))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the accounts of its sources and its sink.
    pub fn accounts(&self) -> impl Iterator<Item = PortAccount> + '_ {
        let sources = self.sources.iter().map(|source| source.account());
        sources.chain([self.sink.account()])
    }
}

impl OpenedTarget {
    /// Opens a sink for mirrors. Like a port's sink, it does not wait for room. `name` is its
    /// address, as written in mirrors.
    ///
    /// # Errors
    /// If the address is invalid, or the kernel refuses it.
    pub fn open(name: &str, options: &OpenOptions) -> Result<Self, PortError> {
        let address: Address = name.parse()?;
        Ok(Self { name: name.to_owned(), sink: open_prompt_sink(&address, options)? })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Outlet {
    pub(super) fn new(sink: Box<dyn Sink>) -> Self {
        Self { sink, given: Given::default(), is_fresh: false }
    }
}

#[cfg(test)]
mod tests;
