//! The reasons why a job could not run, or ended early.

use burstline_log::{AttachError, CreateError};
use burstline_port::{Loss, PortError};
use burstline_sys::affinity::AffinityError;
use burstline_sys::memory::NodeId;
use burstline_sys::scheduling::SchedulingError;

/// The error of a job. Each message is one line with the numbers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A port could not be opened or could not go on.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A thread could not be pinned.
    #[error(transparent)]
    Affinity(#[from] AffinityError),
    /// A thread could not get its scheduling class.
    #[error(transparent)]
    Scheduling(#[from] SchedulingError),
    /// A thread's stack could not be moved to the node planned for it.
    #[error("move a thread's stack to node {node}: {error}")]
    Stack {
        /// The node.
        node: NodeId,
        /// The error of the system.
        error: std::io::Error,
    },
    /// The log could not be created.
    #[error(transparent)]
    Log(#[from] CreateError),
    /// The recorder could not attach to the log.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The log could not be published.
    #[error(transparent)]
    Share(#[from] burstline_share::ShareError),
    /// A thread could not be started.
    #[error("start thread {name}: {error}")]
    Thread {
        /// Its name.
        name: String,
        /// The error of the system.
        error: std::io::Error,
    },
    /// Some records could not be written; the report counts them.
    #[error("{0}")]
    Records(String),
    /// A thread could not give up its capabilities.
    #[error("drop capabilities: {0}; --keep-privileges keeps them")]
    Privileges(std::io::Error),
    /// The sink's format cannot hold some packets, and the user did not ask to leave them out.
    #[error("{packets} packets are not in the output ({cause}): {}", cause.help())]
    LeftOut {
        /// How many packets.
        packets: u64,
        /// Why.
        cause: Loss,
    },
    /// A source cannot hold a burst while the merge looks at others.
    #[error("{port} cannot be merged: it lends each packet only once; capture it to a file first")]
    LendsOnce {
        /// The port.
        port: String,
    },
    /// The job cannot run on the requested cores or nodes.
    #[error(transparent)]
    Place(#[from] crate::PlaceError),
    /// A switch refused a port, or has no port of that name.
    #[error(transparent)]
    Switch(#[from] burstline_switch::SwitchError),
    /// A port of a switch delivers packets that another port cannot send.
    #[error(
        "{from} has offloads=on, and {to} cannot send such packets: offloads need tap: ports only, \
         all with offloads=on"
    )]
    Offloads {
        /// The port that delivers them.
        from: String,
        /// The port that cannot send them.
        to: String,
    },
    /// A rule or a mirror of a switch names a port that does not exist.
    #[error("there is no port {name}")]
    UnknownEnd {
        /// The rule's number in its set, from 0; `None` for a mirror.
        rule: Option<usize>,
        /// The name.
        name: String,
    },
    /// A port of a switch cannot be removed because it is a mirror target.
    #[error("{name} is a mirror target; remove the mirrors first")]
    MirrorsLeadTo {
        /// Its name.
        name: String,
    },
    /// There are more threads to pin than cores.
    #[error(
        "{threads} threads for {cores} core{}: name one core per thread with --cores",
        if *cores == 1 { "" } else { "s" }
    )]
    TooFewCores {
        /// Threads of the job.
        threads: usize,
        /// Cores given.
        cores: usize,
    },
}
