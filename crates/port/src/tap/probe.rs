//! Probes for TAP ports without creating an interface, which the host would notice.

use burstline_sys::machine::Rights;
use burstline_sys::machine::capability::NET_ADMIN;
use burstline_sys::tap::find_driver;

use crate::Probe;

/// Checks for the driver and the right to create devices.
pub(crate) fn probe(probe: &mut Probe) {
    match find_driver() {
        Err(error) => probe.refuse(&error),
        Ok(()) if Rights::read().has(NET_ADMIN) => probe.can_open = true,
        Ok(()) => probe.refuse_for_rights(&[NET_ADMIN]),
    }
}
