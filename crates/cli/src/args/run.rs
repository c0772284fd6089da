//! `burstline run`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use super::values;

const EXAMPLES: &str = "\
Examples:
  burstline run --check site.toml       reports errors in the file, and starts nothing
  burstline run site.toml
  burstline run site.toml --metrics 9100            all jobs' counters for Prometheus
  burstline run site.toml --log-format json | jq -c 'select(.event == \"ledger\")'
  kill -HUP PID                         reads the file again

A file with two jobs:
  [job.tap]
  verb = \"capture\"
  ports = [\"eth0\"]
  publish = \"tap\"
  restart = \"always\"
  missing-port = \"wait\"

  [job.dns]
  verb = \"capture\"
  ports = \"log:tap\"
  filter = \"udp port 53\"
  write = \"/var/lib/burstline/dns.pcapng\"
  rotate = [\"duration:3600\", \"files:24\"]

Keys of a job are the flags of its verb (burstline help capture), without the dashes, and these:
  verb            what it does: capture, merge, balance, switch, ...
  ports           the arguments without a flag: a port, or a list of them
  restart         never, on-failure or always [default: on-failure]
  restart-delay   the time before the first restart; it doubles up to a minute [default: 1s]
  restart-limit   restarts in a row before it is given up; 0: no limit [default: 10]
  missing-port    fail, or wait until interface, file or log exists [default: fail]
  stop-timeout    how long the job may take to end [default: 30s]";

/// Run any number of jobs from one file, as a service
///
/// The whole file is checked before anything starts. Each job is a process with its own rights and
/// its own ledger; what it prints is logged under its name. SIGHUP reads the file again: jobs that
/// did not change keep running. SIGUSR1 logs which jobs run. SIGTERM and SIGINT end all jobs
/// with their ledgers. If the service dies, its jobs end. The exit code is 0 if no job has failed
/// for good.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct RunArgs {
    /// The file with the jobs, as TOML
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,

    /// Check the file, print the commands that its jobs stand for, and start nothing
    #[arg(long)]
    pub(crate) check: bool,

    /// How events are printed: text, or JSON, an object a line
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,

    /// The counters of all jobs at http://ADDRESS/metrics, for Prometheus: 127.0.0.1:9100, or a
    /// port of 127.0.0.1. Each line has its job as site_job="NAME"
    #[arg(long, value_name = "ADDRESS", value_parser = values::socket_address)]
    pub(crate) metrics: Option<SocketAddr>,

    /// It answers for a service that has started it: standard input is the line to it.
    #[arg(long, hide = true)]
    pub(crate) answers: bool,

    /// It writes the log of a service that has started it: standard input is the line to it.
    #[arg(long, hide = true)]
    pub(crate) journal: bool,
}

/// How events are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people
    Text,
    /// One JSON object a line
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_has_every_key_of_a_job() {
        for key in crate::verbs::KEYS_OF_JOBS {
            assert!(EXAMPLES.contains(&format!("\n  {key} ")), "{key}");
        }
    }
}
