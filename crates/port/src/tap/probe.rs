//! Trying a TAP port: without making an interface, which the host would notice.

use burstline_sys::machine::Rights;
use burstline_sys::machine::capability::NET_ADMIN;
use burstline_sys::tap::find_driver;

use crate::Probe;

/// Looks for the driver and the right to make devices.
pub(crate) fn probe(probe: &mut Probe) {
    match find_driver() {
        Err(error) => probe.refuse(&error),
        Ok(()) if Rights::read().has(NET_ADMIN) => probe.can_open = true,
        Ok(()) => probe.refuse_for_rights(&[NET_ADMIN]),
    }
}
