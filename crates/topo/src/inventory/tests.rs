//! Machines read from snapshots of real kernels.

use burstline_sys::affinity::{CoreId, format_cores};

use super::*;
use crate::Snapshot;

pub(crate) const TWO_SOCKETS: &str = include_str!("../../fixtures/two-sockets.txt");
pub(crate) const ONE_SOCKET: &str = include_str!("../../fixtures/one-socket.txt");
pub(crate) const ODD_NODES: &str = include_str!("../../fixtures/odd-nodes.txt");
pub(crate) const SMALL_VM: &str = include_str!("../../fixtures/small-vm.txt");

/// Files of a container with cores 8 to 11 of two sockets, and memory of node 1.
pub(crate) const CONTAINER: [(&str, &str); 3] = [
    ("proc/self/status", "Cpus_allowed_list:\t8-11\nMems_allowed_list:\t1"),
    ("sys/fs/cgroup/cpu.max", "150000 100000"),
    ("sys/fs/cgroup/memory.max", "67108864"),
];

/// Returns the machine of a snapshot with some files replaced.
pub(crate) fn machine(snapshot: &str, replaced: &[(&str, &str)]) -> Inventory {
    let mut text = snapshot.to_owned();
    for (path, content) in replaced {
        text += &format!("==> {path} <==\n{content}\n\n");
    }
    let snapshot = Snapshot::lay_out(&text).unwrap();
    Inventory::read_from(snapshot.root()).unwrap()
}

fn text(cores: &[CoreId]) -> String {
    format_cores(cores)
}

#[test]
fn two_sockets() {
    let machine = machine(TWO_SOCKETS, &[]);
    let nodes: Vec<String> = machine.nodes.iter().map(|node| text(&node.cores)).collect();
    assert_eq!(nodes, ["0-5", "6-11"]);
    assert_eq!(machine.nodes[0].distances, [(NodeId(0), 10), (NodeId(1), 21)]);
    assert_eq!(machine.nodes[1].huge_pages[0].total, 64);
    assert!(machine.nodes.iter().all(|node| node.memory_bytes > 300 << 20 && node.has_memory()));
    let core = machine.core(CoreId(8)).unwrap();
    assert_eq!((core.node, text(&core.siblings)), (NodeId(1), "8-9".to_owned()));
    let cache = core.last_cache().unwrap();
    let found = (cache.level, cache.bytes, text(&cache.shared_with));
    assert_eq!(found, (3, 16 << 20, "6-11".to_owned()));
    assert_eq!(text(&machine.allowed), "0-11");
    assert_eq!(machine.settings.has_numa_balancing, Some(true));
    assert_eq!(machine.settings.transparent_pages.as_deref(), Some("always"));

    let card = machine.interface("eth0").unwrap();
    assert_eq!(
        (card.attached, card.driver.as_deref()),
        (Attached::Node(NodeId(1)), Some("vmxnet3"))
    );
    assert_eq!((card.receive.len(), card.transmit.len()), (8, 8));
    let interrupts: Vec<u32> =
        card.receive.iter().map(|queue| queue.interrupt.as_ref().unwrap().number).collect();
    assert_eq!(interrupts, [25, 26, 27, 28, 29, 30, 31, 32]);
}

#[test]
fn cores_above_1023_are_cores() {
    let many = [
        ("sys/devices/system/node/node1/cpulist", "6-11,1024-1027"),
        ("proc/self/status", "Cpus_allowed_list:\t0-11,1026-1027"),
        ("sys/devices/system/cpu/cpu1026/topology/thread_siblings_list", "1026-1027"),
    ];
    let machine = machine(TWO_SOCKETS, &many);
    assert_eq!(text(&machine.allowed), "0-11,1026-1027");
    let core = machine.core(CoreId(1026)).unwrap();
    let found = (core.node, text(&core.siblings), core.is_usable);
    assert_eq!(found, (NodeId(1), "1026-1027".to_owned(), true));
    assert!(!machine.core(CoreId(1024)).unwrap().is_usable);
}

#[test]
fn a_card_below_a_virtio_device_and_queues_with_steering() {
    let queue = "sys/class/net/eth0/queues";
    let steered = [
        (&*format!("{queue}/rx-0/rps_cpus"), "2"),
        (&*format!("{queue}/rx-0/rps_flow_cnt"), "4096"),
        (&*format!("{queue}/tx-0/xps_cpus"), "3"),
        ("proc/77/comm", "irqbalance"),
    ];
    let machine = machine(SMALL_VM, &steered);
    let card = machine.interface("eth0").unwrap();
    assert_eq!((card.attached, card.driver.as_deref()), (Attached::Unknown, Some("virtio_net")));
    assert_eq!(text(&card.interrupt_cores().collect::<Vec<_>>()), "1");
    assert_eq!((text(&card.receive[0].steered_to), card.receive[0].flows), ("1".into(), 4096));
    assert_eq!(text(&card.transmit[0].cores), "0-1");
    assert_eq!(machine.settings.has_irqbalance, Some(true));
    assert!(machine.interface("lo").is_none());
}

#[test]
fn nodes_without_memory_or_cores_and_an_offline_core() {
    let machine = machine(ODD_NODES, &[]);
    let has_memory: Vec<bool> = machine.nodes.iter().map(Node::has_memory).collect();
    assert_eq!(has_memory, [true, true, false, true]);
    assert!(machine.node(NodeId(3)).unwrap().cores.is_empty());
    assert_eq!((text(&machine.offline), machine.core(CoreId(7))), ("7".to_owned(), None));
    let nearest: Vec<u32> = machine.nearest(NodeId(2)).iter().map(|node| node.id.0).collect();
    assert_eq!(nearest, [2, 1, 3, 0]);
    assert_eq!(machine.interface("eth0").unwrap().attached, Attached::Unknown);
}

#[test]
fn isolated_cores_are_ours_unless_somebody_limited_us() {
    let usable = |replaced: &[(&str, &str)]| {
        let machine = machine(ONE_SOCKET, replaced);
        let usable = machine.cores.iter().filter(|core| core.is_usable);
        text(&usable.map(|core| core.id).collect::<Vec<_>>())
    };
    assert_eq!(text(&machine(ONE_SOCKET, &[]).allowed), "0-1", "as isolcpus=2,3 has it");
    assert_eq!(usable(&[]), "0-3");
    assert_eq!(usable(&[("proc/self/status", "Cpus_allowed_list: 1")]), "1");
    assert_eq!(usable(&[("proc/self/status", "Cpus_allowed_list: 1,3")]), "1,3");
}

#[test]
fn a_container_has_less() {
    let machine = machine(TWO_SOCKETS, &CONTAINER);
    let usable = machine.usable_on(NodeId(1)).map(|core| core.id).collect::<Vec<_>>();
    assert_eq!((text(&usable), machine.usable_on(NodeId(0)).count()), ("8-11".into(), 0));
    assert!(!machine.nodes[0].has_memory());
    assert_eq!(machine.settings.cores_limit.unwrap().0, 1.5);
    assert_eq!(machine.settings.memory_limit_bytes.unwrap().0, 64 << 20);
}

#[test]
fn what_is_garbled_is_not_known() {
    let garbled = [
        ("proc/self/status", "Cpus_allowed_list: everything"),
        ("sys/class/net/eth0/device/numa_node", "somewhere"),
        ("sys/class/net/eth0/queues/rx-0/rps_cpus", "zz"),
        ("sys/devices/system/node/node0/distance", "ten"),
        ("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "-"),
        ("sys/devices/system/cpu/isolated", "4-2"),
        ("proc/interrupts", "25: \n:::\nx: y"),
    ];
    let machine = machine(TWO_SOCKETS, &garbled);
    assert_eq!(text(&machine.allowed), "0-11");
    assert_eq!(machine.interface("eth0").unwrap().attached, Attached::Unknown);
    assert!(machine.nodes[0].distances.is_empty());
    assert_eq!(text(&machine.cores[0].siblings), "0");
    // Without nodes or cores reading fails.
    let snapshot = Snapshot::lay_out("==> proc/swaps <==\n").unwrap();
    let error = Inventory::read_from(snapshot.root()).unwrap_err().to_string();
    assert!(error.contains("sys/devices/system/cpu/online"), "{error}");
}

#[test]
fn what_a_plan_reads_is_a_part_of_all() {
    let snapshot = Snapshot::lay_out(TWO_SOCKETS).unwrap();
    let all = Inventory::read_from(snapshot.root()).unwrap();
    assert!(all.interface("eth0").is_some() && all.lenders.is_some());
    let files = Files::below(snapshot.root());
    for (name, interfaces) in [("eth0", 1), ("eth", 0)] {
        let part = Inventory::planned(&files, |other| other == name).unwrap();
        assert_eq!(part.interfaces, all.interfaces[..interfaces], "{name}");
        assert_eq!((part.lenders, part.settings.has_irqbalance), (None, None));
        assert_eq!((part.nodes, part.cores), (all.nodes.clone(), all.cores.clone()));
    }
    let outline = Outline::below(&files).unwrap();
    let nodes: Vec<NodeId> = all.nodes.iter().map(|node| node.id).collect();
    assert_eq!((outline.cores.len(), outline.node_of(CoreId(8))), (12, Some(NodeId(1))));
    assert_eq!((outline.nodes, outline.allowed), (nodes, all.allowed));
}

#[test]
fn this_machine_can_be_read() {
    let machine = Inventory::read().unwrap();
    assert!(machine.cores.iter().any(|core| core.is_usable));
    assert_eq!(machine.allowed, burstline_sys::affinity::allowed_cores().unwrap());
    assert!(machine.nodes.iter().any(Node::has_memory));
    let part = Inventory::read_for(&[]).unwrap();
    assert_eq!((part.interfaces.len(), part.allowed), (0, machine.allowed));
}
