//! `burstline top`.

use clap::Args;

use crate::args::values;

const EXAMPLES: &str = "\
Examples:
  burstline top                        the logs that are published here, their readers and lags
  burstline top 9180                   a job that runs with --web 9180, or with --metrics 9180
  burstline top 'http://10.0.0.5:9180/?token=...'   as the job printed it
  burstline top 9180 --once            one frame as text

Keys: q quits, arrows and page keys scroll, p pauses, ? shows these.";

/// Watch published logs, or a running job, in the terminal
///
/// A job is watched at the address of its --web or --metrics: rates, losses by cause, ports,
/// workers, files, logs, readers, threads. Without an address it shows the published logs of this
/// machine. Nothing can be changed. Without a terminal one frame is printed as text.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct TopArgs {
    /// The address of a job's --web or --metrics: HOST:PORT, a port of 127.0.0.1, or its http:
    /// address with the token [default: the logs published here]
    pub(crate) address: Option<String>,

    /// Print one frame as text, and exit
    #[arg(long)]
    pub(crate) once: bool,

    /// Look at published logs this often; a job reports its figures once a second
    #[arg(long, value_name = "INTERVAL", default_value = "1s", value_parser = values::span_ns)]
    pub(crate) interval: u64,
}
