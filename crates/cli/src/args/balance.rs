//! `burstline balance`.

use burstline_engine::{Distribution, WORKERS_MAX};
use burstline_port::Filter;
use clap::{Args, ValueEnum};

use super::{LogArgs, PORT_HINT, SourceArgs, values};

const EXAMPLES: &str = "\
Examples:
  burstline balance eth0 --workers 4                        four threads count their packets
  burstline balance trace.pcap --workers 3 -o flows{k}.pcapng
                                  three files, each flow whole in one
  burstline balance xdp:eth1 --workers 4 -o afpacket:veth{k}
                                  an interface for each of four Suricatas, Zeeks or Snorts
  burstline balance eth0 --workers 4 --publish tap &
  burstline count log:tap@0       workers that are other programs, which may come and go:
  burstline capture log:tap@3 -w - | tshark -i -
  burstline balance eth0 --workers 4 --mode share --publish tap
                                  the same, and all four read one log: each packet is copied once
  burstline balance eth0 --workers 2,1 -o x{k}.pcapng       two groups: workers 0 and 1 share
                                  all packets, and worker 2 has all of them, too
  burstline balance eth0 --workers 8 --hash inner           by the flows inside tunnels
  burstline balance 'gen:?packets=1M&flows=1000' --workers 4 --json
  burstline balance eth0 --workers 4 --cutoff 64k --shed 'udp port 4789'";

/// Distribute packets to workers by flow
///
/// All packets of a flow go to the same worker, in order: both directions and all fragments (if the
/// hash is symmetric, see --hash). A worker is a thread that counts. With -o each worker sends or
/// records into its own sink. With --publish NAME and no -o, a worker is another program that reads
/// log:NAME@K. Worker K reads log K, or its part of the one log with --mode share. If R threads
/// receive, it reads one log of each: K, K + workers, ...
///
/// A worker that is too slow is overrun: only that worker loses packets, counted as
/// `reader_overrun`. If every source can wait, or with --lossless, a full log holds the sources up
/// instead. A worker whose sink fails loses all later packets; the others continue.
///
/// The report has a row for each source and for each worker. With several groups, the total counts
/// a packet once for each group. Flows with 1 % of all bytes or more are named.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct BalanceArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// How many workers; several numbers (2,1) are groups, and each group gets every packet once
    #[arg(long, value_name = "N[,N...]", value_parser = groups)]
    pub(crate) workers: Groups,

    /// What workers read
    #[arg(long, value_name = "MODE", default_value = "copy")]
    pub(crate) mode: ModeArg,

    // The help is generated from the list of kinds.
    #[arg(long, value_name = "KIND", default_value = "five-tuple")]
    #[arg(value_parser = values::distribution, help = values::distribution_help())]
    pub(crate) hash: Distribution,

    /// A sink for each worker; {k} is its number: x{k}.pcapng, afpacket:veth{k}, xdp:eth{k}
    #[arg(long, short, value_name = "SINK", value_hint = PORT_HINT)]
    pub(crate) output: Option<String>,

    #[command(flatten)]
    pub(crate) log: LogArgs,

    /// Let a slow worker also hold up sources that cannot wait; any loss is then a failure. Packets
    /// that are cut off, shed or filtered are not counted as a loss
    #[arg(long)]
    pub(crate) lossless: bool,

    /// Pass the first SIZE bytes of each flow, both directions together, and count the rest as
    /// `cut_off`. --hash defines flows; after 60 s of silence a flow counts as new
    #[arg(long, value_name = "SIZE", value_parser = values::bytes)]
    pub(crate) cutoff: Option<usize>,

    /// Drop packets that match EXPR, counted as `shed`. Forms as for --filter
    #[arg(long, value_name = "EXPR", value_parser = values::filter)]
    pub(crate) shed: Option<Filter>,
}

/// What workers read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeArg {
    /// Each worker reads its own log
    Copy,
    /// All workers read one log, and each takes its own flows
    Share,
}

/// Number of workers of each group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Groups(pub(crate) Vec<usize>);

impl Groups {
    /// Returns the number of workers of all groups.
    pub(crate) fn workers(&self) -> usize {
        self.0.iter().sum()
    }
}

/// Parses the number of workers of each group: `4`, `2,1`.
fn groups(text: &str) -> Result<Groups, String> {
    let numbers = text.split(',').map(|number| number.parse().ok().filter(|&number| number > 0));
    let groups: Option<Vec<usize>> = numbers.collect();
    let known = groups.filter(|groups| {
        let sum = groups.iter().try_fold(0_usize, |sum, group| sum.checked_add(*group));
        sum.is_some_and(|sum| sum <= WORKERS_MAX)
    });
    let wanted = || {
        format!("must be numbers from 1, together at most {WORKERS_MAX}, e.g. 4, or 2,1 for groups")
    };
    known.map(Groups).ok_or_else(wanted)
}
