//! `burstline flows`.

use std::path::PathBuf;

use burstline_fleet::{BusAddress, Collector, SpoolPlace};
use clap::{Args, Subcommand, ValueHint};

use super::{SourceArgs, output, values};

const EXAMPLES: &str = "\
Examples:
  burstline flows eth0 -o flows/                records of a link, a file a minute
  burstline flows xdp:eth1 -o /data/flows --sensor fra1 --flows 4M
  burstline flows trace.pcapng -o flows/ --json records of a file, with the ledger as JSON
  burstline flows eth0 --ipfix udp:10.0.0.9:4739 to nfcapd, pmacct or another collector
  burstline flows eth0 --nats 10.0.0.9:4222 --spool /var/spool/flows
                                                to a bus; what it does not take waits on disk
  burstline flows trace.pcap                    how many conversations, without writing them
  burstline flows compact flows/                one file of all files of an hour and sensor

docs/flows.md says what each column of the files is.";

/// Maximum number of conversations; each takes at most 200 bytes of the table.
const FLOWS_MOST: u64 = 1 << 30;

/// Write a record of each conversation: who, when, how much, how well
///
/// Both directions are one record. It ends when the connection does, after --idle without a packet,
/// or after --active. It goes into a tree of Parquet files: one file per minute and sensor, hidden
/// until it is whole. Packets in records, and packets without one, which are counted by
/// reason, add up to those delivered. Each source has a thread; another writes. If the writer is
/// too slow, records are dropped and counted, but no packets; sources that can wait do so.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct FlowsArgs {
    #[command(subcommand)]
    pub(crate) action: Option<FlowsAction>,

    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// The folder of the tree, created if missing. Without a tree, a collector or a bus, records
    /// are only counted
    #[arg(long, short, value_name = "TREE", value_hint = ValueHint::DirPath)]
    pub(crate) output: Option<PathBuf>,

    /// Send records to a collector by IPFIX: udp:HOST:PORT or tcp:HOST:PORT, with ?domain=N for the
    /// observation domain. May be given several times
    #[arg(long, value_name = "COLLECTOR")]
    pub(crate) ipfix: Vec<Collector>,

    /// Send records to Kafka: HOST:PORT of brokers, with commas between, and ?topic=NAME
    /// [default: burstline.flows]. Records count as sent once they are acknowledged
    #[arg(long, value_name = "BROKERS", value_parser = BusAddress::kafka)]
    pub(crate) kafka: Option<BusAddress>,

    /// Send records to NATS JetStream: HOST:PORT of servers, with commas between, and ?subject=NAME
    /// [default: burstline.flows], which the sensor's name is added to, and ?stream=NAME [default:
    /// burstline], which is created if missing. Records count as sent once they are acknowledged
    #[arg(long, value_name = "SERVERS", value_parser = BusAddress::nats)]
    pub(crate) nats: Option<BusAddress>,

    /// Keep messages to a bus in this folder until they are acknowledged, also over restarts.
    /// ?size=BYTES (suffixes k, m, g) limits the spool of each bus [default: 1g]. Records that do
    /// not fit are counted as `spool_full`
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) spool: Option<SpoolPlace>,

    /// Conversations that may be open at a time (suffixes k, M). Packets of further ones
    /// are counted as `table_full`
    #[arg(long, value_name = "N", default_value = "1M")]
    #[arg(value_parser = values::number::<usize>(1..=FLOWS_MOST))]
    pub(crate) flows: usize,

    /// A record ends when no packet comes for longer than this
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = values::span_ns)]
    pub(crate) idle: u64,

    /// A record that has been open for this long ends, and the next begins
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = values::span_ns)]
    pub(crate) active: u64,

    /// A file gathers records for this long
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = values::span_ns)]
    pub(crate) every: u64,

    /// Permission bits of new files of the tree, in octal, less the umask [default: 0600]. Who may
    /// read them may enter its new folders
    #[arg(long, value_name = "MODE", value_parser = output::mode, requires = "output")]
    pub(crate) mode: Option<u32>,

    /// The name of this machine in the records and in the tree [default: the host's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) sensor: Option<String>,
}

impl FlowsArgs {
    /// Returns the buses that records are sent to.
    pub(crate) fn buses(&self) -> impl Iterator<Item = &BusAddress> {
        self.kafka.iter().chain(&self.nats)
    }
}

/// What to do with a tree.
#[derive(Debug, Subcommand)]
pub(crate) enum FlowsAction {
    /// Make one file of all files of each hour and sensor
    ///
    /// Readers and writers may continue meanwhile. A damaged file is left in place and reported.
    /// Example: burstline flows compact flows/
    Compact {
        /// The folder of the tree
        #[arg(value_name = "TREE", value_hint = ValueHint::DirPath)]
        tree: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}
