//! `burstline lab`: experiments that compare contenders and measure devices.

mod documents;
mod report;
mod rfc2544;
mod scenarios;

use std::process::ExitCode;
use std::time::Duration;

use burstline_lab::{contenders, remote};

use crate::args::{GeneratorArgs, Lab, LabArgs};
use crate::failure::Failure;
use crate::signals;
pub(crate) use scenarios::record_at;

/// Runs the chosen experiment.
pub(crate) fn lab(args: &LabArgs) -> Result<ExitCode, Failure> {
    match &args.what {
        Lab::Documents(args) => documents::documents(args),
        Lab::List(args) => scenarios::list(args),
        Lab::Run(args) => scenarios::run(&args.scenarios, &args.options),
        Lab::Compare(args) => scenarios::compare(args),
        Lab::Pcie(options) => scenarios::run(&["pcie".to_owned()], options),
        Lab::Report(args) => report::report(args),
        Lab::Dma(options) => scenarios::run(&["dma".to_owned()], options),
        Lab::Retention(options) => scenarios::run(&["retention".to_owned()], options),
        Lab::Rfc2544(args) => rfc2544::rfc2544(args),
        Lab::Generator(args) => generator(args),
        Lab::DpdkBalance(args) => {
            let words = [&["dpdk-balance".to_owned()], &args.arguments[..]].concat();
            contenders::run_balance(&words).map(ExitCode::from).map_err(Failure::new)
        }
    }
}

/// Runs the remote side of `lab run --generator`.
fn generator(args: &GeneratorArgs) -> Result<ExitCode, Failure> {
    let (port, back) = (args.port.clone(), args.back.clone());
    let silence = Duration::from_nanos(args.silence);
    let served = remote::serve(port, back, silence, &*signals::stop_flag(true)?);
    served.map(|()| ExitCode::SUCCESS).map_err(|error| Failure::new(error.to_string()))
}
