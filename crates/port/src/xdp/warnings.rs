//! Warns of effects on the host when packets are taken from an interface, as soon as a port opens.

use std::net::IpAddr;

use burstline_sys::device::send_offloads;
use burstline_sys::interface::{Interface, addresses};
use burstline_sys::links::{VethPeer, carried_by, veth_peer};
use burstline_xdp::XdpInterface;

/// Returns the warnings for a port that takes packets of an interface, all or those of `--only`,
/// and may forward them. `queue` limits it to one of several queues.
pub(super) fn of(
    interface: &XdpInterface,
    queue: Option<u32>,
    takes_all: bool,
    forwards: bool,
) -> Vec<String> {
    let link = &interface.link;
    let taking = takes_all.then(|| of_taking(link, queue.filter(|_| interface.queues > 1)));
    let forwarding = forwards.then(|| of_forwarding(link));
    [taking, forwarding].into_iter().flatten().flatten().collect()
}

/// Warns that packets of an interface, or of one of its queues, are taken. The host no longer
/// receives packets to its addresses there, or to those on interfaces that this one carries.
pub(super) fn of_taking(link: &Interface, queue: Option<u32>) -> Option<String> {
    let carried = carried_by(&link.name);
    // Every interface that is up has a link-local address, which is rarely used.
    let is_used = |address: &IpAddr| match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => !address.is_unicast_link_local(),
    };
    let mut used = addresses();
    used.retain(|(name, address)| carried.contains(name) && is_used(address));
    let (name, address) = used.first()?;
    let others = match used.len() - 1 {
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    let interface = &link.name;
    let taken = match queue {
        Some(queue) => format!("queue {queue} of {interface}"),
        None => interface.clone(),
    };
    Some(format!(
        "the host does not receive packets for {address} ({name}){others} while xdp: takes all \
         packets of {taken}: --only EXPR takes some of them, or use an interface without an address"
    ))
}

/// Warns about forwarding from an interface. Packets from a veth peer lack checksums that were left
/// to the device, and nothing on the way adds them.
fn of_forwarding(link: &Interface) -> Option<String> {
    let VethPeer { name, is_here } = veth_peer(link.index)?;
    let link = &link.name;
    if !is_here {
        let place = match &name {
            Some(name) => format!("{name}, in another network namespace"),
            None => "in another network namespace".to_owned(),
        };
        let name = name.as_deref().unwrap_or("NAME");
        return Some(format!(
            "packets from the other end of {link} ({place}) may lack TCP and UDP checksums, and \
             xdp: adds none: if TCP hangs, run there ethtool -K {name} tx off"
        ));
    }
    let name = name?;
    let offloads = send_offloads(&name)?;
    (offloads.checksums || offloads.segments).then(|| {
        format!(
            "packets from {name}, the other end of {link}, lack TCP and UDP checksums, and xdp: \
             adds none: TCP hangs until ethtool -K {name} tx off"
        )
    })
}
