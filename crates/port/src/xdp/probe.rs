//! Probes XDP ports: frames and program, and the further steps that others do not notice.
//!
//! ```text
//! frames registered, rings mapped      not noticeable                      always
//! program verified and loaded          not noticeable                      always
//! socket bound to a queue, copy mode   harmless on a software device       there, else if allowed
//! program attached, passing all        a network card may reset its rings  if allowed
//! ```

use burstline_sys::device::Device;
use burstline_sys::limits;
use burstline_sys::machine::capability::{BPF, IPC_LOCK, NET_ADMIN, NET_RAW};
use burstline_sys::machine::{Capability, Rights};
use burstline_xdp::bpf::{BpfError, XdpMode, attached_program};
use burstline_xdp::{Copying, Redirect, Socket, SocketOptions, XdpError, XdpInterface};

use super::guard;
use super::settings::{self, Settings};
use super::warnings;
use crate::{Address, PortError, Probe, ProbeOptions, TimestampSource};

/// The capabilities that opening requires.
const RIGHTS: [Capability; 3] = [NET_RAW, NET_ADMIN, BPF];

/// Runs the steps of opening, up to the first one that others would notice.
pub(crate) fn probe(address: &Address, options: &ProbeOptions, probe: &mut Probe) {
    let settings = match settings::parse(address, TimestampSource::Program) {
        Ok(settings) => settings,
        Err(error) => return probe.refuse(&error),
    };
    let interface = match XdpInterface::by_name(&settings.interface) {
        Ok(interface) => interface,
        Err(error) => return probe.refuse(&error),
    };
    describe(&interface, probe);
    let is_hosts_own = match guard::refuse_the_hosts_own(&interface.link, address) {
        Err(PortError::WouldSteal { reason, .. }) => Some(reason),
        _ => None,
    };
    let may_attach = options.may_attach && is_hosts_own.is_none();
    let may_bind = may_attach || probe.device.bus.is_none();
    if let Err(error) = try_it(&interface, &settings, may_bind, may_attach, probe) {
        let lacks_memory = check_all_queues(&interface, &settings.socket).is_err();
        return refuse(&error, &interface, lacks_memory, probe);
    }
    probe.can_open = true;
    if let Some(reason) = is_hosts_own {
        probe.needs.push("--steal");
        probe.why_not = Some(format!("it would take packets away from the host, and {reason}"));
        probe.mend = Some(format!("--steal, or afpacket:{}", interface.link.name));
    }
}

/// Records what is known without a test.
fn describe(interface: &XdpInterface, probe: &mut Probe) {
    let link = &interface.link;
    probe.queues = Some(interface.queues);
    probe.device = Device::ask(&link.name, link.index);
    let features = probe.device.xdp;
    probe.mode = features.map(|xdp| match xdp.has_native() && xdp.has_redirect() {
        true => "native",
        false => "generic",
    });
    probe.has_zero_copy = features.map(|xdp| xdp.has_zero_copy());
    probe.attached_program =
        attached_program(link.index).ok().flatten().map(|attached| attached.program_id);
    probe.remark_if_down(&link.name, link.is_up);
    if let Some(what) = warnings::of_taking(link, None) {
        probe.remark(what, None);
    }
    if probe.device.strips_vlan_tags == Some(true) {
        let mend = format!("ethtool -K {} rxvlan off", link.name);
        probe.remark(
            "the device strips VLAN tags: Burstline does not see them".to_owned(),
            Some(mend),
        );
    }
}

fn try_it(
    interface: &XdpInterface,
    settings: &Settings,
    may_bind: bool,
    may_attach: bool,
    probe: &mut Probe,
) -> Result<(), PortError> {
    let name = &interface.link.name;
    // Check rights first: without them a higher limit does not help.
    Redirect::rehearse(interface, settings.redirect(None))?;
    Socket::rehearse(name, 0, &settings.socket)?;
    check_all_queues(interface, &settings.socket)?;
    if let Some(program_id) = probe.attached_program {
        return Err(BpfError::Attached { interface: name.clone(), program_id }.into());
    }
    if may_bind {
        let copying = if may_attach { settings.socket.copying } else { Copying::Copy };
        let socket = SocketOptions { copying, frames: 64, rx_entries: 64, ..settings.socket };
        let socket = Socket::open(name, 0, &socket)?;
        if may_attach {
            probe.has_zero_copy = Some(socket.is_zero_copy());
        }
    }
    if may_attach {
        // No socket is in its map: it passes everything.
        let attached = Redirect::new(interface, &[], settings.redirect(None))?;
        probe.mode = Some(match attached.mode() {
            XdpMode::Generic => "generic",
            _ => "native",
        });
        probe.is_mode_tried = true;
    }
    Ok(())
}

/// Checks the frames of all queues, which count against one limit: the rehearsal saw one queue.
fn check_all_queues(interface: &XdpInterface, socket: &SocketOptions) -> Result<(), XdpError> {
    let frames = u64::from(socket.frames) * u64::from(socket.frame_bytes);
    let bytes = frames * u64::from(interface.queues);
    let rights = Rights::read();
    let is_free = rights.is_machine_wide && rights.has(IPC_LOCK);
    match limits::LockedMemory::of_this_process().most_bytes {
        Some(limit) if !is_free && limit < bytes => Err(XdpError::NoMemory {
            interface: interface.link.name.clone(),
            bytes: bytes as usize,
            limit: format!("{} KiB", limit / 1024),
        }),
        _ => Ok(()),
    }
}

fn refuse(error: &PortError, interface: &XdpInterface, lacks_memory: bool, probe: &mut Probe) {
    let name = &interface.link.name;
    match error {
        PortError::Xdp(XdpError::NotPermitted { .. })
        | PortError::Bpf(BpfError::NotPermitted { .. }) => {
            // The frames would fail next.
            let also = lacks_memory.then_some(IPC_LOCK);
            probe.refuse_for_rights(&RIGHTS.into_iter().chain(also).collect::<Vec<_>>());
        }
        PortError::Bpf(BpfError::Attached { program_id, .. }) => probe.refuse_with(
            format!("XDP program {program_id} is attached, and it accepts no other"),
            // A program held by a link is removed only when its process ends.
            Some(format!("end the process that attached it, or: ip link set dev {name} xdp off")),
        ),
        PortError::Xdp(XdpError::NoMemory { bytes, limit, .. }) => probe.refuse_with(
            format!("its frames need {bytes} bytes, but only {limit} may be locked"),
            Some(format!(
                "as root: ulimit -l {}, or fewer frames: {}?frames=1024",
                bytes.div_ceil(1024),
                probe.port
            )),
        ),
        other => probe.refuse(other),
    }
}
