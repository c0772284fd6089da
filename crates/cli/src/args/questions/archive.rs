//! The flags of verbs that process whole files: check, recover, info, extract, index.

use burstline_port::Filter;
use burstline_wire::flow::FlowQuery;
use clap::Args;

use crate::args::moment::{Moment, moment};
use crate::args::{FormatArgs, LinkTypeArgs, values};

/// Files, and how to speak of them.
#[derive(Debug, Args)]
pub(crate) struct FilesArgs {
    /// Capture files, also compressed; folders (all captures in them); quoted patterns with *, ?
    /// and [a-z] in the last part of the path; - is standard input, except for extract and index
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<String>,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,

    /// Print only errors (and the output of --json)
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

impl FilesArgs {
    /// Returns what names the files: a set may be written as its address.
    pub(crate) fn targets(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|target| target.strip_prefix("set:").unwrap_or(target))
    }
}

const CHECK: &str = "\
Examples:
  burstline check x.pcapng          is every packet as it was recorded?
  burstline check /var/rec          all recordings of a folder
  burstline check --json x.pcapng | jq '.files[].faults'

Exit code: 0 all files are sound; 1 some are damaged, or cannot be read.";

/// Check that recordings are as they were written
///
/// Reads each file from start to end. In segmented files it checks the checksum of each segment,
/// and that none is missing, repeated or out of place. Worklists and blocks have to agree, and
/// packets have to add up to what trailers and closing counts say. Other formats have no checksum:
/// there it checks that records follow each other. Prints a line for each file, and a line for each
/// damage, with file offset and packet numbers. Numbers count from 1 over the packets that the file
/// had when it was written. A file that is still being written is sound if it is so far: that it
/// has no end yet is no damage.
#[derive(Debug, Args)]
#[command(after_long_help = CHECK)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) files: FilesArgs,
}

const RECOVER: &str = "\
Examples:
  burstline recover torn.pcapng -w good.pcapng
  burstline recover a.pcap b.pcap -w all.pcapng
  burstline recover torn.pcapng -w - | tshark -r -
  burstline recover mixed.pcapng -w x.pcapng --link-types split    a file for each link type

Exit code: 0 also where packets are lost, which are listed; 1 a file cannot be read or written.";

/// Write all sound packets of damaged files into a new file
///
/// Packets of segments whose checksum does not hold are left out; so are bytes that cannot be
/// parsed. The damage is listed as `check` lists it. The next packet of the output says how many
/// packets are missing before it. Files are read one after the other, in the order given. The
/// output is never one of them.
#[derive(Debug, Args)]
#[command(after_long_help = RECOVER)]
pub(crate) struct RecoverArgs {
    #[command(flatten)]
    pub(crate) files: FilesArgs,

    /// The file to write; - is standard output, and then all text goes to standard error
    #[arg(long, short, value_name = "FILE", value_parser = values::written)]
    pub(crate) write: String,

    #[command(flatten)]
    pub(crate) format: FormatArgs,

    #[command(flatten)]
    pub(crate) links: LinkTypeArgs,
}

const INFO: &str = "\
Examples:
  burstline info x.pcapng
  burstline info --json *.pcap | jq '.files[] | {file, packets, flows}'
  examples/ledger-of-file.sh x.pcapng       the same sum of offered, by tshark alone";

/// Describe capture files: packets, sizes, times, rates, flows, losses
///
/// Prints what capinfos prints: format, packets, sizes, duration, first and last time, rates,
/// interfaces, order. Adds flows, the longest gap, packets that are out of order in time, and the
/// rate over time. For recordings it also says what was lost, by cause, from trailers and closing
/// counts.
#[derive(Debug, Args)]
#[command(after_long_help = INFO)]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    pub(crate) files: FilesArgs,
}

const EXTRACT: &str = "\
Examples:
  burstline extract x.pcapng --flow 10.0.0.1:53,10.0.0.2:999,udp -w dns.pcapng
  burstline extract x.pcapng --flow 1:LQU9qZlK+B5F3KDmev6m5PMibrg= -w flow.pcapng
  burstline extract x.pcapng --flow 10.0.0.1:53,10.0.0.2:999,udp --inner    also in tunnels
  burstline extract /var/rec --from 2026-11-21T21:44:00Z --to 2026-11-21T21:45:00Z -w minute.pcapng
  burstline extract x.pcapng --from +5s --to +6s --filter 'tcp port 443' -w - | tshark -r -
  burstline extract '/var/rec/*.pcapng' --port eth1   how many packets of eth1 there are

Without -w the packets are only counted.";

/// Find packets in files by time, flow, filter and interface
///
/// The files are one source, in order of time. Of a segmented recording it reads only those
/// segments that can hold an answer. It knows them by the times in their trailers and the sketches
/// of their flows. Of other files it reads the parts that an index (burstline index) names. In a
/// folder it opens only files that can hold an answer, by the catalogue that it keeps there,
/// .burstline-catalogue. Skipped parts are not checked; use `check` for that. A recording may still
/// be growing.
#[derive(Debug, Args)]
#[command(after_long_help = EXTRACT)]
pub(crate) struct ExtractArgs {
    #[command(flatten)]
    pub(crate) files: FilesArgs,

    /// Only packets from this time on: +5s (after the first packet), seconds since 1970, or a date
    /// as 2026-11-21T21:44:00Z
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) from: Option<Moment>,

    /// Only packets before this time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) to: Option<Moment>,

    /// Only packets of one conversation, in both directions: two ends and a protocol, or its
    /// Community ID. Later fragments have no ports and belong to no conversation that has
    #[arg(long, value_name = "FLOW")]
    pub(crate) flow: Option<FlowQuery>,

    /// --flow asks for the innermost packet of a tunnel, as in the records of `flows`, not for the
    /// one around it. It reads all files and segments of the time: only the flows around tunnels
    /// are in sketches and indexes
    #[arg(long, requires = "flow")]
    pub(crate) inner: bool,

    /// Only packets that match EXPR, see pcap-filter(7)
    #[arg(long, value_name = "EXPR", value_parser = values::filter)]
    pub(crate) filter: Option<Filter>,

    /// Only packets of this interface; an interface without a name is called like its file
    #[arg(long, value_name = "NAME")]
    pub(crate) port: Option<String>,

    /// The file to write; - is standard output, and then all text goes to standard error
    #[arg(long, short, value_name = "FILE", value_parser = values::written)]
    pub(crate) write: Option<String>,

    #[command(flatten)]
    pub(crate) format: FormatArgs,

    #[command(flatten)]
    pub(crate) links: LinkTypeArgs,
}

const INDEX: &str = "\
Examples:
  burstline index big.pcap                                  writes big.pcap.bidx
  burstline extract big.pcap --flow 10.0.0.1:53,10.0.0.2:999,udp -w dns.pcap

An index is used only while its file's size, times of modification and change, and inode are the
same as when it was made. extract rebuilds a stale index.";

/// Write indexes beside pcap and pcapng files, so that extract need not read all of them
///
/// The index of FILE is FILE.bidx: for each run of 1,024 packets where it starts, its times and the
/// hashes of its flows. Segmented recordings have an index in each segment and need none;
/// compressed files cannot have one.
#[derive(Debug, Args)]
#[command(after_long_help = INDEX)]
pub(crate) struct IndexArgs {
    #[command(flatten)]
    pub(crate) files: FilesArgs,
}
