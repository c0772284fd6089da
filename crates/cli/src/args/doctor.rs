//! `burstline doctor`.

use std::path::PathBuf;

use burstline_port::Address;
use burstline_sys::affinity::CoreId;
use burstline_sys::memory::NodeId;
use clap::{Args, Subcommand, ValueEnum};

use super::common::PlacementArgs;
use super::values;

const EXAMPLES: &str = "\
Examples:
  burstline doctor                        what costs packets here, how much, and what mends it
  burstline doctor --fix-commands         only the commands; read them before you run them
  burstline doctor --json | jq -r '.findings[] | select(.is_defect) | .what'";

const PORTS_EXAMPLES: &str = "\
Examples:
  burstline doctor ports                  every interface of this network namespace
  burstline doctor ports eth1 --probe     also bind and attach there, to be sure of the mode
  burstline doctor ports --json | jq -r '.ports[] | select(.can_open) | .port'";

const PLAN_EXAMPLES: &str = "\
Examples:
  burstline doctor plan eth1                            where count would run, and why
  burstline doctor plan xdp:eth1 --workers 2            a receive thread and two workers
  burstline doctor plan --placement A_AB --node 1       the second worker on another node
  burstline doctor plan --placement AB_AABB --mode share
  burstline doctor plan --workers 2 --try               carry it out, and ask the kernel what came
  burstline doctor plan eth1 --machine server.txt       on a machine told by doctor snapshot";

/// Say what works on this machine, what does not, and what mends it
///
/// Looks at nodes, cores, huge pages, frequencies, limits, and at where network cards are plugged
/// in, interrupt and steer their packets to. On each node a small log is made and a few packets
/// passed, and the kernel asked where all of that is. Each defect comes with what it costs, where
/// that figure is from, and the command that mends it. Nothing is changed.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_long_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    #[command(subcommand)]
    pub(crate) about: Option<Doctor>,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,

    /// Print only the commands that mend the defects, one a line
    #[arg(long, conflicts_with = "json")]
    pub(crate) fix_commands: bool,

    /// Look at another machine: a file made by doctor snapshot, or a folder in the place of /
    #[arg(long, value_name = "PATH")]
    pub(crate) machine: Option<PathBuf>,
}

/// What to look at.
#[derive(Debug, Subcommand)]
pub(crate) enum Doctor {
    Ports(DoctorPortsArgs),
    Logs(DoctorLogsArgs),
    Plan(Box<DoctorPlanArgs>),
    /// Print what plans are made from, as one text file
    ///
    /// For --machine, and for reports of bugs: topology, queues, interrupts, settings. It holds no
    /// address, and names neither a host nor a user nor another process.
    ///
    /// Example: burstline doctor snapshot > server.txt
    Snapshot,
}

/// Where queues, threads, logs and pages would go, and why
///
/// Written as in the paper on NUMA that the notation is from: A_AB is a receive thread on node A, a
/// worker there, and one on another node. Without --workers and --placement: run to completion, a
/// thread for each source. Threads go near the network card, to a physical core each, off the cores
/// that the card interrupts; logs go where they are read. Every job follows such a plan on
/// machines of several nodes or with isolated cores, unless --cores or --node says otherwise. What
/// is wrong with the machine for this plan is told with it; for any, by doctor.
#[derive(Debug, Args)]
#[command(after_long_help = PLAN_EXAMPLES)]
pub(crate) struct DoctorPlanArgs {
    /// Where packets come from, as for count
    #[arg(value_name = "SOURCE")]
    pub(crate) sources: Vec<Address>,

    /// Threads that read logs, from 1
    #[arg(long, value_name = "N", value_parser = values::threads)]
    pub(crate) workers: Option<u64>,

    /// Threads that receive, from 1 [default: one; without workers one a source]
    #[arg(long, value_name = "N", value_parser = values::threads)]
    pub(crate) receivers: Option<u64>,

    #[command(flatten)]
    pub(crate) forced: PlacementArgs,

    /// Whose a log is: each worker's own, or all workers'
    #[arg(long, value_enum, default_value_t = Mode::Copy)]
    pub(crate) mode: Mode,

    /// The node that A stands for [default: the first network card's]
    #[arg(long, value_name = "N", value_parser = values::node_number)]
    pub(crate) node: Option<NodeId>,

    /// These cores, one a thread: those that receive first, then the workers
    #[arg(long, value_name = "LIST", value_parser = values::core_list, conflicts_with = "node")]
    pub(crate) cores: Option<Box<[CoreId]>>,

    /// Put two threads on one physical core where there are too few
    #[arg(long)]
    pub(crate) share_cores: bool,

    /// Carry the plan out with a small log and a few packets, and ask the kernel where threads,
    /// logs and stacks are; fails if it is not as planned
    #[arg(long, conflicts_with = "machine")]
    pub(crate) r#try: bool,

    /// Plan for another machine: a file made by doctor snapshot, or a folder in the place of /
    #[arg(long, value_name = "PATH")]
    pub(crate) machine: Option<PathBuf>,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// Whose a log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Each worker has a log of its own
    Copy,
    /// All workers read one log of each receive thread
    Share,
}

/// Which ports can be opened here, how, and why not, with the command that mends it
///
/// Everything is tried, up to the step that somebody else would notice: sockets are made and closed
/// again, programs loaded and not attached, no packet is taken from anybody. "with" opens with the
/// flag named. The mode of an xdp: port is the driver's own word, unless --probe was given.
#[derive(Debug, Args)]
#[command(after_long_help = PORTS_EXAMPLES)]
pub(crate) struct DoctorPortsArgs {
    /// Interfaces to look at [default: all of this network namespace]
    #[arg(value_name = "INTERFACE")]
    pub(crate) interfaces: Vec<String>,

    /// Also bind XDP sockets and attach a program that passes everything, where neither the
    /// default route nor a login is: a network card may lose some packets by it
    #[arg(long)]
    pub(crate) probe: bool,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

const LOGS_EXAMPLES: &str = "\
Examples:
  burstline doctor logs                   every name that can be read from here
  burstline doctor logs tap               one of them
  burstline doctor logs --json | jq -r '.names[].readers[] | select(.missed > 0) | .pid'";

/// Which logs are published, who reads them, and how far behind each reader is
///
/// What a reader has read and missed is its own word. A name whose publisher was killed is shown
/// with what clears it away; the next publisher of that name does so by itself.
#[derive(Debug, Args)]
#[command(after_long_help = LOGS_EXAMPLES)]
pub(crate) struct DoctorLogsArgs {
    /// A name, or the path of a socket [default: all names]
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}
