//! `burstline count`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{CommonArgs, LogArgs, values};

const EXAMPLES: &str = "\
Examples:
  burstline count trace.pcap                      how many packets, how fast
  burstline count --json a.pcap b.pcapng.gz       both at a time, a core each, as JSON
  burstline count trace.pcap --filter 'udp port 53 or vlan'
                                                  how many of them, and how many others
  burstline count trace.pcap --filter \"$(tcpdump -y EN10MB -ddd 'tcp[13] & 2 != 0')\"
                                                  by a program, without libpcap here
  zcat trace.gz | burstline count -               from standard input
  burstline count 'gen:?size=64' --duration 5s --cores 1
                                                  how fast this core can look at packets
  burstline count xdp:eth2 --verify --expect 1000000          what became of a million that
                                                  `generate` sent
  burstline count eth0 --poll busy --cores 1      the least latency, for the whole of a core
  burstline count 'gen:?rate=1M' --publish tap    packets for others to read, see log:
  burstline count 'log:tap?lossless'              what another program publishes";

/// Count packets where they lie, one thread a source
///
/// Packets are counted run to completion: each source has a thread, which looks at the packets
/// where the source has them. Nothing is copied. (With --publish they are received into a log,
/// which others can read, and counted there; --buffer, --segment and --pages are about that log.)
/// The ledger at the end says, for each source, what was offered, delivered, lost (to what) and in
/// flight; the remainder, `unaccounted`, is 0.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct CountArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,

    #[command(flatten)]
    pub(crate) log: LogArgs,

    /// Look at the marks of generated packets: what was lost, doubled, reordered, corrupted, and
    /// how long it took, for each flow. Any defect is a failure. By frame, every byte has to be as
    /// it was sent; by checksums, only those of IPv4, TCP and UDP have to hold, for what came
    /// through a router
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true)]
    #[arg(conflicts_with = "publish")]
    #[arg(default_missing_value = "frame")]
    pub(crate) verify: Option<Verify>,

    /// Fail unless exactly N packets were delivered; with --verify, what was lost at the end is
    /// counted, too
    #[arg(long, value_name = "N", value_parser = values::expected)]
    pub(crate) expect: Option<u64>,

    /// Write latencies into an HdrHistogram log (V2), in ns: all, and each flow by tag
    #[arg(long, value_name = "FILE", requires = "verify")]
    pub(crate) latency_log: Option<PathBuf>,
}

/// By what a packet is taken for intact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Verify {
    /// Every byte is as it was sent
    Frame,
    /// The packet's own checksums hold
    Checksums,
}
