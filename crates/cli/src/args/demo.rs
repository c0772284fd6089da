//! `burstline demo`.

use clap::Args;

/// Show it at work: count, capture, look into a burst, compare with other tools
///
/// Needs neither root nor a network nor huge pages, writes only below the temporary directory and
/// takes some seconds. Ends with 0 only if every count agrees.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Leave the files in place and say where they are
    #[arg(long)]
    pub(crate) keep: bool,
}
