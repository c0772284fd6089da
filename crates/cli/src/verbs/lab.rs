//! `burstline lab`: devices measured.

mod pcie;
mod rfc2544;
mod search;
mod tester;

use std::process::ExitCode;

use crate::args::{Lab, LabArgs};
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
    pub(crate) loss: Vec<Step>,
    pub(crate) back_to_back: Option<Burst>,
}

/// Measures what was asked for.
pub(crate) fn lab(args: &LabArgs) -> Result<ExitCode, Failure> {
    match &args.what {
        Lab::Pcie(args) => pcie::pcie(args),
        Lab::Rfc2544(args) => rfc2544::rfc2544(args),
    }
}
