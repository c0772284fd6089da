//! Probes for packet ports with a small ring that takes no packet.

use burstline_afpacket::{AfPacketError, Ring, RingOptions};
use burstline_sys::device::Device;
use burstline_sys::filter::Instruction;
use burstline_sys::machine::capability::NET_RAW;
use burstline_xdp::XdpInterface;

use super::source::link_type;
use crate::{Address, Probe, ProbeOptions};

/// Opens a ring as the port would, but smaller and not in promiscuous mode. Its program rejects
/// every packet.
pub(crate) fn probe(address: &Address, _options: &ProbeOptions, probe: &mut Probe) {
    let options = RingOptions {
        block_bytes: 128 << 10,
        blocks: 2,
        is_promiscuous: false,
        filter: vec![Instruction::keep(0)],
        ..RingOptions::default()
    };
    // This is available without the right to open a ring, too.
    if let Ok(interface) = XdpInterface::by_name(address.target()) {
        probe.queues = Some(interface.queues);
        probe.device = Device::ask(&interface.link.name, interface.link.index);
    }
    let ring = match Ring::open(address.target(), &options) {
        Ok(ring) => ring,
        Err(AfPacketError::NotPermitted { .. }) => return probe.refuse_for_rights(&[NET_RAW]),
        Err(error) => return probe.refuse(&error),
    };
    let interface = ring.interface();
    if let Err(error) = link_type(interface) {
        return probe.refuse(&error);
    }
    probe.can_open = true;
    probe.remark_if_down(&interface.name, interface.is_up);
}
