//! Describes the interfaces that packets use.
//!
//! They are in separate network namespaces, and the kernel's files about interfaces show the
//! namespace in which they were mounted. So a thread of each host mounts the files, reads them, and
//! ends.

use std::cmp::Reverse;
use std::io;
use std::path::Path;
use std::{fs, thread};

use burstline_sys::affinity::CoreId;
use burstline_sys::device::Device;
use burstline_sys::mounts;
use burstline_testbed::{Bed, Host};
use burstline_topo::{Interface as Found, Inventory};

use crate::record::Interface;

/// The kernel's folder of devices.
const DEVICES: &str = "/sys";

/// Name of the entry that stands for all interfaces that cannot be examined.
const ALL: &str = "all";

/// How often each core has processed received packets in the kernel.
pub(crate) struct Served(Vec<(String, u64)>);

impl Served {
    /// Reads the counts since the start of the machine, for all interfaces.
    pub(crate) fn now() -> Self {
        let text = fs::read_to_string("/proc/softirqs").unwrap_or_default();
        Self::parse(&text).unwrap_or(Self(Vec::new()))
    }

    /// Source: proc(5): the first line names the cores; every other line begins with a name.
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let cores = lines.next()?.split_whitespace();
        let row = lines.find_map(|line| line.trim_start().strip_prefix("NET_RX:"))?;
        let counts = row.split_whitespace().map(|count| count.parse().unwrap_or(0));
        Some(Self(cores.map(|core| core.replace("CPU", "core ")).zip(counts).collect()))
    }

    /// Describes the cores that worked since `earlier`, the busiest first.
    fn since(&self, earlier: &Self) -> String {
        let before = |core: &str| {
            let known = earlier.0.iter().find(|(known, _)| known == core);
            known.map_or(0, |(_, count)| *count)
        };
        let counts = self.0.iter().map(|(core, count)| (core, count.saturating_sub(before(core))));
        let mut counts: Vec<_> = counts.filter(|(_, count)| *count > 0).collect();
        counts.sort_by_key(|(_, count)| Reverse(*count));
        let counts = counts.iter().map(|(core, count)| format!("{core} {count}"));
        match counts.collect::<Vec<_>>() {
            none if none.is_empty() => "none".to_owned(),
            some => some.join(", "),
        }
    }
}

/// Returns all interfaces of both hosts but the loopback, first those of the contender's host.
/// `before` is from before the first packet.
pub(crate) fn on_hosts(bed: &Bed, before: &Served) -> Vec<Interface> {
    let served = Served::now().since(before);
    let of = |host: &Host, whose: &'static str| {
        let served = served.clone();
        host.run(move || look(whose, &served))
    };
    [of(&bed.far, "contender"), of(&bed.near, "generator")].concat()
}

/// Returns these interfaces of a host that also has other traffic, so without the kernel's work.
pub(crate) fn of_host(host: &Host, whose: &'static str, names: &[String]) -> Vec<Interface> {
    let all = host.run(move || look(whose, "not counted"));
    let is_named = |found: &Interface| names.contains(&found.name);
    // If they cannot be examined, one entry stands for all.
    all.into_iter().filter(|found| is_named(found) || found.name == ALL).collect()
}

/// Runs on a separate thread, which is in the network namespace of its parent.
fn look(host: &'static str, served: &str) -> Vec<Interface> {
    let looked = thread::spawn(|| {
        mounts::enter_new_mounts()?;
        mounts::mount_devices(Path::new(DEVICES))?;
        let inventory = Inventory::read_from(Path::new("/")).map_err(io::Error::other)?;
        let devices = inventory.interfaces.iter().map(|found| Device::ask(&found.name, 0));
        let devices: Vec<Device> = devices.collect();
        Ok::<_, io::Error>((inventory, devices))
    });
    match looked.join().unwrap_or_else(|_| Err(io::Error::other("the thread died"))) {
        Ok((inventory, devices)) => {
            let all = inventory.interfaces.iter().zip(&devices);
            all.map(|(found, device)| interface(&inventory, found, device, host, served)).collect()
        }
        Err(error) => {
            let driver = format!("unknown: {error}");
            let (name, host) = (ALL.to_owned(), host.to_owned());
            vec![Interface { name, host, driver, ..Interface::default() }]
        }
    }
}

fn interface(
    inventory: &Inventory,
    found: &Found,
    device: &Device,
    host: &str,
    served: &str,
) -> Interface {
    let card = inventory.cards.iter().find(|card| Some(&card.address) == device.bus.as_ref());
    let id = card.map(|card| format!(" {:04x}:{:04x}", card.id.vendor, card.id.device));
    let steered = found.receive.iter().flat_map(|queue| queue.steered_to.iter().copied());
    let driver = device.driver.clone().or_else(|| found.driver.clone());
    Interface {
        name: found.name.clone(),
        host: host.to_owned(),
        driver: driver.unwrap_or_else(|| "unknown: not reported".to_owned()),
        device: device.bus.as_ref().map(|bus| format!("{bus}{}", id.unwrap_or_default())),
        node: device.node.map(|node| node.0),
        receive_queues: found.receive.len(),
        transmit_queues: found.transmit.len(),
        steered_to: match list(steered) {
            none if none.is_empty() => "off".to_owned(),
            cores => cores,
        },
        served_by: served_by(found, served),
    }
}

/// Describes the cores of its interrupts or, without interrupts, of the kernel's work.
fn served_by(found: &Found, served: &str) -> String {
    let queues = found.receive.iter().filter_map(|queue| {
        let interrupt = queue.interrupt.as_ref()?;
        let cores = list(interrupt.effective.iter().copied());
        Some(format!("queue {}: interrupt {} on core {cores}", queue.number, interrupt.number))
    });
    match queues.collect::<Vec<_>>() {
        none if none.is_empty() => {
            format!("no own interrupt; NET_RX softirqs of the machine in the first turn: {served}")
        }
        some => some.join(", "),
    }
}

/// Lists each core once: `0,2`.
fn list(cores: impl Iterator<Item = CoreId>) -> String {
    let mut cores: Vec<CoreId> = cores.collect();
    cores.sort_unstable();
    cores.dedup();
    cores.iter().map(CoreId::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softirqs_are_counted_by_core() {
        let text = |first: u64, second: u64| {
            format!("      CPU0   CPU2\n HI: 1 2\n NET_TX: 9 9\n NET_RX: {first} {second}\n")
        };
        let [before, after] = [text(5, 7), text(6, 107)].map(|text| Served::parse(&text).unwrap());
        assert_eq!(after.since(&before), "core 2 100, core 0 1");
        assert_eq!(before.since(&before), "none");
        assert!(Served::parse("CPU0\n").is_none());
    }

    #[test]
    fn interfaces_of_both_hosts_are_looked_at_in_their_namespaces() {
        let Some(bed) = Bed::or_skip() else { return };
        bed.connect_queues("w0", "w1", 1500, 2).unwrap();
        let found = on_hosts(&bed, &Served::now());
        let names = |host: &str| {
            let names = found.iter().filter(|interface| interface.host == host);
            names.map(|interface| interface.name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!((names("contender"), names("generator")), (vec!["v1", "w1"], vec!["v0", "w0"]));
        let second = found.iter().find(|interface| interface.name == "w1").unwrap();
        assert_eq!((second.driver.as_str(), second.device.as_deref()), ("veth", None));
        assert_eq!((second.receive_queues, second.transmit_queues), (2, 2));
        assert_eq!(second.steered_to, "off");
        assert!(second.served_by.starts_with("no own interrupt; NET_RX"), "{second:?}");
    }
}
