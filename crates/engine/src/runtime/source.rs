//! What a job receives from.

use std::path::PathBuf;

use burstline_log::Policy;
use burstline_port::{
    Address, OpenOptions, Port, PortTable, Source, TimestampSource, open_source, open_sources,
};

use crate::EngineError;

/// One source of a job.
pub struct Inlet {
    pub(crate) port: Box<dyn Source>,
    /// The interfaces it brought when it was opened: a half-open range of the table.
    pub(crate) interfaces: std::ops::Range<usize>,
}

impl Inlet {
    /// Opens the port at `address`. Call it for one source after another, not from several threads:
    /// the order in which interfaces appear tells whose they are.
    pub fn open(address: &Address, options: &OpenOptions) -> Result<Self, EngineError> {
        let first = options.table.len();
        let port = open_source(address, options)?;
        Ok(Self { port, interfaces: first..options.table.len() })
    }

    /// As [`open`](Self::open), for an address that may be several ports. Receive queues of an
    /// interface bring one interface each; logs of a name bring theirs later.
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

    /// A port that no address stands for, and that brings its interfaces later.
    pub fn of(port: Box<dyn Source>) -> Self {
        Self { port, interfaces: 0..0 }
    }

    /// Puts a wrapper around the port: a tracer, faults, a pacer, a user's own.
    pub fn wrap(self, wrapper: impl FnOnce(Box<dyn Source>) -> Box<dyn Source>) -> Self {
        Self { port: wrapper(self.port), ..self }
    }

    /// The interfaces of the options' table that it brought when it was opened.
    pub fn interfaces(&self) -> std::ops::Range<usize> {
        self.interfaces.clone()
    }

    /// The port.
    pub fn port(&self) -> &dyn Port {
        &*self.port
    }

    /// The files that its packets lie in: [`Source::files`].
    pub fn files(&self) -> Vec<PathBuf> {
        self.port.files()
    }
}

/// Who waits for a full log by default: the sources, if all of them can wait.
pub(crate) fn policy_for(sources: &[Inlet]) -> Policy {
    let can_wait = |source: &Inlet| source.port.info().capabilities.can_wait;
    if sources.iter().all(can_wait) { Policy::Lossless } else { Policy::Lossy }
}

/// Whose clock the sources' times are from, if it is one.
pub(crate) fn clock_kind(sources: &[Inlet]) -> u32 {
    let mut clocks = sources.iter().map(|source| source.port.info().timestamps);
    let first = clocks.next().unwrap_or(TimestampSource::Mixed);
    let is_one = clocks.all(|clock| clock == first);
    if is_one { first.code() } else { TimestampSource::Mixed.code() }
}

/// Which source each interface of the table belongs to, as far as one thread knows.
///
/// Interfaces appear while a source is opened or polled; the thread that polls calls `claim` after
/// it. The table knows which thread added an interface, so several threads can poll at a time. What
/// this thread added since its last call belongs to the source it just polled.
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

    /// Gives the interfaces that this thread has added since the last call to `source`.
    /// Cost: a lock.
    pub(crate) fn claim(&mut self, source: usize) {
        let now = self.table.len();
        if now > self.known {
            let added = self.table.added_here(self.known..now);
            self.claims.extend(added.into_iter().map(|port| (port, source)));
            self.known = now;
        }
    }

    /// The source of each interface: what the sources brought when they were opened, and what
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
