//! The sources of a job.

use std::path::PathBuf;

use burstline_log::Policy;
use burstline_port::{
    Address, OpenOptions, Port, PortTable, Source, TimestampSource, open_source, open_sources,
};

use crate::EngineError;

/// One source of a job.
pub struct Inlet {
    pub(crate) port: Box<dyn Source>,
    /// Interfaces it added when it was opened: a half-open range of the table.
    pub(crate) interfaces: std::ops::Range<usize>,
}

impl Inlet {
    /// Opens the port at `address`. Open sources one after another, not from several threads: the
    /// order in which interfaces appear tells which source owns them.
    pub fn open(address: &Address, options: &OpenOptions) -> Result<Self, EngineError> {
        let first = options.table.len();
        let port = open_source(address, options)?;
        Ok(Self { port, interfaces: first..options.table.len() })
    }

    /// As [`open`](Self::open), for an address that may be several ports. Each receive queue of an
    /// interface adds one interface; logs of a name add theirs later.
    pub fn open_all(address: &Address, options: &OpenOptions) -> Result<Vec<Self>, EngineError> {
        let first = options.table.len();
        let mut ports = open_sources(address, options)?;
        if ports.len() == 1 {
            let port = ports.remove(0);
            return Ok(vec![Self { port, interfaces: first..options.table.len() }]);
        }
        let each = usize::from(options.table.len() - first == ports.len());
        let sources = ports.into_iter().zip(first..);
        Ok(sources.map(|(port, at)| Self { port, interfaces: at..at + each }).collect())
    }

    /// Wraps a port that has no address and adds its interfaces later.
    pub fn of(port: Box<dyn Source>) -> Self {
        Self { port, interfaces: 0..0 }
    }

    /// Puts a wrapper around the port: a tracer, faults, a pacer, or a custom one.
    pub fn wrap(self, wrapper: impl FnOnce(Box<dyn Source>) -> Box<dyn Source>) -> Self {
        Self { port: wrapper(self.port), ..self }
    }

    /// Returns the interfaces that it added to the options' table when it was opened.
    pub fn interfaces(&self) -> std::ops::Range<usize> {
        self.interfaces.clone()
    }

    /// Returns the port.
    pub fn port(&self) -> &dyn Port {
        &*self.port
    }

    /// Returns the files that hold its packets: [`Source::files`].
    pub fn files(&self) -> Vec<PathBuf> {
        self.port.files()
    }
}

/// Returns the default policy for a full log: the sources wait, if all of them can.
pub(crate) fn policy_for(sources: &[Inlet]) -> Policy {
    if can_wait(sources) { Policy::Lossless } else { Policy::Lossy }
}

/// Returns whether all sources can wait.
pub(crate) fn can_wait(sources: &[Inlet]) -> bool {
    sources.iter().all(|source| source.port.info().capabilities.can_wait)
}

/// Returns the clock of the sources' times, or `Mixed` if they differ.
pub(crate) fn clock_kind(sources: &[Inlet]) -> u32 {
    let mut clocks = sources.iter().map(|source| source.port.info().timestamps);
    let first = clocks.next().unwrap_or(TimestampSource::Mixed);
    let is_one = clocks.all(|clock| clock == first);
    if is_one { first.code() } else { TimestampSource::Mixed.code() }
}

/// The source of each interface in the table, as far as one thread knows.
///
/// Interfaces appear while a source is opened or polled; the polling thread then calls `claim`. The
/// table knows which thread added an interface, so several threads can poll at a time. The
/// interfaces that this thread added since its last call belong to the source it just polled.
#[derive(Clone, Debug)]
pub(crate) struct Owners {
    table: PortTable,
    /// Interfaces and their sources, in the order of claiming.
    claims: Vec<(u8, usize)>,
    known: usize,
}

impl Owners {
    pub(crate) fn new(table: &PortTable) -> Self {
        Self { table: table.clone(), claims: Vec::new(), known: table.len() }
    }

    /// Assigns the interfaces that this thread has added since the last call to `source`. Cost: a
    /// lock.
    pub(crate) fn claim(&mut self, source: usize) {
        let now = self.table.len();
        if now > self.known {
            let added = self.table.added_here(self.known..now);
            self.claims.extend(added.into_iter().map(|port| (port, source)));
            self.known = now;
        }
    }

    /// Returns the source of each interface: those added when the sources were opened, and those
    /// the threads claimed.
    pub(crate) fn merge(
        sources: &[Inlet],
        threads: impl Iterator<Item = Self>,
    ) -> [u8; PortTable::MAX_ENTRIES] {
        let mut owners = [0; PortTable::MAX_ENTRIES];
        for (index, source) in sources.iter().enumerate() {
            owners[source.interfaces.clone()].fill(index as u8);
        }
        for (port, source) in threads.flat_map(|thread| thread.claims) {
            owners[usize::from(port)] = source as u8;
        }
        owners
    }
}
