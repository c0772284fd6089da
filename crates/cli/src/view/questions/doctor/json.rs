//! The findings of `doctor` as JSON: keys and units are an interface.

use burstline_port::Probe;
use burstline_sys::machine::{Machine, capability};
use burstline_sys::topology::HugePages;
use burstline_topo::KERNEL_NEEDS;
use serde_json::{Map, Value, json};

/// Returns the whole object.
pub(crate) fn json(probes: &[Probe], machine: &Machine) -> Value {
    json!({
        "command": "doctor ports",
        "ports": probes.iter().map(port).collect::<Vec<_>>(),
        "machine": facts(machine),
    })
}

fn port(probe: &Probe) -> Value {
    let device = &probe.device;
    let remarks = probe.remarks.iter();
    json!({
        "port": probe.port,
        "scheme": probe.scheme,
        "interface": probe.interface,
        "can_open": probe.can_open,
        "needs": probe.needs,
        "why_not": probe.why_not,
        "mend": probe.mend,
        "remarks": remarks
            .map(|remark| json!({ "what": remark.what, "mend": remark.mend }))
            .collect::<Vec<_>>(),
        "queues": probe.queues,
        "mode": probe.mode,
        "mode_tried": probe.is_mode_tried,
        "zero_copy": probe.has_zero_copy,
        "several_buffers": device.xdp.map(|xdp| xdp.has_several_buffers()),
        "attached_program": probe.attached_program,
        "driver": device.driver,
        "bus": device.bus,
        "node": device.node.map(|node| node.0),
        "vlan_offload": device.strips_vlan_tags,
        "hardware_timestamps": device.has_hardware_timestamps,
    })
}

fn facts(machine: &Machine) -> Value {
    let rights = &machine.rights;
    let capabilities = capability::ALL.iter();
    let capabilities =
        capabilities.map(|one| (one.name.to_owned(), rights.has(*one).into())).collect();
    let kernel_has = KERNEL_NEEDS.iter().map(|need| {
        (need.what.to_owned(), machine.is_kernel_at_least(need.major, need.minor).into())
    });
    json!({
        "kernel": machine.kernel,
        "kernel_has": Value::Object(kernel_has.collect::<Map<_, _>>()),
        "capabilities": Value::Object(capabilities),
        "capabilities_machine_wide": rights.is_machine_wide,
        "user_namespaces": machine.user_namespace.is_ok(),
        "unprivileged_bpf_disabled": machine.unprivileged_bpf_disabled,
        "libpcap": machine.libpcap.as_ref().ok(),
        "locked_memory_bytes": machine.locked_memory.now_bytes,
        "locked_memory_most_bytes": machine.locked_memory.most_bytes,
        "nodes": machine.nodes,
        "huge_pages": machine.huge_pages.iter().map(pool).collect::<Vec<_>>(),
        "transparent_pages": machine.transparent_pages,
        "transparent_gathered": machine.collapse.is_ok(),
    })
}

fn pool(pool: &HugePages) -> Value {
    json!({ "page_size": pool.page_bytes, "total": pool.total, "free": pool.unpromised() })
}
