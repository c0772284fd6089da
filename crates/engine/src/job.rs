//! What a job is made of: its sources and its threads.

use std::collections::BTreeMap;
use std::thread::{self, ScopedJoinHandle};

use burstline_port::{Address, OpenOptions, Port, PortTable, open_source, open_sources};
use burstline_sys::affinity::{self, CoreId};
use burstline_sys::memory::NodeId;
use burstline_sys::privileges;
use burstline_sys::scheduling::{self, SchedulingClass};
use burstline_sys::stack;
use burstline_sys::topology::Topology;

use crate::EngineError;
use crate::clock::JobClock;
use crate::report::ThreadPlace;
use crate::waiting::PollMode;

/// One source of a job.
pub struct Source {
    pub(crate) port: Box<dyn Port>,
    /// The interfaces it brought when it was opened: a half-open range of the table.
    pub(crate) interfaces: std::ops::Range<usize>,
}

impl Source {
    /// Opens the port at `address`. To be called for one source after another, not from several
    /// threads at a time: the interfaces that it brings are known by when they appear.
    pub fn open(address: &Address, options: &OpenOptions) -> Result<Self, EngineError> {
        let first = options.table.len();
        let port = open_source(address, options)?;
        Ok(Self { port, interfaces: first..options.table.len() })
    }

    /// As [`open`](Self::open), for an address that may be several ports: the receive queues of
    /// an interface, which bring one interface each, or the logs of a name, which bring them later.
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
    pub fn of(port: Box<dyn Port>) -> Self {
        Self { port, interfaces: 0..0 }
    }

    /// Puts a wrapper around the port: a tracer, faults, a pacer, a user's own.
    pub fn wrap(self, wrapper: impl FnOnce(Box<dyn Port>) -> Box<dyn Port>) -> Self {
        Self { port: wrapper(self.port), ..self }
    }

    /// The port.
    pub fn port(&self) -> &dyn Port {
        &*self.port
    }
}

/// Where and how a job's threads run.
#[derive(Clone, Debug)]
pub struct Threads {
    /// A core for each thread, in the order of the stages; empty leaves it to the kernel.
    pub cores: Vec<CoreId>,
    /// The node of each thread's stack, in the same order. Where it is not named, the stack of a
    /// thread that has a core goes to that core's node, if it can.
    pub stack_nodes: Vec<NodeId>,
    /// The scheduling class of each.
    pub class: SchedulingClass,
    /// How each waits for packets.
    pub poll: PollMode,
    /// Threads that receive into logs, at least 1; never more than there are sources. Only for
    /// jobs that have a log.
    pub receivers: usize,
    /// Whether the threads keep their capabilities. If not, each gives them up once all is open
    /// and it is where it belongs, the thread that runs the job included: for programs that do
    /// nothing else afterwards.
    pub keeps_privileges: bool,
    /// What there is to say in the report of why they run there.
    pub notes: Vec<String>,
}

impl Default for Threads {
    fn default() -> Self {
        Self {
            cores: Vec::new(),
            stack_nodes: Vec::new(),
            class: SchedulingClass::Normal,
            poll: PollMode::default(),
            receivers: 1,
            keeps_privileges: true,
            notes: Vec::new(),
        }
    }
}

impl Threads {
    /// Fails where a job of `threads` threads would have to share cores that were named for it.
    pub(crate) fn check(&self, threads: usize) -> Result<(), EngineError> {
        let cores = self.cores.len();
        match cores == 0 || cores >= threads {
            true => Ok(()),
            false => Err(EngineError::TooFewCores { threads, cores }),
        }
    }

    /// Settles one thread that then ends: what cannot be had is known before anything is opened.
    pub(crate) fn rehearse(&self, name: &str) -> Result<(), EngineError> {
        thread::scope(|scope| {
            let settled = spawn(scope, name, || self.settle(0, name).map(drop))?.join();
            settled.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Puts the calling thread, number `index` of the job, where it belongs.
    pub(crate) fn settle(&self, index: usize, name: &str) -> Result<ThreadPlace, EngineError> {
        let core = self.cores.get(index).copied();
        if let Some(core) = core {
            affinity::pin_to(core)?;
        }
        if self.class != SchedulingClass::Normal {
            scheduling::set_class(self.class)?;
        }
        let runs_on = affinity::current_core();
        let node = Topology::read().ok().and_then(|topology| topology.node_of(runs_on));
        let stack_node = self.settle_stack(index, core.and(node))?;
        let (name, class, stack) = (name.to_owned(), self.class, BTreeMap::new());
        Ok(ThreadPlace { name, pinned_to: core, node, class, stack_node, stack })
    }

    /// Takes the calling thread's stack where it was planned to be, or else near its core. Returns
    /// where it was planned to be.
    fn settle_stack(
        &self,
        index: usize,
        near: Option<NodeId>,
    ) -> Result<Option<NodeId>, EngineError> {
        if let Some(&node) = self.stack_nodes.get(index) {
            stack::move_to(node).map_err(|error| EngineError::Stack { node, error })?;
            return Ok(Some(node));
        }
        // Unasked it is a courtesy: the node may have no memory, the kernel may have no nodes.
        Ok(near.filter(|&node| stack::move_to(node).is_ok()))
    }

    /// Gives up the calling thread's capabilities, unless they are to be kept.
    pub(crate) fn drop_privileges(&self) -> Result<(), EngineError> {
        match self.keeps_privileges {
            true => Ok(()),
            false => privileges::drop_all_capabilities().map_err(EngineError::Privileges),
        }
    }
}

/// Runs each of `works` on a thread of its name, to its end. What goes wrong with one is the
/// result; the job is broken off where a thread cannot be started or rights not be given up.
pub(crate) fn run_each<T: Send, W: FnOnce() -> Result<T, EngineError> + Send>(
    threads: &Threads,
    clock: &JobClock<'_>,
    works: impl Iterator<Item = (String, W)>,
) -> Result<Vec<T>, EngineError> {
    thread::scope(|scope| {
        let mut workers = Vec::new();
        for (name, work) in works {
            workers.push(spawn(scope, &name, work).inspect_err(|_| clock.break_off())?);
        }
        // Only now: a thread begins with the rights of the one that starts it.
        let given_up = threads.drop_privileges().inspect_err(|_| clock.break_off());
        let done = workers.into_iter().map(|worker| match worker.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        let done = done.collect::<Result<_, _>>();
        given_up.and(done)
    })
}

/// Starts a named thread of a job.
pub(crate) fn spawn<'scope, 'env, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, 'env>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, EngineError> {
    let builder = thread::Builder::new().name(name.to_owned());
    builder
        .spawn_scoped(scope, work)
        .map_err(|error| EngineError::Thread { name: name.to_owned(), error })
}

/// Which source each interface of the table belongs to, as far as one thread knows.
///
/// Interfaces appear while a source is opened or polled; whoever polls calls `claim` after it. The
/// table knows which thread added an interface, so several threads can poll at a time: what this
/// one added since its last call, the source that it just polled has brought.
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
        sources: &[Source],
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
