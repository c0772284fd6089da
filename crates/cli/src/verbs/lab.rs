//! `burstline lab`: experiments with contenders, and devices measured.

mod dma;
mod dma_record;
mod documents;
mod pcie;
mod report;
mod rfc2544;
mod scenarios;
mod turns;

use std::process::ExitCode;

use burstline_lab::contenders;

use crate::args::{Lab, LabArgs};
use crate::failure::Failure;

pub(crate) use dma::{DmaRow, RetentionRow};
pub(crate) use turns::Turns;

/// Measures what was asked for.
pub(crate) fn lab(args: &LabArgs) -> Result<ExitCode, Failure> {
    match &args.what {
        Lab::Documents(args) => documents::documents(args),
        Lab::List(args) => scenarios::list(args),
        Lab::Run(args) => scenarios::run(args),
        Lab::Compare(args) => scenarios::compare(args),
        Lab::Pcie(args) => pcie::pcie(args),
        Lab::Report(args) => report::report(args),
        Lab::Dma(args) => dma::dma(args),
        Lab::Retention(args) => dma::retention(args),
        Lab::Rfc2544(args) => rfc2544::rfc2544(args),
        Lab::DpdkBalance(args) => {
            let words = [&["dpdk-balance".to_owned()], &args.arguments[..]].concat();
            contenders::run_balance(&words).map(ExitCode::from).map_err(Failure::new)
        }
    }
}
