//! `burstline doctor`.

use std::path::PathBuf;

use burstline_port::Address;
use burstline_sys::affinity::CoreId;
use burstline_sys::memory::NodeId;
use clap::{Args, Subcommand, ValueEnum};

use crate::args::common::PlacementArgs;
use crate::args::values;

const EXAMPLES: &str = "\
Examples:
  burstline doctor                        what costs packets here, how much, and how to fix it
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
  burstline doctor plan --workers 2 --try               carry it out, then check it with the kernel
  burstline doctor plan eth1 --machine server.txt       for the machine in a snapshot";

/// Say what works on this machine, what does not, and how to fix it
///
/// Checks nodes, cores, huge pages, frequencies and limits, and each network card's node,
/// interrupts and packet steering. On each node it makes a small log, passes a few packets, and
/// asks the kernel where threads and pages are. Each defect comes with its cost, the source of that
/// figure, and the command that fixes it. Nothing is changed.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_long_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    #[command(subcommand)]
    pub(crate) about: Option<Doctor>,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,

    /// Print only the commands that fix the defects, one per line
    #[arg(long, conflicts_with = "json")]
    pub(crate) fix_commands: bool,

    /// Look at another machine: a file made by doctor snapshot, or a folder to use as /
    #[arg(long, value_name = "PATH")]
    pub(crate) machine: Option<PathBuf>,
}

impl DoctorArgs {
    /// Whether the machine is another one, by its description.
    pub(crate) fn describes_another(&self) -> bool {
        match &self.about {
            None => self.machine.is_some(),
            Some(Doctor::Plan(args)) => args.machine.is_some(),
            Some(Doctor::Ports(_) | Doctor::Logs(_) | Doctor::Snapshot) => false,
        }
    }
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
    /// address, and no name of a host, a user or another process.
    ///
    /// Example: burstline doctor snapshot > server.txt
    Snapshot,
}

/// Where queues, threads, logs and pages would go, and why
///
/// A_AB means a receive thread on node A, a worker there, and a worker on another node. Without
/// --workers and --placement: run to completion, a thread for each source. Threads go near the
/// network card, one physical core each, off the cores that the card interrupts; logs go where they
/// are read. On machines with several nodes or isolated cores every job follows such a plan, unless
/// --cores or --node says otherwise. The plan lists defects that matter for it; doctor lists all.
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

    /// Who reads a log: one worker, or all of them
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
    /// logs and stacks are; fails if they are not as planned
    #[arg(long, conflicts_with = "machine")]
    pub(crate) r#try: bool,

    /// Plan for another machine: a file made by doctor snapshot, or a folder to use as /
    #[arg(long, value_name = "PATH")]
    pub(crate) machine: Option<PathBuf>,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// Whose a log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Each worker has its own log
    Copy,
    /// All workers read one log of each receive thread
    Share,
}

/// Which ports can be opened here, and how, or why not and how to fix it
///
/// It tries each port up to the step that would disturb others. It opens and closes sockets, loads
/// programs without attaching them, and takes no packet. "with" opens with the flag named. Without
/// --probe, the mode of an xdp: port is what the driver reports.
#[derive(Debug, Args)]
#[command(after_long_help = PORTS_EXAMPLES)]
pub(crate) struct DoctorPortsArgs {
    /// Interfaces to look at [default: all of this network namespace]
    #[arg(value_name = "INTERFACE")]
    pub(crate) interfaces: Vec<String>,

    /// Also bind XDP sockets and attach a program that passes everything, except on the interface
    /// of the default route or a login: a network card may lose some packets
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
/// A reader reports itself what it read and missed. A name whose publisher was killed is shown with
/// the command that removes it; the next publisher of that name also removes it.
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
