//! Ports that are open, before they are part of a switch, and the ends that they become.

use burstline_port::{
    Address, OpenOptions, PortAccount, PortError, Sink, Source, open_duplex, open_sink,
};
use burstline_switch::PortConfig;

use super::settings::SwitchPort;
use crate::bounce::given::Given;

/// A port that is open.
pub struct OpenedPort {
    pub(super) name: String,
    pub(super) config: PortConfig,
    pub(super) mirror: Option<String>,
    pub(super) sources: Vec<Box<dyn Source>>,
    pub(super) sink: Box<dyn Sink>,
}

/// A target of mirrors that is no port, open.
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
        })
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
    /// Opens a sink for mirrors; `name` is its address, as it is written in mirrors.
    ///
    /// # Errors
    /// What is wrong with the address, what the kernel refuses.
    pub fn open(name: &str, options: &OpenOptions) -> Result<Self, PortError> {
        let address: Address = name.parse()?;
        Ok(Self { name: name.to_owned(), sink: open_sink(&address, options)? })
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
