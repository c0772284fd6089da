//! The flags that every job has.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;

use burstline_engine::PollMode;
use burstline_port::{Address, Filter};
use burstline_sys::memory::NodeId;
use burstline_sys::scheduling::SchedulingClass;
use burstline_sys::users::Account;
use burstline_topo::Placement;
use burstline_wire::hash::HashKind;
use clap::{Args, ValueHint};

use crate::args::PORT_HINT;
use crate::args::values::{self, Cores, Node};

/// The flag of all verbs with sources that works without other arguments.
pub(crate) const LIST: &str = "list-interfaces";

/// The hidden flag of every job that the service sets.
pub(crate) const SUPERVISED: &str = "supervised";

/// Limits, threads, output: of every job.
#[derive(Debug, Args)]
pub(crate) struct JobArgs {
    /// Print one JSON object at the end instead of text; with --stats also one line per interval
    #[arg(long)]
    pub(crate) json: bool,

    /// Stop after exactly N packets over all sources (suffixes k, M, G)
    #[arg(long, short = 'c', value_name = "N", value_parser = values::packets)]
    pub(crate) packets: Option<u64>,

    /// Stop after this time (250ms, 10s, 5m, 1h)
    #[arg(long, value_name = "TIME", value_parser = values::span_ns)]
    pub(crate) duration: Option<u64>,

    /// Pin threads to these cores, one each (0,2,4-7), or let the plan choose (auto). For capture,
    /// the last core records; each of the others receives into its own log
    #[arg(long, value_name = "LIST|auto", value_parser = values::cores)]
    pub(crate) cores: Option<Cores>,

    /// The NUMA node for memory and threads; auto is the node of the cores named
    #[arg(long, value_name = "N|auto", default_value = "auto", value_parser = values::node)]
    #[arg(hide_short_help = true)]
    pub(crate) node: Node,

    #[command(flatten)]
    pub(crate) forced: PlacementArgs,

    /// Scheduling class of the threads: normal, fifo:1 to fifo:99, idle
    #[arg(long, value_name = "CLASS", default_value = "normal", value_parser = values::priority)]
    #[arg(hide_short_help = true)]
    pub(crate) priority: SchedulingClass,

    /// How to wait for packets: busy never sleeps and uses a core for each thread; adaptive spins
    /// for up to 50 us, then sleeps until a packet comes; count, flows, capture and --publish let
    /// packets gather for up to 1 ms first; interrupt sleeps at once
    #[arg(long, value_name = "MODE", default_value = "adaptive")]
    #[arg(value_parser = values::poll_mode())]
    pub(crate) poll: PollMode,

    /// Keep root's rights while packets are read. Otherwise every thread drops its capabilities
    /// once ports are open, before files are read. It then makes only calls that its job needs, and
    /// opens only its job's files
    #[arg(long, hide_short_help = true)]
    pub(crate) keep_privileges: bool,

    /// Become USER, with USER's groups, once ports are open, before files are read. The output file
    /// belongs to USER, as with tcpdump. Needs root. Without -Z root becomes nobody, and a helper
    /// process opens files to read and later files as root, without most capabilities. With -Z,
    /// USER makes later files, and without files to read a --publish socket stays behind, which the
    /// next run replaces
    #[arg(
        short = 'Z',
        long = "relinquish-privileges",
        visible_alias = "user",
        value_name = "USER"
    )]
    #[arg(value_parser = values::account)]
    #[arg(hide_short_help = true, conflicts_with = "keep_privileges")]
    pub(crate) successor: Option<Account>,

    /// Print counts this often (default on a terminal: 1s)
    #[arg(long, value_name = "INTERVAL", value_parser = values::span_ns)]
    pub(crate) stats: Option<u64>,

    /// Answer GET /metrics at this address with the job's counters, as OpenMetrics text for
    /// Prometheus: 127.0.0.1:9100, or a port of 127.0.0.1; IPv6 in brackets. Everyone who
    /// can connect sees these counters
    #[arg(long, value_name = "ADDRESS", value_parser = values::socket_address)]
    pub(crate) metrics: Option<SocketAddr>,

    /// Show the job as a page at this address while it runs: 127.0.0.1:9180, or a port of
    /// 127.0.0.1; IPv6 in brackets. Nothing can be changed there. On addresses other than loopback
    /// the page requires a token, which the program prints
    #[arg(long, value_name = "ADDRESS", value_parser = values::socket_address)]
    pub(crate) web: Option<SocketAddr>,

    /// Take the page's token (?token=...) from FILE: one line of at least 16 letters and digits
    #[arg(long, value_name = "FILE", requires = "web", hide_short_help = true)]
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) web_token: Option<PathBuf>,

    /// Exit with code 1 if any packet is lost. Packets that a filter or another option of
    /// yours leaves out are not counted as a loss. Losing packets and delivering none always fails
    #[arg(long)]
    pub(crate) fail_on_loss: bool,

    /// Print the whole report: the ledger of each source, threads, memory, placement, hints
    #[arg(long, short)]
    pub(crate) verbose: bool,

    /// Print only errors (and the output of --json)
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// It is a job of `burstline run`: standard input is the line to it.
    #[arg(id = SUPERVISED, long, hide = true)]
    pub(crate) is_supervised: bool,
}

/// What the user asks of a plan.
#[derive(Debug, Args)]
pub(crate) struct PlacementArgs {
    /// Force a placement: A_AA, A_AB, A_BB, AB_AABB; a letter a receive thread, a letter a worker
    #[arg(long, value_name = "A_AB", hide_short_help = true)]
    pub(crate) placement: Option<Placement>,

    /// The node of all logs [default: where each is read]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = values::node_number)]
    pub(crate) pool_node: Option<NodeId>,

    /// The node of all stacks [default: where each thread runs]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = values::node_number)]
    pub(crate) stack_node: Option<NodeId>,
}

/// What a job has that receives: sources, what to take of them, and their flow hash.
#[derive(Debug, Args)]
pub(crate) struct CommonArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    // The help is generated from the list of kinds.
    #[arg(long, value_name = "KIND", default_value = "none", value_parser = values::hash_kind)]
    #[arg(hide_short_help = true)]
    #[arg(help = values::hash_help())]
    pub(crate) hash: HashKind,
}

/// Sources, and what to take of them.
#[derive(Debug, Args)]
pub(crate) struct SourceArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,

    /// Where packets come from: an interface, a file, gen:, log:NAME, or any for all interfaces
    /// that are up (see burstline --help-all). Words behind the last source are a filter, as in
    /// tcpdump: eth0 udp port 53
    #[arg(value_name = "SOURCE", value_hint = PORT_HINT)]
    #[arg(required_unless_present_any = ["interface", "read"])]
    pub(crate) words: Vec<String>,

    /// The sources, once [`settle`](Self::settle) has found them.
    #[arg(skip)]
    pub(crate) sources: Vec<Address>,

    /// Receive from this interface, or from any: one more source
    #[arg(id = "interface", short = 'i', long, value_name = "IF", value_hint = PORT_HINT)]
    pub(crate) interfaces: Vec<String>,

    /// Read packets from this file: one more source
    #[arg(short = 'r', long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) read: Vec<String>,

    /// List the interfaces that -i takes, and exit
    #[arg(id = LIST, short = 'D', long, exclusive = true)]
    pub(crate) list_interfaces: bool,

    /// Accepted as in tcpdump; names are never looked up
    #[arg(short = 'n', hide_short_help = true)]
    pub(crate) is_numeric: bool,

    /// Keep at most N bytes of each packet; 0 keeps 262144, as tcpdump does
    #[arg(long, short = 's', value_name = "N", value_parser = values::snaplen)]
    pub(crate) snaplen: Option<u32>,

    /// Take only packets that match EXPR, see pcap-filter(7): "udp port 53". Also takes a program
    /// that `tcpdump -y EN10MB -ddd EXPR` prints, or @FILE with either in it. Others are counted
    /// as `filtered`
    #[arg(long, value_name = "EXPR", value_parser = values::filter)]
    pub(crate) filter: Option<Filter>,

    /// xdp: takes only packets that match EXPR and leaves the others to the host, counted as
    /// `passed`: --only "udp port 4789". Forms as for --filter
    #[arg(long, value_name = "EXPR", value_parser = values::filter, hide_short_help = true)]
    pub(crate) only: Option<Filter>,

    /// Let xdp: take packets from an interface that the host uses: loopback, the default route's,
    /// or one with a login session
    #[arg(long, hide_short_help = true)]
    pub(crate) steal: bool,
}

/// Gives access to the source arguments.
impl Deref for CommonArgs {
    type Target = SourceArgs;

    fn deref(&self) -> &SourceArgs {
        &self.source
    }
}

impl DerefMut for CommonArgs {
    fn deref_mut(&mut self) -> &mut SourceArgs {
        &mut self.source
    }
}

/// Gives access to the job arguments.
impl Deref for SourceArgs {
    type Target = JobArgs;

    fn deref(&self) -> &JobArgs {
        &self.job
    }
}
