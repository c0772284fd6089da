//! Findings about interfaces: their nodes, interrupted cores, packet steering, ring sizes.

use burstline_sys::affinity::{CoreId, format_cores};

use super::cores::FAR_SOURCE;
use super::{Finding, plural};
use crate::inventory::{Attached, Interface, Interrupt, Inventory};
use crate::plan::Plan;

/// Frames of 64 bytes per second at 10 Gbit/s. Source: RFC 2544 frame lengths, 84 bytes on the
/// wire.
const LINE_PPS: f64 = 14_880_952.0;

pub(super) fn attached(inventory: &Inventory) -> Vec<Finding> {
    let name = "card's node";
    let mut findings = Vec::new();
    for card in &inventory.interfaces {
        let interface = &card.name;
        match card.attached {
            Attached::Software => {}
            Attached::Unknown if inventory.nodes.len() == 1 => {
                let what = format!("{interface}: the machine has one node");
                findings.push(Finding::fine(name, what));
            }
            Attached::Unknown => findings.push(Finding::defect(
                name,
                format!(
                    "{interface}: the kernel does not know its node (-1); if you know it, use \
                     --node N"
                ),
                "if the guess is wrong, each packet crosses between nodes: contiguous bursts kept \
                 38 of 40 Gbit/s, scattered ones 13 of 24",
                FAR_SOURCE,
                Vec::new(),
            )),
            Attached::Node(node) if inventory.usable_on(node).next().is_none() => {
                findings.push(Finding::defect(
                    name,
                    format!("{interface} is at node {node}, which has no core for this process"),
                    "each packet crosses between nodes: contiguous bursts kept 38 of 40 Gbit/s, \
                     scattered ones 13 of 24",
                    FAR_SOURCE,
                    Vec::new(),
                ));
            }
            Attached::Node(node) => {
                findings.push(Finding::fine(name, format!("{interface} is at node {node}")));
            }
        }
    }
    findings
}

pub(super) fn interrupts(inventory: &Inventory, plan: Option<&Plan>) -> Vec<Finding> {
    let name = "interrupts";
    let mut findings = Vec::new();
    if inventory.settings.has_irqbalance == Some(true) {
        findings.push(Finding::defect(
            name,
            "irqbalance moves them between cores every 10 s",
            "they also interrupt busy threads and take their time",
            "irqbalance(1)",
            vec!["systemctl stop irqbalance".to_owned()],
        ));
    }
    for card in &inventory.interfaces {
        for queue in &card.receive {
            let Some(interrupt) = &queue.interrupt else { continue };
            findings.extend(interrupt_of(inventory, card, queue.number, interrupt, plan));
        }
    }
    findings
}

/// Reports an interrupt on the wrong node, or on the core of a thread.
fn interrupt_of(
    inventory: &Inventory,
    card: &Interface,
    queue: u32,
    interrupt: &Interrupt,
    plan: Option<&Plan>,
) -> Option<Finding> {
    let (number, interface) = (interrupt.number, &card.name);
    let hot = |core: &CoreId| {
        plan.is_some_and(|plan| plan.threads.iter().any(|thread| thread.core == *core))
    };
    let home = match card.attached {
        Attached::Node(node) => Some(node),
        Attached::Unknown | Attached::Software => None,
    };
    let is_near = |core: &CoreId| {
        home.is_none_or(|home| inventory.core(*core).is_none_or(|core| core.node == home))
    };
    let goes = plural("core", &interrupt.effective);
    let own = || -> String {
        let cores = inventory.cores.iter().filter(|core| home.is_none_or(|home| core.node == home));
        let ids: Vec<CoreId> = cores.map(|core| core.id).filter(|core| !hot(core)).collect();
        format_cores(&ids)
    };
    let mend = vec![format!("echo {} > /proc/irq/{number}/smp_affinity_list", own())];
    let is_far = interrupt.effective.iter().any(|core| !is_near(core));
    let is_hot = interrupt.effective.iter().any(hot);
    let mend = if own().is_empty() { Vec::new() } else { mend };
    match (is_far, is_hot) {
        (true, _) => Some(Finding::defect(
            "interrupts",
            format!(
                "{interface} queue {queue}: irq {number} on {goes}, another node than the card's"
            ),
            "the kernel processes each packet far from its memory",
            "Documentation/networking/scaling.rst",
            mend,
        )),
        (_, true) => Some(Finding::defect(
            "interrupts",
            format!("{interface} queue {queue}: irq {number} on {goes}, where a thread is to run"),
            "the thread waits while the kernel receives up to 300 packets at a time",
            "net.core.netdev_budget, Documentation/admin-guide/sysctl/net.rst",
            mend,
        )),
        _ => None,
    }
}

pub(super) fn steering(inventory: &Inventory) -> Vec<Finding> {
    let name = "steering";
    let mut findings = Vec::new();
    for card in &inventory.interfaces {
        let steered = card.receive.iter().filter(|queue| !queue.steered_to.is_empty());
        let steered: Vec<_> = steered.collect();
        if steered.is_empty() {
            continue;
        }
        let interface = &card.name;
        let numbers: Vec<u32> = steered.iter().map(|queue| queue.number).collect();
        let has_flows = steered.iter().any(|queue| queue.flows > 0)
            && inventory.settings.steered_flows.unwrap_or(0) > 0;
        let mend = steered.iter().map(|queue| {
            format!("echo 0 > /sys/class/net/{interface}/queues/rx-{}/rps_cpus", queue.number)
        });
        findings.push(Finding::defect(
            name,
            format!(
                "{interface} {}: the kernel passes packets to other cores ({})",
                plural("queue", &numbers),
                if has_flows { "RPS and RFS" } else { "RPS" }
            ),
            "afpacket: each packet goes to another core by an interrupt and at least one cache \
             line, 58 ns each between two cores here; xdp: is not affected",
            "make bench FIGURE=append-latency: one cache line between two cores",
            mend.collect(),
        ));
    }
    if findings.is_empty() && !inventory.interfaces.is_empty() {
        findings.push(Finding::fine(name, "packets stay on the core on which they arrive"));
    }
    findings
}

pub(super) fn rings(inventory: &Inventory) -> Vec<Finding> {
    let mut findings = Vec::new();
    for card in &inventory.interfaces {
        let Some((now, most)) = card.receive_ring.filter(|(_, most)| *most > 0) else { continue };
        let interface = &card.name;
        let microseconds = |frames: u32| f64::from(frames) / LINE_PPS * 1e6;
        if now >= most {
            let what = format!("{interface}: {now} frames, its maximum");
            findings.push(Finding::fine("receive ring", what));
            continue;
        }
        findings.push(Finding::defect(
            "receive ring",
            format!("{interface}: {now} frames of {most}"),
            format!(
                "64-byte frames at 10 Gbit/s fill it in {:.0} us; at its largest, in {:.0} us",
                microseconds(now),
                microseconds(most)
            ),
            "computed: 14.88 million frames a second",
            vec![format!("ethtool -G {interface} rx {most}")],
        ));
    }
    findings
}
