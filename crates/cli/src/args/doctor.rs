//! `burstline doctor`.

use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  burstline doctor ports                  every interface of this network namespace
  burstline doctor ports eth1 --probe     also bind and attach there, to be sure of the mode
  burstline doctor ports --json | jq -r '.ports[] | select(.can_open) | .port'";

/// Say what works on this machine, what does not, and what mends it
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(subcommand)]
    pub(crate) about: Doctor,
}

/// What to look at.
#[derive(Debug, Subcommand)]
pub(crate) enum Doctor {
    Ports(DoctorPortsArgs),
    Logs(DoctorLogsArgs),
}

/// Which ports can be opened here, how, and why not, with the command that mends it
///
/// Everything is tried, up to the step that somebody else would notice: sockets are made and closed
/// again, programs loaded and not attached, no packet is taken from anybody. "with" opens with the
/// flag named. The mode of an xdp: port is the driver's own word, unless --probe was given.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct DoctorPortsArgs {
    /// Interfaces to look at [default: all of this network namespace]
    #[arg(value_name = "INTERFACE")]
    pub(crate) interfaces: Vec<String>,

    /// Also bind XDP sockets and attach a program that passes everything, where neither the
    /// default route nor a login is: a network card may lose some packets by it
    #[arg(long)]
    pub(crate) probe: bool,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

const LOGS_EXAMPLES: &str = "\
Examples:
  burstline doctor logs                   every name that can be read from here
  burstline doctor logs tap               one of them
  burstline doctor logs --json | jq -r '.names[].readers[] | select(.missed > 0) | .pid'";

/// Which logs are published, who reads them, and how far behind each reader is
///
/// What a reader has read and missed is its own word. A name whose publisher was killed is shown
/// with what clears it away; the next publisher of that name does so by itself.
#[derive(Debug, Args)]
#[command(after_long_help = LOGS_EXAMPLES)]
pub(crate) struct DoctorLogsArgs {
    /// A name, or the path of a socket [default: all names]
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}
