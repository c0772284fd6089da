//! `burstline lab pcie`.

use std::process::ExitCode;

use burstline_nicsim::pcie::{Bus, EthernetRate};
use burstline_port::Rate;

use crate::args::PcieArgs;
use crate::failure::Failure;
use crate::view;

/// Works out what was asked for, and prints it.
pub(crate) fn pcie(args: &PcieArgs) -> Result<ExitCode, Failure> {
    let slots = args.pcie.iter().map(|&link| Bus::new(link, args.payload, args.request));
    let slots = slots.collect::<Result<Vec<_>, _>>();
    let slots = slots.map_err(|error| Failure::usage(error.to_string()))?;
    let line = match args.line {
        Rate::LineBits(bits) if bits >= 1.0 => EthernetRate(bits),
        _ => return Err(Failure::usage("invalid value for '--line': a link's rate is as 100Gbit")),
    };
    let text = match args.json {
        true => format!("{}\n", view::pcie::json(args, &slots, line)),
        false => view::pcie::text(args, &slots, line),
    };
    view::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
