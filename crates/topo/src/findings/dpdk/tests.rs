//! Each state of a card. Binding commands are offered only if the host does not lose the interface.

use super::*;
use crate::inventory::tests::{SMALL_VM, machine};

const CARD: &str = "sys/bus/pci/devices/0000:00:04.0";
const KERNELS: &str = "DRIVER=e1000e\nPCI_CLASS=20000\nPCI_ID=8086:10D3";
const VFIO: (&str, &str) = ("sys/module/vfio_pci/parameters/disable_idle_d3", "N");
const UIO: (&str, &str) = ("sys/module/uio_pci_generic/version", "0.01.0");

fn drivers(id: PciId) -> Option<DpdkDriver<'static>> {
    let lenders = "* igb_uio | uio_pci_generic | vfio-pci";
    match (id.vendor, id.device) {
        (0x8086, 0x10d3) => Some(DpdkDriver { name: "net_e1000_em", lenders }),
        (0x15b3, _) => {
            Some(DpdkDriver { name: "mlx5_pci", lenders: "* ib_uverbs & mlx5_core & mlx5_ib" })
        }
        _ => None,
    }
}

/// Returns the finding about a card, from files in its folder and files of the machine.
fn told(of_card: &[(&str, &str)], others: &[(&str, &str)]) -> Finding {
    let files: Vec<_> =
        of_card.iter().map(|(path, text)| (format!("{CARD}/{path}"), *text)).collect();
    let mut all: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    all.extend(others);
    let dpdk = Dpdk { version: "DPDK 22.11", driver_of: &drivers };
    let mut found = dpdk_findings(&machine(SMALL_VM, &all), Some(dpdk));
    assert_eq!((found.len(), found[0].name), (2, "dpdk"), "{found:?}");
    found.remove(1)
}

#[test]
fn a_card_of_the_host_is_left_alone_and_one_that_is_down_can_be_bound() {
    let up = told(&[("uevent", KERNELS), ("net/eth1/flags", "0x1003")], &[VFIO, UIO]);
    let of_host = "0000:00:04.0: net_e1000_em, but the host uses it; \
                   e1000e drives it (eth1, up), no IOMMU";
    assert_eq!((up.is_defect, up.what.as_str()), (false, of_host));

    let down = [("uevent", KERNELS), ("net/eth1/flags", "0x1002"), ("numa_node", "0")];
    let found = told(&down, &[VFIO, UIO]);
    let bind = [
        "echo uio_pci_generic > /sys/bus/pci/devices/0000:00:04.0/driver_override",
        "echo 0000:00:04.0 > /sys/bus/pci/devices/0000:00:04.0/driver/unbind",
        "echo 0000:00:04.0 > /sys/bus/pci/drivers_probe",
    ];
    assert_eq!((found.is_defect, found.mend.as_slice()), (true, &bind.map(str::to_owned)[..]));
    assert!(found.what.ends_with("e1000e drives it (eth1, down), node 0, no IOMMU"), "{found:?}");

    // With an IOMMU through vfio-pci; a driver that is not loaded is loaded first.
    let behind = [&down[..], &[("iommu_group/type", "DMA")]].concat();
    let found = told(&behind, &[]);
    assert_eq!(found.mend[0], "modprobe vfio-pci");
    assert_eq!(found.mend[1], bind[0].replace("uio_pci_generic", "vfio-pci"));

    // A virtio card's interface is one folder deeper.
    let below = told(&[("uevent", KERNELS), ("virtio3/net/eth1/flags", "0x1003")], &[UIO]);
    assert!(!below.is_defect, "{below:?}");
}

#[test]
fn a_card_that_was_given_up_is_ready_unless_something_is_in_the_way() {
    let by = |driver: &str| KERNELS.replace("e1000e", driver);
    let ready = told(&[("uevent", &by("vfio-pci")), ("iommu_group/type", "DMA")], &[VFIO]);
    assert!(!ready.is_defect && ready.what.contains("net_e1000_em, ready"), "{ready:?}");
    let neighbour = "iommu_group/devices/0000:00:05.0/uevent";
    let shared = [("uevent", &*by("vfio-pci")), (neighbour, "DRIVER=snd_hda_intel")];
    let shared = told(&shared, &[VFIO]);
    assert!(shared.is_defect && shared.what.contains("0000:00:05.0 (snd_hda_intel)"), "{shared:?}");

    let pages = ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "128");
    let uio = by("uio_pci_generic");
    assert!(!told(&[("uevent", &uio)], &[UIO, pages]).is_defect);
    let none = told(&[("uevent", &uio)], &[UIO, (pages.0, "0")]);
    assert_eq!(none.mend, ["sysctl -w vm.nr_hugepages=128"], "{none:?}");
}

#[test]
fn cards_that_dpdk_has_otherwise_or_not_at_all() {
    let of = |id: &str| told(&[("uevent", &KERNELS.replace("8086:10D3", id))], &[UIO]);
    assert!(of("15B3:101D").what.contains("mlx5_pci, beside the kernel's driver"));
    assert!(of("14E4:0001").what.contains("DPDK 22.11 has no driver for 14e4:0001"));
    // A kernel built without either driver.
    let found = told(&[("uevent", KERNELS)], &[]);
    assert_eq!(found.mend[0], "modprobe uio_pci_generic", "a snapshot tells of no files");
    let lenders = Lenders { vfio: Presence::Missing, takes_no_iommu: None, uio: Presence::Missing };
    let mut machine = machine(SMALL_VM, &[(&format!("{CARD}/uevent"), KERNELS)]);
    machine.lenders = Some(lenders);
    let dpdk = Dpdk { version: "DPDK 22.11", driver_of: &drivers };
    let found = dpdk_findings(&machine, Some(dpdk)).remove(1);
    assert!(found.mend.is_empty(), "{found:?}");
    assert!(found.what.contains("this kernel has no vfio-pci, no uio_pci_generic"), "{found:?}");
}

#[test]
fn without_dpdk_the_cards_are_told_and_nothing_is_a_defect() {
    let machine = machine(SMALL_VM, &[(&format!("{CARD}/uevent"), KERNELS)]);
    let found = dpdk_findings(&machine, None);
    assert_eq!(found[0].what, "dpdk: is not built into this program: make dpdk");
    assert_eq!(found[1].what, "0000:00:04.0: 8086:10d3; e1000e drives it, no IOMMU");
    assert!(found.iter().all(|finding| !finding.is_defect));
}
