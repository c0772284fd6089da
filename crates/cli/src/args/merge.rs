//! `burstline merge`.

use burstline_port::Address;
use burstline_wire::grammar::{Bounds, Quantity};
use clap::Args;

use super::{CommonArgs, FormatArgs, LogArgs, OutputArgs, values};

const EXAMPLES: &str = "\
Examples:
  burstline merge a.pcap b.pcapng.gz -w both.pcapng          two files in one, in order of time
  burstline merge eth0 eth1 eth2 eth3 --publish all &        four ports, one queue
  burstline capture log:all -w - | tshark -r - -c 10          what another program reads of it
  burstline merge xdp:eth1 xdp:eth2 -w - | tshark -r -        both directions of a tap
  burstline merge a.pcap b.pcap --offset b.pcap=-1500us -w x.pcapng
                                                             b's clock was 1.5 ms ahead
  burstline merge xdp:eth1 xdp:eth2 --share                   each on a core, merged without a copy
  burstline merge eth0 log:tap --lateness 20ms --depth 256m --node 1 --publish all";

/// Merge the packets of all sources into one sequence, in strict order of their times
///
/// One thread looks at the packets of all sources in place, finds the oldest, and copies it once
/// into a log in shared memory. The log is published, recorded by another thread, or only counted.
/// Packets with equal times stay in the order of their sources. A live port promises that no older
/// packet will come; a source without such a promise delays the others by --lateness at most. A
/// packet older than one already merged is passed on at once and counted as late, not as lost.
///
/// With --share, a thread and a log for each source receive its packets. Another thread names
/// the order of all packets, and the recorder reads them in place. That takes a core for each
/// source and two more. --packets then counts packets as they are received.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct MergeArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,

    /// The file to write; - is standard output, and then all text goes to standard error. Without
    /// it the packets are only counted, and read by others with --publish
    #[arg(long, short, value_name = "FILE", value_parser = values::written)]
    pub(crate) write: Option<String>,

    #[command(flatten)]
    pub(crate) format: FormatArgs,

    #[command(flatten)]
    pub(crate) files: OutputArgs,

    #[command(flatten)]
    pub(crate) log: LogArgs,

    /// Receive each source with a separate thread and log, and copy no packet out of it; without
    /// --publish and --offset
    #[arg(long)]
    pub(crate) share: bool,

    /// How long a packet waits at most for a source that has no packet
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = values::span_ns)]
    pub(crate) lateness: u64,

    /// Add TIME, with a sign and also in ns, to the times of SOURCE, named as it is among the
    /// sources: --offset eth0=-250ns. May be given several times
    #[arg(long, value_name = "SOURCE=TIME", value_parser = offset)]
    #[arg(allow_hyphen_values = true)]
    pub(crate) offset: Vec<Offset>,

    /// Let a full log also hold up sources that cannot wait; any loss is then a failure
    #[arg(long)]
    pub(crate) lossless: bool,
}

/// A time offset to add to the timestamps of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offset {
    pub(crate) source: Address,
    pub(crate) ns: i64,
}

/// Parses `SOURCE=TIME`, with an optional sign and units down to ns.
fn offset(text: &str) -> Result<Offset, String> {
    let wanted = || "expected SOURCE=TIME, e.g. eth0=-250us".to_owned();
    // The address may contain further equals signs.
    let (source, time) = text.rsplit_once('=').ok_or_else(wanted)?;
    let (is_back, span) = match time.strip_prefix('-') {
        Some(span) => (true, span),
        None => (false, time.strip_prefix('+').unwrap_or(time)),
    };
    let ns: i64 = Bounds::new(Quantity::Time, 0..=i64::MAX as u64)
        .read(span)
        .map_err(|error| format!("{error}; {}", wanted()))?;
    let source = values::source(source).map_err(|error| error.to_string())?;
    Ok(Offset { source, ns: if is_back { -ns } else { ns } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_of_clocks() {
        let ns = |text: &str| offset(&format!("eth0={text}")).map(|offset| offset.ns);
        let cases = [("-250us", -250_000), ("+7ns", 7), ("0ns", 0), ("3s", 3_000_000_000)];
        for (text, wanted) in cases {
            assert_eq!(ns(text), Ok(wanted), "{text}");
        }
        assert_eq!(ns("-9223372036854775807ns"), Ok(-i64::MAX));
        for wrong in ["", "5", "--5ns", "+-5ns", "-+5ns", "ns", "1.5s", "9223372036854775808ns"] {
            assert!(ns(wrong).is_err(), "{wrong}");
        }
        // A number that no clock shows, and that cannot be negated.
        assert!(ns("--9223372036854775808ns").is_err());
    }
}
