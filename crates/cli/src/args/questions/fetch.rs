//! `burstline fetch`.

use std::path::PathBuf;

use burstline_wire::flow::FlowQuery;
use clap::Args;

use crate::args::moment::{Moment, moment};
use crate::args::{FormatArgs, LinkTypeArgs, values};

const EXAMPLES: &str = "\
Examples:
  burstline fetch --flow 1:LQU9qZlK+B5F3KDmev6m5PMibrg= --sensors hosts.toml -o flow.pcapng
  burstline fetch --from 2026-11-25T14:00:00Z --to 2026-11-25T14:01:00Z --filter 'udp port 53' \\
      --sensors hosts.toml -o dns.pcapng
  burstline fetch --flow 10.0.0.1:53,10.0.0.2:999,udp --sensors hosts.toml -o - | tshark -r -

hosts.toml:
  config = \"ssh_config\"              # optional: ssh -F; beside this file, if relative

  [[sensor]]
  name = \"fra1\"
  host = \"probe@fra1.example.net\"    # or a name of ssh's own configuration
  port = 22                          # optional
  files = [\"/var/rec\"]               # as extract takes them
  program = \"burstline\"              # optional: the program on that host

Exit code: 0 every sensor has sent all that it found; 1 one has not, or its recordings are damaged;
2 usage. Packets received are written either way.";

/// Fetch packets of many sensors over ssh into one file, in order of time
///
/// Each sensor runs its own `burstline extract`, so only the packets you want travel. ssh uses the
/// keys and hosts that it knows, and never prompts. Packets received are kept in $TMPDIR until
/// the last sensor has answered, then merged. Interfaces are called SENSOR:NAME. The report has a
/// line for each sensor: packets it had, found, received and lost, and why it failed.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
#[command(group = clap::ArgGroup::new("wanted").required(true).multiple(true)
    .args(["flow", "from", "to", "filter"]))]
pub(crate) struct FetchArgs {
    /// The file that names the sensors
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) sensors: PathBuf,

    /// Only packets of one conversation: two ends and a protocol, or its Community ID
    #[arg(long, value_name = "FLOW", value_parser = flow)]
    pub(crate) flow: Option<String>,

    /// Only packets from this time on: seconds since 1970, or a date as 2026-11-21T21:44:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) from: Option<u64>,

    /// Only packets before this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) to: Option<u64>,

    /// Only packets that match EXPR, see pcap-filter(7); each sensor compiles it
    #[arg(long, value_name = "EXPR")]
    pub(crate) filter: Option<String>,

    /// Ask only this sensor; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) sensor: Vec<String>,

    /// The file to write; - is standard output, and then all text goes to standard error
    #[arg(long = "output", short = 'o', value_name = "FILE", value_parser = values::written)]
    pub(crate) write: String,

    #[command(flatten)]
    pub(crate) format: FormatArgs,

    #[command(flatten)]
    pub(crate) links: LinkTypeArgs,

    /// How many sensors are asked at a time
    #[arg(long, value_name = "N", default_value = "16", value_parser = values::threads)]
    pub(crate) at_a_time: u64,

    /// How long a connection may take
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = values::span_ns)]
    pub(crate) connect: u64,

    /// How long a sensor may send nothing. One that searches large files is silent for longer
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = values::span_ns)]
    pub(crate) silence: u64,

    /// Take at most this many bytes from one sensor
    #[arg(long, value_name = "SIZE", default_value = "10g", value_parser = values::bytes)]
    pub(crate) limit: usize,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,

    /// Print only errors (and the output of --json)
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Checks a conversation and returns it as typed, because the sensors parse it, too.
fn flow(text: &str) -> Result<String, String> {
    let read: Result<FlowQuery, _> = text.parse();
    read.map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Parses an absolute time, which means the same on every sensor.
fn time(text: &str) -> Result<u64, String> {
    match moment(text)? {
        Moment::At(ns) => Ok(ns),
        Moment::After(_) => Err("a time after the first packet differs from sensor to sensor; \
             give seconds since 1970, or a date"
            .to_owned()),
    }
}
