//! `burstline count`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{CommonArgs, LogArgs, values};

const EXAMPLES: &str = "\
Examples:
  burstline count trace.pcap                      how many packets, how fast
  burstline count --json a.pcap b.pcapng.gz       both at the same time, a core each, as JSON
  burstline count trace.pcap --filter 'udp port 53 or vlan'
                                                  how many of them, and how many others
  burstline count trace.pcap --filter \"$(tcpdump -y EN10MB -ddd 'tcp[13] & 2 != 0')\"
                                                  a BPF program: needs no libpcap here
  zcat trace.gz | burstline count -               from standard input
  burstline count 'gen:?size=64' --duration 5s --cores 1
                                                  how fast this core can look at packets
  burstline count xdp:eth2 --verify --expect 1000000          check a million packets that
                                                  `generate` sent
  burstline count eth0 --poll busy --cores 1      the lowest latency, at the cost of a core
  burstline count 'gen:?rate=1M' --publish tap    packets for others to read, see log:
  burstline count 'log:tap?lossless'              what another program publishes";

/// Count packets in place, one thread per source
///
/// Each source has a thread that counts packets in the source's own buffer, without a copy. With
/// --publish a log receives the packets, other programs can read it, and the packets are counted
/// there; --buffer, --segment and --pages shape that log. The report says how many packets each
/// source received and lost, by cause. The remainder, `unaccounted`, is 0.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct CountArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,

    #[command(flatten)]
    pub(crate) log: LogArgs,

    /// Check the marks of generated packets: which were lost, duplicated, reordered or corrupted,
    /// and their latency, for each flow. Any defect is a failure. `frame` requires every byte to
    /// be unchanged; `checksums` requires only valid IPv4, TCP and UDP checksums, for packets that
    /// passed a router
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true)]
    #[arg(conflicts_with = "publish")]
    #[arg(default_missing_value = "frame")]
    pub(crate) verify: Option<Verify>,

    /// Fail unless exactly N packets were delivered; with --verify, losses at the end are then
    /// counted, too
    #[arg(long, value_name = "N", value_parser = values::expected)]
    pub(crate) expect: Option<u64>,

    /// Write latencies into an HdrHistogram log (V2), in ns: all, and each flow by tag
    #[arg(long, value_name = "FILE", requires = "verify")]
    pub(crate) latency_log: Option<PathBuf>,
}

/// What makes a packet intact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Verify {
    /// Every byte is as it was sent
    Frame,
    /// The packet's own checksums hold
    Checksums,
}
