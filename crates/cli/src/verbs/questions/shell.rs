//! Verbs for shells and their users: completions, manual pages, the list of interfaces.

mod completions;
mod man;

use std::process::ExitCode;

use burstline_sys::interface::{Interface, present_interfaces};

use crate::args::ANY;
use crate::failure::Failure;
use crate::view;

pub(crate) use completions::completions;
pub(crate) use man::man;

/// Lists the interfaces that `-i` takes, one per line, like `tcpdump -D`.
pub(crate) fn interfaces() -> Result<ExitCode, Failure> {
    let mut text = String::new();
    for name in present_interfaces() {
        // It may have been removed in the meantime.
        let Ok(found) = Interface::named(&name) else { continue };
        let state = if found.is_up { "up" } else { "down" };
        text += &format!("{name:<16} {state:<5} MTU {}\n", found.mtu);
    }
    text += &format!("{ANY:<16} all interfaces that are up\n");
    view::say(&text)
}
