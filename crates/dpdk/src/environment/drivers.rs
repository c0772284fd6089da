//! Lists the drivers for PCI cards, from the metadata in their files.
//!
//! ```text
//! PMD_INFO_STRING= {"name": "net_e1000_em", "kmod": "* igb_uio | ...", "pci_ids": [[32902, 4110,
//! 65535, 65535], ...]}
//! ```
//!
//! Source: usertools/dpdk-pmdinfo.py and buildtools/pmdinfogen.py of DPDK 22.11. Nothing is loaded,
//! and EAL is not started: it would probe for cards, and take those that are free.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs;
use std::path::Path;

use crate::ffi;

const MARK: &[u8] = b"PMD_INFO_STRING= ";

/// Matches any number in an id. Source: `RTE_PCI_ANY_ID`, rte_pci.h.
const ANY: u16 = 0xffff;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PciId {
    vendor: u16,
    device: u16,
}

/// A driver for PCI cards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciDriver {
    /// Its name: `net_e1000_em`.
    pub name: String,
    /// The kernel drivers through which it gets its cards, as it declares them.
    pub kernel_modules: String,
    /// The supported cards; [`ANY`] matches any.
    ids: Vec<PciId>,
}

impl PciDriver {
    /// Returns whether it supports this vendor and device.
    pub fn takes(&self, vendor: u16, device: u16) -> bool {
        let fits = |wanted: u16, is: u16| wanted == ANY || wanted == is;
        self.ids.iter().any(|id| fits(id.vendor, vendor) && fits(id.device, device))
    }
}

/// Returns DPDK's version text: `DPDK 22.11.11`.
pub fn version() -> String {
    // SAFETY: the function returns a static string of the library.
    let version = unsafe { CStr::from_ptr(ffi::shim_version()) };
    version.to_string_lossy().into_owned()
}

/// Returns the drivers of network cards in the folder from which EAL loads them. Cost: reads some
/// 20 MB of files.
pub fn pci_drivers() -> Vec<PciDriver> {
    // SAFETY: the function returns a constant of the shim.
    let folder = unsafe { CStr::from_ptr(ffi::shim_drivers_folder()) };
    let folder = Path::new(folder.to_str().unwrap_or_default());
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    // A library has several names; each file is read once.
    let mut files = BTreeMap::new();
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let is_of_network = name.is_some_and(|name| name.starts_with("librte_net_"));
        if let (true, Ok(file)) = (is_of_network, path.canonicalize()) {
            files.insert(file, ());
        }
    }
    let contents = files.into_keys().filter_map(|file| fs::read(file).ok());
    contents.flat_map(|content| drivers_in(&content)).collect()
}

fn drivers_in(content: &[u8]) -> Vec<PciDriver> {
    let strings = content.split(|byte| *byte == 0).filter(|text| text.starts_with(MARK));
    strings.filter_map(|text| driver(std::str::from_utf8(&text[MARK.len()..]).ok()?)).collect()
}

fn driver(text: &str) -> Option<PciDriver> {
    let ids = text.split_once("\"pci_ids\"")?.1.split('[').filter_map(|id| {
        let mut numbers = id.split([',', ']']).map(|number| number.trim().parse::<u16>());
        Some(PciId { vendor: numbers.next()?.ok()?, device: numbers.next()?.ok()? })
    });
    Some(PciDriver {
        name: string(text, "name")?,
        kernel_modules: string(text, "kmod").unwrap_or_default(),
        ids: ids.collect(),
    })
}

/// Returns the string of a key. The format has no escapes.
fn string(text: &str, key: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("\"{key}\""))?;
    rest.split('"').nth(1).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_tells_its_cards() {
        let content = b"\x7fELF\0PMD_INFO_STRING= {\"name\": \"net_x\", \"kmod\": \"* vfio-pci\", \
            \"pci_ids\": [[32902, 4110, 65535, 65535], [4660, 65535, 65535, 65535]]}\0x\0\
            PMD_INFO_STRING= {\"name\" : \"net_y\", \"pci_ids\" : []}\0PMD_INFO_STRING= {}\0";
        let found = drivers_in(content);
        let told: Vec<_> =
            found.iter().map(|one| (one.name.as_str(), one.kernel_modules.as_str())).collect();
        assert_eq!(told, [("net_x", "* vfio-pci"), ("net_y", "")]);
        assert!(found[0].takes(0x8086, 0x100e) && found[0].takes(0x1234, 7));
        assert!(!found[0].takes(0x8086, 0x100f) && !found[1].takes(0x8086, 0x100e));
    }

    #[test]
    fn the_drivers_that_are_here_tell_theirs() {
        assert!(version().starts_with("DPDK "));
        let drivers = pci_drivers();
        let of = |vendor, device| {
            let found = drivers.iter().find(|driver| driver.takes(vendor, device));
            found.map(|one| one.name.as_str())
        };
        assert_eq!(of(0x8086, 0x10d3), Some("net_e1000_em"));
        assert_eq!(of(0x1af4, 0x1041), Some("net_virtio"));
        assert_eq!(of(0x1234, 0x5678), None);
    }
}
