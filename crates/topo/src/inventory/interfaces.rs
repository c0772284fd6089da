//! Reads network interfaces: their attachment, queues and interrupts.

use burstline_sys::affinity::CoreId;
use burstline_sys::memory::NodeId;

use super::{Attached, Interface, Interrupt, ReceiveQueue, TransmitQueue};
use crate::files::Files;

const NET: &str = "sys/class/net";

/// Folders of the physical device: a virtio device is one folder below it.
const DEVICE: [&str; 2] = ["device", "device/.."];

/// Returns the interfaces that `is_wanted` names.
pub(super) fn interfaces(files: &Files, is_wanted: impl Fn(&str) -> bool) -> Vec<Interface> {
    let names = files.names(NET).into_iter().filter(|name| is_wanted(name));
    // The loopback is a memory copy; files such as `bonding_masters` have no queues.
    let names = names.filter(|name| name != "lo");
    let names = names.filter(|name| files.path(&format!("{NET}/{name}/queues")).is_dir());
    names.map(|name| interface(files, name)).collect()
}

fn interface(files: &Files, name: String) -> Interface {
    let folder = format!("{NET}/{name}");
    let has_device = files.path(&format!("{folder}/device")).is_dir();
    let node = DEVICE.iter().find_map(|at| files.text(&format!("{folder}/{at}/numa_node")));
    let attached = match (has_device, node.and_then(|node| node.parse::<i64>().ok())) {
        (false, None) => Attached::Software,
        (_, Some(node)) if node >= 0 => {
            u32::try_from(node).map_or(Attached::Unknown, |node| Attached::Node(NodeId(node)))
        }
        _ => Attached::Unknown,
    };
    let interrupts = interrupts(files, &folder, &name);
    let queues = format!("{folder}/queues");
    let receive = files.numbered(&queues, "rx-").into_iter().map(|number| {
        let steered = files.mask(&format!("{queues}/rx-{number}/rps_cpus"));
        ReceiveQueue {
            number,
            interrupt: interrupts.get(number as usize).cloned(),
            steered_to: steered.unwrap_or_default(),
            flows: files.number(&format!("{queues}/rx-{number}/rps_flow_cnt")).unwrap_or(0),
        }
    });
    let transmit = files.numbered(&queues, "tx-").into_iter().map(|number| {
        let cores = files.mask(&format!("{queues}/tx-{number}/xps_cpus")).unwrap_or_default();
        TransmitQueue { number, cores }
    });
    Interface {
        attached,
        driver: files.field(&format!("{folder}/device/uevent"), "DRIVER=").filter(|_| has_device),
        receive: receive.collect(),
        transmit: transmit.collect(),
        receive_ring: None,
        name,
    }
}

/// Returns the interrupts of the receive queues, in queue order.
fn interrupts(files: &Files, folder: &str, name: &str) -> Vec<Interrupt> {
    let own: Vec<u32> = DEVICE
        .iter()
        .map(|at| files.numbered(&format!("{folder}/{at}/msi_irqs"), ""))
        .find(|numbers| !numbers.is_empty())
        .unwrap_or_default();
    let text = files.text("proc/interrupts").unwrap_or_default();
    let mut found: Vec<(u32, u32)> = Vec::new();
    for line in text.lines() {
        let Some((number, rest)) = line.trim_start().split_once(':') else { continue };
        let (Ok(number), Some(action)) = (number.parse::<u32>(), rest.split_whitespace().last())
        else {
            continue;
        };
        let is_own = own.contains(&number) || (own.is_empty() && action.starts_with(name));
        if let Some(queue) = queue_of(action, name).filter(|_| is_own) {
            found.push((queue, number));
        }
    }
    found.sort_unstable();
    found.iter().map(|&(_, number)| interrupt(files, number)).collect()
}

fn interrupt(files: &Files, number: u32) -> Interrupt {
    let folder = format!("proc/irq/{number}");
    let list =
        |name: &str| -> Vec<CoreId> { files.list(&format!("{folder}/{name}")).unwrap_or_default() };
    let allowed = list("smp_affinity_list");
    let mut effective = list("effective_affinity_list");
    if effective.is_empty() && allowed.len() == 1 {
        effective.clone_from(&allowed);
    }
    Interrupt { number, allowed, effective }
}

/// Returns the receive queue of an interrupt, by its name; `None` if it has none.
///
/// `eth0-TxRx-3`, `i40e-eth0-TxRx-3`, `eth0-rx-3`, `ena-Tx-Rx-3`, `virtio2-input.3`,
/// `mlx5_comp3@pci:0000:01:00.0`, and `eth0-3`; but not `eth0-tx-3`, `virtio2-output.3`, `eth0`.
fn queue_of(action: &str, interface: &str) -> Option<u32> {
    let name = action.split('@').next().unwrap_or(action).to_ascii_lowercase();
    let stem = name.trim_end_matches(|last: char| last.is_ascii_digit());
    let number = name[stem.len()..].parse().ok()?;
    let is_receive = stem.contains("rx") || stem.ends_with("input.") || stem.ends_with("comp");
    let is_bare = stem.strip_suffix('-') == Some(&interface.to_ascii_lowercase());
    (is_receive || is_bare).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_are_told_by_their_names() {
        let receive = [
            "eth0-TxRx-3",
            "i40e-eth0-TxRx-3",
            "eth0-rx-3",
            "ena-Tx-Rx-3",
            "virtio2-input.3",
            "mlx5_comp3@pci:0000:01:00.0",
            "eth0-3",
        ];
        for name in receive {
            assert_eq!(queue_of(name, "eth0"), Some(3), "{name}");
        }
        for name in ["eth0-tx-3", "virtio2-output.3", "virtio2-config", "eth0", "eth0-event-8"] {
            assert_eq!(queue_of(name, "eth0"), None, "{name}");
        }
    }
}
