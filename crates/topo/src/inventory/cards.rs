//! Network cards on the PCI bus: bound to a network driver of the kernel, or to a driver that hands
//! them to programs.

use burstline_sys::memory::NodeId;

use crate::files::Files;

const DEVICES: &str = "sys/bus/pci/devices";

/// The class of network controllers, in the bits above subclass and interface.
/// Source: PCI Code and ID Assignment Specification, class 02h.
const NETWORK: u32 = 0x02;

/// `IFF_UP`. Source: include/uapi/linux/if.h.
const IS_UP: u64 = 1;

/// The type of a PCI device, by numbers that the PCI-SIG assigns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PciId {
    /// Vendor number.
    pub vendor: u16,
    /// The vendor's device number.
    pub device: u16,
}

/// A network card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// Its PCI address: `0000:00:04.0`.
    pub address: String,
    /// Its type.
    pub id: PciId,
    /// Its node, if known to the kernel.
    pub node: Option<NodeId>,
    /// Its kernel driver.
    pub driver: Option<String>,
    /// Its interfaces in this network namespace, and whether each is up.
    pub interfaces: Vec<(String, bool)>,
    /// The devices that the IOMMU cannot isolate from it, if there is an IOMMU.
    pub group: Option<Group>,
}

/// Devices that a program gets together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its number. Only of this machine.
    pub number: Option<u32>,
    /// The other devices in it that have a driver: address and driver.
    pub others: Vec<(String, String)>,
}

/// The kernel's drivers that hand a card to a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lenders {
    /// `vfio-pci`.
    pub vfio: Presence,
    /// Whether `vfio-pci` takes cards without an IOMMU. `None` if it is built without that mode.
    pub takes_no_iommu: Option<bool>,
    /// `uio_pci_generic`.
    pub uio: Presence,
}

/// Whether a kernel has a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Loaded or built in.
    Loaded,
    /// Available as a file. A snapshot does not show files, so a driver that is not loaded counts
    /// as missing.
    Loadable,
    /// Not part of this kernel.
    Missing,
}

pub(super) fn cards(files: &Files) -> Vec<Card> {
    files.names(DEVICES).into_iter().filter_map(|address| card(files, address)).collect()
}

fn card(files: &Files, address: String) -> Option<Card> {
    let folder = format!("{DEVICES}/{address}");
    let uevent = format!("{folder}/uevent");
    let class = u32::from_str_radix(&files.field(&uevent, "PCI_CLASS=")?, 16).ok()?;
    if class >> 16 != NETWORK {
        return None;
    }
    let id = files.field(&uevent, "PCI_ID=")?;
    let (vendor, device) = id.split_once(':')?;
    let number = |digits| u16::from_str_radix(digits, 16).ok();
    let id = PciId { vendor: number(vendor)?, device: number(device)? };
    let node = files.number(&format!("{folder}/numa_node"));
    let driver = files.field(&uevent, "DRIVER=");
    Some(Card {
        id,
        node: node.and_then(|node| u32::try_from(node).ok()).map(NodeId),
        driver,
        interfaces: interfaces(files, &folder),
        group: group(files, &folder, &address),
        address,
    })
}

/// A virtio device has its interfaces one folder deeper.
fn interfaces(files: &Files, folder: &str) -> Vec<(String, bool)> {
    let names = files.names(folder).into_iter();
    let virtio = names.filter(|name| name.starts_with("virtio"));
    let mut folders: Vec<_> = virtio.map(|name| format!("{folder}/{name}/net")).collect();
    folders.push(format!("{folder}/net"));
    let mut found = Vec::new();
    for folder in folders {
        for name in files.names(&folder) {
            let flags = files.text(&format!("{folder}/{name}/flags"));
            let flags = flags.and_then(|text| {
                u64::from_str_radix(text.strip_prefix("0x").unwrap_or(&text), 16).ok()
            });
            // Without flags, the device may be in use.
            found.push((name, flags.is_none_or(|flags| flags & IS_UP != 0)));
        }
    }
    found
}

fn group(files: &Files, folder: &str, address: &str) -> Option<Group> {
    let path = format!("{folder}/iommu_group");
    let link = files.path(&path).canonicalize().ok()?;
    let number = link.file_name().and_then(|name| name.to_str()?.parse().ok());
    let members = format!("{path}/devices");
    let others = files.names(&members).into_iter().filter(|other| other != address);
    let others = others.filter_map(|other| {
        let driver = files.field(&format!("{members}/{other}/uevent"), "DRIVER=")?;
        Some((other, driver))
    });
    Some(Group { number, others: others.collect() })
}

pub(super) fn lenders(files: &Files) -> Lenders {
    let release = files.text("proc/sys/kernel/osrelease").unwrap_or_default();
    let modules = files.text(&format!("lib/modules/{release}/modules.dep"));
    // A snapshot does not have this folder.
    let is_whole = files.path("lib").exists();
    let presence = |module: &str| {
        let is_file = |list: &String| list.contains(&format!("/{module}.ko"));
        if files.path(&format!("sys/module/{}", module.replace('-', "_"))).is_dir() {
            Presence::Loaded
        } else if modules.as_ref().map_or(!is_whole, is_file) {
            Presence::Loadable
        } else {
            Presence::Missing
        }
    };
    let setting = files.text("sys/module/vfio/parameters/enable_unsafe_noiommu_mode");
    Lenders {
        vfio: presence("vfio-pci"),
        takes_no_iommu: setting.map(|setting| setting == "Y"),
        uio: presence("uio_pci_generic"),
    }
}
