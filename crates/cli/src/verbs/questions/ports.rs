//! `burstline ports`.

use std::process::ExitCode;

use burstline_port::SCHEMES;

use crate::args::{PortsArgs, details};
use crate::failure::Failure;
use crate::view;

/// Prints the documentation of ports.
pub(crate) fn ports(args: &PortsArgs) -> Result<ExitCode, Failure> {
    let is_wanted = |name: &str| args.scheme.is_none_or(|wanted| wanted == name);
    let wanted = SCHEMES.iter().filter(|scheme| is_wanted(scheme.name));
    view::say(&wanted.map(details).collect::<Vec<_>>().join("\n"))
}
