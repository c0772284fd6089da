//! `burstline lab`: experiments with contenders, and devices measured.

mod documents;
mod measure;
mod report;
mod rfc2544;
mod rig;
mod scenarios;
mod search;
mod tester;

use std::process::ExitCode;

use burstline_lab::contenders;
use burstline_port::Address;

use crate::args::{Device, Lab, LabArgs};
use crate::failure::Failure;

pub(crate) use search::{Burst, Step, Throughput};
pub(crate) use tester::Trial;

/// Everything there is to say about one frame size. Source: RFC 2544, sections 26.1 to 26.4.
#[derive(Debug, Default)]
pub(crate) struct SizeResult {
    /// Bytes, FCS included.
    pub(crate) size: u32,
    /// Frames a second that fill the link.
    pub(crate) line_pps: f64,
    pub(crate) throughput: Option<Throughput>,
    /// The trial at the throughput rate that latencies are of.
    pub(crate) latency: Option<Trial>,
    /// The trial at half that rate.
    pub(crate) half: Option<Trial>,
    pub(crate) loss: Vec<Step>,
    pub(crate) back_to_back: Option<Burst>,
}

/// One device, and what came of it.
#[derive(Debug)]
pub(crate) struct Measured {
    /// What was started here; `None`: it was there.
    pub(crate) device: Option<Device>,
    /// Of the device, in a line.
    pub(crate) note: String,
    pub(crate) tx: Address,
    pub(crate) rx: Address,
    pub(crate) link_bits: f64,
    pub(crate) results: Vec<SizeResult>,
    /// Whether all that was asked for is there.
    pub(crate) is_whole: bool,
    /// Why it was not run at all, and the mend.
    pub(crate) not_run: Option<String>,
    /// What ended it early.
    pub(crate) failure: Option<Failure>,
}

impl Measured {
    fn new(device: Option<Device>, ends: &measure::Ends) -> Self {
        Self {
            device,
            note: String::new(),
            tx: ends.tx.clone(),
            rx: ends.rx.clone(),
            link_bits: ends.link_bits,
            results: Vec::new(),
            is_whole: false,
            not_run: None,
            failure: None,
        }
    }

    /// Whether nothing is missing that could be had.
    pub(crate) fn is_done(&self) -> bool {
        self.is_whole || self.not_run.is_some()
    }
}

/// Measures what was asked for.
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
        Lab::DpdkBalance(args) => {
            let words = [&["dpdk-balance".to_owned()], &args.arguments[..]].concat();
            contenders::run_balance(&words).map(ExitCode::from).map_err(Failure::new)
        }
    }
}
