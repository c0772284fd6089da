//! Placement and scheduling of a job's threads.

use std::collections::BTreeMap;
use std::thread::{self, ScopedJoinHandle};

use burstline_sys::affinity::{self, CoreId};
use burstline_sys::memory::NodeId;
use burstline_sys::privileges::{self, Held};
use burstline_sys::scheduling::{self, SchedulingClass};
use burstline_sys::{stack, topology};

use crate::EngineError;
use crate::report::ThreadPlace;

use super::waiting::PollMode;

/// Placement and scheduling of a job's threads.
#[derive(Clone, Debug)]
pub struct Threads {
    /// A core for each thread, in the order of the stages; if empty, the kernel chooses.
    pub cores: Vec<CoreId>,
    /// The node of each thread's stack, in the same order. If no node is named and the thread has a
    /// core, the stack goes to that core's node if possible.
    pub stack_nodes: Vec<NodeId>,
    /// The scheduling class of each thread.
    pub class: SchedulingClass,
    /// How each thread waits for packets.
    pub poll: PollMode,
    /// Threads that receive into logs: at least 1, at most the number of sources. Only for jobs
    /// that have a log.
    pub receivers: usize,
    /// Whether the threads keep their capabilities. If not, each thread drops them once everything
    /// is open and the thread is in place. So does the thread that runs the job. For programs that
    /// do nothing else afterwards.
    pub keeps_privileges: bool,
    /// Notes for the report about the reasons for the placement.
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
    /// Fails if cores are named, but fewer than `threads`.
    pub(crate) fn check(&self, threads: usize) -> Result<(), EngineError> {
        let cores = self.cores.len();
        match cores == 0 || cores >= threads {
            true => Ok(()),
            false => Err(EngineError::TooFewCores { threads, cores }),
        }
    }

    /// Settles one short-lived thread, so that a missing core or class shows before anything is
    /// opened.
    pub(crate) fn rehearse(&self, name: &str) -> Result<(), EngineError> {
        thread::scope(|scope| {
            let settled = spawn(scope, name, || self.settle(0, name).map(drop))?.join();
            settled.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Moves the calling thread, number `index` of the job, to its place.
    pub(crate) fn settle(&self, index: usize, name: &str) -> Result<ThreadPlace, EngineError> {
        let core = self.cores.get(index).copied();
        if let Some(core) = core {
            affinity::pin_to(core)?;
        }
        if self.class != SchedulingClass::Normal {
            scheduling::set_class(self.class)?;
        }
        let node = topology::node_of(affinity::current_core());
        let stack_node = self.settle_stack(index, core.and(node))?;
        let (name, class, stack) = (name.to_owned(), self.class, BTreeMap::new());
        let rights = Held::default();
        Ok(ThreadPlace { name, pinned_to: core, node, class, stack_node, stack, rights })
    }

    /// Moves the calling thread's stack to its planned node, or else near its core. Returns the
    /// planned node.
    fn settle_stack(
        &self,
        index: usize,
        near: Option<NodeId>,
    ) -> Result<Option<NodeId>, EngineError> {
        if let Some(&node) = self.stack_nodes.get(index) {
            stack::move_to(node).map_err(|error| EngineError::Stack { node, error })?;
            return Ok(Some(node));
        }
        // Without a plan it may fail: the node may have no memory, the kernel may have no nodes.
        Ok(near.filter(|&node| stack::move_to(node).is_ok()))
    }

    /// Drops the rights of the calling thread, and the capabilities of threads that libraries
    /// started, unless they are to be kept. By then all ports are open.
    pub(crate) fn drop_privileges(&self) -> Result<(), EngineError> {
        match self.keeps_privileges {
            true => Ok(()),
            false => privileges::give_up()
                .and_then(|()| privileges::drop_of_libraries())
                .map_err(EngineError::Privileges),
        }
    }
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
