//! `burstline replay`.

use burstline_port::{Address, Filter, InterfaceKey, Rate};
use burstline_wire::grammar;
use burstline_wire::rewrite::Rule;
use clap::{Args, ValueHint};

use super::{JobArgs, PORT_HINT, values};

const EXAMPLES: &str = "\
Examples:
  burstline replay trace.pcap -o eth1                         with the original spacing
  burstline replay trace.pcap -o xdp:eth1 --speed 10          ten times as fast
  burstline replay trace.pcap -o eth1 --rate 100k --loops 50  a packet each 10 us
  burstline replay trace.pcap -o eth1 --rate 50%              half of the link's rate
  burstline replay trace.pcap -o eth1 --top-speed --loops 0 --duration 60s
  burstline replay two.pcapng -o eth1 -o eth2                 its interface 0 by eth1, 1 by eth2
  burstline replay two.pcapng --map lan=eth1,wan=xdp:eth2     by their names in the file
  burstline replay a.pcap -o eth1 --rewrite dst-mac=02:00:00:00:00:02 --rewrite vlan=7 \\
    --rewrite ip=10.0.0.0/8=172.0.0.0/8 --rewrite checksums
  burstline replay a.pcap -o b.pcapng --top-speed --rewrite vlan=strip    another file, same times

Rules of --rewrite: src-mac=MAC, dst-mac=MAC; vlan=ID sets the outermost tag's id, or puts one in;
vlan=strip takes it out; ip=OLD/BITS=NEW/BITS replaces the first BITS of addresses in OLD, src-ip=
and dst-ip= of one side only, for IPv4 and IPv6. Checksums that cover an address are updated with
it: a wrong one stays wrong. checksums computes all of them, which captures of a host's own packets
often need. Packets inside tunnels, ARP, and packets quoted by ICMP are not changed.";

/// Replay captures at original or modified speed
///
/// One thread reads the files, one after the other, and sends each packet when it is due; the
/// report says how late they were. Without a mapping, all packets go to the one sink. `offered`
/// counts the packets that the files held, `delivered` those that the sinks took; each sink has a
/// row.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,

    /// Capture files: pcap or pcapng, also in gzip or zstd; - is standard input
    #[arg(value_name = "FILE", required = true, value_parser = values::source)]
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<Address>,

    /// Where to send: an interface, xdp:, inject:, log:, a file, - or null:. Given several times,
    /// the first is for interface 0 of the file, the second for interface 1, and so on
    #[arg(long, short, value_name = "SINK", required_unless_present = "map")]
    #[arg(value_parser = values::sink, value_hint = PORT_HINT)]
    pub(crate) output: Vec<Address>,

    /// Send an interface of the file to a sink, by its number or name; the others go to --output,
    /// or are counted as `unmapped`
    #[arg(long, value_name = "INTERFACE=SINK", value_delimiter = ',', value_parser = mapping)]
    pub(crate) map: Vec<(InterfaceKey, Address)>,

    /// Replay X times as fast as captured: 2, 0.5
    #[arg(long, value_name = "X", value_parser = speed, conflicts_with_all = ["rate", "top_speed"])]
    pub(crate) speed: Option<f64>,

    /// Replay at an even rate: packets/s (500, 1k, 14.88M), line rate (9.5Gbit, preamble, gap and
    /// FCS included), or a part of --link (50%)
    #[arg(long, value_name = "RATE", conflicts_with = "top_speed")]
    pub(crate) rate: Option<Rate>,

    /// Send N packets at once, at the same rate
    #[arg(long, value_name = "N", requires = "rate")]
    #[arg(default_value = "1", value_parser = values::number::<u64>(1..=1 << 20))]
    pub(crate) burst: u64,

    /// The link's rate, for rates in percent: 10Gbit (default: the interface's)
    #[arg(long, value_name = "RATE", requires = "rate")]
    pub(crate) link: Option<Rate>,

    /// Replay as fast as the sinks accept packets, which keep the file's times
    #[arg(long)]
    pub(crate) top_speed: bool,

    /// Replay all files N times; 0 repeats without end
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::expected)]
    pub(crate) loops: u64,

    /// Change packets: src-mac=MAC, dst-mac=MAC, vlan=ID, vlan=strip, checksums, and ip=, src-ip=
    /// or dst-ip= with OLD/BITS=NEW/BITS
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub(crate) rewrite: Vec<Rule>,

    /// Send only packets that match EXPR, as for count; others are counted as `filtered`
    #[arg(long, value_name = "EXPR", value_parser = values::filter)]
    pub(crate) filter: Option<Filter>,
}

/// Parses `INTERFACE=SINK`.
fn mapping(text: &str) -> Result<(InterfaceKey, Address), String> {
    let (interface, sink) = text
        .split_once('=')
        .filter(|(interface, _)| !interface.is_empty())
        .ok_or("expected INTERFACE=SINK, e.g. 0=eth1 or lan=xdp:eth1")?;
    let key = match interface.parse() {
        Ok(number) => InterfaceKey::Number(number),
        Err(_) => InterfaceKey::Name(interface.to_owned()),
    };
    Ok((key, values::sink(sink).map_err(|error| error.to_string())?))
}

/// Parses a factor above 0.
fn speed(text: &str) -> Result<f64, String> {
    let factor = grammar::decimal(text).filter(|factor| *factor > 0.0 && factor.is_finite());
    factor.ok_or_else(|| "must be a factor above 0, e.g. 2 or 0.5".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_and_factors() {
        let (key, sink) = mapping("lan=xdp:eth1?ring=512").unwrap();
        assert_eq!((key, sink.scheme()), (InterfaceKey::Name("lan".into()), "xdp"));
        assert_eq!(mapping("3=eth1").unwrap().0, InterfaceKey::Number(3));
        assert!(mapping("eth1").is_err() && mapping("=eth1").is_err() && mapping("0=").is_err());
        assert_eq!(speed("0.5"), Ok(0.5));
        for wrong in ["", "0", "-1", "1e3", "inf", "nan", "x"] {
            assert!(speed(wrong).is_err(), "{wrong}");
        }
    }
}
