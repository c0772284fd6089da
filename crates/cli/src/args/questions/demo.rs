//! `burstline demo`.

use clap::Args;

/// Demonstrate counting and capturing, and compare the counts with other tools
///
/// The demo makes the live traffic between network namespaces that it creates and removes. That
/// needs root, or `unshare -Urn`; its xdp: port needs root. Without these rights it says so and
/// shows the rest. It writes only below the temporary directory and takes some seconds. The exit
/// code is 0 only if all counts agree.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Leave the files in place and say where they are
    #[arg(long)]
    pub(crate) keep: bool,

    /// It is the network of a demonstration that has started it: standard input is the line to it.
    #[arg(long, hide = true)]
    pub(crate) network: bool,
}
