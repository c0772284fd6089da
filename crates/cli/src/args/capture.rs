//! `burstline capture`.

use burstline_port::Address;
use burstline_sys::memory::PageChoice;
use clap::{Args, ValueEnum};

use super::CommonArgs;
use super::values;

const EXAMPLES: &str = "\
Examples:
  burstline capture a.pcap b.pcap -w both.pcapng             two files of one link type into one
  burstline capture 'gen:?size=imix' --duration 10s -w x.pcapng
  burstline capture big.pcap.gz -w - | tshark -r - -c 10      plain pcapng into a pipe
  burstline capture eth0 --filter 'tcp port 443' -w https.pcapng
                                                             filtered in the kernel
  burstline capture trace.pcapng --format pcap -w old.pcap    for programs that know only pcap
  burstline capture a.pcap -o xdp:eth1                        sends the packets, as fast as it goes
  burstline capture a.pcap -w b.pcapng --buffer 1g --pages 1g --cores 2,3
  burstline capture eth0 eth1 eth2 -w x.pcapng --cores 2,4,6
                                  cores 2 and 4 receive, 6 records";

/// Record packets into a file, through the contiguous log
///
/// One thread receives all sources into a log in shared memory, packets back to back with a
/// worklist beside them; another records the log into a file. With --cores of three or more, the
/// last one records and each of the others receives into a log of its own, as far as there are
/// sources: the first source on the first core, and so on in turn. Packets of one core are in the
/// file in their order; those of different cores are not merged by time. Where every source can
/// wait, it is
/// held up when the log is full and nothing is lost; otherwise what the recorder missed is counted
/// exactly. The file is valid whenever the program ends, also by SIGINT and SIGTERM; a second
/// signal ends it at once.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct CaptureArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,

    /// The file to write; - is standard output, and then all text goes to standard error;
    /// null: keeps nothing
    #[arg(long, short, value_name = "FILE", required_unless_present = "output")]
    pub(crate) write: Option<String>,

    /// A sink to send to, in place of a file: a port like xdp:eth1, afpacket:veth0, inject:veth1,
    /// file:x.pcapng?format=pcap
    #[arg(long, short, value_name = "SINK", conflicts_with_all = ["write", "format"])]
    pub(crate) output: Option<Address>,

    /// The file's format [default: segmented; pcapng into pipes and devices]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<Format>,

    /// Size of each log's packet memory (k, m, g are powers of 1024)
    #[arg(long, value_name = "SIZE", default_value = "64m", value_parser = values::bytes)]
    pub(crate) buffer: usize,

    /// Size of one segment of it: a power of two. A packet that does not fit is cut and counted
    /// [default: 512k with files, whose packets may have 256k; else 256k]
    #[arg(long, value_name = "SIZE", value_parser = values::bytes)]
    pub(crate) segment: Option<usize>,

    /// Which pages to lay it in; auto takes the largest there are
    #[arg(long, value_name = "PAGES", default_value = "auto", value_parser = values::pages())]
    pub(crate) pages: PageChoice,

    /// Let a full log hold up sources that cannot wait, too; any loss is then a failure. What a
    /// filter leaves out is no loss
    #[arg(long)]
    pub(crate) lossless: bool,
}

/// What a file is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// pcapng in aligned segments with an index in each
    Segmented,
    /// pcapng
    Pcapng,
    /// pcap with nanosecond times
    PcapNs,
    /// pcap with microsecond times
    Pcap,
}
