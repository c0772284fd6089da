//! Lists cards that `dpdk:` could open with the drivers of the DPDK that we were built with.

use burstline_topo::{Finding, Inventory, dpdk_findings};

#[cfg(feature = "dpdk")]
pub(super) fn findings(inventory: &Inventory) -> Vec<Finding> {
    use burstline_port::{DpdkDriver, dpdk_drivers, dpdk_version};
    use burstline_topo::{Dpdk, PciId};

    let version = dpdk_version();
    // Read the drivers' files only if there is a card to match.
    let drivers = if inventory.cards.is_empty() { Vec::new() } else { dpdk_drivers() };
    let found = |id: PciId| {
        let takes = |driver: &&DpdkDriver| driver.takes(id.vendor, id.device);
        drivers.iter().find(takes)
    };
    let driver_of = |id| {
        found(id).map(|driver| burstline_topo::DpdkDriver {
            name: &driver.name,
            lenders: &driver.kernel_modules,
        })
    };
    dpdk_findings(inventory, Some(Dpdk { version: &version, driver_of: &driver_of }))
}

#[cfg(not(feature = "dpdk"))]
pub(super) fn findings(inventory: &Inventory) -> Vec<Finding> {
    dpdk_findings(inventory, None)
}
