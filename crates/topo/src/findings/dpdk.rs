//! Cards for `dpdk:`: DPDK's driver for each card, and the card's current driver.
//!
//! DPDK opens a card that is bound to `vfio-pci` or `uio_pci_generic`; the host then has one
//! interface less. A card whose interface is up stays with the host. A card that is down, or has no
//! driver, is a defect, and the finding lists the commands that bind it.

use super::{Finding, plural};
use crate::inventory::{Card, Inventory, Lenders, PciId, Presence};

const NAME: &str = "dpdk card";

/// Kernel drivers that hand a card to a program.
const LENT: [&str; 3] = ["vfio-pci", "uio_pci_generic", "igb_uio"];

/// Drivers of other devices in a group that do not block it.
/// Source: drivers/vfio/vfio.c, `vfio_dev_driver_allowed`.
const HARMLESS: [&str; 3] = ["vfio-pci", "pci-stub", "pcieport"];

const VFIO_SOURCE: &str = "Documentation/driver-api/vfio.rst";

/// The DPDK version in this program.
#[derive(Clone, Copy)]
pub struct Dpdk<'a> {
    /// Its version: `DPDK 22.11.11`.
    pub version: &'a str,
    /// Returns DPDK's driver for a card.
    pub driver_of: &'a dyn Fn(PciId) -> Option<DpdkDriver<'a>>,
}

/// A DPDK driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DpdkDriver<'a> {
    /// Its name: `net_e1000_em`.
    pub name: &'a str,
    /// The kernel drivers that it can take cards from, as it lists them.
    pub lenders: &'a str,
}

/// Returns whether this program has `dpdk:`, and the state of each network card on the PCI bus.
pub fn dpdk_findings(inventory: &Inventory, dpdk: Option<Dpdk<'_>>) -> Vec<Finding> {
    let nodes = inventory.nodes.iter().filter(|node| node.has_memory()).map(|node| {
        let pools = node.huge_pages.iter();
        let free = pools.map(|pool| pool.page_bytes.saturating_mul(pool.unpromised()));
        format!("node {} {} MiB", node.id, free.sum::<u64>() >> 20)
    });
    let nodes: Vec<String> = nodes.collect();
    let free = format!("huge pages free: {}", nodes.join(", "));
    let what = match dpdk {
        Some(dpdk) => format!("dpdk: is built into this program, {}; {free}", dpdk.version),
        None => "dpdk: is not built into this program: make dpdk".to_owned(),
    };
    let mut findings = vec![Finding::fine("dpdk", what)];
    findings.extend(inventory.cards.iter().map(|card| finding(inventory, card, dpdk)));
    findings
}

fn finding(inventory: &Inventory, card: &Card, dpdk: Option<Dpdk<'_>>) -> Finding {
    let has = owner(card);
    let PciId { vendor, device } = card.id;
    let address = &card.address;
    let told = |what: &str| Finding::fine(NAME, format!("{address}: {what}; {has}"));
    let Some(dpdk) = dpdk else { return told(&format!("{vendor:04x}:{device:04x}")) };
    let Some(driver) = (dpdk.driver_of)(card.id) else {
        let version = dpdk.version;
        return told(&format!("{version} has no driver for {vendor:04x}:{device:04x}"));
    };
    let name = driver.name;
    if !LENT.iter().any(|lender| driver.lenders.contains(lender)) {
        return told(&format!("{name}, beside the kernel's driver"));
    }
    let bound = card.driver.as_deref();
    if bound.is_some_and(|bound| LENT.contains(&bound)) {
        let ready = || told(&format!("{name}, ready"));
        return obstacle(inventory, card, name).unwrap_or_else(ready);
    }
    let is_up = card.interfaces.iter().any(|(_, is_up)| *is_up);
    match (is_up, &inventory.lenders) {
        (true, _) => told(&format!("{name}, but the host uses it")),
        (false, Some(lenders)) => unbound(lenders, card, driver, &has),
        (false, None) => told(name),
    }
}

/// Formats like `e1000e has it (eth1, down), node 0, IOMMU group 3`.
fn owner(card: &Card) -> String {
    let state = |up: bool| if up { "up" } else { "down" };
    let interfaces = card.interfaces.iter().map(|(name, up)| format!("{name}, {}", state(*up)));
    let interfaces: Vec<String> = interfaces.collect();
    let mut text = match &card.driver {
        Some(driver) => format!("{driver} drives it"),
        None => "no driver drives it".to_owned(),
    };
    if !interfaces.is_empty() {
        text += &format!(" ({})", interfaces.join("; "));
    }
    text += &card.node.map_or(String::new(), |node| format!(", node {node}"));
    let group = card.group.as_ref().map(|group| match group.number {
        Some(number) => format!(", IOMMU group {number}"),
        None => ", in an IOMMU group".to_owned(),
    });
    text + &group.unwrap_or_else(|| ", no IOMMU".to_owned())
}

/// Returns why a card bound to a driver for DPDK still cannot be opened.
fn obstacle(inventory: &Inventory, card: &Card, driver: &str) -> Option<Finding> {
    let (address, bound) = (&card.address, card.driver.as_deref().unwrap_or_default());
    if bound == "vfio-pci" {
        let others = card.group.iter().flat_map(|group| &group.others);
        let others = others.filter(|(_, driver)| !HARMLESS.contains(&driver.as_str()));
        let others: Vec<_> = others.map(|(at, driver)| format!("{at} ({driver})")).collect();
        return (!others.is_empty()).then(|| {
            let others = plural("device", &others);
            let what = format!("{address}: {driver}; its IOMMU group also has {others}");
            let cost = "dpdk: cannot open it: one program must own all devices of a group";
            Finding::defect(NAME, what, cost, VFIO_SOURCE, Vec::new())
        });
    }
    let pages = inventory.huge_pages.iter().map(|pool| pool.total).sum::<u64>();
    (pages == 0).then(|| {
        let what = format!("{address}: {driver}; {bound} drives it, and there are no huge pages");
        let cost = "dpdk: cannot open it: with uio a card needs physical addresses, which stay \
                    the same only for huge pages";
        let mend = vec!["sysctl -w vm.nr_hugepages=128".to_owned()];
        Finding::defect(NAME, what, cost, "DPDK, Getting Started Guide for Linux", mend)
    })
}

/// Reports a card that is still bound to the kernel's driver, or to none.
fn unbound(lenders: &Lenders, card: &Card, driver: DpdkDriver<'_>, has: &str) -> Finding {
    let (address, name) = (&card.address, driver.name);
    let cost = format!("dpdk:{address} cannot be opened");
    let (why, mend) = match binding(lenders, card, driver) {
        Some(commands) => ("not released yet".to_owned(), commands),
        None => (missing(lenders, card), Vec::new()),
    };
    let what = format!("{address}: {name}, {why}; {has}");
    Finding::defect(NAME, what, cost, "DPDK, Getting Started Guide for Linux", mend)
}

/// Returns the commands that bind a card to a driver for DPDK; `None` if this machine has none.
fn binding(lenders: &Lenders, card: &Card, driver: DpdkDriver<'_>) -> Option<Vec<String>> {
    let has = |presence, name| presence != Presence::Missing && driver.lenders.contains(name);
    let has_vfio = has(lenders.vfio, "vfio-pci");
    let mut commands = Vec::new();
    let (lender, presence) = if has_vfio && card.group.is_some() {
        ("vfio-pci", lenders.vfio)
    } else if has(lenders.uio, "uio_pci_generic") {
        ("uio_pci_generic", lenders.uio)
    } else if has_vfio && lenders.takes_no_iommu.is_some() {
        ("vfio-pci", lenders.vfio)
    } else {
        return None;
    };
    if presence == Presence::Loadable {
        commands.push(format!("modprobe {lender}"));
    }
    if lender == "vfio-pci" && card.group.is_none() && lenders.takes_no_iommu == Some(false) {
        commands.push("echo Y > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode".to_owned());
    }
    let device = format!("/sys/bus/pci/devices/{}", card.address);
    commands.push(format!("echo {lender} > {device}/driver_override"));
    if card.driver.is_some() {
        commands.push(format!("echo {} > {device}/driver/unbind", card.address));
    }
    commands.push(format!("echo {} > /sys/bus/pci/drivers_probe", card.address));
    Some(commands)
}

fn missing(lenders: &Lenders, card: &Card) -> String {
    let vfio = match (lenders.vfio, &card.group) {
        (Presence::Missing, _) => "this kernel has no vfio-pci",
        (_, None) => "vfio-pci needs an IOMMU (intel_iommu=on, and in the firmware)",
        (_, Some(_)) => "its driver does not work with vfio-pci",
    };
    let uio = match lenders.uio {
        Presence::Missing => "no uio_pci_generic",
        _ => "uio_pci_generic does not support it",
    };
    format!("{vfio}, {uio}")
}

#[cfg(test)]
mod tests;
