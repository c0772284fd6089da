//! `burstline balance`.

use burstline_engine::Distribution;
use burstline_port::Filter;
use clap::{Args, ValueEnum};

use super::{LogArgs, SourceArgs, values};

const EXAMPLES: &str = "\
Examples:
  burstline balance eth0 --workers 4                        who gets what: four threads count
  burstline balance trace.pcap --workers 3 -o flows{k}.pcapng
                                  three files, each flow whole in one
  burstline balance xdp:eth1 --workers 4 -o afpacket:veth{k}
                                  an interface for each of four Suricatas, Zeeks or Snorts
  burstline balance eth0 --workers 4 --publish tap &
  burstline count log:tap@0       workers that are programs of their own, which come and go:
  burstline capture log:tap@3 -w - | tshark -i -
  burstline balance eth0 --workers 4 --mode share --publish tap
                                  the same, and all four read one log: packets are copied once,
                                  however many groups and workers there are
  burstline balance eth0 --workers 2,1 -o x{k}.pcapng       two groups: workers 0 and 1 share
                                  all packets, and worker 2 has all of them, too
  burstline balance eth0 --workers 8 --hash inner           by what is within tunnels
  burstline balance 'gen:?packets=1M&flows=1000' --workers 4 --json
  burstline balance eth0 --workers 4 --cutoff 64k --shed 'udp port 4789'";

/// Spread packets over workers by flow, each worker with a log of its own or a part of one
///
/// Each packet goes to one worker, all packets of a flow to the same, in order: both directions and
/// all fragments (by hashes that are symmetric, as help for --hash says). A worker is a thread that
/// counts; with -o one that sends or records into a sink of its own; with --publish NAME and no -o
/// another program, which reads log:NAME@K. Worker K has log K, or with --mode share its part of
/// the one log; where R threads receive, it has one of each: K, K + workers, ...
///
/// A worker that is too slow is lapped: it loses packets of its own, counted as `reader_overrun`,
/// and nobody else does. Where every source can wait, and with --lossless, a full log holds the
/// sources up instead. A worker whose sink breaks loses what comes after; the others go on.
///
/// The ledger has a row for each source (and group, if there are several: the total then counts a
/// packet once for each), and one for each worker; flows that carry a hundredth of all bytes or
/// more are named.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct BalanceArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// How many workers; several numbers (2,1) are groups, each of which gets every packet once
    #[arg(long, value_name = "N[,N...]", value_parser = values::groups)]
    pub(crate) workers: Groups,

    /// What workers read
    #[arg(long, value_name = "MODE", default_value = "copy")]
    pub(crate) mode: ModeArg,

    // Its help is made from the list of kinds.
    #[arg(long, value_name = "KIND", default_value = "five-tuple")]
    #[arg(value_parser = values::distribution, help = values::distribution_help())]
    pub(crate) hash: Distribution,

    /// A sink for each worker; {k} is its number: x{k}.pcapng, afpacket:veth{k}, xdp:eth{k}
    #[arg(long, short, value_name = "SINK")]
    pub(crate) output: Option<String>,

    #[command(flatten)]
    pub(crate) log: LogArgs,

    /// Let a worker that is too slow hold up sources that cannot wait, too; any loss is then a
    /// failure. What is cut off, shed or filtered is none
    #[arg(long)]
    pub(crate) lossless: bool,

    /// Let through the first SIZE bytes of each flow, both directions together, and count the rest
    /// as `cut_off`; a flow is what --hash tells apart, and one that was silent for 60 s is a new
    /// one
    #[arg(long, value_name = "SIZE", value_parser = values::bytes)]
    pub(crate) cutoff: Option<usize>,

    /// Give up packets that EXPR wants, counted as `shed`. Forms as for --filter
    #[arg(long, value_name = "EXPR", value_parser = values::filter)]
    pub(crate) shed: Option<Filter>,
}

/// What workers read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeArg {
    /// A log of their own each
    Copy,
    /// One log for all, of which each takes its own packets; by flows, not in turn
    Share,
}

/// Workers of each group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Groups(pub(crate) Vec<usize>);

impl Groups {
    /// Workers of all groups.
    pub(crate) fn workers(&self) -> usize {
        self.0.iter().sum()
    }
}
