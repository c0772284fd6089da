//! Ports that are open, before they are part of a switch, and the ends that they become.

use burstline_port::{
    Address, OpenOptions, PortAccount, PortError, Sink, Source, open_duplex, open_prompt_sink,
};
use burstline_switch::PortConfig;
use burstline_wire::hash::HashKind;

use super::settings::SwitchPort;
use crate::EngineError;
use crate::bounce::given::Given;
use crate::inline::{Answers, Checkpoint, Inline, InlineOptions, InlineWay, checkpoints};

/// A port that is open.
pub struct OpenedPort {
    pub(super) name: String,
    pub(super) config: PortConfig,
    pub(super) mirror: Option<String>,
    pub(super) sources: Vec<Box<dyn Source>>,
    pub(super) sink: Box<dyn Sink>,
    /// Where what comes in waits for verdicts, if it does.
    pub(super) checkpoint: Option<Checkpoint>,
}

/// Ports of a switch whose packets wait for verdicts before they are switched.
pub struct InlinePorts {
    /// Under which name they wait, and for how long.
    pub options: InlineOptions,
    /// The ports' names; none: all that the switch begins with.
    pub names: Vec<String>,
}

/// A target of mirrors that is not a port, open.
pub struct OpenedTarget {
    pub(super) name: String,
    pub(super) sink: Box<dyn Sink>,
}

/// Where a switch sends to: a port's sink, or a mirror's.
pub(super) struct Outlet {
    pub(super) sink: Box<dyn Sink>,
    pub(super) given: Given,
    /// Whether something was sent since the last flush.
    pub(super) is_fresh: bool,
}

impl OpenedPort {
    /// Opens a port.
    ///
    /// # Errors
    /// What is wrong with the address, what the kernel or a driver refuses.
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

    /// Opens some ports. What comes in by those of `inline` waits for verdicts: worker K has a log
    /// of each port.
    ///
    /// # Errors
    /// As for [`open`](Self::open), and what the publisher says.
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

    /// What its halves have to say.
    pub fn accounts(&self) -> impl Iterator<Item = PortAccount> + '_ {
        let sources = self.sources.iter().map(|source| source.account());
        sources.chain([self.sink.account()])
    }
}

impl OpenedTarget {
    /// Opens a sink for mirrors. It does not wait for room, as a port's does not. `name` is its
    /// address, as it is written in mirrors.
    ///
    /// # Errors
    /// What is wrong with the address, what the kernel refuses.
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
