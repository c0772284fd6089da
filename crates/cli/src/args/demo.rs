//! `burstline demo`.

use clap::Args;

/// Show it at work: count, capture, look into a burst, compare with other tools
///
/// Live traffic is of its own making, between network namespaces that go with it: that needs root,
/// or `unshare -Urn`, and ports of XDP need root. Without, it says so and shows the rest. Writes only
/// below the temporary directory and takes some seconds. Ends with 0 only if every count agrees.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Leave the files in place and say where they are
    #[arg(long)]
    pub(crate) keep: bool,
}
