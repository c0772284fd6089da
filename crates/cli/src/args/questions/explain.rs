//! `burstline explain`.

use clap::Args;

const EXAMPLES: &str = "\
Examples:
  burstline explain rx_ring_full        why packets were lost, and what helps
  burstline explain distance-changed    a doubt of a record of the lab
  burstline explain 'huge pages'        a finding of burstline doctor
  burstline explain '12 packets are GSO/GRO aggregates'
                                        a note, copied from a report
  burstline explain                     all of them, one per line";

/// Say what a loss, a note, a finding, a fault or a doubt means, and what to do
///
/// A loss is a name in the ledger, in --json and in --metrics. A note is a line `note` of a
/// report. A finding is a line of doctor. A fault is why a job fails, in --json (outcome.faults). A
/// doubt is a reason to distrust a record of the lab.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ExplainArgs {
    /// A name of one of these, or the text of a note [default: all, one per line]
    pub(crate) code: Option<String>,

    /// Print JSON: an object, or an array of all
    #[arg(long)]
    pub(crate) json: bool,
}
